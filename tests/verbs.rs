//! What the insert-or-get family and its relatives promise beyond single answers: who makes what, how often, and pinned or
//! not. Where the same task has a naive solution, it stands beside the test as a broken twin.
#![cfg(not(loom))]

mod support;

use std::sync::Arc;
use std::thread;

use quince::HashMap;

use support::watchdog;

// ---- Pins ------------------------------------------------------------------------------------------------------

/// Removes an entry and says whether its value is dropped within so many calls of `flush`.
fn is_dropped_within(flushes: Option<usize>) -> bool {
    let (map, value) = (HashMap::new(), Arc::new(()));
    map.insert((), Arc::clone(&value));
    map.remove(&());
    for _ in 0..flushes.unwrap_or(usize::MAX) {
        map.flush();
        if Arc::strong_count(&value) == 1 {
            return true;
        }
        // Tests beside this one may be pinned for a while.
        thread::yield_now();
    }
    false
}

#[test]
fn a_closure_that_makes_a_value_to_be_cloned_keeps_nothing_from_being_dropped() {
    let _watchdog = watchdog::start();
    let map: HashMap<String, bool> = HashMap::new();
    let key = |n: u32| n.to_string();
    let make = || is_dropped_within(None);
    assert!(map.get_or_insert_with(key(0), make));
    assert!(map.get_or_insert_with_key(key(1), |_| make()));
    assert!(map.get_or_insert_ref_with(key(2).as_str(), make));
    assert_eq!(
        map.get_or_try_insert_with(key(3), || Ok::<_, ()>(make())),
        Ok(true)
    );
    assert_eq!(map.try_insert_with(key(5), make), Ok(true));
    assert_eq!(map.len(), 5);
    // On the face that lends, the thread stays pinned.
    let make = || is_dropped_within(Some(10));
    assert!(!map.pin().get_or_insert_with(key(6), make));
}
