//! The borrowed face, through which every operation passes.

use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use equivalent::Equivalent;

use super::OnceMap;
use super::claim::{Claim, Entered, Unmade};
use super::making::{Making, Slot};
use crate::{OccupiedError, Pinned};

/// A view of an [`OnceMap`] that keeps the calling thread pinned and hands out references into the map.
///
/// Got from [`OnceMap::pin`]. Values need not be `Clone`. What [`Pinned`] says of pinning holds here too, so for
/// initialisers that take long, and for waiting, the methods of [`OnceMap`] are the better choice: those are not pinned
/// meanwhile.
///
/// ```
/// use quince::OnceMap;
///
/// let regexes: OnceMap<&str, Vec<String>> = OnceMap::new();
/// let pinned = regexes.pin();
/// let first: &Vec<String> = pinned.get_or_init("a b", || "a b".split(' ').map(str::to_owned).collect());
/// let again = pinned.get_or_init("a b", || unreachable!("made once"));
/// assert!(std::ptr::eq(first, again));
/// ```
#[must_use = "a view that is not used pins its thread for nothing"]
pub struct PinnedOnce<'m, K, V, S = RandomState> {
    once: &'m OnceMap<K, V, S>,
    slots: Pinned<'m, K, Slot<V>, S>,
}

impl<'m, K, V, S> PinnedOnce<'m, K, V, S> {
    pub(super) fn new(once: &'m OnceMap<K, V, S>) -> Self {
        Self {
            once,
            slots: once.slots.pin(),
        }
    }

    /// As [`OnceMap::iter`], of references.
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1), ("b", 2)]);
    /// assert_eq!(map.pin().iter().map(|(_, value)| value).sum::<i32>(), 3);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.slots
            .iter()
            .filter_map(|(key, slot)| Some((key, slot.ready()?)))
    }

    /// As [`Pinned::repin`].
    ///
    /// ```
    /// let map: quince::OnceMap<u32, u32> = quince::OnceMap::new();
    /// let mut pinned = map.pin();
    /// for key in 0..100 {
    ///     pinned.get_or_init(key, || key);
    ///     pinned.repin();
    /// }
    /// ```
    pub fn repin(&mut self) {
        self.slots.repin();
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> PinnedOnce<'_, K, V, S> {
    /// As [`OnceMap::get`].
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1)]);
    /// assert_eq!(map.pin().get("a"), Some(&1));
    /// ```
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.slots.get(key)?.ready()
    }

    /// As [`OnceMap::wait`]. Pinned while it waits.
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1)]);
    /// assert_eq!(map.pin().wait("a"), Some(&1));
    /// assert_eq!(map.pin().wait("b"), None);
    /// ```
    pub fn wait<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        loop {
            match self.slots.get(key)? {
                Slot::Ready(value) => return Some(value),
                Slot::Making(making) => self.once.wait_for(key, making),
            }
        }
    }

    /// As [`OnceMap::remove`].
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1)]);
    /// let pinned = map.pin();
    /// assert_eq!((pinned.remove("a"), pinned.remove("a")), (Some(&1), None));
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.slots
            .remove_if(key, |_, slot| slot.ready().is_some())?
            .ready()
    }

    /// As [`OnceMap::remove_if`].
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1)]);
    /// assert_eq!(map.pin().remove_if("a", |_, &value| value > 1), None);
    /// ```
    pub fn remove_if<Q>(&self, key: &Q, mut condition: impl FnMut(&K, &V) -> bool) -> Option<&V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        let condition =
            |key: &K, slot: &Slot<V>| slot.ready().is_some_and(|value| condition(key, value));
        self.slots.remove_if(key, condition)?.ready()
    }

    /// As [`OnceMap::retain`].
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1), ("b", 2)]);
    /// map.pin().retain(|_, &value| value > 1);
    /// assert_eq!(map.len(), 1);
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.slots
            .retain(|key, slot| slot.ready().is_none_or(|value| keep(key, value)));
    }

    /// As [`OnceMap::clear`].
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1)]);
    /// map.pin().clear();
    /// assert!(map.is_empty());
    /// ```
    pub fn clear(&self) {
        self.retain(|_, _| false);
    }

    /// Removes the entry if it is still `making`.
    pub(super) fn unlink<Q>(&self, key: &Q, making: &Arc<Making<V>>)
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        let unlinked = self.slots.remove_if(key, |_, slot| slot.is(making));
        if unlinked.is_some() {
            self.once.count_made();
        }
    }
}

impl<K: Hash + Eq + Clone, V, S: BuildHasher> PinnedOnce<'_, K, V, S> {
    /// As [`OnceMap::get_or_init`]. Pinned while `init` runs, or while it waits for another thread's.
    ///
    /// ```
    /// let map = quince::OnceMap::new();
    /// assert_eq!(map.pin().get_or_init("a", || 1), &1);
    /// assert_eq!(map.pin().get_or_init("a", || 2), &1);
    /// ```
    pub fn get_or_init(&self, key: K, init: impl FnOnce() -> V) -> &V {
        let Ok(value) = self.get_or_try_init(key, || Ok::<_, Infallible>(init()));
        value
    }

    /// As [`OnceMap::get_or_try_init`]. Pinned as [`get_or_init`](Self::get_or_init).
    ///
    /// ```
    /// let map = quince::OnceMap::new();
    /// let pinned = map.pin();
    /// assert_eq!(pinned.get_or_try_init("a", || "x".parse::<i32>()).ok(), None);
    /// assert_eq!(pinned.get_or_try_init("a", || "1".parse::<i32>()), Ok(&1));
    /// ```
    pub fn get_or_try_init<E>(&self, key: K, init: impl FnOnce() -> Result<V, E>) -> Result<&V, E> {
        match self.try_settle(&key, init) {
            Ok(value) | Err(Unmade::Present(value)) => Ok(value),
            Err(Unmade::Failed(error)) => Err(error),
        }
    }

    /// As [`OnceMap::try_init`]. Pinned as [`get_or_init`](Self::get_or_init).
    ///
    /// ```
    /// let map = quince::OnceMap::new();
    /// let pinned = map.pin();
    /// assert_eq!(pinned.try_init("a", || 1).ok(), Some(&1));
    /// assert_eq!(pinned.try_init("a", || 2).unwrap_err().current, &1);
    /// ```
    pub fn try_init(
        &self,
        key: K,
        init: impl FnOnce() -> V,
    ) -> Result<&V, OccupiedError<K, (), &V>> {
        let settled = self.try_settle(&key, || Ok::<_, Infallible>(init()));
        settled.map_err(|unmade| unmade.occupied(key))
    }

    fn try_settle<E>(
        &self,
        key: &K,
        init: impl FnOnce() -> Result<V, E>,
    ) -> Result<&V, Unmade<&V, E>> {
        let publish = |claim: Claim<'_, K, V, S>, value| claim.publish(self, value);
        self.once.try_settle(key, || self.enter(key), init, publish)
    }

    /// Looks, and claims the key if there is nothing.
    pub(super) fn enter(&self, key: &K) -> Entered<&V, V> {
        if let Some(slot) = self.slots.get(key) {
            return Entered::found(slot);
        }
        let making = Arc::new(Making::new());
        match self
            .slots
            .try_insert(key.clone(), Slot::Making(Arc::clone(&making)))
        {
            Ok(_) => {
                self.once.count_making();
                Entered::Claimed(making)
            }
            Err(occupied) => Entered::found(occupied.current),
        }
    }

    /// Replaces `making` by `value`.
    ///
    /// # Panics
    /// If the entry is not found.
    pub(super) fn replace(&self, key: &K, making: &Arc<Making<V>>, value: V) -> &V {
        let current = self.slots.get(key).filter(|slot| slot.is(making));
        let replaced =
            current.map(|current| self.slots.replace_if_same(key, current, Slot::Ready(value)));
        let value = match replaced {
            Some(Ok(Slot::Ready(value))) => value,
            _ => panic!("the `Hash` or `Eq` of a key changed while its value was made"),
        };
        self.once.count_made();
        value
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for PinnedOnce<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
