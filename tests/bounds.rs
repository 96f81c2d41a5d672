//! Which types are accepted, and on which thread: as few bounds as the promises allow. What must not compile is in
//! `src/compile_fail.rs`.
#![cfg(not(loom))]

use std::cell::Cell;
use std::hash::RandomState;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use quince::iter::{Drain, IntoIter, IntoKeys, IntoValues, IterMut, ValuesMut};
use quince::{Computed, HashMap, OccupiedError, Operation, Pinned};

fn send<T: Send>() {}
fn sync<T: Sync>() {}

/// `Send`, not `Sync`.
type SendOnly = Cell<u8>;

#[test]
fn a_map_moves_between_threads_if_its_parts_do() {
    send::<HashMap<String, Vec<u8>>>();
    send::<HashMap<u8, SendOnly>>();
    send::<HashMap<SendOnly, u8>>();
    send::<HashMap<u8, u8, Cell<RandomState>>>();
}

#[test]
fn a_map_is_shared_between_threads_if_its_parts_are() {
    sync::<HashMap<String, Vec<u8>>>();
    sync::<HashMap<&'static str, Box<dyn Fn() + Send + Sync>>>();
}

#[test]
fn iterators_that_own_their_entries_move_between_threads() {
    send::<IntoIter<String, SendOnly>>();
    send::<IntoKeys<String, SendOnly>>();
    send::<IntoValues<String, SendOnly>>();
    send::<Drain<'_, String, SendOnly>>();
    send::<IterMut<'_, String, SendOnly>>();
    send::<ValuesMut<'_, String, SendOnly>>();
}

#[test]
fn outcomes_are_as_free_as_what_they_hold() {
    send::<OccupiedError<String, SendOnly, u8>>();
    send::<Computed<SendOnly, String>>();
    send::<Operation<SendOnly, String>>();
    sync::<Computed<u8, String>>();
}

/// Neither `Send` nor `'static`: the map keeps its garbage to itself, so nothing is asked of keys and values.
fn all_operations<'a>(of: impl Fn(u32) -> &'a str) {
    type Local<'a> = HashMap<Rc<str>, (Rc<str>, &'a str)>;
    let key = |n| Rc::<str>::from(of(n));
    let value = |n| (key(n), of(n));
    let mut map: Local<'a> = HashMap::new();
    for n in 0..10 {
        map.insert(key(n), value(n));
    }
    map.insert(key(0), value(1));
    _ = map.try_insert(key(1), value(2));
    _ = map.try_insert_with(key(2), || value(2));
    map.get_or_insert(key(3), value(2));
    map.get_or_insert_with(key(4), || value(2));
    map.get_or_insert_with_key(key(5), |key| (key.clone(), of(2)));
    _ = map.get_or_try_insert_with(key(6), || Err(value(2)));
    map.get_or_insert_ref_with(of(7), || value(2));
    map.update(of(0), |_| value(2));
    map.get_and_update(of(1), |_| value(3));
    map.compute::<()>(key(2), |_| Operation::Insert(value(4)));
    map.remove(of(3));
    map.remove_entry(of(4));
    map.remove_if(of(5), |_, value| value.1 == of(5));
    map.retain(|key, _| **key != *of(6));
    {
        let mut pinned: Pinned<'_, _, _, _> = map.pin();
        let current = pinned.get(of(7)).expect("kept");
        assert_eq!(
            pinned
                .replace_if_same(of(7), current, value(8))
                .map(|value| value.1),
            Ok(of(8))
        );
        let current = pinned.get(of(7)).expect("kept");
        assert!(pinned.remove_if_same(of(7), current));
        assert!(
            pinned
                .iter()
                .all(|(_, value)| Rc::strong_count(&value.0) > 0)
        );
        pinned.clear();
        pinned.flush();
        pinned.repin();
    }
    (&map).extend((0..10).map(|n| (key(n), value(n))));
    assert!(map.get_mut(of(1)).is_some_and(|value| value.1 == of(1)));
    assert_eq!(map.clone(), map);
    map.reserve(100);
    map.shrink_to_fit();
    map.flush();
    assert_eq!((map.values_mut().count(), map.drain().count()), (10, 10));
    map.insert(key(1), value(1));
    map.clear_mut();
    map.insert(key(1), value(1));
    assert_eq!(map.into_iter().count(), 1);
}

#[test]
fn keys_and_values_may_borrow_and_may_belong_to_one_thread() {
    let strings: Vec<_> = (0..10).map(|n| format!("number {n}")).collect();
    all_operations(|n| &strings[n as usize]);
}

#[test]
fn a_map_of_values_that_are_not_shared_moves_with_them() {
    let map = HashMap::from([(1, Cell::new(1))]);
    let map = thread::spawn(move || {
        map.pin().get(&1).expect("inserted").set(2);
        map
    });
    let map = map.join().unwrap();
    assert_eq!(map.pin().get(&1).map(Cell::get), Some(2));
}

#[test]
fn borrowed_keys_and_values_may_be_used_by_several_threads() {
    let strings: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    let map: HashMap<&str, &String> = HashMap::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for string in &strings {
                    map.get_or_insert(string, string);
                    map.remove("7");
                }
            });
        }
    });
    assert_eq!(map.get("8"), Some(&strings[8]));
}

/// A view that is forgotten keeps what is removed from then on until the map is dropped, and that is all; also if its
/// thread, and the stripe it wrote with, are gone.
#[test]
fn a_forgotten_view_costs_memory_only() {
    let counter = Arc::new(());
    let map = HashMap::new();
    mem::forget(map.pin());
    let forget_and_end = || {
        let pinned = map.pin();
        pinned.insert(1_000_000, counter.clone());
        pinned.remove(&1_000_000);
        mem::forget(pinned);
    };
    thread::scope(|scope| scope.spawn(forget_and_end).join().unwrap());
    for k in 0..1_000 {
        map.insert(k % 10, counter.clone());
        map.remove(&((k + 5) % 10));
        map.flush();
    }
    assert_eq!(map.len(), map.iter().count());
    drop(map);
    assert_eq!(Arc::strong_count(&counter), 1);
}
