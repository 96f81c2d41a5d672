//! Bugs that were found once, each by the class it belongs to. They are seen with a single thread.
#![cfg(not(loom))]

use quince::HashMap;
use std::sync::Arc;

/// Class: a position in the hash space taken from one table and used for another of a different size.
#[test]
fn iteration_is_complete_while_a_shrink_is_in_flight() {
    for round in 0..50u64 {
        let map: HashMap<u64, u64> = HashMap::with_capacity(50_000);
        (0..20).for_each(|key| assert_eq!(map.insert(key, key), None));
        // A reserved table shrinks once it has seen enough removals; helpers move a part of it a call.
        for key in 0..13_500 + 100 * round {
            map.insert(1_000 + key, 0);
            map.remove(&(1_000 + key));
        }
        assert_eq!(map.pin().iter().count(), 20, "round {round}");
        assert!(map.clone() == map);
        map.clear();
        assert!(map.is_empty());
    }
}

/// Class: a limited resource used up by small steps.
#[test]
fn reserving_one_at_a_time_costs_no_more_than_growing() {
    let map: HashMap<u64, [u8; 4096]> = HashMap::new();
    for key in 0..2_000 {
        map.reserve(1);
        map.pin().insert(key, [0; 4096]);
    }
    assert_eq!(map.len(), 2_000);
}

/// Class: an iterator that is fused by declaration only.
#[test]
fn an_iterator_that_has_ended_stays_so() {
    let map: HashMap<u64, u64> = HashMap::new();
    let pinned = map.pin();
    let mut entries = pinned.iter();
    assert!(entries.next().is_none());
    pinned.insert(1, 1);
    assert!(entries.next().is_none());
}

/// Class: garbage made while garbage is collected.
#[test]
fn flush_also_frees_what_destructors_removed() {
    struct RemovesNext {
        map: Arc<HashMap<u64, Option<RemovesNext>>>,
        next: u64,
        _alive: Arc<()>,
    }

    impl Drop for RemovesNext {
        fn drop(&mut self) {
            self.map.pin().remove(&self.next);
        }
    }

    let map = Arc::new(HashMap::new());
    let alive = Arc::new(());
    for key in 0..5 {
        let value = RemovesNext {
            map: Arc::clone(&map),
            next: key + 1,
            _alive: Arc::clone(&alive),
        };
        map.pin().insert(key, Some(value));
    }
    map.pin().remove(&0);
    // Other tests of this binary pin, too.
    while Arc::strong_count(&alive) > 1 {
        let before = Arc::strong_count(&alive);
        map.flush();
        let after = Arc::strong_count(&alive);
        assert!(
            after == 1 || after == before,
            "freed some and left what they had removed"
        );
        std::thread::yield_now();
    }
    assert!(map.is_empty());
}

/// Class: what was reserved is given back before it is used.
#[test]
fn a_reserved_map_keeps_its_room() {
    let map: HashMap<u64, u64> = HashMap::with_capacity(10_000);
    let capacity = map.capacity();
    for key in 0..1_000 {
        map.insert(key, key);
        map.remove(&key);
    }
    map.flush();
    assert_eq!(map.capacity(), capacity);
}
