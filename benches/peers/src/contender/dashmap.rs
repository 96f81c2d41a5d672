use super::{Contender, Hasher};
use crate::data::Data;

pub struct DashMap;

impl<D: Data> Contender<D> for DashMap {
    const NAME: &'static str = "dashmap";
    type Map = dashmap::DashMap<D::Key, D::Value, Hasher>;
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
        map.view(key, |_, value| read(value))
    }

    fn insert_or_get<R>(
        map: &Self::Session<'_>,
        key: D::Key,
        make: impl FnOnce() -> D::Value,
        read: impl FnOnce(&D::Value) -> R,
    ) -> R {
        read(&map.entry(key).or_insert_with(make))
    }

    fn insert(map: &Self::Session<'_>, key: D::Key, value: D::Value) -> bool {
        map.insert(key, value).is_none()
    }

    fn update(
        map: &Self::Session<'_>,
        key: &D::Key,
        change: impl Fn(&D::Value) -> D::Value,
    ) -> bool {
        map.get_mut(key)
            .map(|mut value| *value = change(&value))
            .is_some()
    }

    fn remove(map: &Self::Session<'_>, key: &D::Key) -> bool {
        map.remove(key).is_some()
    }

    fn for_each(map: &Self::Session<'_>, mut visit: impl FnMut(&D::Key, &D::Value)) {
        map.iter()
            .for_each(|entry| visit(entry.key(), entry.value()));
    }
}
