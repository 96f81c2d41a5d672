//! The invariants, and what a run found about them.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use super::ledger::Ledger;
use super::limiter::Limiter;

/// What must hold, whatever clients and workers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    AtMostCap = 1,
    RefusedWhenFull,
    EmptyAfterwards,
    NoEntryLeaks,
    OthersGoOn,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::AtMostCap => "an address never has more live connections than the cap",
            Self::RefusedWhenFull => "who is refused has met a full address",
            Self::EmptyAfterwards => "no entry is left when all connections are over",
            Self::NoEntryLeaks => "every entry that was made is dropped",
            Self::OthersGoOn => "nobody waits for another address",
        };
        write!(f, "({}) {text}", *self as u8)
    }
}

/// What was counted at the end of a limiter's life.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) cap: usize,
    pub(crate) most_at_once: usize,
    pub(crate) unfounded_refusals: usize,
    pub(crate) left: usize,
    pub(crate) made: usize,
    pub(crate) dropped: usize,
    /// Connections that waited for one of another address.
    pub(crate) waited: usize,
}

impl Findings {
    /// All connections are over: a lazy limiter sweeps for the last time.
    pub(crate) fn of<'h>(
        limiter: Box<dyn Limiter + 'h>,
        ledger: &'h Ledger,
        cap: usize,
        waited: usize,
    ) -> Self {
        limiter.sweep();
        let left = limiter.entries();
        drop(limiter);
        Self {
            cap,
            most_at_once: ledger.most_at_once(),
            unfounded_refusals: ledger.unfounded_refusals(cap),
            left,
            made: ledger.made(),
            dropped: ledger.dropped(),
            waited,
        }
    }

    pub(crate) fn broken(&self) -> BTreeSet<Invariant> {
        let verdicts = [
            (Invariant::AtMostCap, self.most_at_once <= self.cap),
            (Invariant::RefusedWhenFull, self.unfounded_refusals == 0),
            (Invariant::EmptyAfterwards, self.left == 0),
            (Invariant::NoEntryLeaks, self.made == self.dropped),
            (Invariant::OthersGoOn, self.waited == 0),
        ];
        let broken = verdicts.into_iter().filter(|(_, holds)| !holds);
        broken.map(|(invariant, _)| invariant).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) findings: Findings,
    pub(crate) admitted: usize,
    pub(crate) refused: usize,
    /// Clients that were told that they are admitted.
    pub(crate) welcomed: usize,
    /// Workers that panicked while they served a connection.
    pub(crate) panics: usize,
    pub(crate) elapsed: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            findings,
            admitted,
            refused,
            ..
        } = self;
        let connections = admitted + refused;
        writeln!(
            f,
            "  {admitted} admitted, {} heard so, {} of their workers panicked; {refused} refused, {} of them without reason; {:.0} connections/s",
            self.welcomed,
            self.panics,
            findings.unfounded_refusals,
            connections as f64 / self.elapsed.as_secs_f64(),
        )?;
        writeln!(
            f,
            "  at most {} of one address live at once",
            findings.most_at_once,
        )?;
        write!(
            f,
            "  {} entries made, {} left, {} dropped",
            findings.made, findings.left, findings.dropped,
        )
    }
}
