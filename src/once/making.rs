//! A value in the making: who makes it, who waits for it, how it ends.
//!
//! An entry is `Making` from its insertion, which is the claim, until its maker replaces it by `Ready` or removes it. The
//! table decides; `settled` and the event only tell the waiters to look at the table again. So
//!
//! * the winner of the insertion, and nobody else, makes the value;
//! * a waiter **registers, looks again, then waits**, and starts over when it wakes up;
//! * an entry which is `Making` and settled has failed: whoever finds it removes it, and nobody is stuck on it.

use std::sync::Arc;

use crate::sync::{
    AtomicBool, AtomicUsize, Event, EventListener, Listener, Ordering, thread_local,
};

/// What the table holds for a key.
#[derive(Clone)]
pub(super) enum Slot<V> {
    Making(Arc<Making<V>>),
    Ready(V),
}

impl<V> Slot<V> {
    pub(super) fn ready(&self) -> Option<&V> {
        match self {
            Self::Ready(value) => Some(value),
            Self::Making(_) => None,
        }
    }

    pub(super) fn is(&self, making: &Arc<Making<V>>) -> bool {
        matches!(self, Self::Making(this) if Arc::ptr_eq(this, making))
    }
}

pub(super) struct Making<V> {
    settled: AtomicBool,
    ended: Event,
    /// The thread that runs the initialiser at this moment, or 0.
    runner: AtomicUsize,
    #[cfg(feature = "async")]
    pub(super) ride: super::future::Ride<V>,
    #[cfg(not(feature = "async"))]
    value: std::marker::PhantomData<fn() -> V>,
}

impl<V> Making<V> {
    pub(super) fn new() -> Self {
        Self {
            settled: AtomicBool::new(false),
            ended: Event::new(),
            runner: AtomicUsize::new(0),
            #[cfg(feature = "async")]
            ride: super::future::Ride::new(),
            #[cfg(not(feature = "async"))]
            value: std::marker::PhantomData,
        }
    }

    /// The table no longer needs it: the waiters may look there again.
    pub(super) fn settle(&self) {
        // ORDERING: release, with `is_settled`: who sees the mark sees the table as the maker left it.
        self.settled.store(true, Ordering::Release);
        self.notify();
    }

    pub(super) fn is_settled(&self) -> bool {
        // ORDERING: acquire, with `settle`.
        self.settled.load(Ordering::Acquire)
    }

    pub(super) fn notify(&self) {
        self.ended.notify(usize::MAX);
    }

    /// Registers the caller as a waiter, who then must look at what it waits for once more.
    ///
    /// # Panics
    /// If the caller is the maker, who would wait for itself.
    pub(super) fn listen(&self) -> EventListener {
        assert!(
            // Relaxed: only this thread writes this number. Not a load, which might show what a former thread wrote.
            self.runner.fetch_add(0, Ordering::Relaxed) != this_thread(),
            "the initialiser of a key waits for the value of the same key"
        );
        self.ended.listen()
    }

    /// Blocks the thread until the value is made or its maker has failed.
    pub(super) fn wait(&self) {
        let listener = self.listen();
        if !self.is_settled() {
            listener.wait();
        }
    }
}

/// While it lives, this thread runs the initialiser, or its destructor.
pub(super) struct Running<'m, V>(&'m Making<V>);

impl<'m, V> Running<'m, V> {
    pub(super) fn enter(making: &'m Making<V>) -> Self {
        // Relaxed: see `listen`.
        making.runner.store(this_thread(), Ordering::Relaxed);
        Self(making)
    }
}

impl<V> Drop for Running<'_, V> {
    fn drop(&mut self) {
        // Relaxed: see `listen`.
        self.0.runner.store(0, Ordering::Relaxed);
    }
}

/// A number, not 0, that no other thread has at this moment. Good in the last destructors of a thread, too.
fn this_thread() -> usize {
    thread_local! {
        // Model checkers have no constant ones.
        #[allow(clippy::missing_const_for_thread_local)]
        static MARK: u8 = 0
    }
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}
