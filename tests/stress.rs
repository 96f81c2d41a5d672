//! What several threads may rely on. Where the same task has a naive solution, it stands beside the test as a
//! broken twin, and the same check must find it out.
#![cfg(not(loom))]

mod support;

use std::hint;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use quince::{Computed, HashMap, Operation};

use support::hashers::Hashes;
use support::ledger::{Key, Ledger, Value};
use support::ops::{self, Map, View};
use support::spin_barrier::SpinBarrier;
use support::{Stop, race, size, watchdog};

const THREADS: usize = 8;

/// Maps start empty, so they grow all the while. With the constant hasher keys are few, as each operation walks
/// past all of them.
fn with_hashers(keys: usize, check: impl Fn(Hashes, u32)) {
    check(Hashes::Good, size(keys) as u32);
    check(Hashes::Constant, size(keys / 50) as u32);
}

/// Runs a broken twin until the check finds it out. That it never does is for the watchdog to say.
fn until_caught(mut caught: impl FnMut() -> bool) {
    let _watchdog = watchdog::start();
    while !caught() {}
}

/// While nobody writes: each key is there once, and `len` is their number.
fn assert_consistent(map: &Map<'_>) {
    let mut keys: Vec<_> = map.keys().map(|key| key.number()).collect();
    assert_eq!(map.len(), keys.len(), "len against iteration");
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(map.len(), keys.len(), "a key is there twice");
    assert!(
        keys.iter().all(|key| map.contains_key(key)),
        "a key is not found"
    );
}

// ---- Insertion: one winner -------------------------------------------------------------------------------------

/// Inserts and tells whether it has won.
type Insert = for<'l> fn(&Map<'l>, Key<'l>, Value<'l>) -> bool;

/// All threads insert all keys, in the same order. Returns how many were told to have won, by key.
fn winners(hashes: Hashes, keys: u32, insert: Insert) -> Vec<u32> {
    let ledger = Ledger::new();
    let map = Map::with_hasher(hashes);
    let winners: Vec<_> = (0..keys).map(|_| AtomicU32::new(0)).collect();
    race(THREADS, |thread| {
        for (k, winners) in (0..).zip(&winners) {
            let won = insert(&map, ledger.key(k, 0), ledger.value(thread as u32));
            winners.fetch_add(won.into(), Ordering::Relaxed);
        }
    });
    assert_eq!(map.len(), keys as usize);
    assert_consistent(&map);
    drop(map);
    ledger.assert_balanced();
    winners.into_iter().map(AtomicU32::into_inner).collect()
}

#[test]
fn of_all_that_insert_a_key_one_wins() {
    let ways: [Insert; 7] = [
        |map, key, value| map.try_insert(key, value).is_ok(),
        |map, key, value| map.pin().try_insert_with(key, || value).is_ok(),
        |map, key, value| map.pin().insert(key, value).is_none(),
        |map, key, value| {
            let mine = value.number();
            map.get_or_insert(key, value).number() == mine
        },
        |map, key, value| {
            let mine = value.number();
            map.pin().get_or_insert_with(key, || value).number() == mine
        },
        |map, key, value| {
            let mine = value.number();
            let settled = map
                .pin()
                .get_or_try_insert_with(key, || Ok::<_, ()>(value))
                .map(Value::number);
            settled == Ok(mine)
        },
        |map, key, value| {
            let pinned = map.pin();
            let computed = pinned.compute(key, |entry| match entry {
                None => Operation::Insert(value.clone()),
                Some(_) => Operation::Abort(()),
            });
            matches!(computed, Computed::Inserted(_))
        },
    ];
    for insert in ways {
        with_hashers(8_000, |hashes, keys| {
            assert!(winners(hashes, keys, insert).iter().all(|&n| n == 1));
        });
    }
    let check_then_insert: Insert = |map, key, value| {
        let absent = !map.contains_key(&key);
        thread::yield_now();
        if absent {
            map.insert(key, value);
        }
        absent
    };
    until_caught(|| {
        let winners = winners(Hashes::Good, 500, check_then_insert);
        winners.iter().any(|&n| n != 1)
    });
}

#[test]
fn what_lost_the_race_for_a_key_is_dropped_before_the_call_returns() {
    with_hashers(60_000, |hashes, keys| {
        let ledger = Ledger::new();
        let map = Map::with_hasher(hashes);
        race(THREADS, |_| {
            for k in 0..keys {
                let pinned = map.pin();
                match k % 3 {
                    0 => pinned.get_or_insert(ledger.key(k, 0), ledger.value(k)),
                    1 => pinned.get_or_insert_with(ledger.key(k, 0), || ledger.value(k)),
                    _ => pinned.get_or_insert_ref_with(&ledger.probe(k, 0), || ledger.value(k)),
                };
            }
        });
        // Nothing was removed, so nothing may wait to be dropped.
        assert_eq!(ledger.live(), 2 * keys);
        drop(map);
        ledger.assert_balanced();
    });
}

#[test]
fn a_closure_runs_once_a_call_at_most_and_never_if_the_key_is_there() {
    with_hashers(10_000, |hashes, keys| {
        let ledger = Ledger::new();
        let map = Map::with_hasher(hashes);
        race(THREADS, |_| {
            for k in 0..keys {
                let mut runs = 0;
                let make = || {
                    runs += 1;
                    ledger.value(k)
                };
                map.pin().get_or_insert_with(ledger.key(k, 0), make);
                assert!(runs <= 1);
                let never = || -> Value<'_> { panic!("the key is there") };
                map.pin().get_or_insert_with(ledger.key(k, 0), never);
                assert!(map.try_insert_with(ledger.key(k, 0), never).is_err());
                map.get_or_insert_ref_with(&ledger.probe(k, 0), never);
            }
        });
    });
}

/// Inserts if the key is absent, and returns the value there is.
type Settle = for<'p, 'm, 'l> fn(&'p View<'m, 'l>, Key<'l>, Value<'l>) -> &'p Value<'l>;

/// In each round all threads settle the same absent key. Returns whether they were always given the same value.
fn agree(hashes: Hashes, rounds: u32, settle: Settle) -> bool {
    let ledger = Ledger::new();
    let map = Map::with_hasher(hashes);
    let barrier = SpinBarrier::new(THREADS);
    let addresses = race(THREADS, |thread| {
        let round = |round| {
            let pinned = map.pin();
            barrier.wait();
            let settled = settle(&pinned, ledger.key(7, 0), ledger.value(round));
            let address = ptr::from_ref(settled).addr();
            // Pinned until all have theirs, so that equal addresses mean one value.
            barrier.wait();
            match thread {
                0 => drop(pinned.remove(&7)),
                // And the table grows under the next round.
                1 => drop(pinned.insert(ledger.key(100 + round, 0), ledger.value(0))),
                _ => {}
            }
            barrier.wait();
            address
        };
        (0..rounds).map(round).collect::<Vec<_>>()
    });
    addresses.iter().all(|others| *others == addresses[0])
}

#[test]
fn all_threads_are_given_the_one_value_that_settled() {
    let ways: [Settle; 3] = [
        |pinned, key, value| pinned.get_or_insert(key, value),
        |pinned, key, value| pinned.get_or_insert_with(key, || value),
        |pinned, key, value| match pinned.try_insert(key, value) {
            Ok(settled) => settled,
            Err(occupied) => occupied.current,
        },
    ];
    for settle in ways {
        with_hashers(600, |hashes, rounds| assert!(agree(hashes, rounds, settle)));
    }
    let check_then_insert: Settle = |pinned, key, value| {
        if !pinned.contains_key(&key) {
            thread::yield_now();
            pinned.insert(key.clone(), value);
        }
        pinned.get(&key).expect("just inserted")
    };
    until_caught(|| !agree(Hashes::Good, 500, check_then_insert));
}

#[test]
fn what_one_thread_inserted_another_finds_once_it_was_told() {
    /// Returns whether the consumer found all that was announced.
    fn handed_over(hashes: Hashes, keys: u32, announce_early: bool) -> bool {
        let ledger = Ledger::new();
        let map = Map::with_hasher(hashes);
        let announced = AtomicU32::new(0);
        let found = race(2, |thread| {
            if thread == 0 {
                for k in 0..keys {
                    if announce_early {
                        announced.store(k + 1, Ordering::Release);
                        thread::yield_now();
                    }
                    map.pin().get_or_insert(ledger.key(k, 0), ledger.value(k));
                    announced.store(k + 1, Ordering::Release);
                }
                return true;
            }
            let mut next = 0;
            let mut all = true;
            while next < keys {
                let until = announced.load(Ordering::Acquire);
                all &= (next..until).all(|k| map.contains_key(&k));
                next = until;
            }
            all
        });
        found.into_iter().all(|found| found)
    }
    with_hashers(100_000, |hashes, keys| {
        assert!(handed_over(hashes, keys, false))
    });
    until_caught(|| !handed_over(Hashes::Good, 500, true));
}

/// Each thread has keys of its own, and expects each to be there from its insertion to its removal.
#[test]
fn an_entry_is_there_until_it_is_removed_and_absent_after() {
    const WINDOW: u32 = 50;
    with_hashers(20_000, |hashes, keys| {
        let ledger = Ledger::new();
        let map = Map::with_hasher(hashes);
        race(THREADS, |thread| {
            let key = |n: u32| n * THREADS as u32 + thread as u32;
            for n in 0..keys {
                let k = key(n);
                assert!(!map.contains_key(&k));
                map.pin().get_or_insert(ledger.key(k, 0), ledger.value(n));
                let present = n.saturating_sub(WINDOW)..=n;
                assert!(present.rev().step_by(7).all(|n| {
                    let pinned = map.pin();
                    pinned.get(&key(n)).is_some_and(|value| value.number() == n)
                }));
                if let Some(old) = n.checked_sub(WINDOW) {
                    let removed = map.pin().remove(&key(old)).map(Value::number);
                    assert_eq!(removed, Some(old));
                    assert!(!map.contains_key(&key(old)));
                }
                if n % 1_000 == 0 {
                    map.reserve(2_000);
                    map.shrink_to_fit();
                }
            }
        });
        assert_consistent(&map);
        drop(map);
        ledger.assert_balanced();
    });
}

/// Two threads each hold what they have read of the other's key, and insert their own: neither waits.
#[test]
fn what_is_held_of_one_key_keeps_nobody_from_writing_another_or_the_same() {
    let map = HashMap::from([(0, 0), (1, 1)]);
    let barrier = SpinBarrier::new(2);
    race(2, |thread| {
        let (mine, other) = (thread, 1 - thread);
        for _ in 0..size(2_000) {
            let pinned = map.pin();
            let held = pinned.get(&other).expect("never removed");
            barrier.wait();
            pinned.insert(mine, mine);
            pinned.insert(other, other);
            for k in 2..100 {
                pinned.get_or_insert(k, k);
                assert_eq!(pinned.get(&k), Some(&k));
            }
            barrier.wait();
            pinned.retain(|&k, _| k < 2 || k % 2 == thread);
            assert_eq!(*held, other);
            barrier.wait();
        }
    });
    assert_eq!((map.get(&0), map.get(&1)), (Some(0), Some(1)));
}

// ---- Keys that stay --------------------------------------------------------------------------------------------

/// A map in which the keys below `staying` are there throughout.
#[derive(Clone, Copy)]
struct Scene {
    hashes: Hashes,
    staying: u32,
    /// How many other keys come and go at a time.
    batch: u32,
}

const SCENES: [Scene; 2] = [
    Scene {
        hashes: Hashes::Good,
        staying: 200,
        batch: 64,
    },
    Scene {
        hashes: Hashes::Constant,
        staying: 20,
        batch: 4,
    },
];

/// One of many turns of a thread that disturbs.
#[derive(Clone, Copy)]
struct Turn {
    scene: Scene,
    thread: u32,
    number: u32,
}

impl Turn {
    /// Keys that nobody else uses: the last 16 batches are there at a time.
    fn batch(self, age: u32) -> Range<u32> {
        let nth = (self.number.wrapping_sub(age)) % 1_000;
        let first = 1_000_000 * (self.thread + 1) + nth * self.scene.batch;
        first..first + self.scene.batch
    }

    /// One of the keys that stay.
    fn staying(self) -> u32 {
        (self.number * 7 + self.thread) % self.scene.staying
    }
}

type Disturb = for<'l> fn(&Map<'l>, &'l Ledger, Turn);

/// Checks what is to hold of the keys that stay, of which there are so many.
type Look = fn(&Map<'_>, u32) -> bool;

/// Some threads disturb until others have looked often enough. Returns whether they always liked what they saw.
fn watched(scene: Scene, looks: usize, disturb: Disturb, look: Look) -> bool {
    let ledger = Ledger::new();
    let map = Map::with_hasher(scene.hashes);
    for k in 0..scene.staying {
        map.insert(ledger.key(k, 0), ledger.value(k));
    }
    let stop = Stop::default();
    let liked = race(4, |thread| {
        if thread % 2 == 0 {
            let _stop = stop.on_drop();
            return (0..size(looks)).all(|_| look(&map, scene.staying));
        }
        let mut turn = Turn {
            scene,
            thread: thread as u32,
            number: 0,
        };
        while !stop.is_set() {
            disturb(&map, &ledger, turn);
            turn.number += 1;
        }
        true
    });
    assert_consistent(&map);
    drop(map);
    ledger.assert_balanced();
    liked.into_iter().all(|liked| liked)
}

/// The table grows, is purged of tombstones, shrinks and is made larger, over and over.
fn resize<'l>(map: &Map<'l>, ledger: &'l Ledger, turn: Turn) {
    for k in turn.batch(0) {
        map.get_or_insert(ledger.key(k, 0), ledger.value(k));
    }
    for k in turn.batch(16) {
        map.remove(&k);
    }
    match turn.number % 64 {
        16 => map.retain(|k, _| k.number() < turn.scene.staying),
        32 | 48 => map.shrink_to_fit(),
        40 => map.reserve(40 * turn.scene.batch as usize),
        _ => {}
    }
}

/// Besides that, the keys that stay are given new values.
fn replace<'l>(map: &Map<'l>, ledger: &'l Ledger, turn: Turn) {
    let k = turn.staying();
    let value = || ledger.value(k);
    let pinned = map.pin();
    match turn.number % 6 {
        0 => drop(pinned.insert(ledger.key(k, 0), value())),
        1 => drop(pinned.update(&k, |_| value())),
        2 => drop(pinned.get_and_update(&k, |_| value())),
        3 => drop(pinned.compute(ledger.key(k, 0), |_| Operation::<_>::Insert(value()))),
        4 => {
            let current = pinned.get(&k).expect("never removed");
            drop(pinned.replace_if_same(&k, current, value()));
        }
        _ => {
            let number = turn.number / 6;
            resize(map, ledger, Turn { number, ..turn });
        }
    }
}

/// The broken twin of both.
fn remove_and_insert<'l>(map: &Map<'l>, ledger: &'l Ledger, turn: Turn) {
    let k = turn.staying();
    map.remove(&k);
    thread::yield_now();
    map.insert(ledger.key(k, 0), ledger.value(k));
}

fn found(map: &Map<'_>, staying: u32) -> bool {
    let pinned = map.pin();
    let get = |k: u32| pinned.get(&k).is_some_and(|value| value.number() == k);
    (0..staying).all(|k| get(k) && map.contains_key(&k))
}

fn iterated(map: &Map<'_>, staying: u32) -> bool {
    let exactly_once = |seen: &mut dyn Iterator<Item = u32>| {
        let mut seen: Vec<_> = seen.filter(|&k| k < staying).collect();
        seen.sort_unstable();
        seen.into_iter().eq(0..staying)
    };
    exactly_once(&mut map.pin().iter().map(|(k, _)| k.number()))
        && exactly_once(&mut map.keys().map(|k| k.number()))
}

#[test]
fn a_key_that_stays_is_found_while_the_table_is_resized() {
    for scene in SCENES {
        assert!(watched(scene, 20_000, resize, found));
    }
}

#[test]
fn a_key_that_is_only_replaced_is_never_absent() {
    for scene in SCENES {
        assert!(watched(scene, 20_000, replace, found));
    }
    until_caught(|| !watched(SCENES[0], 1_000, remove_and_insert, found));
}

#[test]
fn an_iteration_sees_a_key_that_stays_exactly_once() {
    for scene in SCENES {
        assert!(watched(scene, 2_000, resize, iterated));
        assert!(watched(scene, 2_000, replace, iterated));
    }
    until_caught(|| !watched(SCENES[0], 1_000, remove_and_insert, iterated));
}

/// Also of keys that are removed while it lasts, and come back in another slot.
#[test]
fn an_iteration_sees_no_key_twice() {
    let look: Look = |map, _| {
        let mut seen: Vec<_> = map.keys().map(|key| key.number()).collect();
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        seen.len() == all
    };
    // With room for many tombstones a step of the iteration, which reads all keys of one hash, takes long.
    let disturb: Disturb = |map, ledger, turn| {
        if turn.number % 256 == 0 {
            map.reserve(4_000);
        }
        let k = turn.staying();
        map.remove(&k);
        map.insert(ledger.key(k, 0), ledger.value(k));
    };
    for scene in SCENES {
        assert!(watched(scene, 10_000, disturb, look));
    }
}

#[test]
fn an_iteration_of_a_map_that_is_given_its_first_table_sees_all_or_nothing() {
    let maps: Vec<HashMap<u32, u32>> = (0..size(8_000)).map(|_| HashMap::new()).collect();
    race(2, |thread| {
        for map in &maps {
            if thread == 0 {
                map.insert(1, 2);
            }
            let entries: Vec<_> = map.iter().collect();
            assert!(entries == [(1, 2)] || entries.is_empty() && thread == 1);
            assert!(thread == 1 || !map.is_empty());
        }
    });
}

#[test]
fn calls_on_the_whole_map_return_and_respect_the_keys_that_stay() {
    let look: Look = |map, staying| {
        map.reserve(100);
        map.shrink_to_fit();
        map.retain(|_, _| true);
        map.flush();
        assert!(!map.is_empty());
        assert!(map.len() >= staying as usize);
        hint::black_box(map == map);
        assert!(format!("{map:?}").len() > staying as usize);
        found(&map.clone(), staying)
    };
    for scene in SCENES {
        assert!(watched(scene, 200, resize, look));
    }
}

#[test]
fn a_reference_stays_valid_and_in_place_while_the_table_grows() {
    const HELD: u32 = 200;
    with_hashers(100_000, |hashes, keys| {
        let ledger = Ledger::new();
        let map = Map::with_hasher(hashes);
        let held = AtomicBool::new(false);
        let stop = Stop::default();
        race(3, |thread| {
            if thread == 0 {
                let _stop = stop.on_drop();
                while !held.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                for k in 0..keys {
                    map.insert(ledger.key(HELD + k, 0), ledger.value(k));
                    // Half of the keys are removed, and a few of these come back.
                    match k % HELD {
                        odd if odd % 2 == 0 => {}
                        odd if odd % 5 == 0 => {
                            drop(map.insert(ledger.key(odd, 0), ledger.value(0)))
                        }
                        odd => drop(map.remove(&odd)),
                    }
                }
            } else if thread == 1 {
                let pinned = map.pin();
                let references: Vec<_> = (0..HELD)
                    .map(|k| pinned.get_or_insert(ledger.key(k, 0), ledger.value(k)))
                    .collect();
                held.store(true, Ordering::Release);
                let mut last = false;
                while !last {
                    last = stop.is_set();
                    for (k, &value) in (0..).zip(&references) {
                        assert_eq!(value.number(), k);
                        if k % 2 == 0 {
                            assert!(pinned.get(&k).is_some_and(|now| ptr::eq(now, value)));
                        }
                    }
                }
            } else {
                while !stop.is_set() {
                    map.flush();
                    thread::yield_now();
                }
            }
        });
        drop(map);
        ledger.assert_balanced();
    });
}

// ---- Exact accounts --------------------------------------------------------------------------------------------

type Counters = HashMap<u32, Arc<AtomicU64>, Hashes>;

/// Every thread counts every key up, through the counter it is given. Returns the totals.
fn counted(hashes: Hashes, keys: u32, counter: fn(&Counters, u32) -> Arc<AtomicU64>) -> Vec<u64> {
    let map = Counters::with_hasher(hashes);
    race(THREADS, |_| {
        for k in 0..keys {
            counter(&map, k).fetch_add(1, Ordering::Relaxed);
        }
    });
    let total = |k| {
        map.get(&k)
            .map_or(0, |counter| counter.load(Ordering::Relaxed))
    };
    (0..keys).map(total).collect()
}

#[test]
fn counters_reached_through_insert_or_get_are_exact() {
    let ways: [fn(&Counters, u32) -> Arc<AtomicU64>; 4] = [
        |map, k| map.get_or_insert(k, Arc::default()),
        |map, k| map.get_or_insert_with(k, Arc::default),
        |map, k| map.get_or_default(k),
        |map, k| {
            map.pin()
                .get_or_insert_with_key(k, |_| Arc::default())
                .clone()
        },
    ];
    for counter in ways {
        with_hashers(60_000, |hashes, keys| {
            let totals = counted(hashes, keys, counter);
            assert!(totals.iter().all(|&total| total == THREADS as u64));
        });
    }
    until_caught(|| {
        let totals = counted(Hashes::Good, 500, |map, k| {
            map.get(&k).unwrap_or_else(|| {
                thread::yield_now();
                map.insert(k, Arc::default());
                map.get(&k).expect("just inserted")
            })
        });
        totals.iter().any(|&total| total != THREADS as u64)
    });
}

type Numbers = HashMap<u32, u64, Hashes>;

/// Adds one and returns what was there before.
type AddOne = fn(&Numbers, u32) -> u64;

/// Every thread adds one to a few keys many times. Returns whether each value was seen by one of them, once.
fn exact(hashes: Hashes, rounds: u32, add_one: AddOne) -> bool {
    const KEYS: u32 = 3;
    let map = Numbers::with_hasher(hashes);
    for k in 0..KEYS {
        map.insert(k, 0);
    }
    let seen = race(THREADS, |thread| {
        let mut seen = Vec::new();
        for round in 0..rounds {
            seen.extend((0..KEYS).map(|k| (k, add_one(&map, k))));
            // The table migrates meanwhile.
            map.insert(KEYS + round % 512 * THREADS as u32 + thread as u32, 0);
        }
        seen
    });
    let mut seen = seen.concat();
    seen.sort_unstable();
    let total = u64::from(rounds) * THREADS as u64;
    seen.into_iter()
        .eq((0..KEYS).flat_map(|k| (0..total).map(move |n| (k, n))))
}

#[test]
fn no_update_of_a_value_is_lost() {
    let ways: [AddOne; 4] = [
        |map, k| map.update(&k, |n| n + 1).expect("never removed") - 1,
        |map, k| map.get_and_update(&k, |n| n + 1).expect("never removed").0,
        |map, k| {
            let decide = |entry: Option<(&u32, &u64)>| match entry {
                Some((_, n)) => Operation::Insert(n + 1),
                None => Operation::Abort(()),
            };
            match map.compute(k, decide) {
                Computed::Replaced { old, .. } => old,
                other => panic!("{other:?}"),
            }
        },
        |map, k| {
            let pinned = map.pin();
            loop {
                let current = pinned.get(&k).expect("never removed");
                if pinned.replace_if_same(&k, current, current + 1).is_ok() {
                    return *current;
                }
            }
        },
    ];
    for add_one in ways {
        with_hashers(50_000, |hashes, rounds| {
            assert!(exact(hashes, rounds, add_one))
        });
    }
    until_caught(|| {
        !exact(Hashes::Good, 500, |map, k| {
            let old = map.get(&k).expect("never removed");
            thread::yield_now();
            map.insert(k, old + 1);
            old
        })
    });
}

/// Removes the key and returns the value's number.
type Take = fn(&Map<'_>, u32) -> Option<u32>;

/// Half of the threads insert and are given what they replace, the others take. Returns whether each value came
/// back exactly once, or is still there.
fn returned_once(hashes: Hashes, rounds: u32, take: Take) -> bool {
    let ledger = Ledger::new();
    let map = Map::with_hasher(hashes);
    let returned = race(THREADS, |thread| {
        let round = |round: u32| {
            let k = round % 61;
            if thread % 2 == 0 {
                take(&map, k)
            } else {
                let value = ledger.value(thread as u32 * rounds + round);
                map.pin().insert(ledger.key(k, 0), value).map(Value::number)
            }
        };
        (0..rounds).filter_map(round).collect::<Vec<_>>()
    });
    let mut returned = returned.concat();
    returned.extend(map.values().map(|value| value.number()));
    returned.sort_unstable();
    assert_consistent(&map);
    drop(map);
    ledger.assert_balanced();
    let inserters = (1..THREADS as u32).step_by(2);
    returned
        .into_iter()
        .eq(inserters.flat_map(|thread| thread * rounds..(thread + 1) * rounds))
}

#[test]
fn what_is_removed_or_replaced_is_returned_to_one_caller() {
    let ways: [Take; 5] = [
        |map, k| map.remove(&k).map(|value| value.number()),
        |map, k| map.pin().remove_entry(&k).map(|(_, value)| value.number()),
        |map, k| {
            map.pin()
                .remove_if(&k, |_, value| value.number() > 0)
                .map(Value::number)
        },
        |map, k| {
            let pinned = map.pin();
            let current = pinned.get(&k)?;
            pinned.remove_if_same(&k, current).then(|| current.number())
        },
        |map, k| {
            let (key, _) = map.get_key_value(&k)?;
            match map.pin().compute::<()>(key, |_| Operation::Remove) {
                Computed::Removed(value) => Some(value.number()),
                _ => None,
            }
        },
    ];
    for take in ways {
        with_hashers(40_000, |hashes, rounds| {
            assert!(returned_once(hashes, rounds, take))
        });
    }
    until_caught(|| {
        !returned_once(Hashes::Good, 2_000, |map, k| {
            let value = map.get(&k)?;
            thread::yield_now();
            map.remove(&k);
            Some(value.number())
        })
    });
}

/// Removes the entry if its value is still `FRESH`.
type RemoveFresh = fn(&Numbers, u32);

const FRESH: u64 = 1;
const KEPT: u64 = 2;

/// One thread inserts fresh keys and then says that they are to be kept, others remove what is fresh. Returns whether
/// all is there that was still to be had when its value was changed.
fn spared(hashes: Hashes, keys: u32, remove: RemoveFresh) -> bool {
    let map = Numbers::with_hasher(hashes);
    let newest = AtomicU32::new(0);
    let stop = Stop::default();
    let kept = race(3, |thread| {
        if thread == 0 {
            let _stop = stop.on_drop();
            let keep = |k: &u32| {
                map.insert(*k, FRESH);
                newest.store(*k, Ordering::Release);
                if k % 8 == 0 {
                    thread::yield_now();
                }
                map.update(k, |_| KEPT).is_some()
            };
            return (0..keys).filter(keep).collect::<Vec<_>>();
        }
        while !stop.is_set() {
            remove(&map, newest.load(Ordering::Acquire));
        }
        Vec::new()
    })
    .concat();
    kept.into_iter().all(|k| map.get(&k) == Some(KEPT))
}

#[test]
fn a_condition_holds_of_the_very_entry_that_is_removed() {
    let ways: [RemoveFresh; 4] = [
        |map, k| _ = map.remove_if(&k, |_, &n| n == FRESH),
        |map, _| map.retain(|_, &n| n == KEPT),
        |map, k| {
            let pinned = map.pin();
            if let Some(current) = pinned.get(&k).filter(|&&n| n == FRESH) {
                pinned.remove_if_same(&k, current);
            }
        },
        |map, k| {
            map.compute(k, |entry| match entry {
                Some((_, &FRESH)) => Operation::Remove,
                _ => Operation::Abort(()),
            });
        },
    ];
    for remove in ways {
        with_hashers(2_500, |hashes, keys| assert!(spared(hashes, keys, remove)));
    }
    until_caught(|| {
        !spared(Hashes::Good, 2_000, |map, k| {
            if map.get(&k) == Some(FRESH) {
                thread::yield_now();
                map.remove(&k);
            }
        })
    });
}

// ---- Clear -----------------------------------------------------------------------------------------------------

/// Two threads insert ever new keys, and one clears. Returns whether no key survived a `clear` that began after its
/// insertion, and none was absent though inserted with no `clear` on the way.
fn cleared(hashes: Hashes, keys: u32, clear: fn(&Map<'_>)) -> bool {
    let ledger = Ledger::new();
    let map = Map::with_hasher(hashes);
    let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
    let inserted = [AtomicU32::new(0), AtomicU32::new(0)];
    let stop = Stop::default();
    let key = |thread: usize, n: u32| 2 * n + thread as u32;
    let right = race(3, |thread| {
        if let Some(inserted) = inserted.get(thread) {
            let _stop = stop.on_drop();
            let mut undisturbed = 0;
            for n in 0.. {
                if n >= keys && undisturbed > 0 {
                    break;
                }
                let clears = begun.load(Ordering::SeqCst);
                let quiet = ended.load(Ordering::SeqCst) == clears;
                map.insert(ledger.key(key(thread, n), 0), ledger.value(n));
                let present = map.contains_key(&key(thread, n));
                inserted.store(n + 1, Ordering::SeqCst);
                if quiet && begun.load(Ordering::SeqCst) == clears {
                    undisturbed += 1;
                    if !present {
                        return false;
                    }
                }
            }
            return true;
        }
        let mut done = [0, 0];
        let mut right = true;
        while !stop.is_set() {
            let before = [0, 1].map(|thread| inserted[thread].load(Ordering::SeqCst));
            begun.fetch_add(1, Ordering::SeqCst);
            clear(&map);
            ended.fetch_add(1, Ordering::SeqCst);
            for thread in [0, 1] {
                right &= (done[thread]..before[thread]).all(|n| !map.contains_key(&key(thread, n)));
            }
            done = before;
            // Some insertions without a `clear` on the way.
            let now = inserted[0].load(Ordering::SeqCst);
            while inserted[0].load(Ordering::SeqCst) < now + 8 && !stop.is_set() {
                thread::yield_now();
            }
        }
        right
    });
    assert_consistent(&map);
    drop(map);
    ledger.assert_balanced();
    right.into_iter().all(|right| right)
}

#[test]
fn clear_removes_what_was_inserted_before_and_nothing_inserted_after() {
    with_hashers(100_000, |hashes, keys| {
        assert!(cleared(hashes, keys, |map| map.clear()))
    });
    until_caught(|| {
        !cleared(Hashes::Good, 2_000, |map| {
            let some: Vec<_> = map.keys().take(5).collect();
            some.iter().for_each(|key| drop(map.remove(key)));
        })
    });
}

// ---- Everything together, and the end --------------------------------------------------------------------------

#[test]
fn any_mixture_of_operations_leaves_a_consistent_map() {
    for hashes in Hashes::HONEST {
        ops::chaos(&Ledger::new(), hashes, THREADS, size(20_000));
    }
}

#[test]
fn threads_that_come_and_go_leave_nothing_behind() {
    let ledger = Ledger::new();
    let map = Map::default();
    for generation in 0..size(100) as u32 {
        race(THREADS, |thread| {
            let thread = thread as u32;
            for k in 0..50 {
                map.insert(ledger.key(k * 8 + thread, generation), ledger.value(k));
                map.remove(&(k * 8 + (thread + 1) % 8));
            }
        });
    }
    assert_consistent(&map);
    drop(map);
    ledger.assert_balanced();
}

#[test]
fn dropping_the_map_drops_all_at_once_whoever_is_alive_and_pinned() {
    let ledger = Ledger::new();
    let map = Arc::new(Map::default());
    let shares: Vec<_> = (0..THREADS)
        .map(|_| Mutex::new(Some(map.clone())))
        .collect();
    drop(map);
    let ended = SpinBarrier::new(THREADS);
    let given_up = AtomicUsize::new(0);
    race(THREADS, |thread| {
        let map = shares[thread].lock().unwrap().take().unwrap();
        // Of another user of the same epochs: nothing ripens any more.
        let foreign = crossbeam_epoch::pin();
        for k in 0..size(5_000) as u32 {
            map.insert(ledger.key(k, 0), ledger.value(k));
            if k % 3 == thread as u32 % 3 {
                map.remove(&k);
            }
        }
        // What the fence in `Arc` orders, for ThreadSanitizer, which sees no fences.
        given_up.fetch_add(1, Ordering::AcqRel);
        if let Some(map) = Arc::into_inner(map) {
            assert_eq!(given_up.load(Ordering::Acquire), THREADS);
            drop(map);
            ledger.assert_balanced();
        }
        ended.wait();
        drop(foreign);
    });
    ledger.assert_balanced();
}
