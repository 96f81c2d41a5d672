//! The machine itself.

pub(crate) use super::cell::UnsafeCell;
#[cfg(quince_steps)]
pub(crate) use super::steps::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU64, AtomicUsize, Ordering,
};
#[cfg(quince_stub_epoch)]
pub(crate) use super::stub_epoch as epoch;
#[cfg(not(quince_stub_epoch))]
pub(crate) use crossbeam_epoch as epoch;
pub(crate) use std::sync::Arc;
#[cfg(not(quince_steps))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use std::thread_local;

#[cfg(feature = "once")]
pub(crate) use event_listener::{Event, EventListener, Listener};

/// For loads and changes that may be the instant of an operation (E0 in `raw`).
pub(crate) const INSTANT: (Ordering, Ordering) = (Ordering::SeqCst, Ordering::SeqCst);

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

/// loom's and shuttle's, but one for the whole process.
#[cfg(quince_stub_epoch)]
macro_rules! lazy_static {
    (static ref $name:ident: $T:ty = $value:expr;) => {
        static $name: std::sync::LazyLock<$T> = std::sync::LazyLock::new(|| $value);
    };
}
#[cfg(quince_stub_epoch)]
pub(crate) use lazy_static;

/// Asks for the cache line at which `place` begins, where the processor is known to take such hints.
#[inline(always)]
pub(crate) fn prefetch<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}
