use super::{Contender, Hasher};
use crate::data::Data;
use scc::Guard;
use scc::hash_index::Entry;
use std::cell::OnceCell;

pub struct SccHashIndex;

impl<D: Data> Contender<D> for SccHashIndex {
    const NAME: &'static str = "scc_hash_index";
    type Map = scc::HashIndex<D::Key, D::Value, Hasher>;
    /// Only reads need the guard, and a write does badly under a held one: entries it replaced stay in their bucket.
    type Session<'m> = (&'m Self::Map, OnceCell<Guard>);

    fn new() -> Self::Map {
        Self::Map::default()
    }

    fn len(map: &Self::Map) -> usize {
        map.len()
    }

    fn session(map: &Self::Map) -> Self::Session<'_> {
        (map, OnceCell::new())
    }

    fn get<R>(
        (map, guard): &Self::Session<'_>,
        key: &D::Key,
        read: impl FnOnce(&D::Value) -> R,
    ) -> Option<R> {
        map.peek(key, guard.get_or_init(Guard::new)).map(read)
    }

    fn insert_or_get<R>(
        (map, _): &Self::Session<'_>,
        key: D::Key,
        make: impl FnOnce() -> D::Value,
        read: impl FnOnce(&D::Value) -> R,
    ) -> R {
        read(map.entry_sync(key).or_insert_with(make).get())
    }

    fn insert((map, _): &Self::Session<'_>, key: D::Key, value: D::Value) -> bool {
        match map.entry_sync(key) {
            Entry::Occupied(mut entry) => {
                entry.update(value);
                false
            }
            Entry::Vacant(entry) => {
                entry.insert_entry(value);
                true
            }
        }
    }

    fn update(
        (map, _): &Self::Session<'_>,
        key: &D::Key,
        change: impl Fn(&D::Value) -> D::Value,
    ) -> bool {
        map.get_sync(key)
            .map(|mut entry| entry.update(change(entry.get())))
            .is_some()
    }

    fn remove((map, _): &Self::Session<'_>, key: &D::Key) -> bool {
        map.remove_sync(key)
    }

    fn for_each((map, guard): &Self::Session<'_>, mut visit: impl FnMut(&D::Key, &D::Value)) {
        let guard = guard.get_or_init(Guard::new);
        map.iter(guard).for_each(|(key, value)| visit(key, value));
    }
}
