//! A sequential map behind one lock, taken for each operation.

use super::{Contender, Hasher};
use crate::data::Data;
use hashbrown::HashMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, RwLock};

pub type MutexHashbrown = Locked<Exclusive>;
pub type RwLockHashbrown = Locked<ReadWrite>;

/// A kind of lock: its type around a `T`, and its two modes, which may be the same.
pub trait Lock: 'static {
    const NAME: &'static str;
    type Around<T: Guarded>: Default + Sync + 'static;

    fn shared<T: Guarded>(lock: &Self::Around<T>) -> impl Deref<Target = T>;
    fn exclusive<T: Guarded>(lock: &Self::Around<T>) -> impl DerefMut<Target = T>;
}

/// What a lock may be put around.
pub trait Guarded: Default + Send + Sync + 'static {}
impl<T: Default + Send + Sync + 'static> Guarded for T {}

pub struct Exclusive;

impl Lock for Exclusive {
    const NAME: &'static str = "mutex_hashbrown";
    type Around<T: Guarded> = Mutex<T>;

    fn shared<T: Guarded>(lock: &Mutex<T>) -> impl Deref<Target = T> {
        lock.lock().unwrap()
    }

    fn exclusive<T: Guarded>(lock: &Mutex<T>) -> impl DerefMut<Target = T> {
        lock.lock().unwrap()
    }
}

pub struct ReadWrite;

impl Lock for ReadWrite {
    const NAME: &'static str = "rwlock_hashbrown";
    type Around<T: Guarded> = RwLock<T>;

    fn shared<T: Guarded>(lock: &RwLock<T>) -> impl Deref<Target = T> {
        lock.read().unwrap()
    }

    fn exclusive<T: Guarded>(lock: &RwLock<T>) -> impl DerefMut<Target = T> {
        lock.write().unwrap()
    }
}

/// A `hashbrown::HashMap` behind a lock of kind `L`.
pub struct Locked<L>(PhantomData<L>);

impl<D: Data, L: Lock> Contender<D> for Locked<L> {
    const NAME: &'static str = L::NAME;
    type Map = L::Around<HashMap<D::Key, D::Value, Hasher>>;
    type Session<'m> = &'m Self::Map;

    fn new() -> Self::Map {
        Self::Map::default()
    }

    fn len(map: &Self::Map) -> usize {
        L::shared(map).len()
    }

    fn session(map: &Self::Map) -> Self::Session<'_> {
        map
    }

    fn get<R>(
        map: &Self::Session<'_>,
        key: &D::Key,
        read: impl FnOnce(&D::Value) -> R,
    ) -> Option<R> {
        L::shared(map).get(key).map(read)
    }

    fn insert_or_get<R>(
        map: &Self::Session<'_>,
        key: D::Key,
        make: impl FnOnce() -> D::Value,
        read: impl FnOnce(&D::Value) -> R,
    ) -> R {
        read(L::exclusive(map).entry(key).or_insert_with(make))
    }

    fn insert(map: &Self::Session<'_>, key: D::Key, value: D::Value) -> bool {
        L::exclusive(map).insert(key, value).is_none()
    }

    fn update(
        map: &Self::Session<'_>,
        key: &D::Key,
        change: impl Fn(&D::Value) -> D::Value,
    ) -> bool {
        L::exclusive(map)
            .get_mut(key)
            .map(|value| *value = change(value))
            .is_some()
    }

    fn remove(map: &Self::Session<'_>, key: &D::Key) -> bool {
        L::exclusive(map).remove(key).is_some()
    }

    fn for_each(map: &Self::Session<'_>, mut visit: impl FnMut(&D::Key, &D::Value)) {
        for (key, value) in &*L::shared(map) {
            visit(key, value);
        }
    }
}
