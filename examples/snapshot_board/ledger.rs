//! The account of all slots of a board: how many there were and when each was open.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub(crate) struct Ledger {
    made: AtomicUsize,
    dropped: AtomicUsize,
    clock: AtomicU64,
    intervals: Mutex<Vec<Interval>>,
}

/// From the first waiter to the mark CLOSED, on the ledger's clock.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    pod: String,
    opened: u64,
    closed: u64,
}

impl Ledger {
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many slots were opened for a pod while the one before was still open.
    pub(crate) fn overlaps(&self) -> usize {
        let mut intervals = self.intervals.lock().unwrap();
        intervals.sort();
        let overlap =
            |pair: &&[Interval]| pair[0].pod == pair[1].pod && pair[1].opened < pair[0].closed;
        intervals.windows(2).filter(overlap).count()
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}

/// A slot's own page. Opened and closed under the slot's lock, so that the clock agrees with what threads
/// see: who meets a closed slot reads a later time than the one it was closed at.
pub(crate) struct SlotRecord {
    ledger: Arc<Ledger>,
    pod: String,
    opened: u64,
}

impl SlotRecord {
    pub(crate) fn new(ledger: &Arc<Ledger>, pod: &str) -> Self {
        ledger.made.fetch_add(1, Ordering::Relaxed);
        Self {
            ledger: Arc::clone(ledger),
            pod: pod.to_owned(),
            opened: 0,
        }
    }

    pub(crate) fn open(&mut self) {
        self.opened = self.ledger.tick();
    }

    pub(crate) fn close(&mut self) {
        let interval = Interval {
            pod: self.pod.clone(),
            opened: self.opened,
            closed: self.ledger.tick(),
        };
        self.ledger.intervals.lock().unwrap().push(interval);
    }
}

impl Drop for SlotRecord {
    fn drop(&mut self) {
        self.ledger.dropped.fetch_add(1, Ordering::Relaxed);
    }
}
