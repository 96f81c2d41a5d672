use super::{Contender, Hasher};
use crate::data::Data;

pub struct SccHashMap;

impl<D: Data> Contender<D> for SccHashMap {
    const NAME: &'static str = "scc_hash_map";
    type Map = scc::HashMap<D::Key, D::Value, Hasher>;
    type Session<'m> = &'m Self::Map;

    fn new() -> Self::Map {
        Self::Map::default()
    }

    fn len(map: &Self::Map) -> usize {
        map.len()
    }

    fn session(map: &Self::Map) -> Self::Session<'_> {
        map
    }

    fn get<R>(
        map: &Self::Session<'_>,
        key: &D::Key,
        read: impl FnOnce(&D::Value) -> R,
    ) -> Option<R> {
        map.read_sync(key, |_, value| read(value))
    }

    fn insert_or_get<R>(
        map: &Self::Session<'_>,
        key: D::Key,
        make: impl FnOnce() -> D::Value,
        read: impl FnOnce(&D::Value) -> R,
    ) -> R {
        read(&map.entry_sync(key).or_insert_with(make))
    }

    fn insert(map: &Self::Session<'_>, key: D::Key, value: D::Value) -> bool {
        map.upsert_sync(key, value).is_none()
    }

    fn update(
        map: &Self::Session<'_>,
        key: &D::Key,
        change: impl Fn(&D::Value) -> D::Value,
    ) -> bool {
        map.update_sync(key, |_, value| *value = change(value))
            .is_some()
    }

    fn remove(map: &Self::Session<'_>, key: &D::Key) -> bool {
        map.remove_sync(key).is_some()
    }

    fn for_each(map: &Self::Session<'_>, mut visit: impl FnMut(&D::Key, &D::Value)) {
        map.iter_sync(|key, value| {
            visit(key, value);
            true
        });
    }
}
