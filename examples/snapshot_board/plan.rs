//! How large a simulation is, and what happens to which pod, finalizer and event. All of it follows from the
//! seed, except for the order in which the threads get to it.

use std::fmt;

use super::board::Value;
use super::random::mix;

pub(crate) const FINALIZERS_PER_POD: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) snapshots: usize,
    /// The pods of the first so many snapshots are waited for.
    pub(crate) waited: usize,
    /// Every event is delivered 1 to so many times.
    pub(crate) max_copies: usize,
    pub(crate) workers: usize,
    pub(crate) finalizers_in_flight: usize,
    pub(crate) seed: u64,
    /// Yield where the board has hooks. Without it two cores often miss a race between look-up and linking.
    pub(crate) yields: bool,
}

pub(crate) const WORKERS: usize = 100;

impl Plan {
    pub(crate) fn test(seed: u64) -> Self {
        Self::with_waiters(3_000, seed)
    }

    pub(crate) fn long(seed: u64) -> Self {
        Self {
            finalizers_in_flight: 200,
            ..Self::with_waiters(20_000, seed)
        }
    }

    /// What a restart is like in a system at rest: everything is ready, nobody waits.
    pub(crate) fn herd(snapshots: usize, seed: u64) -> Self {
        Self {
            waited: 0,
            max_copies: 1,
            ..Self::with_waiters(snapshots, seed)
        }
    }

    /// A tenth of the pods is waited for.
    pub(crate) fn with_waiters(snapshots: usize, seed: u64) -> Self {
        Self {
            snapshots,
            waited: snapshots.div_ceil(10),
            max_copies: 4,
            workers: WORKERS,
            finalizers_in_flight: 64,
            seed,
            yields: false,
        }
    }

    pub(crate) fn finalizers(&self) -> usize {
        self.waited * FINALIZERS_PER_POD
    }

    pub(crate) fn copies(&self, snapshot: usize) -> usize {
        1 + snapshot % self.max_copies
    }

    pub(crate) fn events(&self) -> usize {
        (0..self.snapshots)
            .map(|snapshot| self.copies(snapshot))
            .sum()
    }

    pub(crate) fn value(&self, snapshot: usize) -> Value {
        mix(self.seed ^ snapshot as u64)
    }

    pub(crate) fn cohort(&self, pod: usize) -> Cohort {
        match pod % 12 {
            0 | 3 | 6 | 9 => Cohort::Early,
            1 | 4 | 7 => Cohort::Held,
            10 => Cohort::HeldUntilClosed,
            _ => Cohort::Together,
        }
    }

    /// What becomes of a finalizer at its first attempt.
    pub(crate) fn fate(&self, pod: usize, finalizer: usize) -> Fate {
        let dice = mix(self.seed ^ mix((pod * FINALIZERS_PER_POD + finalizer) as u64));
        if self.cohort(pod) == Cohort::HeldUntilClosed {
            Fate::TimesOut
        } else if dice % 13 == 0 {
            Fate::Panics
        } else if dice % 5 == 0 {
            Fate::TimesOut
        } else {
            Fate::Patient
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} snapshots, {} waited for by {FINALIZERS_PER_POD} finalizers each, {} events, {} workers",
            self.snapshots,
            self.waited,
            self.events(),
            self.workers,
        )
    }
}

/// When the event of a waited pod comes: a third of the pods each, the two kinds of `Held` taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cohort {
    /// All of it is consumed before anybody registers.
    Early,
    /// Once all finalizers of the pod have registered to stay.
    Held,
    /// Exactly while the last of them, out of patience, closes the slot.
    HeldUntilClosed,
    /// A worker and the finalizers are released by one barrier.
    Together,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Patient,
    TimesOut,
    /// After it has registered.
    Panics,
}

/// The name of the `i`-th pod: as long as the real ones, 45 characters.
pub(crate) fn pod_name(pod: usize) -> String {
    format!("workspace-{:016x}-{pod:018}", mix(pod as u64))
}

pub(crate) fn pod_number(name: &str) -> usize {
    let (_, number) = name.rsplit_once('-').expect("made by `pod_name`");
    number.parse().expect("made by `pod_name`")
}
