//! What the insert-or-get family and its relatives promise beyond single answers: who makes what, how often, and pinned or
//! not. Where the same task has a naive solution, it stands beside the test as a broken twin.
#![cfg(not(loom))]

mod support;

use std::cell::Cell;
use std::sync::Arc;
use std::thread;

use quince::HashMap;

use support::hashers::Hashes;
use support::ledger::Ledger;
use support::ops::Map;
use support::{race, size, watchdog};

const THREADS: usize = 8;

/// Runs a broken twin until the check finds it out. That it never does is for the watchdog to say.
fn until_caught(mut caught: impl FnMut() -> bool) {
    let _watchdog = watchdog::start();
    while !caught() {}
}

// ---- `update_or_insert_with` -----------------------------------------------------------------------------------

/// Counts one more of the word.
type Count = fn(&HashMap<u32, usize, Hashes>, u32);

/// Whether threads that count the same words come to the right sums, while others remove words that nobody counts.
fn counts_are_exact(hashes: Hashes, words: u32, count: Count) -> bool {
    let rounds = size(4_000) / words as usize;
    let counts = HashMap::with_hasher(hashes);
    race(THREADS, |_| {
        for round in 0..rounds as u32 {
            (0..words).for_each(|word| count(&counts, word));
            counts.insert(words + round, 0);
            counts.remove(&(words + round));
        }
    });
    (0..words).all(|word| counts.get(&word) == Some(THREADS * rounds))
}

#[test]
fn words_counted_by_several_threads_are_counted_exactly() {
    let ways: [Count; 2] = [
        |counts, word| {
            counts.update_or_insert_with(word, |n| n + 1, || 1);
        },
        |counts, word| {
            counts.pin().update_or_insert_with(word, |n| n + 1, || 1);
        },
    ];
    for count in ways {
        assert!(counts_are_exact(Hashes::Good, 50, count));
        assert!(counts_are_exact(Hashes::Constant, 5, count));
    }
    let get_then_insert: Count = |counts, word| {
        let n = counts.get(&word).unwrap_or(0);
        counts.insert(word, n + 1);
    };
    until_caught(|| !counts_are_exact(Hashes::Good, 5, get_then_insert));
}

#[test]
fn an_update_or_insertion_runs_the_closure_that_fits_and_returns_the_new_value() {
    let map = HashMap::new();
    for pinned in [false, true] {
        let call = |update: &dyn Fn(&u32) -> u32, insert: &dyn Fn() -> u32| match pinned {
            false => map.update_or_insert_with("a", update, insert),
            true => *map.pin().update_or_insert_with("a", update, insert),
        };
        assert_eq!(call(&|_| unreachable!(), &|| 1), 1);
        assert_eq!(call(&|n| n + 1, &|| unreachable!()), 2);
        assert_eq!(map.remove("a"), Some(2));
    }
}

/// What was decided on an entry is not done to its successor, nor to its absence.
#[test]
fn an_interfering_closure_of_an_update_or_insertion_is_asked_again() {
    let map = HashMap::from([("a", 1)]);
    let inserted = map.update_or_insert_with(
        "a",
        |n| {
            map.remove("a");
            n + 1
        },
        || 10,
    );
    assert_eq!((inserted, map.get("a")), (10, Some(10)));
    map.remove("a");
    let calls = Cell::new(0);
    let insert = || {
        calls.set(calls.get() + 1);
        map.insert("a", 5);
        10
    };
    assert_eq!(map.update_or_insert_with("a", |n| n + 1, insert), 6);
    assert_eq!(calls.get(), 1);
}

// ---- Borrowed keys ---------------------------------------------------------------------------------------------

#[test]
fn an_owned_key_is_made_only_if_it_is_absent_and_its_value_could_be_made() {
    let ledger = Ledger::new();
    let map = Map::default();
    // The number of the value, or that the closure fails; and whether it ran.
    let ask = |pinned: bool, value: Result<u32, ()>| {
        let (probe, ran) = (ledger.probe(1, 0), Cell::new(false));
        let make = || {
            ran.set(true);
            value.map(|number| ledger.value(number))
        };
        let number = match pinned {
            false => map
                .get_or_try_insert_ref_with(&probe, make)
                .map(|v| v.number()),
            true => map
                .pin()
                .get_or_try_insert_ref_with(&probe, make)
                .map(|v| v.number()),
        };
        (number, ran.get())
    };
    for pinned in [false, true] {
        let made = ledger.made();
        assert_eq!(ask(pinned, Err(())), (Err(()), true));
        assert_eq!((ledger.made(), map.len()), (made, 0));
        assert_eq!(ask(pinned, Ok(7)), (Ok(7), true));
        assert_eq!(ask(pinned, Ok(8)), (Ok(7), false));
        assert_eq!(ask(pinned, Err(())), (Ok(7), false));
        map.remove(&1);
    }
    let pinned = map.pin();
    assert_eq!(pinned.get_or_default_ref(&ledger.probe(2, 0)).number(), 0);
    let made = ledger.made();
    assert_eq!(pinned.get_or_default_ref(&ledger.probe(2, 0)).number(), 0);
    assert_eq!(map.get_or_default_ref(&ledger.probe(2, 1)).number(), 0);
    assert_eq!(ledger.made(), made, "a key was made for nothing");
    drop(pinned);
    assert_eq!(map.get_or_default_ref(&ledger.probe(3, 5)).number(), 0);
    assert_eq!(map.get_key_value(&3).map(|(key, _)| key.label()), Some(5));
    drop(map);
    ledger.assert_balanced();
}

#[test]
fn all_who_try_with_a_borrowed_key_are_given_the_value_that_settled() {
    let keys: Vec<_> = (0..size(4_000)).map(|key| key.to_string()).collect();
    let map: HashMap<String, Option<usize>> = HashMap::new();
    let given = race(THREADS, |thread| {
        let ask = |key: &String| match thread % 4 {
            0 => map.get_or_try_insert_ref_with(key.as_str(), || Ok::<_, ()>(Some(thread))),
            1 => map
                .pin()
                .get_or_try_insert_ref_with(key.as_str(), || Ok(Some(thread)))
                .copied(),
            2 => Ok(map.get_or_default_ref(key.as_str())),
            _ => Ok(*map.pin().get_or_default_ref(key.as_str())),
        };
        keys.iter().map(ask).collect::<Vec<_>>()
    });
    assert!(given.iter().all(|values| *values == given[0]));
    assert_eq!(map.len(), keys.len());
}

// ---- Pins ------------------------------------------------------------------------------------------------------

/// Removes an entry and says whether its value is dropped within so many calls of `flush`.
fn is_dropped_within(flushes: Option<usize>) -> bool {
    let (map, value) = (HashMap::new(), Arc::new(()));
    map.insert((), Arc::clone(&value));
    map.remove(&());
    for _ in 0..flushes.unwrap_or(usize::MAX) {
        map.flush();
        if Arc::strong_count(&value) == 1 {
            return true;
        }
        // Tests beside this one may be pinned for a while.
        thread::yield_now();
    }
    false
}

#[test]
fn a_closure_that_makes_a_value_to_be_cloned_keeps_nothing_from_being_dropped() {
    let _watchdog = watchdog::start();
    let map: HashMap<String, bool> = HashMap::new();
    let key = |n: u32| n.to_string();
    let make = || is_dropped_within(None);
    assert!(map.get_or_insert_with(key(0), make));
    assert!(map.get_or_insert_with_key(key(1), |_| make()));
    assert!(map.get_or_insert_ref_with(key(2).as_str(), make));
    assert_eq!(
        map.get_or_try_insert_with(key(3), || Ok::<_, ()>(make())),
        Ok(true)
    );
    assert_eq!(
        map.get_or_try_insert_ref_with(key(4).as_str(), || Ok::<_, ()>(make())),
        Ok(true)
    );
    assert_eq!(map.try_insert_with(key(5), make), Ok(true));
    assert_eq!(map.len(), 6);
    // On the face that lends, the thread stays pinned.
    let make = || is_dropped_within(Some(10));
    assert!(!map.pin().get_or_insert_with(key(6), make));
}
