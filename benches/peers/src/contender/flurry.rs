use super::{Contender, Hasher};
use crate::data::Data;

pub struct Flurry;

impl<D: Data> Contender<D> for Flurry {
    const NAME: &'static str = "flurry";
    type Map = flurry::HashMap<D::Key, D::Value, Hasher>;
    type Session<'m> = flurry::HashMapRef<'m, D::Key, D::Value, Hasher>;

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

    /// `try_insert` wants the value made beforehand, so a user who makes it only when needed looks first.
    fn insert_or_get<R>(
        pinned: &Self::Session<'_>,
        key: D::Key,
        make: impl FnOnce() -> D::Value,
        read: impl FnOnce(&D::Value) -> R,
    ) -> R {
        let value = pinned.get(&key);
        read(value.unwrap_or_else(|| {
            pinned
                .try_insert(key, make())
                .unwrap_or_else(|error| error.current)
        }))
    }

    fn insert(pinned: &Self::Session<'_>, key: D::Key, value: D::Value) -> bool {
        pinned.insert(key, value).is_none()
    }

    fn update(
        pinned: &Self::Session<'_>,
        key: &D::Key,
        change: impl Fn(&D::Value) -> D::Value,
    ) -> bool {
        pinned
            .compute_if_present(key, |_, value| Some(change(value)))
            .is_some()
    }

    fn remove(pinned: &Self::Session<'_>, key: &D::Key) -> bool {
        pinned.remove(key).is_some()
    }

    fn for_each(pinned: &Self::Session<'_>, mut visit: impl FnMut(&D::Key, &D::Value)) {
        pinned.iter().for_each(|(key, value)| visit(key, value));
    }
}
