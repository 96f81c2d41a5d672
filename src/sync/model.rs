//! Model checkers: their atomics, and what must be the same in each execution.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    lazy_static,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    },
    thread_local,
};

#[cfg(shuttle)]
pub(crate) use super::cell::UnsafeCell;
#[cfg(shuttle)]
pub(crate) use shuttle::{
    lazy_static,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    },
    thread_local,
};

pub(crate) use super::stub_epoch as epoch;
#[cfg(feature = "once")]
pub(crate) use super::stub_event::{Event, EventListener, Listener};

/// Weaker than in reality: loom then shows every outdated value that the acquire-release edges leave possible.
pub(crate) const INSTANT: (Ordering, Ordering) = (Ordering::Acquire, Ordering::Release);

pub(crate) fn repin(guard: &mut epoch::Guard) {
    guard.repin();
}

/// Every thread starts at the same stripe: that is where the races are.
pub(crate) fn thread_index() -> usize {
    0
}

/// A model must take the same path each time.
pub(crate) fn random_odd() -> u64 {
    1 << 63 | 1
}

/// Models have no caches.
pub(crate) fn prefetch<T>(_place: &T) {}
