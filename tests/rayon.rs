//! Maps and sets in rayon's iterators: nothing is lost or doubled, and the work is split.
#![cfg(all(feature = "rayon", not(any(loom, shuttle))))]

mod support;

use std::collections::{BTreeMap, BTreeSet, HashSet as Std};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quince::{HashMap, HashSet};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use support::hashers::Hashes;
use support::ledger::Ledger;
use support::ops::Map;
use support::{Stop, race, size, watchdog};

const THREADS: usize = 4;

/// So many threads, however many cores there are.
fn pool() -> ThreadPool {
    ThreadPoolBuilder::new()
        .num_threads(THREADS)
        .build()
        .expect("threads")
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items
}

#[test]
fn every_entry_is_shown_once_in_every_way() {
    let pool = pool();
    for hashes in Hashes::HONEST {
        for len in [0, 1, 7, 100, 3_000] {
            let all: Vec<_> = (0..len).map(|k| (k, k * k)).collect();
            let keys: Vec<_> = (0..len).collect();
            let mut map = HashMap::<u32, u32, Hashes>::with_hasher(hashes);
            pool.install(|| map.par_extend(all.clone()));
            assert_eq!(map.len(), all.len());
            pool.install(|| {
                assert_eq!(sorted(map.par_iter().collect()), all);
                assert_eq!(sorted(map.par_map(|&k, &v| (k, v)).collect()), all);
                let shown = Mutex::new(Vec::new());
                map.par_for_each(|&k, &v| shown.lock().unwrap().push((k, v)));
                assert_eq!(sorted(shown.into_inner().unwrap()), all);
                map.par_iter_mut().for_each(|(_, v)| *v += 1);
                map.par_iter_mut().for_each(|(_, v)| *v -= 1);
                assert_eq!(sorted(map.into_par_iter().collect()), all);

                let set: HashSet<u32, Hashes> = keys.par_iter().copied().collect();
                assert_eq!(sorted(set.par_iter().collect()), keys);
                assert_eq!(sorted(set.par_map(|&k| k).collect()), keys);
                let shown = Mutex::new(Vec::new());
                set.par_for_each(|&k| shown.lock().unwrap().push(k));
                assert_eq!(sorted(shown.into_inner().unwrap()), keys);
                assert_eq!(sorted(set.into_par_iter().collect()), keys);
            });
        }
    }
}

/// How many entries each piece had.
fn pieces(map: &HashMap<u32, u32>) -> Vec<usize> {
    let count = |n, _| n + 1;
    pool().install(|| map.par_iter().fold(|| 0, count).collect())
}

#[test]
fn the_work_is_split_into_pieces_of_about_the_same_size() {
    let map: HashMap<u32, u32> = (0..10_000).map(|k| (k, k)).collect();
    let pieces = pieces(&map);
    assert_eq!(pieces.iter().sum::<usize>(), 10_000);
    assert!(pieces.len() >= THREADS, "{pieces:?}");
    assert!(pieces.iter().all(|&n| n < 10_000 / 2), "{pieces:?}");
}

#[test]
fn a_few_entries_are_split_too() {
    let map: HashMap<u32, u32> = (0..100).map(|k| (k, k)).collect();
    assert!(pieces(&map).len() >= THREADS);
}

/// Would hang if one thread had to do it all.
#[test]
fn threads_work_on_one_map_at_the_same_time() {
    let _watchdog = watchdog::start();
    let map: HashMap<u32, u32> = (0..1_000).map(|k| (k, k)).collect();
    let threads = Mutex::new(Std::new());
    pool().install(|| {
        map.par_for_each(|_, _| {
            threads.lock().unwrap().insert(thread::current().id());
            while threads.lock().unwrap().len() < 2 {
                thread::yield_now();
            }
        });
    });
}

#[test]
fn who_has_found_enough_stops() {
    let map: HashMap<u32, u32> = (0..10_000).map(|k| (k, k)).collect();
    let calls = AtomicUsize::new(0);
    let found = pool().install(|| {
        let key = |&key: &u32, _: &u32| {
            calls.fetch_add(1, Ordering::Relaxed);
            key
        };
        map.par_map(key).find_any(|_| true)
    });
    assert!(found.is_some());
    assert!(calls.into_inner() < 1_000);
}

#[test]
fn a_key_that_stays_is_shown_once_while_others_come_and_go() {
    const STAYING: u32 = 2_000;
    let map: HashMap<u32, u32> = (0..STAYING).map(|k| (k, k)).collect();
    let (pool, stop) = (pool(), Stop::default());
    race(3, |thread| {
        if thread == 0 {
            let _stop = stop.on_drop();
            for _ in 0..size(800) {
                let mut shown: Vec<_> = pool.install(|| map.par_map(|&k, _| k).collect());
                shown.sort_unstable();
                assert!(shown.is_sorted_by(|a, b| a < b), "a key is shown twice");
                shown.retain(|&k| k < STAYING);
                assert!(shown.into_iter().eq(0..STAYING), "a key is missing");
            }
        } else {
            // Grows and shrinks all the while.
            let own = |n: u32| STAYING + 2 * n + (thread as u32 % 2);
            while !stop.is_set() {
                (0..20_000)
                    .take_while(|_| !stop.is_set())
                    .for_each(|n| _ = map.insert(own(n), n));
                (0..20_000).for_each(|n| _ = map.remove(&own(n)));
                map.shrink_to_fit();
            }
        }
    });
}

#[test]
fn of_equal_keys_one_stays_with_its_own_value() {
    let entries = || (0..20_000u32).into_par_iter().map(|n| (n % 1_000, n));
    let map: HashMap<u32, u32> = pool().install(|| entries().collect());
    let entries: BTreeMap<_, _> = map.iter().collect();
    assert!(entries.keys().copied().eq(0..1_000));
    assert!(entries.into_iter().all(|(key, n)| n % 1_000 == key));

    let mut shared = &HashSet::<u32>::new();
    let values = (0..20_000u32).into_par_iter().map(|n| n % 1_000);
    pool().install(|| shared.par_extend(values));
    assert!(
        shared
            .iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .eq(0..1_000)
    );
}

#[test]
fn a_panic_in_one_piece_reaches_the_caller_and_costs_no_entry() {
    let ledger = Ledger::new();
    let map = Map::default();
    (0..1_000).for_each(|k| _ = map.insert(ledger.key(k, 0), ledger.value(k)));
    let panics =
        || map.par_for_each(|key, _| assert_ne!(key.number(), 500, "expected by the test"));
    assert!(catch_unwind(AssertUnwindSafe(|| pool().install(panics))).is_err());
    assert_eq!(map.par_iter().count(), 1_000);
    drop(map);
    ledger.assert_balanced();
}
