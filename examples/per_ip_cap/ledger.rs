//! The account of a limiter: when connections were admitted and refused, and what entries there were.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::limiter::{Limiter, Place};

#[derive(Default)]
pub(crate) struct Ledger {
    made: AtomicUsize,
    dropped: AtomicUsize,
    clock: AtomicU64,
    stays: Mutex<Vec<Stay>>,
    refusals: Mutex<Vec<Refusal>>,
}

/// The place was held from some time between `asked` and `admitted` to some time between `leaving` and `gone`.
struct Stay {
    ip: IpAddr,
    asked: u64,
    admitted: u64,
    leaving: u64,
    gone: u64,
}

struct Refusal {
    ip: IpAddr,
    asked: u64,
    refused: u64,
}

impl Ledger {
    /// Asks `limiter` for a place, and enters what comes of it.
    pub(crate) fn admit<'l>(&'l self, limiter: &'l dyn Limiter, ip: IpAddr) -> Option<Visit<'l>> {
        let asked = self.tick();
        let Some(place) = limiter.admit(ip) else {
            let refused = self.tick();
            let refusal = Refusal { ip, asked, refused };
            self.refusals.lock().unwrap().push(refusal);
            return None;
        };
        Some(Visit {
            ledger: self,
            place: Some(place),
            ip,
            asked,
            admitted: self.tick(),
        })
    }

    /// Those who have left again.
    pub(crate) fn admitted(&self) -> usize {
        self.stays.lock().unwrap().len()
    }

    pub(crate) fn refused(&self) -> usize {
        self.refusals.lock().unwrap().len()
    }

    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The most places of one address held at once. Only what was surely held counts: no limiter is accused of
    /// what it did not do.
    pub(crate) fn most_at_once(&self) -> usize {
        let stays = self.stays.lock().unwrap();
        let changes = |stay: &Stay| [(stay.admitted, stay.ip, 1), (stay.leaving, stay.ip, -1)];
        let mut changes: Vec<_> = stays.iter().flat_map(changes).collect();
        changes.sort_unstable();
        let mut held = HashMap::new();
        let mut most = 0;
        for (_, ip, change) in changes {
            let held = held.entry(ip).or_insert(0_isize);
            *held += change;
            most = most.max(*held);
        }
        most.unsigned_abs()
    }

    /// How many were refused though fewer than `cap` places were held all the time while they asked.
    pub(crate) fn unfounded_refusals(&self, cap: usize) -> usize {
        enum Event {
            Came,
            Gone,
            Refused { asked: u64 },
        }
        #[derive(Default)]
        struct Address {
            held: usize,
            last_full: Option<u64>,
        }
        let stays = self.stays.lock().unwrap();
        let refusals = self.refusals.lock().unwrap();
        let comings = stays.iter().map(|stay| (stay.asked, stay.ip, Event::Came));
        let goings = stays.iter().map(|stay| (stay.gone, stay.ip, Event::Gone));
        let refusals = refusals.iter().map(|refusal| {
            let Refusal { ip, asked, refused } = *refusal;
            (refused, ip, Event::Refused { asked })
        });
        let mut events: Vec<_> = comings.chain(goings).chain(refusals).collect();
        events.sort_unstable_by_key(|&(time, ..)| time);

        let mut addresses: HashMap<IpAddr, Address> = HashMap::new();
        let mut unfounded = 0;
        for (time, ip, event) in events {
            let address = addresses.entry(ip).or_default();
            if address.held >= cap {
                address.last_full = Some(time);
            }
            match event {
                Event::Came => address.held += 1,
                Event::Gone => address.held -= 1,
                Event::Refused { asked } => {
                    unfounded += usize::from(address.last_full < Some(asked));
                }
            }
        }
        unfounded
    }

    /// Acquire and release, so that whoever reads a later time sees what was done before an earlier one.
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::AcqRel)
    }
}

/// An admitted connection, which ends on drop: also if the worker that serves it panics.
#[must_use]
pub(crate) struct Visit<'l> {
    ledger: &'l Ledger,
    place: Option<Place<'l>>,
    ip: IpAddr,
    asked: u64,
    admitted: u64,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let leaving = self.ledger.tick();
        drop(self.place.take());
        let stay = Stay {
            ip: self.ip,
            asked: self.asked,
            admitted: self.admitted,
            leaving,
            gone: self.ledger.tick(),
        };
        self.ledger.stays.lock().unwrap().push(stay);
    }
}

/// The part of an entry that is counted.
pub(crate) struct EntryRecord<'h>(&'h Ledger);

impl<'h> EntryRecord<'h> {
    pub(crate) fn new(ledger: &'h Ledger) -> Self {
        ledger.made.fetch_add(1, Ordering::Relaxed);
        Self(ledger)
    }
}

impl Drop for EntryRecord<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }
}
