//! Every operation on one key seems to happen at one instant between its call and its return, and the instants of all
//! keys are in one order.
//!
//! Recorded histories are searched for an order that explains them. The same search must find none for the histories of
//! broken twins: operations put together of two. `cargo test --release --test linearizability -- --nocapture` prints how
//! much there was to explain.
#![cfg(not(loom))]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use quince::{HashMap, Operation};

use support::hashers::Hashes;
use support::ledger::{Event, Ledger};
use support::linear::{self, Attempt, Call, Effect, History, Pace, Scripts, State};
use support::ops::{Map, Op, Verb, Whole};
use support::spin_barrier::SpinBarrier;
use support::{Random, race, size, watchdog};

// ---- The map ---------------------------------------------------------------------------------------------------

/// How much a test has looked at.
#[derive(Default)]
struct Tally {
    histories: usize,
    calls: usize,
    overlaps: usize,
    panics: usize,
}

impl Tally {
    fn add(&mut self, history: &History) {
        let is_open = |call: &&Call| call.returned.is_none();
        self.histories += 1;
        self.calls += history.len();
        self.overlaps += history.overlaps();
        self.panics += history.calls.iter().flatten().filter(is_open).count();
    }

    fn report(&self, test: &str) {
        let Self {
            histories,
            calls,
            overlaps,
            panics,
        } = self;
        println!(
            "{test}: {histories} histories, {calls} calls, {overlaps} overlap another on their key, \
             {panics} ended in a panic"
        );
        assert!(*overlaps > calls / 100, "nothing to explain");
    }
}

/// A random history of the whole API. Every fourth of them has calls that panic: few, as the more may have happened
/// the less can be wrong.
fn random_history(seed: usize) -> History {
    let _watchdog = watchdog::start();
    let mut random = Random::new(seed as u64);
    let threads = 2 + random.below(15) as usize;
    let keys = 1 + random.below(10);
    let ops = (200 + random.below(800)) as usize / threads;
    let hashes = Hashes::HONEST[random.below(5) as usize];

    let ledger = Ledger::new();
    let map = Map::with_hasher(hashes);
    let pace = |thread| Pace::random((seed * 100 + thread) as u64);
    let history = linear::record(&map, &ledger, keys, threads, pace, |thread, recorder| {
        let mut random = Random::new((seed * 100 + thread) as u64);
        for n in 0..ops {
            // The first table is small and the keys are few: this makes nearly sure that it is left.
            if thread == 0 && n == ops / 2 {
                let (from, count) = (0, 64);
                recorder.run(Op::Whole(Whole::ExtendShared { from, count }));
            }
            let op = linear::choose(keys, &mut |bound| random.below(bound));
            if seed % 4 == 0 && random.below(64) == 0 {
                // Not destructors: they run while other panics unwind.
                let events = [Event::Hash, Event::Eq, Event::Clone, Event::Closure];
                let event = events[random.below(4) as usize];
                recorder.run_and_trip(op, event, 1 + random.below(3) as usize);
            } else {
                recorder.run(op);
            }
        }
    });
    drop(map);
    ledger.assert_balanced();
    history
}

#[test]
fn every_history_is_linearizable() {
    let (mut tally, mut with_migrations) = (Tally::default(), 0);
    for seed in 0..size(1_000) {
        let history = random_history(seed);
        history.assert_linearizable(&seed);
        tally.add(&history);
        with_migrations += usize::from(history.has_migrations());
    }
    tally.report("at once");
    // Not all: what others clear away in time may find room in the first table.
    assert!(
        with_migrations > tally.histories / 10 * 9,
        "only {with_migrations} histories have migrations"
    );
}

/// Threads that are stopped inside of closures: whatever the others do meanwhile, they do not wait.
#[test]
fn every_history_of_interrupted_calls_is_linearizable() {
    let mut tally = Tally::default();
    for seed in 0..size(1_000) {
        let _watchdog = watchdog::start();
        let mut random = Random::new(seed as u64);
        let keys = 1 + random.below(3);
        let threads = 2 + random.below(3) as usize;
        let script = |random: &mut Random| -> Vec<Op> {
            let choose = |_| linear::choose(keys, &mut |bound| random.below(bound));
            (0..40).map(choose).collect()
        };
        let scripts = Scripts {
            hashes: Hashes::HONEST[random.below(5) as usize],
            keys,
            threads: (0..threads).map(|_| script(&mut random)).collect(),
            schedule: (0..97).map(|_| random.below(256) as u8).collect(),
        };
        tally.add(&scripts.check());
    }
    tally.report("in turns");
}

// ---- Broken twins ----------------------------------------------------------------------------------------------

/// Does with several operations what should be one.
type Twin = for<'l> fn(&Map<'l>, &Attempt<'_, 'l>, u32) -> Effect;

/// Makes histories with a twin among operations of the map until no order explains one. That this never happens is for
/// the watchdog to say.
fn until_caught(imitated: fn(u32) -> Op, twin: Twin) {
    let _watchdog = watchdog::start();
    let is_caught = |seed: &u64| {
        let ledger = Ledger::new();
        let map = Map::default();
        let pace = |thread| Pace::random(seed * 100 + thread as u64);
        let history = linear::record(&map, &ledger, 2, 4, pace, |thread, recorder| {
            let mut random = Random::new(seed * 100 + thread as u64);
            for _ in 0..50 {
                let k = random.below(2);
                match random.below(4) {
                    0 => recorder.run(Op::Owned(Verb::Insert(k, 0))),
                    1 => recorder.run(Op::Pinned(Verb::Remove(k))),
                    _ => {
                        let map = recorder.map;
                        recorder.call(imitated(k), |attempt| vec![(k, twin(map, attempt, k))]);
                    }
                }
            }
        });
        history.violation().is_some()
    };
    let caught = (1..).find(is_caught);
    let nth = caught.expect("an endless search");
    println!("{:?}: caught in history {nth}", imitated(0));
}

#[test]
fn insertion_after_a_look_is_not_insert_or_get() {
    until_caught(
        |k| Op::Pinned(Verb::GetOrInsert(k, 0)),
        |map, attempt, k| {
            let pinned = map.pin();
            if let Some(current) = pinned.get(&k) {
                return Effect::read(Some(current.number()));
            }
            attempt.pause();
            let value = attempt.first_value(k);
            let new = value.number();
            pinned.insert(attempt.ledger.key(k, 0), value);
            Effect::inserted(new)
        },
    );
}

#[test]
fn a_look_before_an_insertion_does_not_tell_what_it_replaces() {
    until_caught(
        |k| Op::Pinned(Verb::Insert(k, 0)),
        |map, attempt, k| {
            let pinned = map.pin();
            let from = pinned.get(&k).map(|old| old.number());
            attempt.pause();
            let value = attempt.value(k, Effect::Set);
            let to = Some(value.number());
            pinned.insert(attempt.ledger.key(k, 0), value);
            Effect::Change { from, to }
        },
    );
}

#[test]
fn a_look_before_a_removal_does_not_tell_what_it_removes() {
    until_caught(
        |k| Op::Owned(Verb::Remove(k)),
        |map, attempt, k| {
            let old = map.get(&k).map(|old| old.number());
            attempt.pause();
            map.remove(&k);
            Effect::removed(old)
        },
    );
}

#[test]
fn a_look_and_an_insertion_are_not_an_update() {
    until_caught(
        |k| Op::Owned(Verb::Update(k)),
        |map, attempt, k| {
            let Some(old) = map.get(&k).map(|old| old.number()) else {
                return Effect::read(None);
            };
            attempt.pause();
            let value = attempt.value(k, Effect::Set);
            let new = value.number();
            map.insert(attempt.ledger.key(k, 0), value);
            Effect::replaced(old, new)
        },
    );
}

// ---- The order between keys ------------------------------------------------------------------------------------

// Not by recorded histories: to take the time orders a thread's accesses, whatever the map does.

/// In each round each of two threads makes its key known and then looks for the other's. Returns whether in all rounds
/// one of them found it.
fn one_sees_the_other(
    rounds: usize,
    announce: impl Fn(usize, usize) + Sync,
    finds: impl Fn(usize, usize) -> bool + Sync,
) -> bool {
    let barrier = SpinBarrier::new(2);
    let found = race(2, |thread| {
        let round = |round| {
            barrier.wait();
            announce(round, thread);
            finds(round, 1 - thread)
        };
        (0..rounds).map(round).collect::<Vec<_>>()
    });
    found[0].iter().zip(&found[1]).all(|(a, b)| *a || *b)
}

/// Processors pass a store by a later load, x86-64 too: this is where it would show.
#[test]
fn of_two_that_insert_a_key_and_look_for_the_others_one_finds_it() {
    type Announce = fn(&HashMap<usize, usize>, usize);
    type Finds = fn(&HashMap<usize, usize>, usize) -> bool;
    let ways: [Announce; 4] = [
        |map, key| _ = map.insert(key, key),
        |map, key| _ = map.pin().get_or_insert(key, key),
        |map, key| _ = map.pin().try_insert_with(key, || key),
        |map, key| _ = map.compute(key, |_| Operation::<_>::Insert(key)),
    ];
    let looks: [Finds; 4] = [
        |map, key| map.get(&key).is_some(),
        |map, key| map.pin().contains_key(&key),
        |map, key| map.pin().update(&key, |value| *value).is_some(),
        |map, key| map.remove(&key).is_some(),
    ];
    for announce in ways {
        for finds in looks {
            let map = HashMap::new();
            assert!(one_sees_the_other(
                size(30_000),
                |round, thread| announce(&map, 2 * round + thread),
                |round, thread| finds(&map, 2 * round + thread),
            ));
        }
        // The first two keys of a map: there is no table yet.
        let maps: Vec<_> = (0..size(20_000)).map(|_| HashMap::new()).collect();
        assert!(one_sees_the_other(
            maps.len(),
            |round, thread| announce(&maps[round], thread),
            |round, thread| maps[round].pin().contains_key(&thread),
        ));
    }
}

/// The other way round: what is removed or replaced is seen to be so.
#[test]
fn of_two_that_change_a_key_and_look_at_the_others_one_sees_the_change() {
    type Change = fn(&HashMap<usize, bool>, usize);
    let ways: [Change; 4] = [
        |map, key| _ = map.remove(&key),
        |map, key| _ = map.pin().remove_if(&key, |_, _| true),
        |map, key| _ = map.pin().insert(key, true),
        |map, key| _ = map.pin().update(&key, |_| true),
    ];
    for change in ways {
        let rounds = size(50_000);
        let map: HashMap<usize, bool> = (0..2 * rounds).map(|key| (key, false)).collect();
        assert!(one_sees_the_other(
            rounds,
            |round, thread| change(&map, 2 * round + thread),
            |round, thread| map.pin().get(&(2 * round + thread)) != Some(&false),
        ));
    }
}

/// The check bites: marks that are set and read with less than sequential consistency are passed.
#[test]
fn of_two_that_set_a_relaxed_mark_and_look_at_the_others_both_may_miss_it() {
    /// Shares its cache line with no other.
    #[derive(Default)]
    #[repr(align(128))]
    struct Mark(AtomicBool);

    let _watchdog = watchdog::start();
    let is_passed = |_: &usize| {
        let marks: Vec<[Mark; 2]> = (0..1_000).map(|_| Default::default()).collect();
        !one_sees_the_other(
            marks.len(),
            |round, thread| marks[round][thread].0.store(true, Ordering::Release),
            |round, thread| marks[round][thread].0.load(Ordering::Acquire),
        )
    };
    let passed = (1..).find(is_passed).expect("an endless search");
    println!("relaxed marks: passed within {passed} thousand rounds");
}

// ---- The check -------------------------------------------------------------------------------------------------

/// Calls on one key, each by a thread of its own, with what they did and when they were made and returned.
fn is_linearizable(calls: &[(Effect, u64, Option<u64>)]) -> bool {
    let call = |(thread, &(effect, invoked, returned))| Call {
        thread,
        op: Op::Owned(Verb::Get(0)),
        effect,
        invoked,
        returned,
    };
    let mut calls: Vec<_> = calls.iter().enumerate().map(call).collect();
    calls.sort_by_key(|call| call.invoked);
    linear::is_linearizable(&calls, None)
}

const fn read(state: State) -> Effect {
    change(state, state)
}

const fn change(from: State, to: State) -> Effect {
    Effect::Change { from, to }
}

const INSERT_1: Effect = change(None, Some(1));
const INSERT_2: Effect = change(None, Some(2));

#[test]
fn calls_one_after_the_other_are_explained_by_their_order_alone() {
    let after = |second| is_linearizable(&[(INSERT_1, 0, Some(1)), (second, 2, Some(3))]);
    assert!(after(read(Some(1))));
    assert!(after(Effect::Present));
    assert!(after(Effect::Not(Some(2))));
    assert!(after(change(Some(1), None)));
    assert!(!after(read(None)), "a stale read");
    assert!(!after(Effect::Not(Some(1))), "a stale comparison");
    assert!(!after(read(Some(2))), "a value that nobody wrote");
    assert!(!after(INSERT_2), "two that win");
    assert!(!after(change(None, None)), "a removal that misses");
}

#[test]
fn calls_that_overlap_are_explained_by_either_order() {
    let with = |second| is_linearizable(&[(INSERT_1, 0, Some(2)), (second, 1, Some(3))]);
    assert!(with(read(Some(1))));
    assert!(with(read(None)));
    assert!(with(change(Some(1), Some(2))));
    assert!(with(Effect::Set(None)));
    assert!(!with(read(Some(2))), "a value that nobody wrote");
    assert!(!with(INSERT_2), "two that win");
}

#[test]
fn a_value_is_not_read_before_it_is_written() {
    assert!(!is_linearizable(&[
        (read(Some(1)), 0, Some(1)),
        (INSERT_1, 2, Some(3)),
    ]));
}

#[test]
fn of_two_updates_of_one_value_one_is_lost() {
    let updates = |second| {
        is_linearizable(&[
            (INSERT_1, 0, Some(1)),
            (change(Some(1), Some(2)), 2, Some(4)),
            (second, 3, Some(5)),
        ])
    };
    assert!(updates(change(Some(2), Some(3))));
    assert!(!updates(change(Some(1), Some(3))));
}

#[test]
fn what_is_removed_is_removed_once() {
    let removals = |second| {
        is_linearizable(&[
            (INSERT_1, 0, Some(1)),
            (change(Some(1), None), 2, Some(5)),
            (second, 3, Some(4)),
        ])
    };
    assert!(removals(read(None)));
    assert!(!removals(change(Some(1), None)));
}

/// Two readers, one after the other, while a call is running: it does not happen and then not have happened.
#[test]
fn an_effect_that_was_seen_is_not_undone() {
    let reads = |first, second| {
        is_linearizable(&[
            (INSERT_1, 0, Some(9)),
            (read(first), 1, Some(2)),
            (read(second), 3, Some(4)),
        ])
    };
    assert!(reads(None, Some(1)));
    assert!(reads(None, None));
    assert!(reads(Some(1), Some(1)));
    assert!(!reads(Some(1), None));
}

#[test]
fn a_call_that_panicked_has_happened_or_not_or_happens_later_but_once() {
    let after = |reads: &[State]| {
        let reads = (2..).zip(reads);
        let reads = reads.map(|(n, &state)| (read(state), 2 * n, Some(2 * n + 1)));
        let calls: Vec<_> = [(INSERT_1, 0, None)].into_iter().chain(reads).collect();
        is_linearizable(&calls)
    };
    assert!(after(&[Some(1)]));
    assert!(after(&[None, None]));
    assert!(after(&[None, Some(1)]), "later");
    assert!(!after(&[Some(1), None]), "undone");
    assert!(!after(&[None, Some(2)]), "another value");
    let twice = [
        (INSERT_1, 0, None),
        (change(Some(1), None), 2, Some(3)),
        (read(Some(1)), 4, Some(5)),
    ];
    assert!(!is_linearizable(&twice));
    let before_it_began = [(read(Some(1)), 0, Some(1)), (INSERT_1, 2, None)];
    assert!(!is_linearizable(&before_it_began));
}

#[test]
fn one_call_may_overlap_thousands() {
    let steps = 4_000;
    let mut calls = vec![(change(Some(steps), Some(0)), 0, Some(4 * u64::from(steps)))];
    for n in 0..steps {
        let time = 1 + 2 * u64::from(n);
        let from = (n > 0).then_some(n);
        calls.push((change(from, Some(n + 1)), time, Some(time + 1)));
    }
    assert!(is_linearizable(&calls));
    calls[0].0 = change(Some(steps + 1), Some(0));
    assert!(!is_linearizable(&calls));
}

/// As many orders as there are, and none of them right.
#[test]
fn a_wrong_history_of_many_calls_at_once_is_refuted_in_time() {
    let _watchdog = watchdog::start();
    let writes = (1..=12).map(|n| (Effect::Set(Some(n)), n.into(), Some(100)));
    let stale = (read(None), 101, Some(102));
    let calls: Vec<_> = writes.chain([stale]).collect();
    assert!(!is_linearizable(&calls));
}

/// A history that fails is told by the calls that contradict each other.
#[test]
fn a_violation_is_shown_without_what_went_well() {
    let well = (0..100u32).map(|n| {
        let (from, to) = ((n > 0).then_some(n), Some(n + 1));
        (change(from, to), 2 * u64::from(n))
    });
    let stale = (read(Some(99)), 200);
    let more = (101..150u64).map(|n| (read(Some(100)), 2 * n));
    let calls = well.chain([stale]).chain(more);
    let call = |(effect, invoked)| Call {
        thread: 0,
        op: Op::Owned(Verb::Get(0)),
        effect,
        invoked,
        returned: Some(invoked + 1),
    };
    let history = History::of_one_key(calls.map(call).collect());
    let shown: Vec<_> = history.violation().expect("the stale read");
    let shown: Vec<_> = shown.into_iter().map(|call| call.effect).collect();
    assert_eq!(shown, [change(Some(99), Some(100)), read(Some(99))]);
}
