//! Stands in for crossbeam-epoch, which is checked by its own authors: the earliest reclamation that the contract of
//! guards allows.
//!
//! What was deferred runs as soon as every guard of then is gone, in the thread that ended the last of them. Model
//! checkers run all threads of an execution on one thread of the system and have a state for each execution; real threads
//! share a single one.

use super::{AtomicUsize, Ordering, lazy_static};
use std::{
    collections::{BTreeSet, VecDeque},
    marker::PhantomData,
    mem,
    sync::{Mutex, MutexGuard},
};

lazy_static! {
    static ref EPOCH: Epoch = Epoch::default();
}

struct Epoch {
    /// Model checkers do not see the mutex: this shows them what it orders.
    order: AtomicUsize,
    state: Mutex<State>,
}

impl Default for Epoch {
    fn default() -> Self {
        Self {
            order: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }
}

#[derive(Default)]
struct State {
    /// Whether an execution under loom reclaims, see [`reclaim`].
    reclaims: bool,
    /// How many guards were made: their numbers are below.
    guards: u64,
    held: BTreeSet<u64>,
    /// In order, each with the number of guards that had been made by then.
    deferred: VecDeque<(u64, Deferred)>,
}

struct Deferred(Box<dyn FnOnce()>);

// SAFETY: as in crossbeam-epoch, who defers vouches that any thread may run it.
unsafe impl Send for Deferred {}

impl Epoch {
    /// One step for a model checker: nothing below is interrupted after it.
    fn lock(&self) -> MutexGuard<'_, State> {
        let reclaims = !cfg!(loom) || self.state.lock().unwrap().reclaims;
        if reclaims {
            // ORDERING: as strong as the epoch's own fences, and the mutex.
            self.order.fetch_add(1, Ordering::AcqRel);
        }
        self.state.lock().unwrap()
    }
}

impl Drop for Epoch {
    /// The end of an execution: nobody else is left.
    fn drop(&mut self) {
        let state = mem::take(self.state.get_mut().unwrap());
        state.deferred.into_iter().for_each(|(_, f)| f.0());
    }
}

impl State {
    fn begin(&mut self) -> u64 {
        let guard = self.guards;
        self.guards += 1;
        self.held.insert(guard);
        guard
    }

    /// Takes out what no guard keeps any more.
    fn end(&mut self, guard: u64) -> Vec<Deferred> {
        self.held.remove(&guard);
        if cfg!(loom) && !self.reclaims {
            return Vec::new();
        }
        let oldest = self.held.first().copied().unwrap_or(self.guards);
        let kept = self.deferred.partition_point(|&(since, _)| since <= oldest);
        self.deferred.drain(..kept).map(|(_, f)| f).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Guard {
    number: u64,
    not_send: PhantomData<*const ()>,
}

pub(crate) fn pin() -> Guard {
    Guard {
        number: EPOCH.lock().begin(),
        not_send: PhantomData,
    }
}

impl Guard {
    pub(crate) fn defer<F: FnOnce() + Send + 'static>(&self, f: F) {
        self.push(Box::new(f));
    }

    /// # Safety
    /// As in crossbeam-epoch; where nothing is reclaimed, whatever `f` borrows lives until the execution ends.
    pub(crate) unsafe fn defer_unchecked<F: FnOnce()>(&self, f: F) {
        let f: Box<dyn FnOnce() + '_> = Box::new(f);
        // SAFETY: only the lifetime changes; the caller vouches for it.
        self.push(unsafe { mem::transmute::<Box<dyn FnOnce() + '_>, Box<dyn FnOnce()>>(f) });
    }

    fn push(&self, f: Box<dyn FnOnce()>) {
        let mut state = EPOCH.lock();
        let since = state.guards;
        state.deferred.push_back((since, Deferred(f)));
    }

    pub(crate) fn flush(&self) {}

    pub(crate) fn repin(&mut self) {
        self.end();
        self.number = EPOCH.lock().begin();
    }

    fn end(&self) {
        // Outside the lock: what runs may pin.
        let ripe = EPOCH.lock().end(self.number);
        ripe.into_iter().for_each(|f| f.0());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end();
    }
}

/// From now on this execution under loom reclaims. Otherwise it does so at its end only: what guards order is one more
/// word that all threads change, and multiplies the interleavings.
#[cfg(all(test, loom))]
pub(crate) fn reclaim() {
    EPOCH.state.lock().unwrap().reclaims = true;
}
