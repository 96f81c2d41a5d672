//! [`OnceMap`]: each value is made once.
//!
//! Built on [`HashMap`] alone: insert-or-get decides who makes a value, a conditional replacement publishes it, a
//! conditional removal takes back a failed attempt.
#![forbid(unsafe_code)]

mod claim;
#[cfg(feature = "async")]
mod future;
mod making;
mod pinned;

use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::panic::{RefUnwindSafe, UnwindSafe};

use crossbeam_utils::CachePadded;
use equivalent::Equivalent;

pub use self::pinned::PinnedOnce;
use crate::sync::{AtomicUsize, Ordering};
use crate::{HashMap, OccupiedError};
use claim::Unmade;
use making::Slot;

/// A concurrent map whose values are made **exactly once** per key, however many threads or tasks ask at the same time.
///
/// [`HashMap::get_or_insert_with`] lets callers that race for a key each run their closure, and keeps one result. An
/// `OnceMap` runs one closure, and the others wait for its result. Nobody else waits: look-ups do not see a value before it
/// is made, and other keys are not concerned, not even if one closure takes for ever.
///
/// ```
/// use quince::OnceMap;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// let (pages, fetches) = (OnceMap::new(), AtomicU32::new(0));
/// std::thread::scope(|scope| {
///     for _ in 0..8 {
///         scope.spawn(|| {
///             let page: String = pages.get_or_init("index", || {
///                 fetches.fetch_add(1, Relaxed);
///                 "<html>".to_owned()
///             });
///             assert_eq!(page, "<html>");
///         });
///     }
/// });
/// assert_eq!(fetches.into_inner(), 1);
/// ```
///
/// As with [`HashMap`], these methods return clones, and [`pin`](Self::pin) gives a view which returns references.
/// Initialising clones the key, to find the entry again.
///
/// # What callers may rely on
///
/// * **Once.** Between two removals of a key at most one initialiser of it returns a value, and everybody gets that one.
/// * **Failure.** An initialiser that returns an error or panics gives that to its own caller. The key is absent again, no
///   entry stays behind, and each of those who waited tries with its own initialiser, one at a time.
/// * **Removal** of a key whose value is being made does nothing: there is no value yet. The same holds for
///   [`retain`](Self::retain), [`clear`](Self::clear), iteration and [`len`](Self::len).
/// * **Nesting.** An initialiser may use the map, and initialise other keys. Asking for its own key panics, where it would
///   wait for itself. Two initialisers that wait for each other's keys wait for ever, as two threads that take two locks in
///   opposite orders.
/// * **Waiting** blocks the thread, without spinning. With the `async` feature there are forms that wait as futures.
///
/// Costs are those of [`HashMap`]; making a value costs two allocations more, which are freed when it is made.
pub struct OnceMap<K, V, S = RandomState> {
    slots: HashMap<K, Slot<V>, S>,
    /// How many entries of `slots` are in the making.
    making: CachePadded<AtomicUsize>,
}

impl<K, V> OnceMap<K, V> {
    /// An empty map that has not allocated, with a randomly seeded hasher.
    ///
    /// ```
    /// let map: quince::OnceMap<&str, i32> = quince::OnceMap::new();
    /// assert!(map.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(RandomState::new())
    }
}

impl<K, V, S> OnceMap<K, V, S> {
    /// An empty map that has not allocated and hashes with `hash_builder`.
    ///
    /// ```
    /// use std::hash::RandomState;
    ///
    /// let map = quince::OnceMap::with_hasher(RandomState::new());
    /// map.get_or_init("answer", || 42);
    /// ```
    #[must_use]
    pub fn with_hasher(hash_builder: S) -> Self {
        Self::from_slots(HashMap::with_hasher(hash_builder))
    }

    /// An empty map with room for `capacity` entries. Panics with "capacity overflow" if that many cannot be addressed.
    ///
    /// ```
    /// use std::hash::RandomState;
    ///
    /// let map = quince::OnceMap::with_capacity_and_hasher(64, RandomState::new());
    /// map.get_or_init("answer", || 42);
    /// ```
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hash_builder: S) -> Self {
        Self::from_slots(HashMap::with_capacity_and_hasher(capacity, hash_builder))
    }

    fn from_slots(slots: HashMap<K, Slot<V>, S>) -> Self {
        Self {
            slots,
            making: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// A view of this map that hands out references, see [`PinnedOnce`].
    ///
    /// ```
    /// let map = quince::OnceMap::new();
    /// let pinned = map.pin();
    /// let value: &String = pinned.get_or_init("a", || "made once".to_owned());
    /// assert_eq!(value, "made once");
    /// ```
    pub fn pin(&self) -> PinnedOnce<'_, K, V, S> {
        PinnedOnce::new(self)
    }

    /// How many values are in the map: exact while nobody writes.
    ///
    /// ```
    /// let map = quince::OnceMap::new();
    /// map.get_or_init("a", || 1);
    /// assert_eq!(map.len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        // Relaxed: whoever wants an exact number has synchronised with all writers.
        self.slots
            .len()
            .saturating_sub(self.making.load(Ordering::Relaxed))
    }

    /// Whether the map holds no value. Never `true` while some value stays in the map.
    ///
    /// ```
    /// assert!(quince::OnceMap::<&str, i32>::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.pin().iter().next().is_none()
    }

    /// As [`HashMap::flush`].
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", vec![1])]);
    /// map.remove("a");
    /// map.flush(); // drops the vector
    /// ```
    pub fn flush(&self) {
        self.slots.flush();
    }

    /// Iterates over clones of what is in the map, with the guarantees of [`HashMap::iter`]. Values in the making are left
    /// out.
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1)]);
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [("a", 1)]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (K, V)>
    where
        K: Clone,
        V: Clone,
    {
        self.slots.iter().filter_map(|(key, slot)| match slot {
            Slot::Ready(value) => Some((key, value)),
            Slot::Making(_) => None,
        })
    }

    fn count_making(&self) {
        // Relaxed: see `len`.
        self.making.fetch_add(1, Ordering::Relaxed);
    }

    fn count_made(&self) {
        // Relaxed: see `len`.
        self.making.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> OnceMap<K, V, S> {
    /// The value of `key`, if it is made. Never waits.
    ///
    /// ```
    /// let map = quince::OnceMap::new();
    /// map.get_or_init("a", || {
    ///     assert_eq!(map.get("a"), None); // not yet
    ///     1
    /// });
    /// assert_eq!(map.get("a"), Some(1));
    /// ```
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        V: Clone,
    {
        self.pin().get(key).cloned()
    }

    /// Whether the value of `key` is made. Never waits.
    ///
    /// ```
    /// assert!(quince::OnceMap::from([("a", 1)]).contains_key("a"));
    /// ```
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.pin().get(key).is_some()
    }

    /// The value of `key`; waits for it if it is being made. `None` if it is neither there nor in the making.
    ///
    /// ```
    /// use std::{sync::Barrier, thread, time::Duration};
    ///
    /// let (map, begun) = (quince::OnceMap::new(), Barrier::new(2));
    /// thread::scope(|scope| {
    ///     scope.spawn(|| {
    ///         map.get_or_init("slow", || {
    ///             begun.wait();
    ///             thread::sleep(Duration::from_millis(10));
    ///             1
    ///         })
    ///     });
    ///     begun.wait();
    ///     assert_eq!(map.get("slow"), None);
    ///     assert_eq!(map.wait("slow"), Some(1));
    /// });
    /// ```
    pub fn wait<Q>(&self, key: &Q) -> Option<V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        V: Clone,
    {
        loop {
            let making = match self.slots.pin().get(key)? {
                Slot::Ready(value) => return Some(value.clone()),
                Slot::Making(making) => making.clone(),
            };
            self.wait_for(key, &making);
        }
    }

    /// Removes `key` and returns its value. `None` if it is absent, or still in the making, which goes on.
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1)]);
    /// assert_eq!((map.remove("a"), map.remove("a")), (Some(1), None));
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        V: Clone,
    {
        self.pin().remove(key).cloned()
    }

    /// Removes `key` if `condition` holds of the very entry that is removed, as [`HashMap::remove_if`].
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1)]);
    /// assert_eq!(map.remove_if("a", |_, &value| value > 1), None);
    /// ```
    pub fn remove_if<Q>(&self, key: &Q, condition: impl FnMut(&K, &V) -> bool) -> Option<V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        V: Clone,
    {
        self.pin().remove_if(key, condition).cloned()
    }

    /// Removes every value that `keep` rejects. Those in the making stay.
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1), ("b", 2)]);
    /// map.retain(|_, &value| value > 1);
    /// assert_eq!(map.len(), 1);
    /// ```
    pub fn retain(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.pin().retain(keep);
    }

    /// Removes every value. Those in the making stay.
    ///
    /// ```
    /// let map = quince::OnceMap::from([("a", 1)]);
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    pub fn clear(&self) {
        self.pin().clear();
    }
}

impl<K: Hash + Eq + Clone, V, S: BuildHasher> OnceMap<K, V, S> {
    /// The value of `key`, made by `init` if it is absent: by this call, or by another one for whose result this one waits.
    ///
    /// # Panics
    /// If `init` does; then the key is absent. If this is called by an initialiser of the same key.
    ///
    /// ```
    /// let map = quince::OnceMap::new();
    /// assert_eq!(map.get_or_init("a", || 1), 1);
    /// assert_eq!(map.get_or_init("a", || unreachable!()), 1);
    /// ```
    pub fn get_or_init(&self, key: K, init: impl FnOnce() -> V) -> V
    where
        V: Clone,
    {
        let Ok(value) = self.get_or_try_init(key, || Ok::<_, Infallible>(init()));
        value
    }

    /// As [`get_or_init`](Self::get_or_init) for an `init` that may fail: its error is this caller's, the key is absent
    /// again, and one of those who wait tries with its own.
    ///
    /// # Errors
    /// That of `init`.
    ///
    /// ```
    /// let map = quince::OnceMap::new();
    /// assert!(map.get_or_try_init("a", || "x".parse::<i32>()).is_err());
    /// assert!(!map.contains_key("a"));
    /// assert_eq!(map.get_or_try_init("a", || "1".parse()), Ok(1));
    /// ```
    pub fn get_or_try_init<E>(&self, key: K, init: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        V: Clone,
    {
        match self.try_settle_owned(&key, init) {
            Ok(value) | Err(Unmade::Present(value)) => Ok(value),
            Err(Unmade::Failed(error)) => Err(error),
        }
    }

    /// As [`get_or_init`](Self::get_or_init), and says who made the value: `Ok` if this call did.
    ///
    /// # Errors
    /// The value that was there or that another call made, and the key.
    ///
    /// ```
    /// let map = quince::OnceMap::new();
    /// assert_eq!(map.try_init("a", || 1).ok(), Some(1));
    /// assert_eq!(map.try_init("a", || 2).unwrap_err().current, 1);
    /// ```
    pub fn try_init(&self, key: K, init: impl FnOnce() -> V) -> Result<V, OccupiedError<K, (), V>>
    where
        V: Clone,
    {
        let settled = self.try_settle_owned(&key, || Ok::<_, Infallible>(init()));
        settled.map_err(|unmade| unmade.occupied(key))
    }

    /// Pinned neither while `init` runs nor while it waits.
    fn try_settle_owned<E>(
        &self,
        key: &K,
        init: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, Unmade<V, E>>
    where
        V: Clone,
    {
        let enter = || self.pin().enter(key).cloned();
        self.try_settle(key, enter, init, |claim, value| {
            claim.publish(&self.pin(), value).clone()
        })
    }
}

impl<K, V, S: Default> Default for OnceMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for OnceMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pin().fmt(f)
    }
}

/// As for [`HashMap`].
impl<K: RefUnwindSafe, V: RefUnwindSafe, S: RefUnwindSafe> RefUnwindSafe for OnceMap<K, V, S> {}

/// As for [`HashMap`].
impl<K: UnwindSafe, V: UnwindSafe, S: UnwindSafe> UnwindSafe for OnceMap<K, V, S> {}

/// Of entries with equal keys the last one stays.
impl<K: Hash + Eq, V, S: BuildHasher + Default> FromIterator<(K, V)> for OnceMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let ready = |(key, value)| (key, Slot::Ready(value));
        Self::from_slots(entries.into_iter().map(ready).collect())
    }
}

/// Of entries with equal keys the last one stays.
impl<K: Hash + Eq, V, const N: usize> From<[(K, V); N]> for OnceMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        Self::from_iter(entries)
    }
}
