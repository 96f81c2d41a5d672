//! Model checkers: their atomics, and a stub in the place of the epoch.
//!
//! crossbeam-epoch is checked by its own authors; the models check the table.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    },
    thread_local,
};

/// Weaker than in reality: loom then shows every outdated value that the acquire-release edges leave possible.
pub(crate) const INSTANT: (Ordering, Ordering) = (Ordering::Acquire, Ordering::Release);

pub(crate) fn repin(_: &mut epoch::Guard) {}

/// Every thread starts at the same stripe: that is where the races are.
pub(crate) fn thread_index() -> usize {
    0
}

/// A model must take the same path each time.
pub(crate) fn random_odd() -> u64 {
    1 << 63 | 1
}

/// Stands in for crossbeam-epoch: what is deferred waits for [`epoch::run_deferred`].
pub(crate) mod epoch {
    use std::{cell::RefCell, marker::PhantomData};

    type Deferred = Box<dyn FnOnce()>;

    // loom runs all threads of one model on one thread of the system.
    thread_local! { static BAG: RefCell<Vec<Deferred>> = const { RefCell::new(Vec::new()) } }

    #[derive(Debug)]
    pub(crate) struct Guard(PhantomData<*const ()>);

    pub(crate) fn pin() -> Guard {
        Guard(PhantomData)
    }

    impl Guard {
        pub(crate) fn defer<F: FnOnce() + Send + 'static>(&self, f: F) {
            BAG.with_borrow_mut(|bag| bag.push(Box::new(f)));
        }

        /// # Safety
        /// As in crossbeam-epoch; here also: whatever `f` borrows lives until the map is dropped.
        pub(crate) unsafe fn defer_unchecked<F: FnOnce()>(&self, f: F) {
            let f: Box<dyn FnOnce() + '_> = Box::new(f);
            // SAFETY: only the lifetime changes; the caller vouches for it.
            let f = unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, Deferred>(f) };
            BAG.with_borrow_mut(|bag| bag.push(f));
        }

        pub(crate) fn flush(&self) {}
    }

    /// Runs what was deferred: the map is being dropped and nobody else is left.
    pub(crate) fn run_deferred() {
        BAG.take().into_iter().for_each(|f| f());
    }
}
