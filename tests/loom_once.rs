//! Models of `OnceMap` and `CountedMap`, run by loom over every interleaving up to a bound of preemptions.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --test loom_once -- --nocapture
//! ```
//!
//! The table below is the real one, as in `loom.rs`, so the bounds are low; `LOOM_MAX_PREEMPTIONS` replaces them.
#![cfg(loom)]

mod support;

use quince::{CountedMap, Member, OnceMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use support::interleavings::{Hash, model};

// ---- OnceMap ---------------------------------------------------------------------------------------------------

/// A map, and how many of its initialisers ran: a plain counter, no part of the model.
struct Once {
    map: OnceMap<u64, u64, Hash>,
    runs: AtomicUsize,
}

impl Once {
    /// Has a table with room already: growing is not what these models are about.
    fn new() -> Self {
        Self {
            map: OnceMap::with_capacity_and_hasher(4, Hash::default()),
            runs: AtomicUsize::new(0),
        }
    }

    /// Asks for the value of key 1; the first `failures` initialisers fail. 0 stands for failure.
    fn ask(&self, failures: usize, value: u64) -> u64 {
        let made = self.map.get_or_try_init(1, || {
            let run = self.runs.fetch_add(1, Ordering::Relaxed);
            if run < failures { Err(()) } else { Ok(value) }
        });
        made.unwrap_or(0)
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

#[test]
fn one_of_two_makes_the_value_and_the_other_waits_for_it() {
    model(
        "two callers",
        1,
        Once::new,
        &[|once| once.ask(0, 10), |once| once.ask(0, 11)],
        |once, results| {
            assert_eq!(once.runs(), 1);
            let value = once.map.get(&1).expect("made");
            assert_eq!(results, [value, value]);
            assert_eq!((once.map.len(), once.map.iter().count()), (1, 1));
        },
    );
}

#[test]
fn the_other_takes_over_from_one_that_failed() {
    model(
        "two callers, of whom the first fails",
        1,
        Once::new,
        &[|once| once.ask(1, 10), |once| once.ask(1, 11)],
        |once, mut results| {
            results.sort_unstable();
            let value = once.map.get(&1).expect("made by the other");
            assert_eq!(results, [0, value]);
            assert_eq!((once.runs(), once.map.len()), (2, 1));
        },
    );
}

#[test]
fn two_that_fail_leave_nothing() {
    model(
        "two callers, who both fail",
        1,
        Once::new,
        &[|once| once.ask(2, 10), |once| once.ask(2, 11)],
        |once, results| {
            assert_eq!(results, [0, 0]);
            assert_eq!((once.runs(), once.map.get(&1)), (2, None));
            assert_eq!((once.map.len(), once.map.iter().count()), (0, 0));
        },
    );
}

#[test]
fn who_waits_is_woken_by_the_value_and_by_a_failure() {
    model(
        "a maker and one who waits",
        3,
        Once::new,
        &[
            |once| once.ask(0, 10),
            |once| once.map.wait(&1).unwrap_or(0),
        ],
        |once, results| {
            assert!(once.map.get(&1) == Some(10) && (results[1] == 0 || results[1] == 10))
        },
    );
    model(
        "a maker that fails and one who waits",
        3,
        Once::new,
        &[
            |once| once.ask(1, 10),
            |once| once.map.wait(&1).unwrap_or(0),
        ],
        |once, results| {
            assert_eq!(results, [0, 0]);
            assert!(once.map.is_empty());
        },
    );
}

#[test]
fn a_value_in_the_making_is_not_removed() {
    model(
        "two callers and a removal",
        0,
        Once::new,
        &[
            |once| once.ask(0, 10),
            |once| once.ask(0, 10),
            |once| once.map.remove(&1).unwrap_or(0),
        ],
        |once, results| {
            assert_eq!(results[..2], [10, 10]);
            let removed = usize::from(results[2] == 10);
            let there = once.map.len();
            assert!(once.runs() == there + removed);
            assert_eq!(once.map.iter().count(), there);
        },
    );
}

// ---- CountedMap ------------------------------------------------------------------------------------------------

type Visitor<'r> = Member<u64, usize, Hash, &'r CountedMap<u64, usize, Hash>>;

/// A map, and how many were inside at most.
struct Rooms {
    map: CountedMap<u64, usize, Hash>,
    made: AtomicUsize,
    /// By number of the entry.
    inside: [AtomicUsize; 4],
    /// Where a member may be interrupted.
    stay: loom::sync::atomic::AtomicUsize,
}

impl Rooms {
    fn new() -> Self {
        Self::with_map(CountedMap::with_hasher(Hash::default()))
    }

    fn keeping_idle() -> Self {
        Self::with_map(CountedMap::with_hasher(Hash::default()).keeping_idle())
    }

    fn with_map(map: CountedMap<u64, usize, Hash>) -> Self {
        // The table grows now, so that it has room.
        drop([2, 3, 4].map(|key| map.join(key, || 0)));
        map.sweep();
        Self {
            map,
            made: AtomicUsize::new(0),
            inside: Default::default(),
            stay: loom::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// Comes, if fewer than `limit` are there, and goes. Whether it was let in.
    fn visit(&self, limit: usize) -> u64 {
        let make = || self.made.fetch_add(1, Ordering::Relaxed);
        self.stay(self.map.try_join(1, limit, make), limit)
    }

    fn stay(&self, member: Option<Visitor<'_>>, limit: usize) -> u64 {
        let Some(member) = member else { return 0 };
        for (entry, inside) in self.inside.iter().enumerate() {
            let others = inside.load(Ordering::Relaxed);
            assert!(entry == *member || others == 0, "members of two entries");
        }
        let inside = &self.inside[*member];
        assert!(inside.fetch_add(1, Ordering::Relaxed) < limit, "too many");
        self.stay.load(Ordering::Relaxed);
        inside.fetch_sub(1, Ordering::Relaxed);
        1
    }

    fn assert_empty(&self) {
        assert_eq!(self.map.count(&1), 0);
        assert!(self.map.get(&1).is_none());
        assert_eq!((self.map.len(), self.map.is_empty()), (0, true));
    }
}

#[test]
fn two_who_come_and_go_share_an_entry_or_have_one_after_the_other() {
    model(
        "two visitors",
        1,
        Rooms::new,
        &[|rooms| rooms.visit(2), |rooms| rooms.visit(2)],
        |rooms, results| {
            assert_eq!(results, [1, 1]);
            rooms.assert_empty();
        },
    );
}

#[test]
fn a_limit_of_one_excludes() {
    model(
        "two visitors of a room for one",
        1,
        Rooms::new,
        &[|rooms| rooms.visit(1), |rooms| rooms.visit(1)],
        |rooms, results| {
            assert!(results[0] + results[1] >= 1);
            rooms.assert_empty();
        },
    );
}

#[test]
fn who_looks_enters_the_entry_or_finds_none() {
    model(
        "a visitor and one who looks",
        2,
        Rooms::new,
        &[
            |rooms| rooms.visit(2),
            |rooms| rooms.stay(rooms.map.get(&1), 2),
        ],
        |rooms, _| {
            assert_eq!(rooms.made.load(Ordering::Relaxed), 1);
            rooms.assert_empty();
        },
    );
}

#[test]
fn a_sweep_removes_nobodys_entry() {
    model(
        "two visitors and a sweep",
        0,
        Rooms::keeping_idle,
        &[
            |rooms| rooms.visit(2),
            |rooms| rooms.visit(2),
            |rooms| rooms.map.sweep() as u64,
        ],
        |rooms, results| {
            assert_eq!(results[..2], [1, 1]);
            let left = rooms.map.len();
            assert_eq!(rooms.map.sweep(), left);
            rooms.assert_empty();
        },
    );
}
