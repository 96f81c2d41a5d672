//! The seam between the engine and the machine: atomics, cells and the epoch.
//!
//! Everything below `raw` takes these names from here and from nowhere else, so that one `--cfg loom` puts the whole
//! engine under the model checker. The epoch has a stub there which defers until the map is dropped: the models check
//! the table, and crossbeam-epoch is checked by its own authors.

#[cfg(not(loom))]
mod real {
    pub(crate) use crossbeam_epoch as epoch;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicIsize, AtomicPtr, AtomicU64, AtomicUsize, Ordering,
    };

    /// For loads and changes that may be the instant of an operation (E0 in `raw`).
    pub(crate) const INSTANT: (Ordering, Ordering) = (Ordering::SeqCst, Ordering::SeqCst);

    /// `std::cell::UnsafeCell` with loom's interface.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }

    /// Pins `guard` anew, as a fresh pin would: what it loads from now on is not older than the epoch it announces.
    pub(crate) fn repin(guard: &mut epoch::Guard) {
        guard.repin();
        // `repin` stores the new epoch without the fence that `pin` has.
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// A small number which differs between threads: where a thread starts to look for a free stripe.
    #[inline]
    pub(crate) fn thread_index() -> usize {
        static THREADS: AtomicUsize = AtomicUsize::new(1);
        thread_local! { static INDEX: std::cell::Cell<usize> = const { std::cell::Cell::new(0) } }
        INDEX.with(|index| {
            if index.get() == 0 {
                // Relaxed: only the number matters.
                index.set(THREADS.fetch_add(1, Ordering::Relaxed));
            }
            index.get()
        })
    }

    /// A fresh odd number nobody outside the process can predict.
    pub(crate) fn random_odd() -> u64 {
        use std::hash::{BuildHasher, Hasher};
        thread_local! { static STATE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) } }
        STATE.with(|state| {
            if state.get() == 0 {
                let random = std::hash::RandomState::new().build_hasher().finish();
                state.set(random | 1);
            }
            // A Weyl sequence with the splitmix64 finaliser (Steele, Lea, Flood 2014).
            let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            state.set(next);
            let z = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) | 1
        })
    }
}

#[cfg(loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicIsize, AtomicPtr, AtomicU64, AtomicUsize, Ordering,
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
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
