//! User code that panics, lies or calls back, and types and sizes at the edge: the map stays usable, loses nothing
//! that it held, and drops everything once.
#![cfg(not(loom))]

mod support;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap as Std};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU8;
use std::panic;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::thread;

use quince::{Computed, Equivalent, HashMap, Operation};

use support::hashers::Hashes;
use support::ledger::{Event, Key, Ledger, Value, Verdict};
use support::ops::{self, Map, Model, Op, Stored};
use support::{Random, race, size, watchdog};

// ---- Panics ----------------------------------------------------------------------------------------------------

fn filled(ledger: &Ledger, hashes: Hashes, entries: u32) -> Map<'_> {
    let map = Map::with_hasher(hashes);
    for k in 0..entries {
        map.insert(ledger.key(k, k), ledger.value(k));
    }
    map
}

fn contents(map: &Map<'_>) -> Model {
    let stored = |key: &Key<'_>, value: &Value<'_>| Stored {
        label: key.label(),
        value: value.number(),
    };
    map.pin()
        .iter()
        .map(|(k, v)| (k.number(), stored(k, v)))
        .collect()
}

/// Every operation, with every call of user code in it panicking in turn.
fn each_panic(event: Event) {
    let _watchdog = watchdog::start();
    let mut panics = 0;
    for hashes in [Hashes::Good, Hashes::Constant] {
        // The first table with room, and full: then an insertion migrates.
        for (entries, key) in [(4, 2), (4, 9), (7, 3), (7, 9)] {
            for op in Op::every(key, 41) {
                let mut nth = 1;
                while blown(event, nth, op, hashes, entries) {
                    nth += 1;
                    panics += 1;
                }
            }
        }
    }
    assert!(
        panics > 100,
        "only {panics} panics: the fuse is not where the map runs user code"
    );
}

/// Runs the operation with the `nth` event in it panicking, and checks what is left. Whether there were so many.
fn blown(event: Event, nth: usize, op: Op, hashes: Hashes, entries: u32) -> bool {
    let ledger = Ledger::new();
    let mut map = filled(&ledger, hashes, entries);
    let before = contents(&map);
    let mut after = before.clone();
    op.expected(&mut after);
    let (_, blown) = ledger.trip(event, nth, || op.run(&mut map, &ledger));
    let context = format!("{op:?} with panic {nth} of {event:?}, {hashes:?}, {entries} entries");

    // Each key is as it was or as it was to be.
    let found = contents(&map);
    for k in before.keys().chain(after.keys()).chain(found.keys()) {
        let (found, before, after) = (found.get(k), before.get(k), after.get(k));
        assert!(
            found == before || found == after,
            "{k} is {found:?} after {context}"
        );
    }
    assert_eq!(map.len(), found.len(), "length after {context}");

    // And the map can be used.
    for k in 0..64 {
        let inserted = map.insert(ledger.key(k, 0), ledger.value(1000 + k));
        assert_eq!(
            inserted.is_some(),
            found.contains_key(&k),
            "{k} after {context}"
        );
    }
    for k in 0..64 {
        let removed = map.remove(&k).map(|value| value.number());
        assert_eq!(removed, Some(1000 + k), "after {context}");
    }
    drop(map);
    ledger.assert_balanced();
    blown
}

#[test]
fn a_panic_in_hash_leaves_every_entry_in_place() {
    each_panic(Event::Hash);
}

#[test]
fn a_panic_in_eq_leaves_every_entry_in_place() {
    each_panic(Event::Eq);
}

#[test]
fn a_panic_in_clone_leaves_every_entry_in_place() {
    each_panic(Event::Clone);
}

#[test]
fn a_panic_in_a_destructor_leaves_every_other_entry_in_place() {
    each_panic(Event::Drop);
}

#[test]
fn a_panic_in_a_closure_leaves_every_entry_in_place() {
    each_panic(Event::Closure);
}

/// The same when keys that collide are compared by a migration, and with garbage that a writer drops on its way.
#[test]
fn a_panic_in_a_long_run_of_insertions_and_removals_costs_one_entry_at_most() {
    let _watchdog = watchdog::start();
    for event in [Event::Hash, Event::Eq, Event::Drop] {
        for hashes in [Hashes::Good, Hashes::EqualTopBits] {
            for nth in (1..size(4_000)).step_by(37) {
                let ledger = Ledger::new();
                let map = Map::with_hasher(hashes);
                let mut present = BTreeSet::new();
                ledger.trip(event, nth, || {
                    for k in 0..300 {
                        present.insert(k);
                        map.pin().insert(ledger.key(k, 0), ledger.value(k));
                        if k % 3 == 0 {
                            present.remove(&k);
                            map.pin().remove(&k);
                        }
                    }
                });
                let found: BTreeSet<_> = contents(&map).into_keys().collect();
                let differing = present.symmetric_difference(&found).count();
                assert!(
                    differing <= 1,
                    "{differing} after panic {nth} of {event:?}, {hashes:?}"
                );
                drop(map);
                ledger.assert_balanced();
            }
        }
    }
}

/// `Drop`, `drain`, `into_iter` and the like: one destructor panics, the others run.
#[test]
fn a_panicking_destructor_in_an_ending_map_does_not_spare_the_others() {
    let ways: [fn(Map<'_>); 5] = [
        |map| drop(map),
        |mut map| map.clear_mut(),
        |mut map| drop(map.drain()),
        |map| drop(map.into_iter()),
        |map| drop(map.into_values().take(3).collect::<Vec<_>>()),
    ];
    for end in ways {
        for nth in 1.. {
            let ledger = Ledger::new();
            let map = filled(&ledger, Hashes::Good, 20);
            // Some garbage waits, too.
            (10..20).for_each(|k| _ = map.pin().remove(&k));
            let (_, blown) = ledger.trip(Event::Drop, nth, || end(map));
            ledger.assert_balanced();
            if !blown {
                assert!(nth > 20);
                break;
            }
        }
    }
}

/// A destructor that panics while some other call frees what was removed: that call is not the culprit's.
#[test]
fn a_panicking_destructor_of_garbage_stops_neither_the_caller_nor_the_other_destructors() {
    let _watchdog = watchdog::start();
    for nth in 1..=40 {
        let ledger = Ledger::new();
        let map = filled(&ledger, Hashes::Good, 20);
        (0..20).for_each(|k| _ = map.pin().remove(&k));
        let flush_all = || {
            // Tests beside this one may be pinned for a while.
            while ledger.live() > 0 {
                map.flush();
                thread::yield_now();
            }
        };
        let (returned, blown) = ledger.trip(Event::Drop, nth, flush_all);
        assert!(
            returned.is_some() && blown,
            "destructor {nth} panicked through `flush`"
        );
        ledger.assert_sound();
    }
}

// ---- Lies ------------------------------------------------------------------------------------------------------

/// Answers do not matter, but every script ends, and every key and value is dropped once.
#[test]
fn keys_that_lie_do_no_harm() {
    let _watchdog = watchdog::start();
    let verdicts = [
        Verdict::AlwaysEqual,
        Verdict::NeverEqual,
        Verdict::Random,
        Verdict::Honest,
    ];
    for verdict in verdicts {
        for hashes in [Hashes::Good, Hashes::Constant, Hashes::Random] {
            for seed in 0..size(400) as u64 {
                let ledger = Ledger::with_verdict(verdict);
                let mut map = Map::with_hasher(hashes);
                let mut random = Random::new(seed);
                for _ in 0..200 {
                    let op = Op::choose(&mut |bound| random.below(bound));
                    op.run(&mut map, &ledger);
                }
                drop(map);
                ledger.assert_balanced();
            }
        }
    }
}

#[test]
fn keys_that_lie_to_several_threads_do_no_harm() {
    for verdict in [Verdict::AlwaysEqual, Verdict::NeverEqual, Verdict::Random] {
        for hashes in [Hashes::Good, Hashes::Constant, Hashes::Random] {
            ops::chaos(&Ledger::with_verdict(verdict), hashes, 4, size(4_000));
        }
    }
}

// ---- Calls back ------------------------------------------------------------------------------------------------

type Plain = HashMap<u32, u32>;

/// What a closure may do to the map whose method runs it; key 1 is the one the method is about.
const INTERFERENCES: [fn(&Plain); 12] = [
    |map| _ = map.get(&1),
    |map| assert!(map.len() <= map.iter().count() + 1),
    |map| _ = map.insert(1, 7),
    |map| _ = map.get_or_insert_with(1, || 7),
    |map| _ = map.remove(&1),
    |map| _ = map.update(&1, |n| n + 1),
    |map| (100..1_000).for_each(|k| _ = map.insert(k, k)),
    |map| (100..1_000).for_each(|k| _ = map.remove(&k)),
    |map| map.clear(),
    |map| map.retain(|&k, _| k != 1),
    |map| {
        map.reserve(1_000);
        map.shrink_to_fit();
        map.flush();
    },
    |map| assert!(map.clone().len() <= 1_000),
];

/// Every method that runs user code, with the user code interfering once: it ends, and the last word is told right.
#[test]
fn a_closure_may_use_the_map_for_the_same_key() {
    let _watchdog = watchdog::start();
    for interfere in INTERFERENCES {
        for present in [false, true] {
            let with_map = |method: &dyn Fn(&Plain, &dyn Fn())| {
                let map = Plain::new();
                if present {
                    map.insert(1, 1);
                }
                let once = Cell::new(false);
                let once = || {
                    if !once.replace(true) {
                        interfere(&map);
                    }
                };
                method(&map, &once);
                assert_eq!(map.len(), map.iter().count());
            };
            with_map(&|map, once| {
                let make = || {
                    once();
                    2
                };
                let settled = map.get_or_insert_with(1, make);
                assert_eq!(map.get(&1), Some(settled));
            });
            with_map(&|map, once| {
                let make = |_: &u32| {
                    once();
                    2
                };
                assert_eq!(map.get_or_insert_with_key(1, make), map.get(&1).unwrap());
            });
            with_map(&|map, once| {
                let fail = || {
                    once();
                    Err("failed")
                };
                let settled = map.get_or_try_insert_with(1, fail);
                assert_eq!(
                    settled.is_ok(),
                    present,
                    "the closure runs if the key is absent at entry"
                );
            });
            with_map(&|map, once| {
                let make = || {
                    once();
                    2
                };
                match map.try_insert_with(1, make) {
                    Ok(settled) => assert_eq!((settled, map.get(&1)), (2, Some(2))),
                    Err(occupied) => assert_eq!(occupied.value.is_some(), !present),
                }
            });
            with_map(&|map, once| {
                let double = |n: &u32| {
                    once();
                    n * 2
                };
                assert_eq!(map.update(&1, double), map.get(&1));
            });
            with_map(&|map, once| {
                let computed = map.compute::<()>(1, |entry| {
                    once();
                    Operation::Insert(entry.map_or(2, |(_, n)| n * 2))
                });
                let new = match computed {
                    Computed::Inserted(new) | Computed::Replaced { new, .. } => new,
                    other => panic!("{other:?}"),
                };
                assert_eq!(map.get(&1), Some(new));
            });
            with_map(&|map, once| {
                let condition = |_: &u32, n: &u32| {
                    once();
                    *n == 1
                };
                if map.remove_if(&1, condition) == Some(1) {
                    assert_eq!(map.get(&1), None);
                }
            });
            with_map(&|map, once| {
                map.retain(|_, _| {
                    once();
                    true
                });
            });
        }
    }
}

#[test]
fn of_nested_insertions_of_one_key_the_inner_wins_and_is_returned() {
    let _watchdog = watchdog::start();
    let map = Plain::new();
    let inner = || map.get_or_insert_with(1, || map.get_or_insert_with(1, || 3) - 1) - 1;
    assert_eq!(map.get_or_insert_with(1, inner), 3);
    assert_eq!(map.len(), 1);

    // Equal hashes, different keys: both are there.
    let map = HashMap::with_hasher(Hashes::Constant);
    map.get_or_insert_with(1u32, || map.get_or_insert(2, 20) / 2);
    assert_eq!((map.get(&1), map.get(&2)), (Some(10), Some(20)));
}

#[test]
fn an_interfering_closure_is_asked_again() {
    let map = HashMap::from([(1, 10)]);
    let mut calls = 0;
    let updated = map.update(&1, |n| {
        calls += 1;
        if calls == 1 {
            map.insert(1, 20);
        }
        n + 1
    });
    assert_eq!((updated, calls), (Some(21), 2));
    let removed = map.update(&1, |n| {
        map.remove(&1);
        n + 1
    });
    assert_eq!((removed, map.get(&1)), (None, None));
}

#[test]
fn what_was_decided_of_one_entry_is_not_done_to_its_successor() {
    let map = HashMap::from([(1, 10)]);
    let succeed = |n: u32| {
        if n == 10 {
            map.insert(1, 20);
        }
    };
    let removed = map.remove_if(&1, |_, &n| {
        succeed(n);
        n == 10
    });
    assert_eq!((removed, map.get(&1)), (None, Some(20)));

    map.insert(1, 10);
    let computed = map.compute(1, |entry| match entry {
        Some((_, 10)) => {
            succeed(10);
            Operation::Remove
        }
        _ => Operation::Abort("changed"),
    });
    assert_eq!(
        (computed, map.get(&1)),
        (Computed::Aborted("changed"), Some(20))
    );

    map.insert(1, 10);
    map.retain(|_, &n| {
        succeed(n);
        n != 10
    });
    assert_eq!(map.get(&1), Some(20));
}

/// A key whose comparisons and hashes use the map it is in.
#[derive(Clone, Debug)]
struct Nosy(u32);

static NOSY: LazyLock<HashMap<Nosy, u32, Hashes>> =
    LazyLock::new(|| HashMap::with_hasher(Hashes::EqualTopBits));

thread_local! {
    /// Set inside of a call back: otherwise it would call back itself.
    static BUSY: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

impl Nosy {
    fn call_back(&self) {
        if BUSY.replace(true) {
            return;
        }
        let calls = CALLS.replace(CALLS.get() + 1);
        match calls % 5 {
            0 => _ = NOSY.remove(self),
            1 => _ = NOSY.insert(self.clone(), 0),
            2 => _ = NOSY.get(&Nosy(self.0 + 1)),
            3 => (500..600).for_each(|k| _ = NOSY.insert(Nosy(k + calls), 0)),
            _ => NOSY.retain(|key, _| key.0 < 500),
        }
        BUSY.set(false);
    }
}

impl PartialEq for Nosy {
    fn eq(&self, other: &Self) -> bool {
        self.call_back();
        self.0 == other.0
    }
}

impl Eq for Nosy {}

impl Hash for Nosy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call_back();
        self.0.hash(state);
    }
}

#[test]
fn keys_may_use_the_map_while_it_compares_and_hashes_them() {
    race(2, |_| {
        for round in 0..size(2_000) as u32 {
            let k = round % 40;
            NOSY.insert(Nosy(k), round);
            NOSY.get_or_insert_with(Nosy(k + 1), || round);
            NOSY.update(&Nosy(k), |n| n + 1);
            NOSY.remove(&Nosy(k + 2));
            _ = NOSY.get(&Nosy(k));
            NOSY.remove_if(&Nosy(k), |_, n| n % 2 == 0);
        }
        assert!(CALLS.get() > 100);
    });
    BUSY.set(true);
    assert_eq!(NOSY.len(), NOSY.pin().iter().count());
}

/// A value whose destructor uses the map, panics too if asked, and leaves a value behind that does the same, `depth`
/// times.
#[derive(Clone)]
struct Echo {
    map: Weak<HashMap<u32, Echo>>,
    depth: u32,
    panics: bool,
    dropped: Arc<AtomicU32>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if let (Some(map), Some(depth)) = (self.map.upgrade(), self.depth.checked_sub(1)) {
            let echo = Echo {
                map: self.map.clone(),
                depth,
                panics: self.panics,
                dropped: self.dropped.clone(),
            };
            let pinned = map.pin();
            pinned.insert(depth, echo);
            pinned.remove(&(depth + 1));
            _ = pinned.get(&depth);
            drop(pinned);
            map.flush();
        }
        if self.panics && !thread::panicking() {
            panic::resume_unwind(Box::new("in a destructor"));
        }
    }
}

fn echoes_are_all_dropped(panics: bool) {
    let _watchdog = watchdog::start();
    const DEPTH: u32 = 20;
    let dropped = Arc::new(AtomicU32::new(0));
    let map = Arc::new(HashMap::new());
    for k in 0..10 {
        let echo = Echo {
            map: Arc::downgrade(&map),
            depth: DEPTH,
            panics,
            dropped: dropped.clone(),
        };
        map.pin().insert(100 + k, echo);
    }
    (0..10).for_each(|k| _ = map.pin().remove(&(100 + k)));
    // Each of the ten, and then what its destructor put under the keys below, one after the other.
    while dropped.load(Ordering::Relaxed) < 10 * DEPTH {
        map.flush();
        map.pin().remove(&0);
        thread::yield_now();
    }
    let ended = panic::catch_unwind(panic::AssertUnwindSafe(|| drop(map)));
    assert!(ended.is_ok() || panics);
    assert_eq!(Arc::strong_count(&dropped), 1, "each echo is dropped");
}

#[test]
fn a_destructor_may_use_the_map() {
    echoes_are_all_dropped(false);
}

#[test]
fn a_destructor_may_use_the_map_and_panic() {
    echoes_are_all_dropped(true);
}

/// Many maps that end inside of another map's call: each ends by itself, not inside of the one before.
#[test]
fn many_nested_maps_end_at_once_on_a_small_stack() {
    let _watchdog = watchdog::start();
    type Outer = HashMap<u32, HashMap<u32, Box<u32>>>;
    let end = || {
        let outer = Outer::new();
        for k in 0..size(100_000) as u32 {
            outer.pin().insert(k, HashMap::from([(k, Box::new(k))]));
        }
        outer.clear();
        outer.flush();
        for k in 0..100 {
            outer.pin().insert(k, HashMap::from([(k, Box::new(k))]));
        }
    };
    let small = thread::Builder::new().stack_size(256 << 10).spawn(end);
    small.unwrap().join().unwrap();
}

/// Each value removes the next one when it is dropped, and asks for it to be dropped: it is, but not inside of the first.
#[test]
fn a_long_chain_of_destructors_that_flush_ends_on_a_small_stack() {
    struct DropsNext(u32);
    impl Drop for DropsNext {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            MAP.pin().remove(&self.0);
            MAP.flush();
        }
    }
    static DROPPED: AtomicU32 = AtomicU32::new(0);
    static MAP: LazyLock<HashMap<u32, DropsNext>> = LazyLock::new(HashMap::new);
    const ENTRIES: u32 = 250;
    let _watchdog = watchdog::start();
    let end = || {
        (0..ENTRIES).for_each(|k| _ = MAP.pin().insert(k, DropsNext(k + 1)));
        MAP.pin().remove(&0);
        // Tests beside this one may be pinned for a while.
        while DROPPED.load(Ordering::Relaxed) < ENTRIES {
            MAP.flush();
            thread::yield_now();
        }
        assert!(MAP.is_empty());
    };
    let small = thread::Builder::new().stack_size(64 << 10).spawn(end);
    small.unwrap().join().unwrap();
}

/// The map is used by destructors of thread-local variables, set up before and after the thread's first pin.
#[test]
fn a_thread_may_use_the_map_while_it_ends() {
    static MAP: LazyLock<HashMap<u32, String>> = LazyLock::new(HashMap::new);
    struct Last(u32);
    impl Drop for Last {
        fn drop(&mut self) {
            MAP.insert(self.0, "last".to_owned());
            MAP.remove(&(self.0 + 1));
            assert_eq!(MAP.pin().get(&self.0).map(String::as_str), Some("last"));
            MAP.flush();
        }
    }
    thread_local! {
        static BEFORE: RefCell<Option<Last>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    race(4, |thread| {
        let k = 10 * thread as u32;
        BEFORE.set(Some(Last(k)));
        MAP.insert(k + 1, "first".to_owned());
        AFTER.set(Some(Last(k + 5)));
    });
    // A scope ends when its threads have returned; their variables may end later. Joined threads are through.
    thread::spawn(|| {
        BEFORE.set(Some(Last(100)));
        MAP.insert(101, "first".to_owned());
        AFTER.set(Some(Last(105)));
    })
    .join()
    .unwrap();
    assert!(MAP.contains_key(&100) && MAP.contains_key(&105) && !MAP.contains_key(&101));
}

/// A thread's last destructor ends the map itself, with what other threads have inserted and removed.
#[test]
fn a_map_may_end_while_a_thread_ends() {
    type Shared = Arc<HashMap<u32, Arc<()>>>;
    thread_local! { static LAST: RefCell<Option<Shared>> = const { RefCell::new(None) } }
    let counter = Arc::new(());
    for _ in 0..size(200) {
        let map = Shared::default();
        for k in 0..20 {
            map.insert(k, counter.clone());
            map.remove(&(k / 2));
        }
        let end = move || {
            map.pin().remove(&19);
            LAST.set(Some(map));
        };
        thread::spawn(end).join().unwrap();
        assert_eq!(Arc::strong_count(&counter), 1);
    }
}

// ---- Types and sizes at the edge -------------------------------------------------------------------------------

/// Puts the keys in and takes them out again, by both faces, and compares with std.
fn exercise<K, V>(keys: impl IntoIterator<Item = K>, value: impl Fn(u32) -> V)
where
    K: Hash + Eq + Clone + Debug,
    V: Clone + PartialEq + Debug,
{
    let (map, mut std) = (HashMap::new(), Std::new());
    let keys: Vec<_> = keys.into_iter().collect();
    for round in 0..3 {
        for (n, key) in (round..).zip(&keys) {
            assert_eq!(
                map.get_or_insert(key.clone(), value(n)),
                *std.entry(key.clone()).or_insert(value(n))
            );
            assert_eq!(
                map.insert(key.clone(), value(n + 1)),
                std.insert(key.clone(), value(n + 1))
            );
            assert_eq!(map.len(), std.len());
        }
        let pinned = map.pin();
        for (key, expected) in &std {
            let found = pinned.get(key).expect("inserted");
            assert_eq!(found, expected);
            assert!(ptr::from_ref(found).is_aligned());
        }
        assert_eq!(pinned.iter().count(), std.len());
        for key in keys.iter().step_by(2) {
            assert_eq!(pinned.remove(key), std.remove(key).as_ref());
            assert!(!pinned.contains_key(key));
        }
        drop(pinned);
        map.flush();
    }
    assert!(
        map.into_iter()
            .all(|(key, value)| std.remove(&key) == Some(value))
    );
    assert!(std.is_empty());
}

#[test]
fn zero_sized_keys_and_values_are_ordinary() {
    exercise([()], |_| ());
    exercise([()], |n| n.to_string());
    exercise(0..=u8::MAX, |_| ());
    exercise([[(); 3]], |_| [(); 5]);
}

/// There is a niche in each of these types: an invalid value made on the way would be undefined behaviour.
#[test]
fn types_with_invalid_bit_patterns_are_ordinary() {
    exercise([false, true], |n| n % 2 == 0);
    exercise(['\0', 'a', char::MAX], |n| char::from_u32(n).unwrap());
    exercise((1..=u8::MAX).map(|n| NonZeroU8::new(n).unwrap()), |n| {
        NonZeroU8::new(n as u8)
    });
    exercise([None, Some(false), Some(true)], |n| {
        (n % 3 > 0).then_some(n % 2 == 0)
    });
    exercise(["", "a", "b"], |n| ["", "x", "y"][n as usize % 3]);
    exercise(["", "a"].map(Box::<str>::from), |n| vec![n; n as usize]);
    let map: HashMap<u32, Box<dyn Fn(u32) -> u32>> = HashMap::new();
    map.pin().insert(1, Box::new(|n| n + 1));
    assert_eq!(map.pin().get(&1).map(|add| add(1)), Some(2));
}

#[test]
fn keys_and_values_of_every_bit_pattern_are_ordinary() {
    exercise(0..=u8::MAX, |n| n);
    exercise([0, 1, usize::MAX, usize::MAX - 1, 1 << 63, 1 << 32], |n| {
        u64::MAX - u64::from(n)
    });
    exercise([0, u128::MAX], |n| [n as u8; 12]);
    exercise([f64::NAN, 0.0, -0.0].map(f64::to_bits), |n| {
        (n as u8, u64::from(n))
    });
    exercise((0..1_000).map(|n| n << 20), |n| n);
}

#[test]
fn values_keep_their_alignment() {
    #[derive(Clone, Debug, PartialEq)]
    #[repr(align(64))]
    struct Line(u8);
    #[derive(Clone, Debug, PartialEq)]
    #[repr(align(4096))]
    struct Page(u8);
    exercise(0..100, |n| Line(n as u8));
    exercise(0..20, |n| Page(n as u8));
    exercise(0..20, |n| [n; 2_000]);
}

/// They come and go by value, which the caller's stack must bear; nothing else puts one there.
#[test]
fn huge_entries_are_used_on_a_small_stack() {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Huge([u64; 1 << 14]);
    type Huges = HashMap<(u32, Huge), Huge, Hashes>;
    /// Finds the key without being a huge one itself.
    struct Number(u32);
    impl Hash for Number {
        fn hash<H: Hasher>(&self, state: &mut H) {
            0.hash(state);
            _ = self;
        }
    }
    impl Equivalent<(u32, Huge)> for Number {
        fn equivalent(&self, key: &(u32, Huge)) -> bool {
            self.0 == key.0
        }
    }
    let on_stack = |kib: usize, work: &(dyn Fn() + Sync)| {
        let builder = thread::Builder::new().stack_size(kib << 10);
        thread::scope(|scope| builder.spawn_scoped(scope, work).unwrap().join().unwrap());
    };
    let map = Huges::with_hasher(Hashes::Constant);
    on_stack(32 << 10, &|| {
        for k in 0..12 {
            map.pin()
                .insert((k, Huge([0; 1 << 14])), Huge([k.into(); 1 << 14]));
        }
    });
    let shared = std::sync::Mutex::new(Some(map));
    on_stack(64, &|| {
        let mut map = shared.lock().unwrap().take().unwrap();
        map.reserve(20);
        let pinned = map.pin();
        for k in 0..12 {
            let value = pinned.get(&Number(k)).expect("inserted");
            assert_eq!(value.0[k as usize], k.into());
        }
        assert!(pinned.remove(&Number(3)).is_some());
        assert!(
            pinned
                .remove_if(&Number(4), |_, value| value.0[0] == 4)
                .is_some()
        );
        pinned.retain(|key, _| key.0 != 5);
        assert_eq!(pinned.iter().count(), 9);
        drop(pinned);
        map.flush();
        map.shrink_to_fit();
        map.get_mut(&Number(6)).expect("inserted").0[0] = 7;
        assert_eq!(map.values_mut().filter(|value| value.0[0] == 7).count(), 2);
        map.clear();
        map.flush();
        assert!(map.is_empty());
    });
}

#[test]
fn keys_are_looked_up_by_what_is_equivalent_to_them() {
    #[derive(Hash)]
    struct Pair<'a>(&'a str, u32);
    impl Equivalent<(String, u32)> for Pair<'_> {
        fn equivalent(&self, key: &(String, u32)) -> bool {
            (self.0, self.1) == (&key.0, key.1)
        }
    }
    let strings = HashMap::from([(String::new(), 0), ("a".to_owned(), 1)]);
    assert_eq!(
        (strings.get(""), strings.remove("a"), strings.get("a")),
        (Some(0), Some(1), None)
    );
    let bytes = HashMap::from([(vec![], 0), (vec![0u8], 1)]);
    assert_eq!(
        (bytes.get([].as_slice()), bytes.get([0].as_slice())),
        (Some(0), Some(1))
    );
    let pairs = HashMap::from([(("a".to_owned(), 1), 'x')]);
    assert_eq!(
        (pairs.get(&Pair("a", 1)), pairs.get(&Pair("a", 2))),
        (Some('x'), None)
    );
    assert_eq!(pairs.update(&Pair("a", 1), |_| 'y'), Some('y'));
}

#[test]
fn a_map_made_for_so_many_entries_holds_them_without_growing() {
    for n in 0..=1025usize {
        let map = HashMap::with_capacity_and_hasher(n, Hashes::Good);
        let capacity = map.capacity();
        assert!(capacity >= n, "room for {capacity} of {n}");
        for round in 0..2 {
            (0..n as u32).for_each(|k| _ = map.insert(k, round));
            assert_eq!(
                (map.len(), map.capacity()),
                (n, capacity),
                "{n} entries, round {round}"
            );
        }
        let reserved = Plain::new();
        reserved.reserve(n);
        assert!(reserved.capacity() >= n);
    }
}

#[test]
fn what_cannot_be_addressed_is_refused_and_harms_nothing() {
    let refused = |call: &dyn Fn()| {
        let panic = panic::catch_unwind(panic::AssertUnwindSafe(call)).expect_err("refused");
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or(panic.downcast_ref::<&str>().copied());
        assert!(
            message.is_some_and(|message| message.contains("capacity overflow")),
            "{message:?}"
        );
    };
    for n in [usize::MAX, usize::MAX / 2, usize::MAX / 64, 1 << 40] {
        refused(&|| drop(Plain::with_capacity(n)));
        let map = Plain::new();
        refused(&|| map.reserve(n));
        map.insert(1, 1);
        refused(&|| map.reserve(n));
        refused(&|| map.pin().reserve(n));
        map.insert(2, 2);
        assert_eq!((map.len(), map.get(&1), map.get(&2)), (2, Some(1), Some(2)));
    }
}

/// What a user can learn of one map's order tells nothing about another's, even with the same hash function.
#[test]
fn each_map_has_an_order_of_its_own() {
    let order = || {
        let map = HashMap::with_hasher(Hashes::Identity);
        (0..64u32).for_each(|k| _ = map.insert(k, ()));
        map.keys().collect::<Vec<_>>()
    };
    assert_ne!(order(), order());
}

#[test]
fn keys_that_collide_wholly_or_partly_are_all_found() {
    let _watchdog = watchdog::start();
    for hashes in Hashes::HONEST {
        let keys = match hashes {
            Hashes::Constant => size(4_000),
            _ => size(40_000),
        } as u32;
        let map: HashMap<u32, u32, Hashes> = HashMap::with_hasher(hashes);
        for k in 0..keys {
            assert_eq!(map.insert(k << 12, k), None);
        }
        assert!(
            (0..keys).all(|k| map.get(&(k << 12)) == Some(k)),
            "{hashes:?}"
        );
        assert!(
            (0..keys).all(|k| map.remove(&(k << 12)) == Some(k)),
            "{hashes:?}"
        );
        assert!(map.is_empty());
    }
}

/// Nothing but live entries and tombstones in the way: searches end.
#[test]
fn a_table_full_of_tombstones_answers() {
    let _watchdog = watchdog::start();
    for capacity in [0, 1, 5, 7, 20, 40] {
        let map = Plain::with_capacity(capacity);
        for k in 0..2_000 {
            map.insert(k, k);
            assert_eq!(map.remove(&k), Some(k));
            assert_eq!((map.get(&k), map.get(&(k + 1))), (None, None));
        }
        assert!(map.is_empty());
    }
}
