//! What threads may rely on in a `CountedMap`. Where the same task has a naive solution, it stands beside the test as a
//! broken twin, and the same check must find it out.
#![cfg(not(loom))]

mod support;

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher, RandomState};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;

use quince::{CountedMap, HashMap, Member};

use support::hashers::Hashes;
use support::ledger::{Event, Key, Ledger, Value};
use support::{Random, race, size, watchdog};

const THREADS: usize = 8;

type Map<V> = CountedMap<u32, V, Hashes>;

fn map<V>(hashes: Hashes) -> Map<V> {
    Map::with_hasher(hashes)
}

/// Runs a broken twin until the check finds it out. That it never does is for the watchdog to say.
fn until_caught(mut caught: impl FnMut() -> bool) {
    let _watchdog = watchdog::start();
    while !caught() {}
}

// ---- One entry per key at a time -------------------------------------------------------------------------------

/// Numbers entries in the order in which they are made.
#[derive(Default)]
struct Numbers(AtomicU32);

impl Numbers {
    fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Who is a member now, as the members say: they enter themselves after they joined and sign off before they leave.
#[derive(Default)]
struct Presence(Mutex<State>);

#[derive(Default)]
struct State {
    entry: Option<u32>,
    members: usize,
    most: usize,
    entries: BTreeSet<u32>,
    /// Whether there ever were members of two entries at a time.
    split: bool,
}

impl Presence {
    fn enter(&self, entry: u32) {
        let mut state = self.0.lock().unwrap();
        state.split |= state.entry.is_some_and(|current| current != entry);
        state.entry = Some(entry);
        state.entries.insert(entry);
        state.members += 1;
        state.most = state.most.max(state.members);
    }

    fn leave(&self) {
        let mut state = self.0.lock().unwrap();
        state.members -= 1;
        if state.members == 0 {
            state.entry = None;
        }
    }

    fn into_inner(self) -> State {
        self.0.into_inner().unwrap()
    }
}

/// All threads come and go, by `join`, which runs what it is given inside, with the number of the entry, or turns it away.
/// Returns, by key, what the members saw.
fn come_and_go(
    keys: u32,
    rounds: usize,
    join: impl Fn(u32, &Numbers, &dyn Fn(u32)) + Sync,
) -> Vec<State> {
    let (numbers, presence): (_, Vec<_>) = (
        Numbers::default(),
        (0..keys).map(|_| Presence::default()).collect(),
    );
    race(THREADS, |thread| {
        let mut random = Random::new(thread as u64);
        for _ in 0..rounds {
            let (key, linger) = (random.below(keys), random.below(16) == 0);
            join(key, &numbers, &|entry| {
                presence[key as usize].enter(entry);
                if linger {
                    thread::yield_now();
                }
                presence[key as usize].leave();
            });
        }
    });
    presence.into_iter().map(Presence::into_inner).collect()
}

const LIMIT: usize = 3;

#[test]
fn members_of_a_key_are_members_of_one_entry_and_never_more_than_the_limit() {
    for (hashes, keys) in [(Hashes::Good, 1), (Hashes::Good, 3), (Hashes::Constant, 3)] {
        for keeps_idle in [false, true] {
            let map = map(hashes);
            let map = if keeps_idle { map.keeping_idle() } else { map };
            let swept = AtomicUsize::new(0);
            let states = come_and_go(keys, size(400_000), |key, numbers, inside| {
                if let Some(member) = map.try_join(key, LIMIT, || numbers.next()) {
                    assert!(member.count() <= LIMIT);
                    inside(*member);
                }
                // Each of them is a mere look, most of the time.
                if keeps_idle && numbers.0.load(Ordering::Relaxed) % 8 == key {
                    swept.fetch_add(map.sweep(), Ordering::Relaxed);
                }
            });
            for state in &states {
                assert!(!state.split, "members of two entries at a time");
                assert!(state.most <= LIMIT, "{} members", state.most);
            }
            if keeps_idle {
                swept.fetch_add(map.sweep(), Ordering::Relaxed);
                let entries: usize = states.iter().map(|state| state.entries.len()).sum();
                assert_eq!(swept.into_inner(), entries, "each is swept once");
            }
            assert_eq!((map.len(), map.is_empty()), (0, true));
        }
    }
    until_caught(|| {
        let states = come_and_go(1, 1_000, counted_beside_the_value);
        states.iter().any(|state| state.most > LIMIT)
    });
    until_caught(|| {
        let states = come_and_go(1, 1_000, counted_beside_the_value);
        states.iter().any(|state| state.split)
    });
}

/// The naive solution: whoever counts down to zero removes the entry, and with it those who have just counted themselves
/// in.
fn counted_beside_the_value(key: u32, numbers: &Numbers, inside: &dyn Fn(u32)) {
    static MAP: LazyLock<HashMap<u32, Arc<(u32, AtomicUsize)>>> = LazyLock::new(HashMap::new);
    let entry = MAP.get_or_insert_with(key, || Arc::new((numbers.next(), AtomicUsize::new(0))));
    if entry.1.fetch_add(1, Ordering::AcqRel) < LIMIT {
        inside(entry.0);
    }
    if entry.1.fetch_sub(1, Ordering::AcqRel) == 1 {
        thread::yield_now();
        MAP.remove(&key);
    }
}

/// What a lock per key is for.
#[test]
fn a_lock_that_exists_while_it_is_used_excludes() {
    let (locks, accounts) = (map::<Mutex<()>>(Hashes::Good), [0; 4].map(AtomicU32::new));
    let rounds = size(200_000) as u32;
    race(THREADS, |thread| {
        for round in 0..rounds {
            let key = (round + thread as u32) % 4;
            let lock = locks.join(key, Mutex::default);
            let _held = lock.lock().unwrap();
            let account = &accounts[key as usize];
            let balance = account.load(Ordering::Relaxed);
            account.store(balance + 1, Ordering::Relaxed);
        }
    });
    let sum: u32 = accounts.into_iter().map(AtomicU32::into_inner).sum();
    assert_eq!(sum, rounds * THREADS as u32);
    assert!(locks.is_empty());
}

#[test]
fn one_hot_key_ends_with_as_many_entries_dropped_as_made() {
    for hashes in [Hashes::Good, Hashes::Constant] {
        let ledger = Ledger::new();
        let map = CountedMap::with_hasher(hashes);
        race(THREADS, |_| {
            for _ in 0..size(100_000) {
                let member = map.join(ledger.key(1, 0), || ledger.value(7));
                assert_eq!((member.number(), member.key().number()), (7, 1));
            }
        });
        assert_eq!((map.len(), map.is_empty(), map.count(&1)), (0, true, 0));
        let _watchdog = watchdog::start();
        while ledger.live() > 0 {
            map.flush();
            thread::yield_now();
        }
        drop(map);
        ledger.assert_balanced();
    }
}

#[test]
fn an_entry_is_there_as_long_as_somebody_is_its_member() {
    let map = map(Hashes::Good);
    race(THREADS, |thread| {
        let key = thread as u32;
        for round in 0..size(20_000) as u32 {
            let member = map.join(key, || round);
            let found = map.get(&key).expect("there is a member");
            assert!(ptr::eq::<u32>(&*member, &*found));
            assert_eq!((*found, found.count(), map.count(&key)), (round, 2, 2));
            assert!(!map.is_empty());
            drop(member);
            assert_eq!(map.get(&key).as_deref(), Some(&round));
            drop(found);
            assert!(map.get(&key).is_none(), "the last one is gone");
        }
    });
    assert_eq!(map.len(), 0);
}

// ---- What each method does -------------------------------------------------------------------------------------

#[test]
fn a_look_never_makes_an_entry() {
    let map = map::<u32>(Hashes::Good).keeping_idle();
    assert!(map.get(&1).is_none());
    assert_eq!((map.count(&1), map.len(), map.sweep()), (0, 0, 0));
    drop(map.join(1, || 7));
    // But it finds one without members.
    assert_eq!(map.count(&1), 0);
    let member = map.get(&1).expect("kept");
    assert_eq!((*member, member.count(), map.sweep()), (7, 1, 0));
    drop(member);
    assert_eq!((map.sweep(), map.len()), (1, 0));
    assert!(map.get(&1).is_none());
}

#[test]
fn the_limit_counts_members_however_they_came() {
    let map = Arc::new(map::<()>(Hashes::Good));
    assert!(
        map.try_join(1, 0, || unreachable!("nobody may join"))
            .is_none()
    );
    let joined = map.join(1, || ());
    let cloned = joined.clone();
    let found = map.get(&1).expect("joined");
    let owned = map.join_owned(1, || ());
    let shared = owned.clone();
    assert_eq!(map.count(&1), 5);
    for limit in [0, 1, 5] {
        assert!(map.try_join(1, limit, || ()).is_none());
        assert!(map.try_join_owned(1, limit, || ()).is_none());
    }
    let sixth = map.try_join_owned(1, 6, || ()).expect("one more");
    assert_eq!(sixth.count(), 6);
    drop((joined, cloned, found));
    assert_eq!((map.count(&1), map.len()), (3, 1));
    drop((owned, shared, sixth));
    assert_eq!((map.count(&1), map.len()), (0, 0));
}

#[test]
fn members_move_between_threads() {
    fn send<T: Send + Sync>() {}
    send::<Member<String, Vec<u8>>>();
    let map = Arc::new(map(Hashes::Good));
    let member = map.join_owned(1, || 7);
    let other = Arc::clone(&map);
    let left = thread::spawn(move || {
        assert_eq!((*member, other.count(&1)), (7, 1));
        drop(other);
        member
    });
    let member = left.join().unwrap();
    // The last one that holds the map.
    drop(map);
    drop(member);
}

#[test]
fn a_forgotten_member_keeps_its_entry() {
    let map = map(Hashes::Good);
    std::mem::forget(map.join(1, || 7));
    assert_eq!((map.count(&1), map.len(), map.sweep()), (1, 1, 0));
    assert_eq!(*map.join(1, || 8), 7);
    assert_eq!(map.len(), 1);
}

// ---- User code that calls back, and panics ---------------------------------------------------------------------

#[test]
fn making_a_value_holds_nothing() {
    let map = map(Hashes::Good);
    let member = map.join(1, || {
        drop(map.join(1, || 1));
        assert_eq!(map.len(), 0);
        2
    });
    assert_eq!(*member, 2);
    drop(member);

    // If another caller is first, what was made is dropped.
    struct Bye<'a>(u32, &'a AtomicU32);
    impl Drop for Bye<'_> {
        fn drop(&mut self) {
            self.1.fetch_add(self.0, Ordering::Relaxed);
        }
    }
    let dropped = AtomicU32::new(0);
    let map = self::map(Hashes::Good);
    let mut first = None;
    let member = map.join(1, || {
        first = Some(map.join(1, || Bye(1, &dropped)));
        Bye(2, &dropped)
    });
    assert_eq!((member.0, member.count()), (1, 2));
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    assert!(map.try_join(1, 2, || unreachable!("full")).is_none());
    drop((member, first));
    assert_eq!((map.len(), map.count(&1)), (0, 0));
}

/// Every call of user code in every operation panics in turn.
#[test]
fn a_panic_of_user_code_leaves_no_member_that_nobody_holds() {
    type Op = for<'l> fn(&CountedMap<Key<'l>, Value<'l>, Hashes>, &'l Ledger);
    let ops: [Op; 5] = [
        |map, ledger| {
            let make = || {
                ledger.tick(Event::Closure);
                ledger.value(9)
            };
            drop(map.join(ledger.key(9, 0), make));
        },
        |map, ledger| {
            let member = map.join(ledger.key(9, 0), || ledger.value(9));
            let _another = map.try_join(ledger.key(9, 1), 2, || ledger.value(8));
            drop(member.clone());
        },
        |map, _| drop(map.get(&2)),
        |map, _| _ = map.count(&2),
        |map, _| _ = map.sweep(),
    ];
    let _watchdog = watchdog::start();
    let mut panics = 0;
    for (op, event) in ops
        .into_iter()
        .flat_map(|op| Event::ALL.map(|event| (op, event)))
    {
        for (hashes, entries) in [(Hashes::Good, 4), (Hashes::Good, 7), (Hashes::Constant, 7)] {
            for nth in 1.. {
                let ledger = Ledger::new();
                let map = CountedMap::with_hasher(hashes);
                let members: Vec<_> = (0..entries)
                    .map(|key| map.join(ledger.key(key, 0), || ledger.value(key)))
                    .collect();
                let (_, blown) = ledger.trip(event, nth, || op(&map, &ledger));
                for (key, member) in (0..).zip(&members) {
                    assert_eq!((member.number(), map.count(&key)), (key, 1));
                }
                // One may be left that could not be removed.
                assert_eq!(map.count(&9), 0);
                let again = map.join(ledger.key(9, 0), || ledger.value(7));
                assert_eq!((again.number(), map.len()), (7, members.len() + 1));
                drop((again, members));
                assert!(map.is_empty());
                drop(map);
                match event {
                    // A destructor that panics while results are on their way costs some of them, in any program.
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
    assert!(
        panics > 30,
        "only {panics} panics: the fuse is not where the map runs user code"
    );
}

/// A key that does something when it is hashed: between the steps of an operation.
#[derive(Clone, Copy)]
struct Hooked {
    number: u32,
    hook: fn(),
}

impl Hooked {
    const ONE: Self = Self {
        number: 1,
        hook: || {},
    };

    fn one_with(hook: fn()) -> Self {
        Self { number: 1, hook }
    }
}

impl PartialEq for Hooked {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Hooked {}

impl Hash for Hooked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.hook)();
        self.number.hash(state);
    }
}

/// Between the moment in which the last member closes an entry and its removal.
#[test]
fn who_meets_a_closed_entry_makes_its_successor_which_the_late_owner_leaves_alone() {
    type Rooms = CountedMap<Hooked, u32>;
    static MAP: LazyLock<Rooms> = LazyLock::new(Rooms::new);
    static ARMED: AtomicBool = AtomicBool::new(false);
    static SUCCESSOR: Mutex<Option<Member<Hooked, u32, RandomState, &Rooms>>> = Mutex::new(None);
    let come = || {
        if ARMED.swap(false, Ordering::Relaxed) {
            assert_eq!((MAP.len(), MAP.count(&Hooked::ONE)), (1, 0), "closed");
            assert!(MAP.get(&Hooked::ONE).is_none(), "nobody enters it any more");
            assert_eq!(MAP.len(), 0, "who met it has removed it");
            *SUCCESSOR.lock().unwrap() = Some(MAP.join(Hooked::ONE, || 8));
        }
    };
    let member = MAP.join(Hooked::one_with(come), || 7);
    ARMED.store(true, Ordering::Relaxed);
    drop(member);
    assert!(!ARMED.load(Ordering::Relaxed), "the hook did not run");
    assert_eq!((MAP.len(), MAP.count(&Hooked::ONE)), (1, 1));
    assert_eq!(MAP.get(&Hooked::ONE).as_deref(), Some(&8));
    *SUCCESSOR.lock().unwrap() = None;
    assert_eq!(MAP.len(), 0);
}

/// An entry that its last member could not remove is in nobody's way, and goes with the next who comes or sweeps.
#[test]
fn a_key_that_cannot_be_hashed_any_more_leaves_a_closed_entry_at_worst() {
    static BROKEN: AtomicBool = AtomicBool::new(false);
    let fail = || {
        if BROKEN.load(Ordering::Relaxed) {
            resume_unwind(Box::new("no hash"));
        }
    };
    let map = CountedMap::new();
    let leave_closed = || {
        let member = map.join(Hooked::one_with(fail), || 7);
        BROKEN.store(true, Ordering::Relaxed);
        drop(member);
        BROKEN.store(false, Ordering::Relaxed);
        assert_eq!((map.len(), map.count(&Hooked::ONE)), (1, 0));
    };
    leave_closed();
    let member = map.join(Hooked::ONE, || 8);
    assert_eq!((*member, map.len()), (8, 1));
    drop(member);
    assert_eq!(map.len(), 0);

    leave_closed();
    assert!(map.get(&Hooked::ONE).is_none());
    assert_eq!(map.len(), 0);

    leave_closed();
    map.sweep();
    assert_eq!(map.len(), 0);

    // A thread that unwinds for another reason goes on doing so.
    let unwind = || {
        let _member = map.join(Hooked::one_with(fail), || 7);
        BROKEN.store(true, Ordering::Relaxed);
        resume_unwind(Box::new("another reason"));
    };
    let panic = catch_unwind(AssertUnwindSafe(unwind)).expect_err("no panic");
    assert_eq!(*panic.downcast::<&str>().unwrap(), "another reason");
    BROKEN.store(false, Ordering::Relaxed);
    assert_eq!(*map.join(Hooked::ONE, || 9), 9);
    assert_eq!(map.len(), 0);
}

/// Of a key whose hash has changed, against all rules, look-ups may miss; but they end.
#[test]
fn a_key_whose_hash_changed_keeps_nobody_busy() {
    struct Shifty<'a>(&'a AtomicU32);
    impl PartialEq for Shifty<'_> {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }
    impl Eq for Shifty<'_> {}
    impl Hash for Shifty<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.load(Ordering::Relaxed).hash(state);
        }
    }
    let _watchdog = watchdog::start();
    let (old, new) = (AtomicU32::new(1), AtomicU32::new(1));
    let map = CountedMap::with_hasher(Hashes::Good);
    let member = map.join(Shifty(&old), || 7);
    old.store(2, Ordering::Relaxed);
    drop(member);
    assert_eq!(map.len(), 1, "closed, and not found");
    let member = map.join(Shifty(&new), || 8);
    assert_eq!((*member, map.len()), (8, 1));
}

/// Both faces of a member.
#[test]
fn a_member_tells_of_its_entry() {
    fn described(member: impl Deref<Target = u32> + std::fmt::Debug) -> String {
        format!("{} {member:?}", *member)
    }
    let map = Arc::new(map(Hashes::Good));
    let described_as = "7 Member { key: 1, value: 7, count: 1, .. }";
    assert_eq!(described(map.join(1, || 7)), described_as);
    assert_eq!(described(map.join_owned(1, || 7)), described_as);
    let _member = map.join(1, || 7);
    assert_eq!(format!("{map:?}"), "{1: 7}");
}
