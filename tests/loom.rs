//! Models of the table's protocols, run by loom over every interleaving up to a bound of preemptions. Those of single
//! ordering edges, and of what takes hand-made tables, are in `src/raw/models.rs`.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --lib --test loom -- --nocapture
//! ```
//!
//! Each model has a bound of its own, so that all of them together take two minutes; `LOOM_MAX_PREEMPTIONS` replaces it.
//! With one more they take an hour.
//!
//! Under loom a bucket has two slots and the first table one bucket, so that the second insertion already migrates, and
//! the epoch is a stub that frees nothing before the execution ends (`src/sync.rs`).
#![cfg(loom)]

mod support;

use quince::{HashMap, Operation};
use support::interleavings::{self, Hash};

type Map = HashMap<u64, u64, Hash>;

/// Runs `prepare` on an empty map, then `threads` at the same time, then `check` alone.
fn model(
    name: &str,
    preemptions: usize,
    prepare: impl Fn(&Map) + Sync + Send + 'static,
    threads: &'static [fn(&Map) -> u64],
    check: impl Fn(&Map, Vec<u64>) + Sync + Send + 'static,
) {
    let prepared = move || {
        let map = Map::default();
        prepare(&map);
        map
    };
    interleavings::model(name, preemptions, prepared, threads, check);
}

/// What a thread saw of a key; 0 for "absent".
fn get(map: &Map, key: u64) -> u64 {
    map.pin().get(&key).copied().unwrap_or(0)
}

#[test]
fn one_of_two_inserters_of_a_key_wins_while_the_table_moves() {
    model(
        "two inserters of a key, one migration",
        2,
        |map| {
            map.insert(1, 10);
        },
        &[
            |map| map.get_or_insert(2, 20),
            |map| {
                let winner = map.get_or_insert(2, 21);
                assert_eq!(get(map, 1), 10, "a key that stays was not found");
                winner
            },
        ],
        |map, results| {
            let winner = get(map, 2);
            assert!(winner == 20 || winner == 21);
            assert_eq!(results, [winner, winner], "two values for one key");
            assert_eq!((map.len(), map.pin().iter().count()), (2, 2));
        },
    );
}

#[test]
fn inserters_of_two_keys_lose_none_while_the_table_moves() {
    model(
        "two inserters of two keys, the first table and the next",
        1,
        |_| {},
        &[
            |map| map.get_or_insert(2, 20),
            |map| map.get_or_insert(3, 30),
        ],
        |map, _| {
            assert_eq!([2, 3].map(|key| get(map, key)), [20, 30]);
            assert_eq!(map.pin().iter().count(), 2);
        },
    );
}

#[test]
fn what_was_inserted_before_is_seen_after() {
    model(
        "insert, then insert another; read in the opposite order",
        4,
        |_| {},
        &[
            |map| {
                map.insert(1, 10);
                map.insert(2, 20);
                0
            },
            |map| {
                let second = get(map, 2);
                let first = get(map, 1);
                assert!(
                    second == 0 || first == 10,
                    "saw the second insertion, not the first"
                );
                0
            },
        ],
        |map, _| assert_eq!([1, 2].map(|key| get(map, key)), [10, 20]),
    );
}

#[test]
fn what_lies_behind_a_full_bucket_is_found_although_its_last_inserter_was_stopped() {
    model(
        "two inserters, one home bucket with room for one",
        2,
        |map| {
            // Four buckets: odd keys have the same home.
            map.reserve(4);
            map.insert(1, 10);
        },
        &[
            |map| map.get_or_insert(3, 30),
            |map| {
                map.insert(5, 50);
                assert_eq!(get(map, 5), 50, "inserted, and not found");
                50
            },
        ],
        |map, _| assert_eq!([1, 3, 5].map(|key| get(map, key)), [10, 30, 50]),
    );
}

#[test]
fn a_removed_key_is_not_resurrected_by_a_late_copier() {
    model(
        "remove against migration",
        2,
        |map| {
            map.insert(1, 10);
        },
        &[
            |map| map.get_or_insert(2, 20),
            |map| {
                let removed = map.remove(&1).unwrap_or(0);
                assert_eq!(get(map, 1), 0, "removed, and there again");
                removed
            },
        ],
        |map, results| {
            assert_eq!(results, [20, 10]);
            assert_eq!([1, 2].map(|key| get(map, key)), [0, 20]);
            assert_eq!((map.len(), map.pin().iter().count()), (1, 1));
        },
    );
}

#[test]
fn each_value_is_removed_once() {
    model(
        "two removers, one of which inserts again",
        2,
        |map| {
            map.insert(1, 10);
        },
        &[
            |map| map.remove(&1).unwrap_or(0),
            |map| {
                let removed = map.remove(&1).unwrap_or(0);
                map.insert(1, 11);
                removed
            },
        ],
        |map, results| {
            let mut taken = vec![results[0], results[1], get(map, 1)];
            taken.retain(|&value| value != 0);
            taken.sort_unstable();
            assert_eq!(taken, [10, 11]);
        },
    );
}

#[test]
fn no_update_is_lost_while_the_table_moves() {
    model(
        "two updates and a migration",
        2,
        |map| {
            map.insert(1, 10);
        },
        &[
            |map| map.update(&1, |value| value + 1).unwrap(),
            |map| {
                map.update(&1, |value| value + 1);
                map.get_or_insert(2, 20)
            },
        ],
        |map, _| assert_eq!([1, 2].map(|key| get(map, key)), [12, 20]),
    );
}

#[test]
fn a_key_that_is_only_replaced_is_never_absent() {
    model(
        "replace, migrate, read",
        1,
        |map| {
            map.insert(1, 10);
        },
        &[
            |map| map.insert(1, 11).unwrap(),
            |map| map.get_or_insert(2, 20),
            |map| {
                let (before, after) = (get(map, 1), get(map, 1));
                assert!(before == 10 || before == 11);
                assert!(
                    after == 11 || (after == 10 && before == 10),
                    "went back in time"
                );
                0
            },
        ],
        |map, _| assert_eq!([1, 2].map(|key| get(map, key)), [11, 20]),
    );
}

#[test]
fn compute_decides_on_what_is_there() {
    model(
        "compute against compute",
        3,
        |map| {
            map.insert(1, 10);
        },
        &[
            |map| {
                map.compute(1, |entry| match entry {
                    Some((_, value)) => Operation::<_, ()>::Insert(value * 2),
                    None => Operation::Insert(1),
                });
                0
            },
            |map| {
                map.compute(1, |_| Operation::<u64, ()>::Remove);
                0
            },
        ],
        |map, _| assert!(matches!(get(map, 1), 0 | 1)),
    );
}
