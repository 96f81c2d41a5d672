//! Models of single ordering edges and of what takes hand-made tables, run by loom over every interleaving up to a bound
//! of preemptions. Models of the public operations are in `tests/loom.rs`.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --lib -- --nocapture
//! ```
//!
//! Each model names the edges (see `raw`) without which it fails. Each has a bound of its own, which
//! `LOOM_MAX_PREEMPTIONS` replaces.

use super::{
    RawMap, Session,
    bucket::SLOTS,
    migrate::Change,
    store::{Location, Run, Store},
    stripe::Stripes,
    table::Table,
    tag::{HASH_BITS, Hash},
};
use crate::sync::{Watched, epoch, stub_epoch::reclaim};
use loom::thread;
use std::sync::{Arc, Mutex};

/// Runs `model` in each interleaving; says how many there were.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let executions = Arc::new(Mutex::new(0u64));
    let counter = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 10_000;
    builder.check(move || {
        *counter.lock().unwrap() += 1;
        model();
    });
    let test = std::thread::current();
    let name = test.name().unwrap_or("model");
    println!("{name}: {} executions", executions.lock().unwrap());
}

/// Runs all of `threads` at the same time on what `shared` has.
fn run<T: Send + Sync + 'static>(shared: &Arc<T>, threads: &[fn(&T)]) {
    let (first, others) = threads.split_first().unwrap();
    let others: Vec<_> = others
        .iter()
        .map(|&run| {
            let shared = Arc::clone(shared);
            thread::spawn(move || run(&shared))
        })
        .collect();
    first(shared);
    others.into_iter().for_each(|thread| thread.join().unwrap());
}

type Map = RawMap<u64, u64>;

/// Ten times one of four homes, plus one of four tags: keys 1 and 6 have the same hash.
fn hash(key: u64) -> Hash {
    let (home, tag) = (key as u32 / 10, key as u32 % 5);
    assert!(home < 4 && tag > 0);
    Hash::from_bits(home << (HASH_BITS - 2) | tag)
}

fn find<V>(map: &RawMap<u64, V>, key: u64) -> Option<u64> {
    let session = map.pin();
    let found = session.find(hash(key), |k| *k == key);
    found.map(|(key, _)| *key)
}

fn insert(map: &Map, key: u64) {
    map.pin().insert(hash(key), key, key);
}

fn remove(map: &Map, key: u64) -> bool {
    let session = map.pin();
    let removed = session.remove_if(hash(key), |k| *k == key, |_, _| true);
    removed.is_some()
}

/// A map with a first table of `1 << bits` buckets and these entries.
fn map(bits: u32, keys: &[u64]) -> Map {
    let map = Map::new();
    let session = map.pin();
    map.install_root(Table::new(bits), &session.guard);
    for &key in keys {
        session.place_uncounted(hash(key), key, key);
    }
    drop(session);
    map
}

/// The tables from the root on.
fn tables<'s>(session: &'s Session<'_, u64, u64>) -> Vec<&'s Table> {
    std::iter::successors(session.root(), |table| table.next(&session.guard)).collect()
}

/// Lets the newest table have a next one of `1 << bits` buckets.
fn grow(map: &Map, bits: u32) {
    let session = map.pin();
    let newest = session.newest().unwrap();
    newest.install(Table::new(bits), &session.guard);
}

/// Moves the path of `key` from the table which is the `nth` now.
fn move_path(map: &Map, nth: usize, key: u64) {
    let session = map.pin();
    if let Some(table) = tables(&session).get(nth) {
        session.move_path(table, hash(key));
    }
}

/// Each of `keys` is found, and nothing else is in the map.
fn assert_entries(map: &Map, keys: &[u64]) {
    let session = map.pin();
    let mut seen: Vec<_> = super::Iter::new(&session).map(|(key, _)| *key).collect();
    seen.sort_unstable();
    assert_eq!(seen, keys);
    keys.iter()
        .for_each(|&key| assert_eq!(find(map, key), Some(key)));
}

/// Runs all of `threads` at the same time on `map`, which then has the entries `keys`.
fn race(map: Map, threads: &[fn(&Map)], keys: &[u64]) {
    let map = Arc::new(map);
    run(&map, threads);
    assert_entries(&map, keys);
}

/// E10: a lease against the next one, and against a flush.
#[test]
fn a_stripe_is_seen_as_its_last_holder_left_it() {
    explore(3, || {
        let stripes = Arc::new(Stripes::new());
        let push: fn(&Stripes) = |stripes| {
            let guard = epoch::pin();
            let lease = stripes.lease(&guard);
            lease.local(|local| local.free.push(Location::from_bits(1 << 25)));
        };
        push(&stripes);
        run(
            &stripes,
            &[push, push, |stripes| {
                let guard = epoch::pin();
                for lease in stripes.each_free(&guard) {
                    lease.local(|local| local.free.clear());
                }
            }],
        );
    });
}

/// E7, of the list of stripes and what it points at.
#[test]
fn a_stripe_is_found_ready() {
    explore(3, || {
        let stripes = Arc::new(Stripes::new());
        let lease: fn(&Stripes) = |stripes| {
            let guard = epoch::pin();
            let lease = stripes.lease(&guard);
            lease.count_inserted();
            assert!(stripes.counts(&guard).stripes > 0);
        };
        run(&stripes, &[lease, lease]);
        assert_eq!(stripes.counts(&epoch::pin()).live, 2);
    });
}

/// What a session does with a run of free nodes: fills one, empties it again.
fn use_a_node(store: &Store<u64, u64>) -> Run {
    let guard = epoch::pin();
    let mut run = store.take_run(&guard);
    let location = run.pop().unwrap();
    // SAFETY: a free node's chunk stays.
    let node = unsafe { store.node(location, &guard) };
    // SAFETY: the node was free, and is this thread's.
    unsafe { node.write(1, 1) };
    // SAFETY: as above.
    unsafe { node.take() };
    store.give(location, &guard);
    run
}

/// E8.
#[test]
fn a_free_node_is_taken_after_its_last_user_is_done() {
    explore(3, || {
        let store = Arc::new(Store::new());
        let take_and_give: fn(&Store<u64, u64>) = |store| {
            let rest = use_a_node(store);
            store.give_run(rest, &epoch::pin());
        };
        take_and_give(&store);
        run(&store, &[take_and_give, take_and_give]);
    });
}

/// E7, of the chunk directory.
#[test]
fn a_chunk_is_found_ready() {
    explore(3, || {
        let store = Arc::new(Store::new());
        let take: fn(&Store<u64, u64>) = |store| {
            use_a_node(store);
        };
        run(&store, &[take, take]);
    });
}

/// E7, and that a version stays as long as a guard.
#[test]
fn an_old_chunk_directory_is_freed_after_its_readers() {
    explore(4, || {
        reclaim();
        let store = Arc::new(Store::new());
        use_a_node(&store);
        run(
            &store,
            &[
                |store| assert!(store.extent(&epoch::pin()).nodes >= 2),
                |store| store.reserve(3, &epoch::pin()),
            ],
        );
    });
}

/// E9.
#[test]
fn a_retired_node_is_dropped_after_its_last_reader() {
    explore(4, || {
        reclaim();
        let map = RawMap::<u64, Watched<u64>>::new();
        let replace: fn(&RawMap<_, _>) = |map| {
            let mut session = map.pin();
            session.insert(hash(1), 1, Watched::new(1));
            session.flush();
        };
        replace(&map);
        run(
            &Arc::new(map),
            &[
                |map| {
                    let session = map.pin();
                    let (_, value) = session.find(hash(1), |_| true).unwrap();
                    assert_eq!(**value, 1);
                },
                replace,
            ],
        );
    });
}

/// E5, and that a table stays as long as a guard.
#[test]
fn an_old_table_is_freed_after_its_readers() {
    explore(4, || {
        reclaim();
        let map = map(0, &[1]);
        grow(&map, 1);
        run(
            &Arc::new(map),
            &[
                |map| assert_eq!(find(map, 1), Some(1)),
                |map| map.pin().after(Change::Filled),
            ],
        );
    });
}

/// E5, of the first table.
#[test]
fn the_first_table_is_found_ready() {
    explore(3, || {
        let map = Arc::new(Map::new());
        let look: fn(&Map) = |map| {
            assert!(!map.pin().first_table().path_is_moved(hash(1)));
        };
        run(&map, &[look, look]);
    });
}

/// E4.
#[test]
fn the_next_table_is_found_ready() {
    explore(2, || {
        let map = map(0, &[1]);
        let leave: fn(&Map) = |map| move_path(map, 0, 1);
        race(map, &[leave, leave], &[1]);
    });
}

/// E3, of the frontier: who promotes the next table has the copies of the others.
#[test]
fn a_promoted_table_has_all_copies() {
    explore(3, || {
        let map = Arc::new(map(1, &[1, 21]));
        grow(&map, 1);
        run(
            &map,
            &[
                |map| {
                    map.pin().after(Change::Filled);
                    assert_eq!([1, 21].map(|key| find(map, key)), [Some(1), Some(21)]);
                },
                |map| {
                    map.pin().after(Change::Filled);
                    assert_eq!([1, 21].map(|key| find(map, key)), [Some(1), Some(21)]);
                },
            ],
        );
    });
}

/// E1, by the copier's freeze.
#[test]
fn a_word_that_was_published_just_before_it_was_frozen_is_copied_with_its_node() {
    explore(3, || {
        let map = map(0, &[]);
        grow(&map, 0);
        race(
            map,
            &[
                |map| insert(map, 1),
                |map| {
                    move_path(map, 0, 1);
                    find(map, 1);
                },
            ],
            &[1],
        );
    });
}

/// E1, of the word that an inserter meets: who finds a slot filled does not insert behind it.
#[test]
fn one_key_is_not_inserted_twice_at_the_end_of_a_bucket() {
    explore(3, || {
        let map = map(1, &[1]);
        race(map, &[|map| insert(map, 2), |map| insert(map, 2)], &[1, 2]);
    });
}

/// E6, I10: two copy the entry, one of whom then removes it.
#[test]
fn a_late_copier_sees_that_its_entry_was_removed() {
    explore(3, || {
        let map = map(0, &[1]);
        grow(&map, 0);
        race(
            map,
            &[
                |map| {
                    move_path(map, 0, 1);
                    find(map, 1);
                },
                |map| {
                    assert!(remove(map, 1));
                    assert_eq!(find(map, 1), None);
                },
            ],
            &[],
        );
    });
}

/// E3, E6, I10: the entry is copied, removed, and its tombstone left behind in a table that is moved on.
#[test]
fn a_late_copier_sees_what_was_removed_two_tables_on() {
    explore(2, || {
        let map = map(0, &[1]);
        grow(&map, 0);
        grow(&map, 0);
        race(
            map,
            &[
                |map| move_path(map, 0, 1),
                |map| {
                    assert!(remove(map, 1));
                },
                |map| {
                    move_path(map, 1, 1);
                },
            ],
            &[],
        );
    });
}

/// I4: the next table is full before the older migration is finished, and has to be moved on first.
#[test]
fn what_does_not_fit_into_a_full_next_table_goes_into_the_one_behind() {
    explore(1, || {
        let map = map(1, &[1, 21]);
        grow(&map, 0);
        move_path(&map, 0, 1);
        map.pin().place_uncounted(hash(2), 2, 2);
        assert_eq!(map.pin().newest().unwrap().count_live(), SLOTS);
        let map = Arc::new(map);
        run(
            &map,
            &[
                |map| move_path(map, 0, 21),
                |map| {
                    assert!(remove(map, 21));
                    assert_eq!(find(map, 21), None);
                },
            ],
        );
        assert_entries(&map, &[1, 2]);
    });
}

/// I11: while the first key goes, one inserter of the second key sees its slot live and another one sees it free.
#[test]
fn a_key_is_not_inserted_both_in_a_revived_slot_and_behind_it() {
    explore(3, || {
        let map = map(1, &[1]);
        race(
            map,
            &[
                |map| insert(map, 6),
                |map| {
                    assert!(remove(map, 1));
                    insert(map, 6);
                },
            ],
            &[6],
        );
    });
}

/// I11, with a third thread that inserts the first key again.
#[test]
fn keys_of_one_hash_come_and_go_and_each_is_there_once() {
    explore(1, || {
        let map = Arc::new(map(1, &[1]));
        run(
            &map,
            &[
                |map| insert(map, 6),
                |map| {
                    remove(map, 1);
                },
                |map| insert(map, 1),
            ],
        );
        let entries: &[u64] = match find(&map, 1) {
            Some(_) => &[1, 6],
            None => &[6],
        };
        assert_entries(&map, entries);
    });
}

/// S5: one of two revives; the other one finds the entry.
#[test]
fn a_tombstone_is_revived_once() {
    explore(4, || {
        let map = Arc::new(map(1, &[]));
        insert(&map, 1);
        assert!(remove(&map, 1));
        run(
            &map,
            &[
                |map| insert(map, 1),
                |map| {
                    insert(map, 1);
                    assert_eq!(find(map, 1), Some(1));
                },
            ],
        );
        assert_entries(&map, &[1]);
        assert_eq!(map.len(), 1, "two insertions of one key");
    });
}

/// S4 against S5: what is revived is copied, and what is frozen is not revived.
#[test]
fn an_entry_that_is_revived_while_its_bucket_moves_is_not_lost() {
    explore(3, || {
        let map = map(0, &[1]);
        assert!(remove(&map, 1));
        grow(&map, 0);
        race(
            map,
            &[
                |map| insert(map, 1),
                |map| {
                    move_path(map, 0, 1);
                    find(map, 1);
                },
            ],
            &[1],
        );
    });
}

/// E6, I10: a late copier meets the tombstone of its entry, or another key in the slot.
#[test]
fn a_late_copier_revives_nothing() {
    explore(3, || {
        let map = map(0, &[1]);
        grow(&map, 0);
        race(
            map,
            &[
                |map| move_path(map, 0, 1),
                |map| {
                    assert!(remove(map, 1));
                    insert(map, 6);
                    assert_eq!([1, 6].map(|key| find(map, key)), [None, Some(6)]);
                },
            ],
            &[6],
        );
    });
}

/// S6 by copiers: two entries of one hash are copied, in any order, and one of them comes back.
#[test]
fn copies_of_one_hash_are_passed_as_entries_are() {
    explore(2, || {
        let map = map(0, &[1, 6]);
        grow(&map, 1);
        race(
            map,
            &[
                |map| move_path(map, 0, 1),
                |map| {
                    assert!(remove(map, 1));
                    insert(map, 1);
                    insert(map, 6);
                },
            ],
            &[1, 6],
        );
    });
}

/// A key that stays is found and seen once, one that comes and goes at most once, whatever slots they take.
#[test]
fn who_reads_while_a_key_of_the_same_hash_comes_and_goes_sees_each_once() {
    explore(3, || {
        let map = map(1, &[1, 6]);
        race(
            map,
            &[
                |map| {
                    remove(map, 1);
                    insert(map, 1);
                },
                |map| {
                    assert_eq!(find(map, 6), Some(6));
                    let session = map.pin();
                    let seen = super::Iter::new(&session).map(|(key, _)| *key);
                    let mut seen: Vec<_> = seen.collect();
                    seen.sort_unstable();
                    assert!(seen == [1, 6] || seen == [6], "{seen:?}");
                },
            ],
            &[1, 6],
        );
    });
}

/// Slots are read backwards: the key goes from the first slot, which was passed, to the second one, which was not.
#[test]
fn a_key_that_comes_back_in_a_later_slot_of_its_bucket_is_seen_once() {
    explore(3, || {
        let map = map(1, &[1, 6]);
        assert!(remove(&map, 6));
        race(
            map,
            &[
                |map| {
                    assert!(remove(map, 1));
                    insert(map, 1);
                },
                |map| assert!(super::Iter::new(&map.pin()).count() <= 1),
            ],
            &[1],
        );
    });
}
