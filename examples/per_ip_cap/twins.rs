//! Six limiters with one fault each. An invariant is worth something if it catches one of them.

use std::collections::hash_map::{self, Entry};
use std::hash::RandomState;
use std::mem;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use quince::HashMap;

use super::ledger::EntryRecord;
use super::limiter::{Address, Limiter, MakeLimiter, PerAddress, Place, Rules};
use super::report::{Findings, Invariant};
use super::schedules;

pub(crate) struct Twin {
    pub(crate) name: &'static str,
    pub(crate) caught_by: Invariant,
    pub(crate) make: MakeLimiter,
    pub(crate) habitat: Habitat,
}

/// Where a twin goes wrong reliably.
pub(crate) enum Habitat {
    Simulation,
    Schedule(fn(MakeLimiter) -> Findings),
}

pub(crate) static TWINS: [Twin; 6] = [
    Twin {
        name: "remove-if-zero",
        caught_by: Invariant::AtMostCap,
        make: |rules| Box::new(SharedCounts::new(rules, remove_if_zero)),
        habitat: Habitat::Simulation,
    },
    Twin {
        name: "remove-by-key",
        caught_by: Invariant::AtMostCap,
        make: |rules| Box::new(SharedCounts::new(rules, remove_by_key)),
        habitat: Habitat::Simulation,
    },
    Twin {
        name: "check-then-join",
        caught_by: Invariant::AtMostCap,
        make: |rules| Box::new(CheckThenJoin(right(rules))),
        habitat: Habitat::Simulation,
    },
    Twin {
        name: "never-removed",
        caught_by: Invariant::EmptyAfterwards,
        make: |rules| Box::new(right(rules).keeping_idle()),
        habitat: Habitat::Simulation,
    },
    Twin {
        name: "counted-by-hand",
        caught_by: Invariant::RefusedWhenFull,
        make: |rules| Box::new(CountedByHand(right(rules))),
        habitat: Habitat::Simulation,
    },
    Twin {
        name: "one-lock",
        caught_by: Invariant::OthersGoOn,
        make: |rules| Box::new(OneLock::new(rules)),
        habitat: Habitat::Schedule(schedules::one_address_stands_still),
    },
];

fn right(rules: Rules<'_>) -> PerAddress<'_> {
    PerAddress::new(rules, RandomState::new())
}

/// Counts in values that the map shares with those who have looked them up. However the entry is removed:
/// somebody may have looked it up before and count himself in after.
struct SharedCounts<'h> {
    counts: Counts<'h>,
    rules: Rules<'h>,
    tidy_up: TidyUp,
}

type Counts<'h> = HashMap<Address<'h>, Arc<Count<'h>>>;

/// What a connection that ends does once it is counted down.
type TidyUp = for<'h> fn(&Counts<'h>, &Address<'h>);

struct Count<'h> {
    live: AtomicUsize,
    _record: EntryRecord<'h>,
}

/// Atomic, and in vain.
fn remove_if_zero<'h>(counts: &Counts<'h>, address: &Address<'h>) {
    counts.remove_if(address, |_, count| count.live.load(Ordering::Acquire) == 0);
}

/// Also takes the entry away from those who still count in it.
fn remove_by_key<'h>(counts: &Counts<'h>, address: &Address<'h>) {
    counts.remove(address);
}

impl<'h> SharedCounts<'h> {
    fn new(rules: Rules<'h>, tidy_up: TidyUp) -> Self {
        Self {
            counts: HashMap::new(),
            rules,
            tidy_up,
        }
    }
}

impl Limiter for SharedCounts<'_> {
    fn admit(&self, ip: IpAddr) -> Option<Place<'_>> {
        let address = self.rules.address(ip);
        let count = self.counts.get_or_insert_with(address, || {
            Arc::new(Count {
                live: AtomicUsize::new(0),
                _record: self.rules.new_entry(),
            })
        });
        let count_up = |live| (live < self.rules.cap).then_some(live + 1);
        count
            .live
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, count_up)
            .ok()?;
        Some(Box::new(Counted {
            limiter: self,
            address,
            count,
        }))
    }

    fn entries(&self) -> usize {
        self.counts.len()
    }
}

struct Counted<'l, 'h> {
    limiter: &'l SharedCounts<'h>,
    address: Address<'h>,
    count: Arc<Count<'h>>,
}

impl Drop for Counted<'_, '_> {
    fn drop(&mut self) {
        self.count.live.fetch_sub(1, Ordering::AcqRel);
        (self.limiter.tidy_up)(&self.limiter.counts, &self.address);
    }
}

/// Others join between the check and the joining.
struct CheckThenJoin<'h>(PerAddress<'h>);

impl Limiter for CheckThenJoin<'_> {
    fn admit(&self, ip: IpAddr) -> Option<Place<'_>> {
        let PerAddress { connections, rules } = &self.0;
        let address = rules.address(ip);
        if connections.count(&address) >= rules.cap {
            return None;
        }
        Some(Box::new(connections.join(address, || rules.new_entry())))
    }

    fn entries(&self) -> usize {
        self.0.entries()
    }
}

/// Counts down in a statement after the connection, which a panic skips. The place is lost for ever.
struct CountedByHand<'h>(PerAddress<'h>);

impl Limiter for CountedByHand<'_> {
    fn admit(&self, ip: IpAddr) -> Option<Place<'_>> {
        struct ByHand<'l>(Option<Place<'l>>);
        impl Drop for ByHand<'_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    mem::forget(self.0.take());
                }
            }
        }
        let place = self.0.admit(ip)?;
        Some(Box::new(ByHand(Some(place))))
    }

    fn entries(&self) -> usize {
        self.0.entries()
    }
}

/// Counts right, under a lock that is also held while an entry is made.
struct OneLock<'h> {
    counts: Mutex<LockedCounts<'h>>,
    rules: Rules<'h>,
}

type LockedCounts<'h> = hash_map::HashMap<IpAddr, (usize, EntryRecord<'h>)>;

impl<'h> OneLock<'h> {
    fn new(rules: Rules<'h>) -> Self {
        Self {
            counts: Mutex::default(),
            rules,
        }
    }

    fn lock(&self) -> MutexGuard<'_, LockedCounts<'h>> {
        self.counts.lock().unwrap()
    }
}

impl Limiter for OneLock<'_> {
    fn admit(&self, ip: IpAddr) -> Option<Place<'_>> {
        struct Locked<'l, 'h>(&'l OneLock<'h>, IpAddr);
        impl Drop for Locked<'_, '_> {
            fn drop(&mut self) {
                let Self(limiter, ip) = *self;
                if let Entry::Occupied(mut entry) = limiter.lock().entry(ip) {
                    entry.get_mut().0 -= 1;
                    if entry.get().0 == 0 {
                        entry.remove();
                    }
                }
            }
        }
        let mut counts = self.lock();
        let new = || (0, self.rules.new_entry());
        let (live, _) = counts.entry(ip).or_insert_with(new);
        if *live >= self.rules.cap {
            return None;
        }
        *live += 1;
        Some(Box::new(Locked(self, ip)))
    }

    fn entries(&self) -> usize {
        self.lock().len()
    }
}
