//! Random scripts over the whole API, against std's `HashMap`, with good and hostile hashers.
#![cfg(not(loom))]

mod support;

use std::collections::HashMap as Std;
use std::panic;
use std::ptr;

use quickcheck::{Arbitrary, Gen, QuickCheck};
use quince::HashMap;

use support::hashers::Hashes;
use support::ledger::Ledger;
use support::ops::{Map, Op, Script, Verb};
use support::{size, watchdog};

impl Arbitrary for Op {
    fn arbitrary(g: &mut Gen) -> Self {
        Self::choose(&mut |bound| u32::arbitrary(g) % bound)
    }
}

impl Arbitrary for Script {
    fn arbitrary(g: &mut Gen) -> Self {
        Self {
            hashes: *g.choose(&Hashes::HONEST).expect("not empty"),
            // Mostly nothing: the first table has seven slots, so that short scripts migrate.
            capacity: *g.choose(&[0, 0, 0, 1, 8, 100]).expect("not empty"),
            ops: Vec::arbitrary(g),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let script = self.clone();
        let with = move |ops| Self {
            ops,
            ..script.clone()
        };
        Box::new(self.ops.shrink().map(with))
    }
}

/// Many short scripts and a few long ones.
fn quickcheck(property: fn(Script)) {
    let _watchdog = watchdog::start();
    for (scripts, length) in [(8_000, 60), (1_000, 600)] {
        QuickCheck::new()
            .tests(size(scripts) as u64)
            .max_tests(size(scripts) as u64)
            .rng(Gen::new(length))
            .quickcheck(property);
    }
}

#[test]
fn every_script_is_answered_as_by_std() {
    quickcheck(|script| script.check());
}

/// The comparison bites: with a hash that changes, a map must give wrong answers.
#[test]
fn a_wrong_answer_is_noticed() {
    let insert_and_get = (0..20).flat_map(|k| [Verb::Insert(k, k), Verb::Get(k)]);
    let script = Script {
        hashes: Hashes::Random,
        capacity: 0,
        ops: insert_and_get.map(Op::Owned).collect(),
    };
    assert!(panic::catch_unwind(|| script.check()).is_err());
}

/// Keys that no script uses.
const STAYING: u32 = 1_000;
const GONE: u32 = 2_000;

/// Runs a script that touches neither the staying keys nor those gone before, and takes one item of every running
/// iterator after each operation. Iterators are begun all along, so that their tables are of all ages.
fn check_iteration(script: Script) {
    let ledger = Ledger::new();
    let map = Map::with_capacity_and_hasher(script.capacity, script.hashes);
    let staying = 1 + script.ops.len() as u32 / 4;
    let insert = |k| map.insert(ledger.key(k, 0), ledger.value(k));
    for k in 0..staying {
        insert(GONE + k);
        insert(STAYING + k);
        map.remove(&ledger.probe(GONE + k, 0));
    }
    let pinned = map.pin();
    let mut running: Vec<(Box<dyn Iterator<Item = u32>>, Vec<u32>)> = Vec::new();
    for (step, op) in script.ops.iter().enumerate() {
        match step % 16 {
            0 => running.push((Box::new(pinned.iter().map(|(k, _)| k.number())), Vec::new())),
            8 => running.push((Box::new(map.iter().map(|(k, _)| k.number())), Vec::new())),
            _ => {}
        }
        if !op.empties() {
            op.run_shared(&map, &ledger);
        }
        for (iterator, seen) in &mut running {
            seen.extend(iterator.next());
        }
    }
    for (rest, mut seen) in running {
        seen.extend(rest);
        seen.sort_unstable();
        assert!(
            seen.is_sorted_by(|a, b| a < b),
            "a key is seen twice: {seen:?}"
        );
        seen.retain(|&k| k >= STAYING);
        assert!(
            seen.into_iter().eq(STAYING..STAYING + staying),
            "not all that stay, or one that is gone"
        );
    }
    drop(pinned);
    drop(map);
    ledger.assert_balanced();
}

#[test]
fn an_iteration_among_changes_sees_a_key_that_stays_once_and_one_that_is_gone_never() {
    quickcheck(check_iteration);
}

/// A cursor halfway through the table meets one that is smaller: what was not moved yet is not in there.
#[test]
fn an_iteration_in_the_midst_of_shrinking_sees_every_key_that_stays() {
    const STAYING: u32 = 500;
    let _watchdog = watchdog::start();
    let entries = size(20_000) as u32;
    for _ in 0..size(20) {
        let map: HashMap<u32, ()> = (0..entries).map(|k| (k, ())).collect();
        for k in STAYING..entries {
            map.remove(&k);
            if entries - k < 1_000 {
                let seen = map.pin().keys().filter(|&&k| k < STAYING).count();
                assert_eq!(seen, STAYING as usize, "after the removal of {k}");
            }
        }
    }
}

#[test]
fn an_abandoned_iterator_leaves_the_rest_to_the_map() {
    let ledger = Ledger::new();
    let mut map = Map::default();
    for k in 0..100 {
        map.insert(ledger.key(k, 0), ledger.value(k));
    }
    assert_eq!(map.pin().iter().take(10).count(), 10);
    assert_eq!(map.iter().take(10).count(), 10);
    assert_eq!(map.iter_mut().take(10).count(), 10);
    assert_eq!(map.len(), 100);
    assert_eq!(map.drain().take(10).count(), 10);
    assert!(map.is_empty(), "what a drain does not yield is dropped");
    assert_eq!(ledger.live(), 0);
}

/// No slot and no node is used again as long as somebody may look at what was in it.
#[test]
fn a_key_that_comes_back_does_not_touch_what_was_lent_of_it() {
    let ledger = Ledger::new();
    let map = Map::default();
    map.insert(ledger.key(1, 0), ledger.value(0));
    let pinned = map.pin();
    let mut lent = Vec::new();
    for n in 1..size(1_000) as u32 {
        let (key, value) = pinned.remove_entry(&1).expect("inserted");
        pinned.insert(ledger.key(1, n), ledger.value(n));
        lent.push((key, value));
        map.flush();
    }
    for (n, &(key, value)) in (0..).zip(&lent) {
        assert_eq!((key.label(), value.number()), (n, n));
    }
    let mut places: Vec<_> = lent
        .iter()
        .map(|(_, value)| ptr::from_ref(*value))
        .collect();
    places.push(pinned.get(&1).expect("inserted"));
    places.sort_unstable();
    assert!(
        places.is_sorted_by(|a, b| a < b),
        "two entries in one place"
    );
    drop(pinned);
    drop(map);
    ledger.assert_balanced();
}

#[test]
fn many_keys_at_a_time_are_answered_as_one_by_one() {
    fn answers_match(present: Vec<u8>, asked: Vec<u8>) -> bool {
        let map: HashMap<u8, usize> = present.into_iter().zip(0..).collect();
        let pinned = map.pin();
        let one_by_one = asked.iter().map(|key| pinned.get(key));
        pinned.get_many(&asked).eq(one_by_one)
    }
    QuickCheck::new().quickcheck(answers_match as fn(_, _) -> _);
}

/// An entry that its iterator has yielded is in the map or dropped, whatever becomes of the iterator.
#[test]
fn entries_on_their_way_are_dropped_if_their_iterator_panics() {
    let ledger = Ledger::new();
    let map = Map::default();
    let broken = (0..100).map(|n| match n {
        70 => panic!("expected by the test"),
        n => (ledger.key(n, 0), ledger.value(n)),
    });
    assert!(panic::catch_unwind(panic::AssertUnwindSafe(|| map.insert_many(broken))).is_err());
    assert!((55..=70).contains(&map.len()), "{} inserted", map.len());
    assert_eq!(ledger.live() as usize, 2 * map.len());
    drop(map);
    ledger.assert_balanced();
}

/// Under Miri this is also where an owned key or value moved twice would show.
#[test]
fn the_last_of_equal_keys_wins_in_every_bulk_construction() {
    let ledger = Ledger::new();
    let pairs = || (0..60).map(|n| (ledger.key(n / 2, n), ledger.value(n)));
    let collected: Map<'_> = pairs().collect();
    let mut extended = Map::default();
    extended.extend(pairs());
    let mut shared = &Map::default();
    shared.extend(pairs());
    let many = Map::default();
    many.insert_many(pairs());
    let cloned = collected.clone();
    for map in [&collected, &extended, shared, &many, &cloned] {
        assert_eq!(map.len(), 30);
        for (key, value) in &map.pin() {
            assert_eq!(
                (key.label(), value.number()),
                (key.number() * 2 + 1, key.label())
            );
        }
    }
    assert_eq!(collected, cloned);
    assert_eq!(
        HashMap::from([("a", 1), ("b", 2), ("a", 3)]).get("a"),
        Some(3)
    );
}

#[test]
fn maps_are_equal_if_their_entries_are() {
    let map = HashMap::from([("a", 1), ("b", 2)]);
    assert_eq!(map, HashMap::from([("b", 2), ("a", 1)]));
    assert_eq!(map, map);
    for other in [
        HashMap::from([("a", 1)]),
        HashMap::from([("a", 1), ("b", 3)]),
        HashMap::from([("a", 1), ("c", 2)]),
    ] {
        assert_ne!(map, other);
    }
}

#[test]
fn a_map_prints_as_std_does() {
    let std = Std::from([("a", vec![1])]);
    let map = HashMap::from([("a", vec![1])]);
    assert_eq!(format!("{map:?} {map:#?}"), format!("{std:?} {std:#?}"));
    assert_eq!(format!("{:?}", map.pin()), format!("{std:?}"));
}

#[test]
fn copies_can_be_taken_from_borrowed_entries() {
    let std = Std::from([(1, 'a'), (2, 'b')]);
    let mut map: HashMap<i32, char> = HashMap::new();
    map.extend(&std);
    assert!(map.iter().all(|(key, value)| std[&key] == value));
    assert_eq!(map.len(), std.len());
}
