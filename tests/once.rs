//! What threads may rely on in an `OnceMap`. Where the same task has a naive solution, it stands beside the test as a
//! broken twin, and the same check must find it out.
#![cfg(all(feature = "once", not(loom)))]

mod support;

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, Condvar, LazyLock, Mutex};
use std::thread;

use quince::{HashMap, OccupiedError, OnceMap};

use support::fickle::Fickle;
use support::hashers::Hashes;
use support::ledger::{Event, Key, Ledger, Value};
use support::{race, size, watchdog};

const THREADS: usize = 8;

type Plain = OnceMap<u32, u32, Hashes>;
type Booked<'l> = OnceMap<Key<'l>, Value<'l>, Hashes>;

/// With the constant hasher keys are few, as each operation walks past all of them.
fn with_hashers(keys: usize, check: impl Fn(Hashes, u32)) {
    check(Hashes::Good, size(keys) as u32);
    check(Hashes::Constant, size(keys / 100) as u32);
}

/// Runs a broken twin until the check finds it out. That it never does is for the watchdog to say.
fn until_caught(mut caught: impl FnMut() -> bool) {
    let _watchdog = watchdog::start();
    while !caught() {}
}

/// An initialiser's gate: closed until it is opened, and it tells when somebody stands before it.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, open)| !*open).unwrap());
    }

    fn until_reached(&self) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |(reached, _)| !*reached)
                .unwrap(),
        );
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// The message of a panic of `body`.
fn panic_of(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("no panic");
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

/// While nobody writes: what can be found is what is iterated over and counted.
fn assert_consistent(map: &Booked<'_>) {
    let pinned = map.pin();
    let mut keys: Vec<_> = pinned.iter().map(|(key, _)| key.number()).collect();
    assert_eq!(map.len(), keys.len(), "len against iteration");
    assert_eq!(map.is_empty(), keys.is_empty());
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(map.len(), keys.len(), "a key is there twice");
    assert!(
        keys.iter().all(|key| map.contains_key(key)),
        "a key is not found"
    );
}

/// Tests beside this one may be pinned for a while.
fn flush_until_live(map: &Booked<'_>, ledger: &Ledger, live: u32) {
    let _watchdog = watchdog::start();
    while ledger.live() > live {
        map.flush();
        thread::yield_now();
    }
    assert_eq!(ledger.live(), live);
}

// ---- Once ------------------------------------------------------------------------------------------------------

/// How a thread asks for a key's value.
type Ask<'a> = dyn Fn(u32, &dyn Fn() -> u32) -> u32 + Sync + 'a;

/// All threads ask for all keys, in the same order. Returns, by key, how often the initialiser ran, and whether everybody
/// was given the same.
fn asked_by_all(threads: usize, keys: u32, ask: &Ask<'_>) -> Vec<(u32, bool)> {
    let runs: Vec<_> = (0..keys).map(|_| AtomicU32::new(0)).collect();
    let given = race(threads, |_| {
        let ask = |key: u32| ask(key, &|| runs[key as usize].fetch_add(1, Ordering::Relaxed));
        (0..keys).map(ask).collect::<Vec<_>>()
    });
    let agreed = |key: usize| given.iter().all(|values| values[key] == given[0][key]);
    let runs = runs.into_iter().map(AtomicU32::into_inner);
    runs.enumerate()
        .map(|(key, runs)| (runs, agreed(key)))
        .collect()
}

#[test]
fn of_all_that_ask_for_a_key_one_makes_its_value_and_all_get_it() {
    for threads in [2, THREADS] {
        with_hashers(100_000, |hashes, keys| {
            let map = Plain::with_hasher(hashes);
            let asked = asked_by_all(threads, keys, &|key, init| map.get_or_init(key, init));
            assert!(asked.iter().all(|&asked| asked == (1, true)));
            assert_eq!((map.len(), map.iter().count()), (asked.len(), asked.len()));

            let map = Plain::with_hasher(hashes);
            let asked = asked_by_all(threads, keys, &|key, init| {
                *map.pin().get_or_init(key, init)
            });
            assert!(asked.iter().all(|&asked| asked == (1, true)));
        });
    }
    until_caught(|| {
        let each_makes_one = HashMap::new();
        let ask: &Ask<'_> = &|key, init| each_makes_one.get_or_insert_with(key, init);
        asked_by_all(THREADS, 500, ask)
            .iter()
            .any(|&(runs, _)| runs != 1)
    });
    until_caught(|| {
        let check_then_insert = HashMap::new();
        let ask: &Ask<'_> = &|key, init| {
            check_then_insert.get(&key).unwrap_or_else(|| {
                let value = init();
                check_then_insert.insert(key, value);
                value
            })
        };
        asked_by_all(THREADS, 500, ask)
            .iter()
            .any(|&(_, agreed)| !agreed)
    });
}

#[test]
fn sixty_four_threads_share_one_slow_initialiser() {
    for hashes in [Hashes::Good, Hashes::Constant] {
        let (map, gate, runs) = (
            Plain::with_hasher(hashes),
            Gate::default(),
            AtomicU32::new(0),
        );
        let asking = AtomicU32::new(0);
        race(65, |thread| {
            if thread == 64 {
                gate.until_reached();
                // Most of them wait by now.
                while asking.load(Ordering::Acquire) < 64 {
                    thread::yield_now();
                }
                return gate.open();
            }
            asking.fetch_add(1, Ordering::AcqRel);
            let value = map.get_or_init(1, || {
                gate.pass();
                runs.fetch_add(1, Ordering::Relaxed) + 7
            });
            assert_eq!(value, 7);
        });
        assert_eq!(runs.into_inner(), 1);
    }
}

#[test]
fn a_key_is_made_again_after_it_was_removed_and_once_each_time() {
    with_hashers(40_000, |hashes, rounds| {
        let map = Plain::with_hasher(hashes);
        let (made, removed) = (AtomicU32::new(0), AtomicU32::new(0));
        race(THREADS, |thread| {
            for round in 0..rounds {
                if thread == 0 {
                    removed.fetch_add(map.remove(&1).is_some().into(), Ordering::Relaxed);
                } else {
                    map.get_or_init(1, || made.fetch_add(1, Ordering::Relaxed) + round);
                }
            }
        });
        let left = map.len() as u32;
        assert_eq!(made.into_inner(), removed.into_inner() + left);
    });
}

#[test]
fn try_init_tells_one_caller_for_each_key_that_it_won() {
    type Try = fn(&Plain, u32, u32) -> Result<u32, OccupiedError<u32, (), u32>>;
    let ways: [Try; 2] = [
        |map, key, value| map.try_init(key, || value),
        |map, key, value| match map.pin().try_init(key, || value) {
            Ok(value) => Ok(*value),
            Err(OccupiedError { current, key, .. }) => Err(OccupiedError {
                current: *current,
                key,
                value: (),
            }),
        },
    ];
    for way in ways {
        with_hashers(40_000, |hashes, keys| {
            let map = Plain::with_hasher(hashes);
            let won = race(THREADS, |thread| {
                let thread = thread as u32;
                let won = |&key: &u32| match way(&map, key, thread) {
                    Ok(value) => {
                        assert_eq!(value, thread);
                        true
                    }
                    Err(occupied) => {
                        assert_eq!(occupied.key, key, "another key came back");
                        assert_ne!(occupied.current, thread, "won, and was not told");
                        false
                    }
                };
                (0..keys).filter(won).count()
            });
            assert_eq!(won.into_iter().sum::<usize>(), keys as usize);
        });
    }
}

#[test]
fn values_that_cannot_be_cloned_are_shared_through_pins() {
    struct Uncloned(AtomicU32);
    let (map, made) = (OnceMap::new(), AtomicU32::new(0));
    race(THREADS, |_| {
        let init = || {
            made.fetch_add(1, Ordering::Relaxed);
            Uncloned(AtomicU32::new(0))
        };
        let pinned = map.pin();
        let value: &Uncloned = pinned.get_or_init("key", init);
        value.0.fetch_add(1, Ordering::Relaxed);
        assert!(ptr::eq(value, pinned.wait("key").expect("made")));
        let failing = pinned.get_or_try_init("other", || Err::<Uncloned, _>("none"));
        assert_eq!(failing.err(), Some("none"));
    });
    assert_eq!(made.into_inner(), 1);
    assert_eq!(
        map.pin()
            .get("key")
            .map(|value| value.0.load(Ordering::Relaxed)),
        Some(8)
    );
    assert_eq!(map.len(), 1);
}

// ---- Nobody else waits -----------------------------------------------------------------------------------------

#[test]
fn an_initialiser_that_does_not_end_delays_nothing_but_its_key() {
    for hashes in [Hashes::Good, Hashes::Constant] {
        let (map, gate) = (Plain::with_hasher(hashes), Gate::default());
        race(2, |thread| {
            if thread == 1 {
                assert_eq!(
                    map.get_or_init(0, || {
                        gate.pass();
                        7
                    }),
                    7
                );
                return;
            }
            gate.until_reached();
            let absent = || {
                assert_eq!((map.get(&0), map.pin().get(&0)), (None, None));
                assert!(!map.contains_key(&0));
            };
            absent();
            assert!(map.is_empty());
            for key in 1..size(2_000) as u32 {
                assert_eq!(map.get_or_init(key, || key), key);
                assert_eq!(map.wait(&key), Some(key));
                assert_eq!(map.len(), key as usize);
            }
            absent();
            assert!(map.iter().all(|(key, value)| key > 0 && key == value));
            assert!(map.pin().iter().all(|(key, _)| *key > 0));
            assert_eq!(map.remove(&1), Some(1));

            // Whatever empties the map leaves alone what is not in it yet.
            assert_eq!((map.remove(&0), map.pin().remove(&0)), (None, None));
            let asked = |_: &u32, _: &u32| -> bool {
                unreachable!("asked about a value that is not there")
            };
            assert_eq!(map.remove_if(&0, asked), None);
            map.retain(|&key, _| key == 2);
            assert_eq!(map.iter().collect::<Vec<_>>(), [(2, 2)]);
            map.clear();
            assert!(map.is_empty());
            assert_eq!((map.len(), map.iter().count()), (0, 0));
            map.flush();
            absent();
            gate.open();
            assert_eq!(map.wait(&0), Some(7));
            assert_eq!(map.iter().collect::<Vec<_>>(), [(0, 7)]);
        });
    }
}

#[test]
fn waiting_makes_nothing() {
    let map = Plain::with_hasher(Hashes::Good);
    assert_eq!((map.wait(&1), map.pin().wait(&1)), (None, None));
    for outcome in [Err("failed"), Ok(7)] {
        let gate = &Gate::default();
        race(4, |thread| match thread {
            0 => {
                let init = || {
                    gate.pass();
                    outcome
                };
                assert_eq!(map.get_or_try_init(1, init), outcome);
            }
            1 => {
                gate.until_reached();
                gate.open();
            }
            2 => {
                gate.until_reached();
                assert_eq!(map.wait(&1), outcome.ok());
            }
            _ => {
                gate.until_reached();
                assert_eq!(map.pin().wait(&1).copied(), outcome.ok());
            }
        });
    }
}

// ---- Failure ---------------------------------------------------------------------------------------------------

/// How a thread asks for a value whose initialiser may fail.
type TryAsk<'a> = dyn Fn(u32, &dyn Fn() -> Result<u32, usize>) -> Result<u32, usize> + Sync + 'a;

/// All threads ask for all keys; the first `failures` initialisers of each fail with the number of their thread. Returns
/// whether those and one more ran, one at a time for each key, whether each failure went to its own caller, and whether
/// all others were given the same.
fn failing(threads: usize, keys: u32, failures: u32, ask: &TryAsk<'_>) -> bool {
    let (sound, runs, inside): (_, Vec<_>, Vec<_>) = (
        AtomicBool::new(true),
        (0..keys).map(|_| AtomicU32::new(0)).collect(),
        (0..keys).map(|_| AtomicU32::new(0)).collect(),
    );
    let expect = |holds: bool| _ = sound.fetch_and(holds, Ordering::Relaxed);
    let told = race(threads, |thread| {
        let told = |key: u32| {
            let failed = AtomicBool::new(false);
            let init = || {
                let (runs, inside) = (&runs[key as usize], &inside[key as usize]);
                expect(inside.fetch_add(1, Ordering::AcqRel) == 0);
                if key % 64 == 0 {
                    thread::yield_now();
                }
                let run = runs.fetch_add(1, Ordering::Relaxed);
                inside.fetch_sub(1, Ordering::AcqRel);
                failed.store(run < failures, Ordering::Relaxed);
                if run < failures { Err(thread) } else { Ok(run) }
            };
            let told = ask(key, &init);
            match told {
                Ok(run) => expect(run == failures),
                Err(failed) => expect(failed == thread),
            }
            expect(told.is_err() == failed.into_inner());
            u32::from(told.is_err())
        };
        (0..keys).map(told).sum::<u32>()
    });
    expect(told.into_iter().sum::<u32>() == failures * keys);
    expect(
        runs.into_iter()
            .all(|runs| runs.into_inner() == failures + 1),
    );
    sound.into_inner()
}

/// A caller arrives while another one finishes: with few threads that do nothing else, in every other call.
#[test]
fn after_a_failure_one_of_those_who_wait_takes_over_at_a_time() {
    for (threads, failures, keys) in [(2, 1, 250_000), (4, 3, 100_000), (64, 40, 500)] {
        with_hashers(keys, |hashes, keys| {
            let map = Plain::with_hasher(hashes);
            assert!(failing(threads, keys, failures, &|key, init| map
                .get_or_try_init(key, init)));
            assert_eq!(
                (map.len(), map.iter().count()),
                (keys as usize, keys as usize)
            );

            let map = Plain::with_hasher(hashes);
            let pinned: &TryAsk<'_> = &|key, init| map.pin().get_or_try_init(key, init).copied();
            assert!(failing(threads, keys, failures, pinned));
        });
    }
    until_caught(|| {
        let all_try_at_once = HashMap::new();
        let ask: &TryAsk<'_> = &|key, init| all_try_at_once.get_or_try_insert_with(key, init);
        !failing(THREADS, 100, 4, ask)
    });
}

#[test]
fn a_panic_is_its_callers_own_and_one_of_those_who_wait_takes_over() {
    for (threads, failures, keys) in [(2, 1, 20_000), (THREADS, 6, 2_000)] {
        with_hashers(keys, |hashes, keys| {
            let map = Plain::with_hasher(hashes);
            let ask: &TryAsk<'_> = &|key, init| {
                let init = || init().unwrap_or_else(|thread| resume_unwind(Box::new(thread)));
                catch_unwind(AssertUnwindSafe(|| map.get_or_init(key, init)))
                    .map_err(|panic| *panic.downcast::<usize>().expect("an initialiser's panic"))
            };
            assert!(failing(threads, keys, failures, ask));
            assert_eq!(
                (map.len(), map.iter().count()),
                (keys as usize, keys as usize)
            );
        });
    }
}

#[test]
fn a_failed_key_that_nobody_waits_for_leaves_nothing_behind() {
    with_hashers(20_000, |hashes, keys| {
        let ledger = Ledger::new();
        let map = Booked::with_hasher(hashes);
        race(4, |thread| {
            for key in 0..keys {
                let key = ledger.key(key * 4 + thread as u32, 0);
                let fail = || resume_unwind(Box::new(()));
                match key.number() % 3 {
                    0 => assert!(map.get_or_try_init(key, || Err(())).is_err()),
                    1 => assert!(map.pin().get_or_try_init(key, || Err(())).is_err()),
                    _ => assert!(
                        catch_unwind(AssertUnwindSafe(|| map.get_or_init(key, fail))).is_err()
                    ),
                }
            }
        });
        assert_consistent(&map);
        assert!(map.is_empty());
        assert!((0..keys).all(|key| map.wait(&key).is_none()));
        flush_until_live(&map, &ledger, 0);
        drop(map);
        ledger.assert_balanced();
    });
}

// ---- Re-entry --------------------------------------------------------------------------------------------------

const RECURSION: &str = "the initialiser of a key waits for the value of the same key";

#[test]
fn an_initialiser_that_asks_for_its_own_key_panics() {
    let ways: [fn(&Plain); 5] = [
        |map| _ = map.get_or_init(1, || 7),
        |map| _ = map.pin().get_or_init(1, || 7),
        |map| _ = map.try_init(1, || 7),
        |map| _ = map.wait(&1),
        // By way of another key.
        |map| _ = map.get_or_init(2, || map.get_or_init(1, || 7)),
    ];
    let _watchdog = watchdog::start();
    for ask_again in ways {
        for hashes in [Hashes::Good, Hashes::Constant] {
            let map = Plain::with_hasher(hashes);
            let recurse = || {
                map.get_or_init(1, || {
                    ask_again(&map);
                    7
                });
            };
            assert_eq!(panic_of(recurse), RECURSION);
            assert_eq!(panic_of(recurse), RECURSION, "at the second time");
            assert!(map.is_empty());
            assert_eq!(map.get_or_init(1, || 8), 8);
            assert_eq!(map.get_or_init(2, || 9), 9);

            // Whoever catches it may go on.
            map.clear();
            let caught = map.get_or_init(1, || panic_of(|| ask_again(&map)).len() as u32);
            assert_eq!(map.get(&1), Some(caught));
        }
    }
}

#[test]
fn an_initialiser_may_ask_for_other_keys_a_hundred_deep() {
    fn descend(map: &Plain, key: u32) -> u32 {
        map.get_or_init(key, || {
            assert_eq!(map.get(&key), None);
            assert_eq!(map.remove(&key), None);
            if key == 0 {
                0
            } else {
                descend(map, key - 1) + 1
            }
        })
    }
    for hashes in [Hashes::Good, Hashes::Constant] {
        let map = Plain::with_hasher(hashes);
        let reached = race(THREADS, |thread| descend(&map, 100 + thread as u32));
        assert_eq!(reached, (100..108).collect::<Vec<_>>());
        assert_eq!(map.len(), 108);
    }
}

#[test]
fn an_initialiser_may_change_the_map_as_it_likes() {
    let ways: [fn(&Plain); 5] = [
        |map| map.clear(),
        |map| map.retain(|_, _| false),
        |map| (100..1_000).for_each(|key| _ = map.get_or_init(key, || key)),
        |map| (0..1_000).for_each(|key| _ = map.remove(&key)),
        |map| map.flush(),
    ];
    for way in ways {
        let map = Plain::with_hasher(Hashes::Good);
        assert_eq!(
            map.get_or_init(1, || {
                way(&map);
                7
            }),
            7
        );
        assert_eq!(map.get(&1), Some(7));
        assert_eq!(map.len(), map.iter().count());
    }
}

/// The map is used once more after whatever else the thread had is gone.
#[test]
fn the_last_destructors_of_a_thread_may_initialise() {
    static MAP: LazyLock<Plain> = LazyLock::new(|| Plain::with_hasher(Hashes::Good));
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            MAP.get_or_init(2, || MAP.get_or_init(1, || 7) + 1);
        }
    }
    thread_local! { static LAST: Last = const { Last } }
    let thread = thread::spawn(|| {
        // Made first, dropped last.
        LAST.with(|_| ());
        MAP.get_or_init(3, || 9);
    });
    thread.join().expect("no panic");
    assert_eq!(
        [1, 2, 3].map(|key| MAP.get(&key)),
        [Some(7), Some(8), Some(9)]
    );
}

// ---- Hostile user code -----------------------------------------------------------------------------------------

/// Every call of user code in every operation panics in turn: the key is as it was or as it was to be, and can be asked for.
#[test]
fn a_panic_of_user_code_leaves_the_map_usable_and_loses_nothing() {
    type Op = for<'l> fn(&Booked<'l>, &'l Ledger);
    let ops: [Op; 9] = [
        |map, ledger| _ = map.get_or_init(ledger.key(9, 0), || ledger.value(9)),
        |map, ledger| _ = map.pin().get_or_init(ledger.key(9, 0), || ledger.value(9)),
        |map, ledger| _ = map.try_init(ledger.key(2, 0), || ledger.value(9)),
        |map, ledger| {
            let init = || {
                ledger.tick(Event::Closure);
                Err::<Value<'_>, ()>(())
            };
            assert!(map.get_or_try_init(ledger.key(9, 0), init).is_err());
        },
        |map, ledger| {
            map.get_or_init(ledger.key(9, 0), || {
                map.get_or_init(ledger.key(10, 0), || ledger.value(10));
                ledger.value(9)
            });
        },
        |map, _| _ = map.get(&2),
        |map, _| _ = map.wait(&2),
        |map, _| _ = map.remove(&2),
        |map, _| map.clear(),
    ];
    let _watchdog = watchdog::start();
    let mut panics = 0;
    for (op, event) in ops
        .into_iter()
        .flat_map(|op| Event::ALL.map(|event| (op, event)))
    {
        for hashes in [Hashes::Good, Hashes::Constant] {
            // The first table with room, and full: then an insertion migrates.
            for entries in [4, 7] {
                for nth in 1.. {
                    let ledger = Ledger::new();
                    let map = Booked::with_hasher(hashes);
                    for key in 0..entries {
                        map.get_or_init(ledger.key(key, 0), || ledger.value(key));
                    }
                    let (_, blown) = ledger.trip(event, nth, || op(&map, &ledger));
                    for key in [2, 9, 10] {
                        let value = map.get_or_init(ledger.key(key, 0), || ledger.value(key));
                        assert_eq!(value.number(), key);
                    }
                    assert_consistent(&map);
                    drop(map);
                    match event {
                        // When the key a method was given panics at its end, the result is leaked, by the compiler.
                        Event::Drop => ledger.assert_sound(),
                        _ => ledger.assert_balanced(),
                    }
                    if !blown {
                        break;
                    }
                    panics += 1;
                }
            }
        }
    }
    assert!(
        panics > 200,
        "only {panics} panics: the fuse is not where the map runs user code"
    );
}

#[test]
fn a_key_that_cannot_be_hashed_any_more_keeps_nobody_waiting() {
    let outcomes: [fn() -> Result<u32, &'static str>; 3] = [
        || Ok(7),
        || Err("failed"),
        || resume_unwind(Box::new("panicked")),
    ];
    for outcome in outcomes {
        let (map, gate) = (OnceMap::new(), Gate::default());
        let waits = Barrier::new(2);
        race(2, |thread| {
            if thread == 0 {
                let key = Fickle::new(1);
                let make = || {
                    map.get_or_try_init(key.clone(), || {
                        gate.pass();
                        key.break_hash();
                        outcome()
                    })
                };
                // The publication cannot find the entry, nor can the removal.
                assert_ne!(catch_unwind(AssertUnwindSafe(make)).ok(), Some(Ok(7)));
                waits.wait();
                return;
            }
            gate.until_reached();
            gate.open();
            assert_eq!(map.get_or_init(Fickle::new(1), || 8), 8, "takes over");
            waits.wait();
            assert_eq!((map.len(), map.iter().count()), (1, 1));
        });
        // The same without anybody who waits: the entry that could not be removed is not counted as a value.
        let key = Fickle::new(2);
        let make = || {
            map.get_or_try_init(key.clone(), || {
                key.break_hash();
                outcome()
            })
        };
        assert_ne!(catch_unwind(AssertUnwindSafe(make)).ok(), Some(Ok(7)));
        assert_eq!((map.len(), map.iter().count()), (1, 1));
        assert_eq!(map.get(&Fickle::new(2)), None);
        assert_eq!(map.wait(&Fickle::new(2)), None);
        assert_eq!(map.get_or_init(Fickle::new(2), || 9), 9);
        assert_eq!((map.len(), map.iter().count()), (2, 2));
    }
}

#[test]
fn a_value_whose_clone_panics_was_made_all_the_same() {
    struct Uncloneable;
    impl Clone for Uncloneable {
        fn clone(&self) -> Self {
            resume_unwind(Box::new("no clone"))
        }
    }
    let (map, runs) = (OnceMap::new(), AtomicU32::new(0));
    race(4, |_| {
        let init = || {
            runs.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Uncloneable)
        };
        let get = || map.get_or_try_init("key", init);
        assert!(catch_unwind(AssertUnwindSafe(get)).is_err());
        assert!(map.contains_key("key"));
    });
    assert_eq!((runs.into_inner(), map.len()), (1, 1));
    assert!(map.pin().remove("key").is_some());
    assert!(map.is_empty());
}
