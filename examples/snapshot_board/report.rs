//! The invariants, and what a run found about them.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::BuildHasher;
use std::time::Duration;

use super::board::Board;

/// What must hold, whatever is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    Served = 1,
    OneOpenSlot,
    PublishNeverWaits,
    EmptyAfterwards,
    NoSlotLeaks,
    SameAfterRestart,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Served => "every finalizer that was not killed ends with its value",
            Self::OneOpenSlot => "a pod has at most one open slot at any time",
            Self::PublishNeverWaits => "publishing never waits, however many events are orphans",
            Self::EmptyAfterwards => "the map is empty afterwards, without a sweep",
            Self::NoSlotLeaks => "every slot that was made is dropped",
            Self::SameAfterRestart => "the same after a restart with replay",
        };
        write!(f, "({}) {text}", *self as u8)
    }
}

/// What was counted at the end of a board's life.
#[derive(Debug)]
pub(crate) struct Findings {
    /// Finalizers that ended without their value, though nobody killed them.
    pub(crate) lost: usize,
    /// Events that were delivered and not consumed.
    pub(crate) unconsumed: usize,
    pub(crate) overlaps: usize,
    pub(crate) linked: usize,
    pub(crate) made: usize,
    pub(crate) dropped: usize,
}

impl Findings {
    pub(crate) fn of<S: BuildHasher>(board: Board<'_, S>, lost: usize, unconsumed: usize) -> Self {
        let (linked, ledger) = board.tear_down();
        Self {
            lost,
            unconsumed,
            overlaps: ledger.overlaps(),
            linked,
            made: ledger.made(),
            dropped: ledger.dropped(),
        }
    }

    pub(crate) fn broken(&self) -> BTreeSet<Invariant> {
        let verdicts = [
            (Invariant::Served, self.lost == 0),
            (Invariant::OneOpenSlot, self.overlaps == 0),
            (Invariant::PublishNeverWaits, self.unconsumed == 0),
            (Invariant::EmptyAfterwards, self.linked == 0),
            (Invariant::NoSlotLeaks, self.made == self.dropped),
        ];
        let broken = verdicts.into_iter().filter(|(_, holds)| !holds);
        broken.map(|(invariant, _)| invariant).collect()
    }
}

/// What happened in one life of the manager, from its start to its end or restart.
#[derive(Debug)]
pub(crate) struct LifeReport {
    pub(crate) findings: Findings,
    pub(crate) events: usize,
    pub(crate) orphans: usize,
    /// Events of an earlier life that were delivered again.
    pub(crate) replayed: usize,
    pub(crate) served: usize,
    pub(crate) timeouts: usize,
    pub(crate) finalizer_panics: usize,
    pub(crate) worker_panics: usize,
    /// Events that were consumed while the last waiter stood between closing and unlinking its slot.
    pub(crate) events_at_close: usize,
}

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) lives: Vec<LifeReport>,
    pub(crate) elapsed: Duration,
}

impl Report {
    pub(crate) fn total(&self, count: impl Fn(&LifeReport) -> usize) -> usize {
        self.lives.iter().map(count).sum()
    }

    pub(crate) fn broken(&self) -> BTreeSet<Invariant> {
        let of_each: Vec<_> = (self.lives.iter())
            .map(|life| life.findings.broken())
            .collect();
        let after_restart = of_each.iter().skip(1).any(|broken| !broken.is_empty());
        let mut broken: BTreeSet<_> = of_each.into_iter().flatten().collect();
        if after_restart {
            broken.insert(Invariant::SameAfterRestart);
        }
        broken
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.total(|life| life.events);
        writeln!(
            f,
            "  {events} events consumed, {} of them orphans, {} replayed after a restart that lost what was queued; {:.0} events/s",
            self.total(|life| life.orphans),
            self.total(|life| life.replayed),
            events as f64 / self.elapsed.as_secs_f64(),
        )?;
        writeln!(
            f,
            "  {} waiters served, {} lost",
            self.total(|life| life.served),
            self.total(|life| life.findings.lost),
        )?;
        writeln!(
            f,
            "  {} slots made, {} opened beside another, {} left in the map, {} dropped",
            self.total(|life| life.findings.made),
            self.total(|life| life.findings.overlaps),
            self.total(|life| life.findings.linked),
            self.total(|life| life.findings.dropped),
        )?;
        write!(
            f,
            "  injected: {} timeouts, {} finalizer panics, {} worker panics, {} events at a closing slot",
            self.total(|life| life.timeouts),
            self.total(|life| life.finalizer_panics),
            self.total(|life| life.worker_panics),
            self.total(|life| life.events_at_close),
        )
    }
}
