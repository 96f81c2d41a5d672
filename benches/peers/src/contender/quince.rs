use super::{Contender, Hasher};
use crate::data::Data;

pub struct Quince;

impl<D: Data> Contender<D> for Quince {
    const NAME: &'static str = "quince";
    type Map = quince::HashMap<D::Key, D::Value, Hasher>;
    type Session<'m> = quince::Pinned<'m, D::Key, D::Value, Hasher>;

    fn new() -> Self::Map {
        Self::Map::default()
    }

    fn len(map: &Self::Map) -> usize {
        map.len()
    }

    fn session(map: &Self::Map) -> Self::Session<'_> {
        map.pin()
    }

    fn get<R>(
        pinned: &Self::Session<'_>,
        key: &D::Key,
        read: impl FnOnce(&D::Value) -> R,
    ) -> Option<R> {
        pinned.get(key).map(read)
    }

    fn get_owned(map: &Self::Map, key: &D::Key) -> Option<D::Value> {
        map.get(key)
    }

    fn insert_or_get<R>(
        pinned: &Self::Session<'_>,
        key: D::Key,
        make: impl FnOnce() -> D::Value,
        read: impl FnOnce(&D::Value) -> R,
    ) -> R {
        read(pinned.get_or_insert_with(key, make))
    }

    fn insert(pinned: &Self::Session<'_>, key: D::Key, value: D::Value) -> bool {
        pinned.insert(key, value).is_none()
    }

    fn update(
        pinned: &Self::Session<'_>,
        key: &D::Key,
        change: impl Fn(&D::Value) -> D::Value,
    ) -> bool {
        pinned.update(key, change).is_some()
    }

    fn remove(pinned: &Self::Session<'_>, key: &D::Key) -> bool {
        pinned.remove(key).is_some()
    }

    fn for_each(pinned: &Self::Session<'_>, mut visit: impl FnMut(&D::Key, &D::Value)) {
        pinned.iter().for_each(|(key, value)| visit(key, value));
    }
}
