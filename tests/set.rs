//! `HashSet` and `PinnedSet`: random scripts against std's `HashSet`, and what several threads may rely on.
#![cfg(not(loom))]
#![allow(
    clippy::mutable_key_type,
    reason = "a key refers to its ledger, which does not count"
)]

mod support;

use std::cell::Cell;
use std::collections::HashSet as Std;
use std::hash::{Hash, Hasher};
use std::panic;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use quickcheck::{Arbitrary, Gen, QuickCheck};
use quince::{Equivalent, HashSet};

use support::hashers::Hashes;
use support::ledger::{Key, Ledger};
use support::{race, size, watchdog};

type Set<'l> = HashSet<Key<'l>, Hashes>;

/// `(number, label)` of a value: equal numbers are equal values, the label tells which of them is stored.
type Labelled = (u32, u32);

#[derive(Clone, Copy, Debug)]
enum Verb {
    Insert(Labelled),
    GetOrInsert(Labelled),
    GetOrInsertWith(Labelled),
    GetOrInsertRef(Labelled),
    Contains(u32),
    Get(u32),
    Take(u32),
    Remove(u32),
    /// All but the multiples.
    Retain(u32),
    Clear,
    Count,
    All,
    Copy,
    Tidy,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Nothing,
    Is(bool),
    One(Option<Labelled>),
    All(Vec<Labelled>),
    Count(usize, bool),
}

fn labelled(value: &Key<'_>) -> Labelled {
    (value.number(), value.label())
}

fn all<'k, 'l: 'k>(values: impl Iterator<Item = &'k Key<'l>>) -> Answer {
    let mut values: Vec<_> = values.map(labelled).collect();
    values.sort_unstable();
    Answer::All(values)
}

impl Verb {
    fn on_std<'l>(self, set: &mut Std<Key<'l>>, ledger: &'l Ledger) -> Answer {
        match self {
            Self::Insert((n, label)) => Answer::Is(set.insert(ledger.key(n, label))),
            Self::GetOrInsert((n, label))
            | Self::GetOrInsertWith((n, label))
            | Self::GetOrInsertRef((n, label)) => {
                set.insert(ledger.key(n, label));
                Answer::One(set.get(&ledger.key(n, label)).map(labelled))
            }
            Self::Contains(n) => Answer::Is(set.contains(&ledger.key(n, 0))),
            Self::Get(n) => Answer::One(set.get(&ledger.key(n, 0)).map(labelled)),
            Self::Take(n) => Answer::One(set.take(&ledger.key(n, 0)).as_ref().map(labelled)),
            Self::Remove(n) => Answer::Is(set.remove(&ledger.key(n, 0))),
            Self::Retain(n) => {
                set.retain(|value| value.number() % n != 0);
                Answer::Nothing
            }
            Self::Clear => {
                set.clear();
                Answer::Nothing
            }
            Self::Count => Answer::Count(set.len(), set.is_empty()),
            Self::All | Self::Copy => all(set.iter()),
            Self::Tidy => Answer::Nothing,
        }
    }

    fn on_owned<'l>(self, set: &Set<'l>, ledger: &'l Ledger) -> Answer {
        let found = |value: Option<Key<'_>>| Answer::One(value.as_ref().map(labelled));
        match self {
            Self::Insert((n, label)) => Answer::Is(set.insert(ledger.key(n, label))),
            Self::GetOrInsert((n, label)) => found(Some(set.get_or_insert(ledger.key(n, label)))),
            Self::GetOrInsertWith((n, label)) => {
                found(Some(set.get_or_insert_with(&n, |&n| ledger.key(n, label))))
            }
            Self::GetOrInsertRef((n, label)) => {
                found(Some(set.get_or_insert_ref(&ledger.probe(n, label))))
            }
            Self::Contains(n) => Answer::Is(set.contains(&n)),
            Self::Get(n) => found(set.get(&n)),
            Self::Take(n) => found(set.take(&n)),
            Self::Remove(n) => Answer::Is(set.remove(&n)),
            Self::Retain(n) => {
                set.retain(|value| value.number() % n != 0);
                Answer::Nothing
            }
            Self::Clear => {
                set.clear();
                Answer::Nothing
            }
            Self::Count => Answer::Count(set.len(), set.is_empty()),
            Self::All => all(set.iter().collect::<Vec<_>>().iter()),
            Self::Copy => {
                let copy = set.clone();
                assert_eq!(&copy, set);
                all(copy.into_iter().collect::<Vec<_>>().iter())
            }
            Self::Tidy => {
                set.reserve(20);
                set.flush();
                Answer::Nothing
            }
        }
    }

    fn on_pinned<'l>(self, set: &Set<'l>, ledger: &'l Ledger) -> Answer {
        let mut pinned = set.pin();
        let found = |value: Option<&Key<'_>>| Answer::One(value.map(labelled));
        match self {
            Self::Insert((n, label)) => Answer::Is(pinned.insert(ledger.key(n, label))),
            Self::GetOrInsert((n, label)) => {
                found(Some(pinned.get_or_insert(ledger.key(n, label))))
            }
            Self::GetOrInsertWith((n, label)) => found(Some(
                pinned.get_or_insert_with(&n, |&n| ledger.key(n, label)),
            )),
            Self::GetOrInsertRef((n, label)) => {
                found(Some(pinned.get_or_insert_ref(&ledger.probe(n, label))))
            }
            Self::Contains(n) => Answer::Is(pinned.contains(&n)),
            Self::Get(n) => found(pinned.get(&n)),
            Self::Take(n) => found(pinned.take(&n)),
            Self::Remove(n) => Answer::Is(pinned.remove(&n)),
            Self::Retain(n) => {
                pinned.retain(|value| value.number() % n != 0);
                Answer::Nothing
            }
            Self::Clear => {
                pinned.clear();
                Answer::Nothing
            }
            Self::Count => Answer::Count(pinned.len(), pinned.is_empty()),
            Self::All => all(pinned.iter()),
            Self::Copy => all(Set::from_iter(pinned.iter().cloned()).pin().iter()),
            Self::Tidy => {
                set.shrink_to_fit();
                pinned.flush();
                Answer::Nothing
            }
        }
    }
}

impl Arbitrary for Verb {
    fn arbitrary(g: &mut Gen) -> Self {
        let mut below = |bound| u32::arbitrary(g) % bound;
        // Few, so that they meet; the first table has seven slots.
        let (number, label) = (below(24), below(1_000));
        match below(24) {
            0..6 => Self::Insert((number, label)),
            6..8 => Self::GetOrInsert((number, label)),
            8..10 => Self::GetOrInsertWith((number, label)),
            10..12 => Self::GetOrInsertRef((number, label)),
            12..14 => Self::Contains(number),
            14 => Self::Get(number),
            15..17 => Self::Take(number),
            17..19 => Self::Remove(number),
            19 => Self::Retain(2 + number),
            20 if label % 4 == 0 => Self::Clear,
            20 | 21 => Self::All,
            22 => Self::Copy,
            _ if label % 2 == 0 => Self::Count,
            _ => Self::Tidy,
        }
    }
}

#[derive(Clone, Debug)]
struct Script {
    hashes: Hashes,
    /// On the owned face?
    verbs: Vec<(bool, Verb)>,
}

impl Arbitrary for Script {
    fn arbitrary(g: &mut Gen) -> Self {
        Self {
            hashes: *g.choose(&Hashes::HONEST).expect("not empty"),
            verbs: Vec::arbitrary(g),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let hashes = self.hashes;
        Box::new(self.verbs.shrink().map(move |verbs| Self { hashes, verbs }))
    }
}

fn check(script: Script) {
    let ledger = Ledger::new();
    let set = Set::with_hasher(script.hashes);
    let mut std = Std::new();
    for (step, &(owned, verb)) in script.verbs.iter().enumerate() {
        let answer = match owned {
            true => verb.on_owned(&set, &ledger),
            false => verb.on_pinned(&set, &ledger),
        };
        let expected = verb.on_std(&mut std, &ledger);
        assert_eq!(answer, expected, "step {step}, {verb:?}");
    }
    drop((set, std));
    ledger.assert_balanced();
}

#[test]
fn every_script_is_answered_as_by_std() {
    let _watchdog = watchdog::start();
    for (scripts, length) in [(4_000, 60), (400, 600)] {
        QuickCheck::new()
            .tests(size(scripts) as u64)
            .max_tests(size(scripts) as u64)
            .rng(Gen::new(length))
            .quickcheck(check as fn(Script));
    }
}

/// The comparison bites: with a hash that changes, a set must give wrong answers.
#[test]
fn a_wrong_answer_is_noticed() {
    let verbs = (0..20).flat_map(|n| [Verb::Insert((n, n)), Verb::Get(n)]);
    let script = Script {
        hashes: Hashes::Random,
        verbs: verbs.map(|verb| (true, verb)).collect(),
    };
    assert!(panic::catch_unwind(|| check(script)).is_err());
}

#[test]
fn two_sets_are_related_as_by_std() {
    fn check(a: Vec<u8>, b: Vec<u8>) {
        let (std_a, std_b) = (
            Std::<u8>::from_iter(a.clone()),
            Std::<u8>::from_iter(b.clone()),
        );
        let (a, b) = (HashSet::<u8>::from_iter(a), HashSet::<u8>::from_iter(b));
        let (a, b) = (a.pin(), b.pin());
        // Sorted, and not made a set of: none may come twice.
        fn sorted<'t>(values: impl Iterator<Item = &'t u8>) -> Vec<u8> {
            let mut values: Vec<_> = values.copied().collect();
            values.sort_unstable();
            values
        }
        assert_eq!(sorted(a.union(&b)), sorted(std_a.union(&std_b)));
        assert_eq!(
            sorted(a.intersection(&b)),
            sorted(std_a.intersection(&std_b))
        );
        assert_eq!(sorted(a.difference(&b)), sorted(std_a.difference(&std_b)));
        assert_eq!(
            sorted(a.symmetric_difference(&b)),
            sorted(std_a.symmetric_difference(&std_b))
        );
        assert_eq!(a.is_subset(&b), std_a.is_subset(&std_b));
        assert_eq!(a.is_superset(&b), std_a.is_superset(&std_b));
        assert_eq!(a.is_disjoint(&b), std_a.is_disjoint(&std_b));
    }
    for length in [4, 40, 400] {
        QuickCheck::new()
            .tests(size(1_600) as u64)
            .rng(Gen::new(length))
            .quickcheck(check as fn(Vec<u8>, Vec<u8>));
    }
    // Two random sets are hardly ever one inside of the other.
    let (part, whole) = (
        HashSet::<u32>::from_iter(0..50),
        HashSet::<u32>::from_iter(0..100),
    );
    let (part, whole) = (part.pin(), whole.pin());
    assert!(part.is_subset(&whole) && whole.is_superset(&part));
    assert!(!whole.is_subset(&part) && !part.is_superset(&whole));
}

#[test]
fn the_first_of_equal_values_stays_in_every_bulk_construction() {
    let ledger = Ledger::new();
    let values = || (0..60).map(|n| ledger.key(n / 2, n));
    let collected: Set<'_> = values().collect();
    let mut extended = Set::default();
    extended.extend(values());
    let mut shared = &Set::default();
    shared.extend(values());
    for set in [&collected, &extended, shared] {
        assert_eq!(set.len(), 30);
        assert!(
            set.pin()
                .iter()
                .all(|value| value.label() == 2 * value.number())
        );
    }
    assert_eq!(HashSet::from(["a", "b", "a"]).len(), 2);
    let mut copied = HashSet::<u32>::with_capacity(100);
    copied.extend(&[1, 2, 1]);
    assert_eq!((copied.len(), copied.drain().len()), (2, 2));
    copied.insert(1);
    copied.clear_mut();
    assert!(copied.is_empty());
}

#[test]
fn a_set_prints_as_std_does() {
    let (set, std) = (HashSet::from([(1, "a")]), Std::from([(1, "a")]));
    assert_eq!(format!("{set:?}"), format!("{std:?}"));
    assert_eq!(format!("{:#?}", set.pin()), format!("{std:#?}"));
}

#[test]
fn a_closure_that_makes_another_value_is_found_out() {
    let set = HashSet::<String>::new();
    let swapped = || set.get_or_insert_with("a", |_| "b".to_owned());
    assert!(panic::catch_unwind(panic::AssertUnwindSafe(swapped)).is_err());
    assert!(set.is_empty());
}

// ---- Several threads -------------------------------------------------------------------------------------------

const THREADS: usize = 8;

/// Runs a broken twin until the check finds it out. That it never does is for the watchdog to say.
fn until_caught(mut caught: impl FnMut() -> bool) {
    let _watchdog = watchdog::start();
    while !caught() {}
}

/// Inserts and tells whether it has won.
type Insert = fn(&HashSet<u32>, u32) -> bool;

/// All threads insert all values, in the same order. Whether each value was new to exactly one of them.
fn one_wins(insert: Insert) -> bool {
    let values = size(8_000) as u32;
    let set = HashSet::new();
    let winners: Vec<_> = (0..values).map(|_| AtomicU32::new(0)).collect();
    race(THREADS, |_| {
        for (value, winners) in (0..).zip(&winners) {
            winners.fetch_add(insert(&set, value).into(), Ordering::Relaxed);
        }
    });
    assert_eq!(
        (set.len(), set.iter().count()),
        (winners.len(), winners.len())
    );
    winners.into_iter().all(|winners| winners.into_inner() == 1)
}

#[test]
fn of_all_that_insert_a_value_one_is_told_that_it_was_new() {
    let ways: [Insert; 2] = [
        |set, value| set.insert(value),
        |set, value| set.pin().insert(value),
    ];
    assert!(ways.into_iter().all(one_wins));
    let check_then_insert: Insert = |set, value| {
        let absent = !set.contains(&value);
        set.insert(value);
        absent
    };
    until_caught(|| !one_wins(check_then_insert));
}

/// Inserts, if need be, and returns what is in the set.
type Intern = fn(&HashSet<Arc<str>>, &str) -> Arc<str>;

/// All threads intern all names, in the same order. Whether each name is one `Arc` to all.
fn one_for_all(intern: Intern) -> bool {
    let names: Vec<_> = (0..size(4_000)).map(|n| n.to_string()).collect();
    let set = HashSet::new();
    let given = race(THREADS, |_| {
        let intern = |name: &String| intern(&set, name);
        names.iter().map(intern).collect::<Vec<_>>()
    });
    let same = |theirs: &Vec<Arc<str>>| {
        let pairs = theirs.iter().zip(&given[0]);
        pairs.into_iter().all(|(a, b)| Arc::ptr_eq(a, b))
    };
    given.iter().all(same)
}

#[test]
fn all_who_intern_a_string_are_given_the_same_one() {
    let ways: [Intern; 4] = [
        |set, name| set.get_or_insert(name.into()),
        |set, name| set.get_or_insert_ref(name),
        |set, name| set.get_or_insert_with(name, |name| Arc::from(name)),
        |set, name| Arc::clone(set.pin().get_or_insert_ref(name)),
    ];
    assert!(ways.into_iter().all(one_for_all));
    let check_then_insert: Intern = |set, name| {
        set.get(name).unwrap_or_else(|| {
            let mine = Arc::<str>::from(name);
            set.insert(Arc::clone(&mine));
            mine
        })
    };
    until_caught(|| !one_for_all(check_then_insert));
}

#[test]
fn what_is_interned_is_lent_although_others_remove_it() {
    let ledger = Ledger::new();
    let set = Set::default();
    race(4, |thread| {
        for round in 0..size(40_000) as u32 {
            let pinned = set.pin();
            match thread {
                0 => _ = pinned.remove(&(round % 4)),
                1 => pinned.clear(),
                _ => {
                    let lent = pinned.get_or_insert_ref(&ledger.probe(round % 4, round));
                    assert_eq!(lent.number(), round % 4);
                }
            }
        }
    });
    drop(set);
    ledger.assert_balanced();
}

// ---- Bounds ----------------------------------------------------------------------------------------------------

#[test]
fn a_set_asks_of_its_values_what_a_map_asks_of_its_keys() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<HashSet<Cell<u8>>>();
    sync::<HashSet<String>>();
    // Neither `Send` nor `'static`.
    let text = String::from("a rose is a rose");
    let borrowed: HashSet<&str> = text.split(' ').collect();
    let local: HashSet<Rc<str>> = text.split(' ').map(Rc::from).collect();
    assert_eq!((borrowed.len(), local.len()), (3, 3));
    assert!(Rc::ptr_eq(
        &local.get_or_insert_ref("rose"),
        &local.get_or_insert_ref("rose")
    ));
    // What cannot be cloned can be lent.
    struct Name(String);
    impl PartialEq for Name {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Name {}
    impl Hash for Name {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }
    impl Equivalent<Name> for str {
        fn equivalent(&self, name: &Name) -> bool {
            self == name.0
        }
    }
    let names = HashSet::new();
    let pinned = names.pin();
    let make = |name: &str| Name(name.to_owned());
    assert!(ptr::eq(
        pinned.get_or_insert_with("ada", make),
        pinned.get_or_insert_with("ada", make)
    ));
    assert!(!pinned.insert(make("ada")));
    assert!(pinned.take("ada").is_some_and(|name| name.0 == "ada"));
}
