//! A barrier whose waiters leave together.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// std's barrier wakes its waiters one after the other: on a short operation the first is done before the last
/// has begun, and races stay unseen. Here all of them watch one word.
pub(crate) struct SpinBarrier {
    threads: usize,
    arrived: AtomicUsize,
}

impl SpinBarrier {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: AtomicUsize::new(0),
        }
    }

    /// Waits until every thread has arrived as often as the caller. Can be used again and again.
    pub(crate) fn wait(&self) {
        let round = self.arrived.fetch_add(1, Ordering::AcqRel) / self.threads + 1;
        let mut spins = 0u32;
        while self.arrived.load(Ordering::Acquire) < round * self.threads {
            spins += 1;
            // There may be more threads than cores: those that are missing need one.
            if spins % 64 == 0 {
                thread::yield_now();
            } else {
                hint::spin_loop();
            }
        }
    }
}
