//! The whole map under many random schedules, in scenarios too large for loom.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test --release --test shuttle -- --nocapture
//! ```
//!
//! takes a minute; `QUINCE_TEST_PERCENT=1000` explores ten times as many schedules. Half of them choose every step's thread
//! at random, the others obey random priorities that change three times (PCT), which starves threads. A failure prints its
//! schedule, to be run again with `shuttle::replay`.
//!
//! Sizes are small (`src/sync.rs`): a bucket has two slots, a bag two nodes. Retired nodes are freed as early as guards
//! allow, and every value is asked whether it lives. Accesses are sequentially consistent here; the orderings are tested
//! by `tests/loom.rs`.
#![cfg(shuttle)]

mod support;

use quince::{HashMap, Operation};
use shuttle::thread;
use std::{
    collections::BTreeMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};
use support::{
    linear::{Call, Effect, History},
    ops::{Op, Verb},
    schedules::explore,
};

/// Runs `threads` threads and returns what they return.
fn run<T: Send + 'static>(
    threads: usize,
    thread: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let thread = Arc::new(thread);
    let spawn = |n| {
        let thread = Arc::clone(&thread);
        thread::spawn(move || thread(n))
    };
    let running: Vec<_> = (0..threads).map(spawn).collect();
    running
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect()
}

/// The home bucket is the last four bits of a key, in tables that are large enough.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only integers are hashed")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key << 60 | key << 34;
    }
}

type Map<V> = HashMap<u64, V, BuildHasherDefault<Spread>>;

/// How many values there are, and how many there have been.
#[derive(Default)]
struct Book {
    made: AtomicU64,
    dropped: AtomicU64,
}

/// A number that notices when it is looked at after its end.
struct Value {
    number: u64,
    state: AtomicU64,
    book: Arc<Book>,
}

impl Value {
    const ALIVE: u64 = 0xa11e_a11e_a11e_a11e;

    fn new(number: u64, book: &Arc<Book>) -> Self {
        book.made.fetch_add(1, SeqCst);
        Self {
            number,
            state: AtomicU64::new(Self::ALIVE),
            book: Arc::clone(book),
        }
    }

    fn number(&self) -> u64 {
        assert_eq!(self.state.load(SeqCst), Self::ALIVE, "read after its end");
        self.number
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        assert_eq!(self.state.swap(0, SeqCst), Self::ALIVE, "dropped twice");
        self.book.dropped.fetch_add(1, SeqCst);
    }
}

#[test]
fn all_who_insert_a_key_get_one_value_through_several_tables() {
    const KEYS: u64 = 7;
    explore(10_000, || {
        let map = Arc::new(Map::<u64>::default());
        let shared = Arc::clone(&map);
        let seen = run(3, move |thread| {
            let get = |n| {
                let key = (n + 2 * thread as u64) % KEYS;
                (key, shared.get_or_insert(key, 10 * key + thread as u64))
            };
            (0..KEYS).map(get).collect::<BTreeMap<_, _>>()
        });
        let entries: BTreeMap<_, _> = map.iter().collect();
        assert_eq!(seen, [(); 3].map(|()| entries.clone()));
        assert_eq!(
            (map.len(), map.iter().count()),
            (KEYS as usize, KEYS as usize)
        );
    });
}

#[test]
fn each_thread_finds_what_it_left_while_the_map_grows_and_shrinks() {
    explore(10_000, || {
        let map = Arc::new(Map::<u64>::default());
        let shared = Arc::clone(&map);
        run(3, move |thread| {
            let map = &*shared;
            let own = |n: u64| 3 * n + thread as u64;
            for n in 0..4 {
                assert_eq!(map.insert(own(n), n), None);
                assert_eq!(map.get(&own(n)), Some(n));
            }
            for n in 0..3 {
                assert_eq!(map.remove(&own(n)), Some(n));
                assert_eq!(map.get(&own(n)), None);
            }
            match thread {
                0 => map.shrink_to_fit(),
                1 => map.reserve(5),
                _ => assert_eq!(map.insert(own(0), 7), None),
            }
            assert_eq!(map.get(&own(3)), Some(3));
        });
        let entries: BTreeMap<_, _> = map.iter().collect();
        assert_eq!(entries, BTreeMap::from([(2, 7), (9, 3), (10, 3), (11, 3)]));
        assert_eq!(map.len(), 4);
    });
}

#[test]
fn no_change_of_a_counter_is_lost_while_the_table_moves() {
    explore(10_000, || {
        let map = Arc::new(Map::<u64>::from_iter([(0, 0)]));
        let shared = Arc::clone(&map);
        run(3, move |thread| {
            let map = &*shared;
            for n in 0..3 {
                map.update(&0, |count| count + 1).unwrap();
                map.compute(1, |entry| {
                    Operation::<_, ()>::Insert(entry.map_or(1, |(_, count)| count + 1))
                });
                map.insert(10 * (thread as u64 + 1) + n, 0);
            }
        });
        assert_eq!([0, 1].map(|key| map.get(&key)), [Some(9), Some(9)]);
    });
}

#[test]
fn iteration_shows_each_staying_key_once_and_none_twice() {
    explore(10_000, || {
        let map = Map::<u64>::default();
        map.reserve(12);
        // Two of one bucket, so that the second of them comes back behind it.
        for key in [0, 16, 1, 2, 3] {
            map.insert(key, key);
        }
        let map = Arc::new(map);
        run(3, move |thread| match thread {
            0 => {
                map.insert(4, 4);
                for _ in 0..2 {
                    let mut seen: Vec<_> = map.iter().map(|(key, _)| key).collect();
                    seen.sort_unstable();
                    assert!(
                        seen.windows(2).all(|pair| pair[0] < pair[1]),
                        "twice: {seen:?}"
                    );
                    seen.retain(|&key| key < 5);
                    assert_eq!(seen, [0, 1, 2, 3, 4]);
                }
            }
            1 => {
                for _ in 0..3 {
                    map.remove(&16);
                    map.insert(16, 16);
                }
            }
            _ => map.reserve(30),
        });
    });
}

#[test]
fn retain_and_clear_remove_what_they_shall_and_nothing_that_comes_later() {
    explore(10_000, || {
        let map = Arc::new((0..4).map(|key| (key, key)).collect::<Map<u64>>());
        let shared = Arc::clone(&map);
        run(2, move |thread| {
            if thread == 0 {
                shared.retain(|_, value| value % 2 == 0);
            } else {
                for key in [1, 4, 5, 6, 7] {
                    shared.insert(key, 10 * key);
                }
            }
        });
        let left: BTreeMap<_, _> = map.iter().collect();
        assert_eq!(
            left.keys().collect::<Vec<_>>(),
            [&0, &1, &2, &4, &5, &6, &7]
        );
        let shared = Arc::clone(&map);
        run(2, move |thread| {
            if thread == 0 {
                shared.clear();
                shared.insert(0, 10);
            } else {
                shared.insert(1, 11);
                shared.remove(&4);
                shared.insert(9, 19);
            }
        });
        let left: BTreeMap<_, _> = map.iter().collect();
        assert_eq!(left.get(&0), Some(&10));
        assert!(left.keys().all(|key| [0, 1, 9].contains(key)), "{left:?}");
        assert_eq!(map.len(), left.len());
    });
}

#[test]
fn what_does_not_fit_into_a_shrunken_table_goes_into_the_one_behind() {
    explore(10_000, || {
        let map = Map::<u64>::default();
        map.reserve(20);
        (0..4).for_each(|key| assert_eq!(map.insert(key, key), None));
        let map = Arc::new(map);
        let shared = Arc::clone(&map);
        run(3, move |thread| match thread {
            0 => {
                shared.shrink_to_fit();
                assert_eq!(shared.get(&0), Some(0));
            }
            1 => {
                for key in 4..10 {
                    assert_eq!(shared.insert(key, key), None);
                    assert_eq!(shared.get(&key), Some(key));
                }
            }
            _ => {
                for key in 1..4 {
                    assert_eq!(shared.remove(&key), Some(key));
                    assert_eq!(shared.get(&key), None);
                }
                assert_eq!(shared.insert(1, 11), None);
            }
        });
        let left: BTreeMap<_, _> = map.iter().collect();
        assert!(left.keys().eq(&[0, 1, 4, 5, 6, 7, 8, 9]), "{left:?}");
        assert_eq!(map.len(), 8);
    });
}

#[test]
fn what_a_pin_lends_lives_and_all_is_dropped_once() {
    explore(10_000, || {
        let book = Arc::new(Book::default());
        let map = Arc::new(Map::<Value>::default());
        for key in 0..2 {
            map.pin().insert(key, Value::new(key, &book));
        }
        let (shared, shared_book) = (Arc::clone(&map), Arc::clone(&book));
        run(3, move |thread| {
            let (map, book) = (&*shared, &shared_book);
            if thread == 0 {
                for _ in 0..2 {
                    let pinned = map.pin();
                    let lent: Vec<_> = (0..4).filter_map(|key| pinned.get(&key)).collect();
                    thread::yield_now();
                    let numbers: Vec<_> = lent.iter().map(|value| value.number() % 10).collect();
                    assert!(numbers.is_sorted(), "{numbers:?}");
                }
                return;
            }
            for n in 0..4 {
                let key = (n + thread as u64) % 4;
                let pinned = map.pin();
                pinned.insert(key, Value::new(key + 10 * thread as u64, book));
                if let Some(removed) = pinned.remove(&(3 - key)) {
                    assert_eq!(removed.number() % 10, 3 - key);
                }
            }
            map.flush();
        });
        map.flush();
        let pinned = map.pin();
        let left = pinned.iter().filter(|(_, value)| value.number() < 100);
        let left = left.count() as u64;
        drop(pinned);
        let balance = || book.made.load(SeqCst) - book.dropped.load(SeqCst);
        assert_eq!(
            balance(),
            left,
            "flushed, and not all of the others are dropped"
        );
        drop(map);
        assert_eq!(balance(), 0);
    });
}

#[test]
fn histories_of_two_keys_are_linearizable() {
    const KEYS: u32 = 2;
    explore(10_000, || {
        let map = Map::<u32>::default();
        let clock = AtomicU64::new(0);
        let calls: Mutex<[Vec<Call>; KEYS as usize]> = Mutex::default();
        let shared = Arc::new((map, clock, calls));
        let in_threads = Arc::clone(&shared);
        run(3, move |thread| {
            let (map, clock, calls) = &*in_threads;
            for n in 0..5u32 {
                let id = 10 * (thread as u32 + 1) + n;
                let key = (n / 2 + thread as u32) % KEYS;
                let k = u64::from(key);
                let invoked = clock.fetch_add(1, SeqCst);
                let (verb, effect) = match (n as usize + thread) % 5 {
                    0 => match map.insert(k, id) {
                        None => (Verb::Insert(key, id), Effect::inserted(id)),
                        Some(old) => (Verb::Insert(key, id), Effect::replaced(old, id)),
                    },
                    1 => {
                        let now = map.get_or_insert(k, id);
                        let effect = if now == id {
                            Effect::inserted(id)
                        } else {
                            Effect::read(Some(now))
                        };
                        (Verb::GetOrInsert(key, id), effect)
                    }
                    2 => (Verb::Remove(key), Effect::removed(map.remove(&k))),
                    3 => match map.get_and_update(&k, |_| id) {
                        None => (Verb::GetAndUpdate(key), Effect::read(None)),
                        Some((old, new)) => (Verb::GetAndUpdate(key), Effect::replaced(old, new)),
                    },
                    _ => (Verb::Get(key), Effect::read(map.get(&k))),
                };
                let returned = Some(clock.fetch_add(1, SeqCst));
                // More keys, so that tables come and go.
                map.insert(10 * (thread as u64 + 1) + u64::from(n), 0);
                calls.lock().unwrap()[key as usize].push(Call {
                    thread,
                    op: Op::Owned(verb),
                    effect,
                    invoked,
                    returned,
                });
            }
        });
        for calls in shared.2.lock().unwrap().iter_mut() {
            calls.sort_unstable_by_key(|call| call.invoked);
            History::of_one_key(std::mem::take(calls)).assert_linearizable(&"two keys");
        }
    });
}
