//! The invariants, and what a run found about them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What must hold, whatever is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    Settled = 1,
    BuiltOnce,
    NoErrorLost,
    ConfiguredAlone,
    ReadyMeansReady,
    OneCallback,
    NobodyDelayed,
}

impl Invariant {
    pub(crate) const ALL: [Self; 7] = [
        Self::Settled,
        Self::BuiltOnce,
        Self::NoErrorLost,
        Self::ConfiguredAlone,
        Self::ReadyMeansReady,
        Self::OneCallback,
        Self::NobodyDelayed,
    ];
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Settled => "every cluster is either ready or failed, and is never forgotten",
            Self::BuiltOnce => "one build per cluster and round; clients opened - closed == kept",
            Self::NoErrorLost => "every error is in the outcome, or with who asked",
            Self::ConfiguredAlone => "defaults stay, and configurations are as if built alone",
            Self::ReadyMeansReady => "what is seen to be ready is connected, and stays ready",
            Self::OneCallback => "one callback per recovery",
            Self::NobodyDelayed => "a build that takes long delays nobody else",
        };
        write!(f, "({}) {text}", *self as u8)
    }
}

/// What was seen of the invariants that do not hold.
#[derive(Debug, Default)]
pub(crate) struct Violations(Mutex<BTreeMap<Invariant, Violation>>);

#[derive(Debug)]
struct Violation {
    times: usize,
    first: String,
}

impl Violations {
    pub(crate) fn check(&self, invariant: Invariant, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            let mut violations = self.0.lock().unwrap();
            let first = || Violation {
                times: 0,
                first: what(),
            };
            violations.entry(invariant).or_insert_with(first).times += 1;
        }
    }
}

/// What happened to the fleets of all rounds, or to the pools.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) claims: AtomicUsize,
    pub(crate) conflicts: AtomicUsize,
    pub(crate) ready: AtomicUsize,
    pub(crate) attempts: AtomicUsize,
    pub(crate) opened: AtomicUsize,
    pub(crate) surplus: AtomicUsize,
    pub(crate) retries: AtomicUsize,
    pub(crate) recoveries: AtomicUsize,
    pub(crate) looks: AtomicUsize,
    pub(crate) changes: AtomicUsize,
    pub(crate) refused: AtomicUsize,
    pub(crate) denied: AtomicUsize,
    pub(crate) panics: AtomicUsize,
    pub(crate) unreachable: AtomicUsize,
    pub(crate) delayed: AtomicUsize,
    pub(crate) slow: AtomicUsize,
    pub(crate) cancelled: AtomicUsize,
}

/// Counts one more; returns how many there were before.
pub(crate) fn count(counter: &AtomicUsize) -> usize {
    counter.fetch_add(1, Ordering::Relaxed)
}

pub(crate) fn get(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::Relaxed)
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) fleets: Counts,
    pub(crate) pools: Counts,
    pub(crate) violations: Violations,
    pub(crate) elapsed: Duration,
}

impl Report {
    pub(crate) fn broken(&self) -> BTreeSet<Invariant> {
        self.violations.0.lock().unwrap().keys().copied().collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} claims, {} of them for another endpoint than that of the client",
            get(&self.claims),
            get(&self.conflicts),
        )?;
        writeln!(
            f,
            "    {} attempts; {} clients opened, {} of them surplus and closed, {} kept",
            get(&self.attempts),
            get(&self.opened),
            get(&self.surplus),
            get(&self.ready),
        )?;
        writeln!(
            f,
            "    injected: {} refusals, {} denials, {} panics, {} hubs down, {} delays, {} slow builds,",
            get(&self.refused),
            get(&self.denied),
            get(&self.panics),
            get(&self.unreachable),
            get(&self.delayed),
            get(&self.slow),
        )?;
        write!(
            f,
            "    {} builds called off, {} times the caller changed its own defaults",
            get(&self.cancelled),
            get(&self.changes),
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  fleets: {}", self.fleets)?;
        writeln!(
            f,
            "    {} retries, {} recoveries, {} looks at what is ready",
            get(&self.fleets.retries),
            get(&self.fleets.recoveries),
            get(&self.fleets.looks),
        )?;
        writeln!(f, "  pools: {}", self.pools)?;
        for (invariant, violation) in &*self.violations.0.lock().unwrap() {
            let Violation { times, first } = violation;
            writeln!(f, "  broken {times} times: {invariant}; first: {first}")?;
        }
        write!(f, "  {:.1?}", self.elapsed)
    }
}
