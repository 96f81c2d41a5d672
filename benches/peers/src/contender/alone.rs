//! A sequential map on one thread: what a map costs that need not care about others.

use super::{Contender, Hasher};
use crate::data::Data;
use hashbrown::HashMap;
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard};

/// `hashbrown::HashMap`, its exclusive use proven once per session: by a lock, as workloads share their maps. Within
/// the session an operation pays for the flag of a `RefCell`.
pub struct Hashbrown;

type Map<D> = HashMap<<D as Data>::Key, <D as Data>::Value, Hasher>;

impl<D: Data> Contender<D> for Hashbrown {
    const NAME: &'static str = "hashbrown";
    const CONCURRENT: bool = false;
    type Map = Mutex<Map<D>>;
    type Session<'m> = RefCell<MutexGuard<'m, Map<D>>>;

    fn new() -> Self::Map {
        Self::Map::default()
    }

    fn len(map: &Self::Map) -> usize {
        map.lock().unwrap().len()
    }

    fn session(map: &Self::Map) -> Self::Session<'_> {
        RefCell::new(map.lock().unwrap())
    }

    fn get<R>(
        map: &Self::Session<'_>,
        key: &D::Key,
        read: impl FnOnce(&D::Value) -> R,
    ) -> Option<R> {
        map.borrow().get(key).map(read)
    }

    fn insert_or_get<R>(
        map: &Self::Session<'_>,
        key: D::Key,
        make: impl FnOnce() -> D::Value,
        read: impl FnOnce(&D::Value) -> R,
    ) -> R {
        read(map.borrow_mut().entry(key).or_insert_with(make))
    }

    fn insert(map: &Self::Session<'_>, key: D::Key, value: D::Value) -> bool {
        map.borrow_mut().insert(key, value).is_none()
    }

    fn update(
        map: &Self::Session<'_>,
        key: &D::Key,
        change: impl Fn(&D::Value) -> D::Value,
    ) -> bool {
        map.borrow_mut()
            .get_mut(key)
            .map(|value| *value = change(value))
            .is_some()
    }

    fn remove(map: &Self::Session<'_>, key: &D::Key) -> bool {
        map.borrow_mut().remove(key).is_some()
    }

    fn for_each(map: &Self::Session<'_>, mut visit: impl FnMut(&D::Key, &D::Value)) {
        for (key, value) in &**map.borrow() {
            visit(key, value);
        }
    }
}
