//! When memory goes back and when destructors run, by a counting allocator and a ledger. What is asserted here needs
//! to know who is pinned and who allocates, so these tests take turns.
#![cfg(not(loom))]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Mutex, MutexGuard};
use std::thread;

use quince::HashMap;

use support::hashers::Hashes;
use support::ledger::Ledger;
use support::ops::Map;
use support::spin_barrier::SpinBarrier;
use support::watchdog::{self, Watchdog};
use support::{race, size};

/// Bytes in use, and the most there were since it was last reset.
struct Counting {
    live: AtomicUsize,
    peak: AtomicUsize,
}

#[global_allocator]
static HEAP: Counting = Counting {
    live: AtomicUsize::new(0),
    peak: AtomicUsize::new(0),
};

impl Counting {
    fn grow(&self, bytes: usize) {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(live, Ordering::Relaxed);
    }

    fn shrink(&self, bytes: usize) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// SAFETY: everything is the system allocator's; this only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.grow(layout.size());
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.grow(layout.size());
        // SAFETY: by the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.grow(size);
        self.shrink(layout.size());
        // SAFETY: by the caller's contract.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.shrink(layout.size());
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

/// What other threads of the test harness may allocate meanwhile, and the epoch's own lists.
const NOISE: usize = 64 << 10;

/// Keeps the other tests out.
fn alone() -> (MutexGuard<'static, ()>, Watchdog) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|failed| failed.into_inner());
    (turn, watchdog::start())
}

/// Bytes in use once the epoch has freed all it can.
fn settled() -> usize {
    (0..1_000).for_each(|_| crossbeam_epoch::pin().flush());
    HEAP.live.load(Ordering::Relaxed)
}

/// The most bytes that were in use at a time while `body` ran.
fn peak(body: impl FnOnce()) -> usize {
    settled();
    HEAP.peak
        .store(HEAP.live.load(Ordering::Relaxed), Ordering::Relaxed);
    body();
    HEAP.peak.load(Ordering::Relaxed)
}

type Numbers = HashMap<u64, u64>;

fn insert_all(map: &HashMap<u64, u64, impl BuildHasher>, keys: Range<u64>) {
    keys.for_each(|k| assert_eq!(map.insert(k, k), None));
}

fn remove_all(map: &Numbers, keys: Range<u64>) {
    keys.for_each(|k| assert_eq!(map.remove(&k), Some(k)));
}

// ---- Memory ----------------------------------------------------------------------------------------------------

#[test]
fn empty_maps_own_no_memory() {
    let _alone = alone();
    let mut maps = Vec::with_capacity(10_000);
    let before = settled();
    maps.resize_with(10_000, Numbers::new);
    assert!(
        maps.iter()
            .all(|map| map.get(&1).is_none() && map.remove(&1).is_none())
    );
    assert!(HEAP.live.load(Ordering::Relaxed) < before + NOISE);
}

#[test]
fn a_map_that_ends_gives_all_memory_back() {
    let _alone = alone();
    let round = |entries: u64| {
        let map: HashMap<u64, String> = HashMap::new();
        for k in 0..entries {
            map.insert(k, k.to_string());
            if k % 4 == 0 {
                map.remove(&(k / 2));
            }
        }
    };
    round(1_000);
    let before = settled();
    (0..size(4_000) as u64).for_each(|n| round(n % 1_000));
    drop(Numbers::with_capacity(1_000));
    assert!(settled() < before + NOISE);
}

#[test]
fn a_map_that_ends_in_any_state_gives_all_memory_back() {
    let _alone = alone();
    type Strings = HashMap<u64, String>;
    let insert = |map: &Strings, keys: Range<u64>| {
        keys.for_each(|k| _ = map.insert(k, k.to_string()));
    };
    let ends: [&dyn Fn(Strings); 11] = [
        &|_never_used| {},
        &|reserved| reserved.reserve(1_000),
        &|map| {
            insert(&map, 0..50);
            map.remove(&7);
        },
        &|all_tombstones| {
            insert(&all_tombstones, 0..50);
            (0..50).for_each(|k| _ = all_tombstones.remove(&k));
        },
        &|cleared| {
            insert(&cleared, 0..50);
            cleared.clear();
        },
        &|amid_growth| {
            let capacity = 5_000;
            amid_growth.reserve(capacity);
            let capacity = amid_growth.capacity() as u64;
            insert(&amid_growth, 0..capacity + 2);
            assert!(amid_growth.capacity() as u64 > capacity);
        },
        &|amid_shrinking| {
            amid_shrinking.reserve(5_000);
            let capacity = amid_shrinking.capacity();
            (0..).find(|&k| {
                insert(&amid_shrinking, k..k + 1);
                amid_shrinking.remove(&k);
                amid_shrinking.capacity() < capacity
            });
        },
        &|with_two_generations| {
            let pinned = with_two_generations.pin();
            insert(&with_two_generations, 0..50);
            pinned.reserve(1_000);
            with_two_generations.shrink_to_fit();
            pinned.reserve(5_000);
        },
        &|mut half_drained| {
            insert(&half_drained, 0..50);
            half_drained.drain().nth(25);
        },
        &|half_consumed| {
            insert(&half_consumed, 0..50);
            half_consumed.into_keys().nth(25);
        },
        &|mut exclusively_cleared| {
            insert(&exclusively_cleared, 0..50);
            exclusively_cleared.clear_mut();
        },
    ];
    for (n, end) in ends.iter().enumerate() {
        end(Strings::new());
        let before = settled();
        // So often that what stays behind each time is more than the noise.
        (0..200).for_each(|_| end(Strings::new()));
        assert!(settled() < before + NOISE / 2, "after end {n}");
    }
}

#[test]
fn a_filled_map_takes_little_more_than_its_entries() {
    let _alone = alone();
    let entries = size(1_000_000);
    let before = settled();
    let map = Numbers::new();
    let peak = peak(|| insert_all(&map, 0..entries as u64)) - before;
    let live = settled() - before;
    assert!(map.capacity() >= entries && map.capacity() <= 4 * entries);
    // 16 bytes of data and 9 of slot, at a load of 3/8 at least, with a quarter of spare nodes. While a table
    // moves, the old one is there too.
    assert!(
        live <= entries * 48 + NOISE,
        "{} bytes an entry",
        live / entries
    );
    assert!(
        peak <= entries * 72 + NOISE,
        "{} bytes an entry at the peak",
        peak / entries
    );
}

#[test]
fn an_emptied_map_gives_memory_back() {
    let _alone = alone();
    let entries = size(400_000) as u64;
    let before = settled();
    let map = Numbers::new();
    let emptied = |map: &Numbers| {
        insert_all(map, 0..entries);
        let full = settled() - before;
        remove_all(map, 0..entries);
        full
    };
    emptied(&map);
    map.flush();
    map.shrink_to_fit();
    assert!(settled() < before + NOISE, "after shrink_to_fit");
    // And by itself, when it is used on.
    let full = emptied(&map);
    for k in 0..entries / 8 {
        map.insert(k, k);
        map.remove(&k);
    }
    let left = settled() - before;
    assert!(left < full / 8 + NOISE, "{left} of {full} bytes are left");
}

/// Runs the same work over and over: after a while neither the memory nor the capacity grows.
fn flat(map: &Numbers, work: impl Fn(u64)) {
    let rounds = 10;
    let warm = peak(|| (0..rounds).for_each(&work));
    let capacity = map.capacity();
    let later = peak(|| (rounds..10 * rounds).for_each(&work));
    assert!(
        later <= warm + warm / 4 + NOISE,
        "{warm} bytes, later {later}"
    );
    // A small table grows to four times its size at once.
    assert!(
        map.capacity() <= 4 * capacity,
        "capacity {capacity}, later {}",
        map.capacity()
    );
}

#[test]
fn rolling_keys_take_no_more_memory_with_time() {
    let _alone = alone();
    let ops = size(50_000) as u64;
    for live in [1, 8, 1_000] {
        let map = Numbers::new();
        flat(&map, |round| {
            for k in round * ops..(round + 1) * ops {
                map.insert(k + live, k);
                map.remove(&k);
            }
        });
        assert!(map.capacity() < 16 * live as usize + 64);
    }
}

#[test]
fn rolling_keys_of_several_threads_leave_no_memory_behind() {
    let _alone = alone();
    let ops = size(10_000) as u64;
    let before = settled();
    let map = Numbers::new();
    for round in 0..20 {
        race(4, |thread| {
            let first = thread as u64 * u64::from(u32::MAX) + round * ops;
            for k in first..first + ops {
                map.insert(k + 100, k);
                map.remove(&k);
            }
        });
        // Not the peak: while a thread is suspended in a call, what others remove has to wait.
        map.retain(|_, _| false);
        map.flush();
        map.shrink_to_fit();
        assert!(settled() < before + NOISE, "in round {round}");
    }
}

#[test]
fn replaced_values_take_no_more_memory_with_time() {
    let _alone = alone();
    let ops = size(50_000) as u64;
    let map = Numbers::new();
    flat(&map, |round| {
        for n in 0..ops {
            map.insert(n % 100, round);
            map.update(&(n % 100), |n| n + 1);
        }
    });
}

#[test]
fn a_long_lived_view_that_repins_takes_no_more_memory_with_time() {
    let _alone = alone();
    let ops = size(50_000) as u64;
    let map = Numbers::new();
    flat(&map, |round| {
        let mut pinned = map.pin();
        for k in round * ops..(round + 1) * ops {
            pinned.insert(k + 8, k);
            pinned.remove(&k);
            if k % 64 == 0 {
                pinned.repin();
            }
        }
    });
}

#[test]
fn a_table_refilled_and_cleared_takes_no_more_memory_with_time() {
    let _alone = alone();
    let entries = size(10_000) as u64;
    let map = Numbers::new();
    flat(&map, |round| {
        insert_all(&map, round * entries..(round + 1) * entries);
        map.clear();
    });
}

#[test]
fn hashes_that_collide_cost_no_memory() {
    let _alone = alone();
    let entries = size(16_000) as u64;
    let [good, constant] = [Hashes::Good, Hashes::Constant].map(|hashes| {
        let before = settled();
        let map = HashMap::with_hasher(hashes);
        insert_all(&map, 0..entries);
        settled() - before
    });
    assert!(
        constant <= good + good / 2 + NOISE,
        "{constant} bytes instead of {good}"
    );
}

#[test]
fn old_tables_are_freed_when_the_pin_that_kept_them_ends() {
    let _alone = alone();
    let before = settled();
    let map = Numbers::from([(1, 1)]);
    let generations = || {
        let pinned = map.pin();
        for _ in 0..64 {
            map.reserve(10_000);
            map.shrink_to_fit();
        }
        assert_eq!(pinned.get(&1), Some(&1));
    };
    // They are many, and there is room for no recursion over them.
    let small = thread::Builder::new().stack_size(64 << 10);
    thread::scope(|scope| {
        small
            .spawn_scoped(scope, generations)
            .unwrap()
            .join()
            .unwrap()
    });
    assert!(settled() < before + NOISE);
}

// ---- Destructors -----------------------------------------------------------------------------------------------

#[test]
fn flush_drops_all_that_was_removed_if_nobody_is_pinned() {
    let _alone = alone();
    for removed in [1, 2, 63, 64, 65, 500, 3_000] {
        let ledger = Ledger::new();
        let map = Map::default();
        for k in 0..removed {
            map.insert(ledger.key(k, 0), ledger.value(k));
            map.insert(ledger.key(k, 0), ledger.value(k));
            map.insert(ledger.key(removed + k, 0), ledger.value(k));
            map.remove(&k);
        }
        map.flush();
        assert_eq!(ledger.live(), 2 * removed, "of {removed} entries");
        map.clear();
        map.flush();
        assert_eq!(ledger.live(), 0, "of {removed} entries");
    }
}

#[test]
fn flush_drops_what_other_threads_removed_that_are_idle() {
    let _alone = alone();
    let ledger = Ledger::new();
    let map = Map::default();
    let barrier = SpinBarrier::new(4);
    race(4, |thread| {
        let pinned = map.pin();
        for k in 0..1 + 40 * thread as u32 {
            pinned.insert(ledger.key(k, 0), ledger.value(k));
            pinned.remove(&k);
        }
        // All are pinned with something removed; then all but one do nothing more.
        barrier.wait();
        drop(pinned);
        barrier.wait();
        if thread == 0 {
            map.flush();
        }
        barrier.wait();
    });
    assert_eq!(ledger.live(), 2 * map.len() as u32);
}

#[test]
fn nothing_is_dropped_while_a_thread_is_pinned_and_all_by_one_flush_after() {
    let _alone = alone();
    let ledger = Ledger::new();
    let map = Map::default();
    let other = Numbers::new();
    let removed = size(10_000) as u32;
    let pinned = other.pin();
    let held = map.pin();
    map.insert(ledger.key(0, 0), ledger.value(7));
    let value = held.get(&0).expect("inserted");
    for k in 0..removed {
        map.insert(ledger.key(k, 1), ledger.value(k));
        map.remove(&k);
    }
    map.flush();
    assert_eq!(value.number(), 7);
    drop(held);
    map.flush();
    assert_eq!(ledger.live(), 2 * (removed + 1), "the other view is pinned");
    drop(pinned);
    map.flush();
    assert_eq!(ledger.live(), 0);
}

/// The epoch is the process's: whoever is pinned delays all, and that is all he does.
#[test]
fn a_pin_of_somebody_else_delays_destructors_and_nothing_more() {
    let _alone = alone();
    let ledger = Ledger::new();
    let maps = [Map::default(), Map::default()];
    let removed = size(10_000) as u32;
    let foreign = crossbeam_epoch::pin();
    for k in 0..removed {
        for map in &maps {
            assert_eq!(map.insert(ledger.key(k, 0), ledger.value(k)), None);
            assert_eq!(map.remove(&k).map(|value| value.number()), Some(k));
        }
    }
    let kept = ledger.live();
    assert_eq!(kept, 4 * removed);
    let [map, other] = maps;
    drop(other);
    assert_eq!(ledger.live(), kept / 2, "a map that ends does not wait");
    map.flush();
    assert_eq!(ledger.live(), kept / 2);
    drop(foreign);
    map.flush();
    assert_eq!(ledger.live(), 0);
}

/// Each of three views was made in another generation of the table; each sees and changes the one there is.
#[test]
fn views_of_several_generations_see_one_map() {
    let _alone = alone();
    let before = settled();
    let map = Numbers::new();
    let generations = [10, 1_000, 100_000].map(|entries| {
        let pinned = map.pin();
        pinned.insert(entries, entries);
        let first = pinned.get(&entries).map(std::ptr::from_ref);
        map.reserve(entries as usize);
        (pinned, entries, first)
    });
    for (pinned, mine, first) in &generations {
        assert_eq!(pinned.get(mine).map(std::ptr::from_ref), *first);
        for (other, entries, _) in &generations {
            assert_eq!(pinned.get(entries), Some(entries));
            assert_eq!(other.insert(*mine + 1, 0), None);
            assert_eq!(pinned.remove(&(*mine + 1)), Some(&0));
        }
        assert_eq!(pinned.iter().count(), generations.len());
    }
    drop(generations);
    map.clear();
    map.flush();
    map.shrink_to_fit();
    assert!(settled() < before + NOISE);
}

/// What a caller hangs on a value's destructor happens before the end of the map returns.
#[test]
fn a_channel_is_hung_up_when_the_map_with_its_sender_ends() {
    let _alone = alone();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let map = HashMap::from([(1, sender)]);
    drop(map.remove(&1).map(|sender| map.insert(2, sender)));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    drop(map);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
}

#[test]
fn writers_drop_what_was_removed_without_being_asked() {
    let _alone = alone();
    let ledger = Ledger::new();
    let map = Map::default();
    map.insert(ledger.key(0, 0), ledger.value(0));
    map.remove(&0);
    for k in 1..4_000 {
        map.insert(ledger.key(k, 0), ledger.value(k));
        map.remove(&k);
    }
    assert!(ledger.live() < 4_000, "{} of 8000 are kept", ledger.live());
}

#[test]
fn destructors_run_in_calls_on_their_map_only() {
    let _alone = alone();
    let ledger = Ledger::new();
    let (map, other) = (Map::default(), Map::default());
    for k in 0..200 {
        map.insert(ledger.key(k, 0), ledger.value(k));
        map.remove(&k);
    }
    let live = ledger.live();
    race(2, |_| {
        for k in 0..1_000 {
            crossbeam_epoch::pin().flush();
            other.insert(ledger.key(k, 0), ledger.value(k));
            other.remove(&k);
            other.flush();
        }
    });
    drop(other);
    assert_eq!(ledger.live(), live);
    map.flush();
    assert_eq!(ledger.live(), 0);
}

#[test]
fn the_end_of_one_map_leaves_what_another_has_lent() {
    let _alone = alone();
    let ledger = Ledger::new();
    let (map, other) = (Map::default(), Map::default());
    map.insert(ledger.key(1, 0), ledger.value(1));
    other.insert(ledger.key(1, 0), ledger.value(2));
    let pinned = map.pin();
    let removed = pinned.remove(&1).expect("inserted");
    other.remove(&1);
    drop(other);
    map.flush();
    assert_eq!((removed.number(), ledger.live()), (1, 2));
    drop(pinned);
    map.flush();
    assert_eq!(ledger.live(), 0);
}
