//! The public map: [`HashMap`] speaks in clones, [`Pinned`] in references. Neither has logic of its own
//! beyond hashing; the algorithm is in `raw`.
#![forbid(unsafe_code)]

pub mod iter;
mod many;
#[cfg(feature = "rayon")]
mod parallel;
mod pinned;

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::panic::{RefUnwindSafe, UnwindSafe};

use equivalent::Equivalent;

pub use self::pinned::Pinned;
use crate::raw::{self, RawMap};
use crate::{Computed, OccupiedError, Operation};
use iter::{Drain, IntoKeys, IntoValues, IterMut, OwnedIter, OwnedKeys, OwnedValues, ValuesMut};

/// A concurrent hash map whose operations take `&self`, run in any number of threads, and never take a lock.
///
/// The methods of `HashMap` hand out **clones** of what is in the map: there is nothing to hold and nothing
/// to release. That suits values that are cheap to clone, such as numbers, `Arc`s and channel senders.
/// [`pin`](Self::pin) gives a [`Pinned`] view with the same methods that hands out **references**, for values
/// that are not `Clone`, are large, or are themselves shared state such as an `AtomicU64` or a `Mutex`: a
/// value never moves while it is in the map.
///
/// ```
/// use quince::HashMap;
/// use std::sync::Arc;
///
/// let sessions: HashMap<String, Arc<str>> = HashMap::new();
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| sessions.get_or_insert_with("ada".to_owned(), || Arc::from("opened")));
///     }
/// });
/// assert_eq!(sessions.len(), 1); // all four threads got the same `Arc`
/// ```
///
/// # What all operations have in common
///
/// **Atomicity.** An operation on one key takes effect at one instant between its call and its return.
/// Operations on the whole map ([`iter`](Self::iter), [`retain`](Self::retain), [`clear`](Self::clear), `==`,
/// `Clone`, `Debug`) go from entry to entry and are no snapshot.
///
/// **Closures** run with nothing held: they may use the same map, for the same key too. An `FnOnce` runs at
/// most once a call. An `FnMut` may run again: on the new value, if another thread changed the entry
/// meanwhile; on the same one, if the entry was moved by a resize, such as the closure itself may cause. The
/// methods of `HashMap` run an `FnOnce` while the thread is not pinned, so that it may take its time; a closure
/// that is shown entries, and all those of [`Pinned`], run pinned.
///
/// **Ownership.** A key or value that lost a race is dropped or, by the `try_` methods, given back. What a
/// method returns as removed or replaced is returned to one caller only.
///
/// **Panics** of user code such as `Hash`, `Eq` or a closure pass through and leave the map as it was, except
/// that [`retain`](Self::retain) and [`clear`](Self::clear) do not undo what they have done. A panic in the
/// `Clone` of a result comes after the operation took effect. An operation that has to grow the map beyond
/// what it can address panics with "capacity overflow".
///
/// **Hashing.** `Hash` and `Eq` of the key types must agree, and a key's must not change while it is in the
/// map. If that is violated, look-ups may miss and keys may double, but no memory is misused. The default
/// [`RandomState`] withstands hostile keys.
///
/// # Progress and cost
///
/// | operations | progress | cost |
/// |---|---|---|
/// | `get`, `get_key_value`, `contains_key` | never wait, never help, write nothing shared | O(1) |
/// | `get_or_*`, `try_insert*`, key present | as `get` | O(1) |
/// | `insert`, `remove*`, key absent in the above | lock-free, help with a resize a little | O(1) amortised |
/// | `update*`, `get_and_update`, `compute` | lock-free, may run the closure again | O(1) a round |
/// | iteration, `retain`, `clear` | lock-free, help with a resize they meet | O(capacity) |
/// | `reserve`, `shrink_to_fit` | lock-free, finish a resize they meet | O(capacity) |
/// | `len`, `capacity` | never wait | O(threads that wrote at the same time) |
/// | `is_empty` | as `len` if it is not; if `len` says 0, as iteration | O(capacity) if it is |
///
/// Costs are expected ones: keys with equal hashes are searched one by one. Lock-free means that a thread
/// suspended at any point never keeps the others from completing. Each call on `HashMap` pins the current
/// epoch, twice if it makes a value in between: one locked instruction on memory of the calling thread, and every
/// so often some reclamation work for the process. [`Pinned`] pays that once.
///
/// # When keys and values are dropped
///
/// A removed or replaced key or value may still be read by a pinned thread, so it is dropped later: inside a
/// writing call or [`flush`](Self::flush) on this map, at the latest when the map is dropped. Its destructor
/// may use the map; if it panics in a call that has nothing to do with it, the panic ends there, after the
/// panic hook has reported it. As long as any thread of the process stays pinned, what was removed since then
/// is kept.
pub struct HashMap<K, V, S = RandomState> {
    raw: RawMap<K, V>,
    hash_builder: S,
}

/// Makes what the owned face hands out of an entry.
fn clone_pair<A: Clone, B: Clone>((first, second): (&A, &B)) -> (A, B) {
    (first.clone(), second.clone())
}

impl<K, V> HashMap<K, V> {
    /// An empty map that has not allocated, with a randomly seeded hasher.
    ///
    /// ```
    /// let map: quince::HashMap<&str, i32> = quince::HashMap::new();
    /// assert!(map.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(RandomState::new())
    }

    /// An empty map with room for `capacity` entries. Panics with "capacity overflow" if that many cannot be
    /// addressed.
    ///
    /// ```
    /// let map: quince::HashMap<&str, i32> = quince::HashMap::with_capacity(100);
    /// assert!(map.capacity() >= 100);
    /// ```
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_hasher(capacity, RandomState::new())
    }
}

impl<K, V, S> HashMap<K, V, S> {
    /// An empty map that has not allocated and hashes with `hash_builder`.
    ///
    /// ```
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    ///
    /// let map = quince::HashMap::with_hasher(BuildHasherDefault::<DefaultHasher>::new());
    /// map.insert("answer", 42);
    /// ```
    #[must_use]
    pub fn with_hasher(hash_builder: S) -> Self {
        Self {
            raw: RawMap::new(),
            hash_builder,
        }
    }

    /// An empty map with room for `capacity` entries that hashes with `hash_builder`. Panics with "capacity
    /// overflow" if that many cannot be addressed.
    ///
    /// ```
    /// use std::hash::RandomState;
    ///
    /// let map: quince::HashMap<u32, u32> = quince::HashMap::with_capacity_and_hasher(64, RandomState::new());
    /// assert!(map.capacity() >= 64);
    /// ```
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hash_builder: S) -> Self {
        Self {
            raw: RawMap::with_capacity(capacity),
            hash_builder,
        }
    }

    /// The hasher of this map.
    ///
    /// ```
    /// use std::hash::BuildHasher;
    ///
    /// let map: quince::HashMap<&str, i32> = quince::HashMap::new();
    /// assert_eq!(map.hasher().hash_one("a"), map.hasher().hash_one("a"));
    /// ```
    #[must_use]
    pub fn hasher(&self) -> &S {
        &self.hash_builder
    }

    /// How many entries the map holds before it grows, about: removed entries use up room until the next
    /// resize.
    ///
    /// ```
    /// let map: quince::HashMap<&str, i32> = quince::HashMap::new();
    /// assert_eq!(map.capacity(), 0);
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.raw.capacity()
    }

    /// How many entries the map holds: exact while nobody writes, else a number it passed through or nearly
    /// so.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1), ("b", 2)]);
    /// assert_eq!(map.len(), 2);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether the map holds no entry. Never `true` while some key stays in the map.
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// map.insert("a", 1);
    /// assert!(!map.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pin().is_empty()
    }

    /// Makes room for `additional` more entries at once, which saves growing step by step. O(capacity); other
    /// threads go on meanwhile. Panics with "capacity overflow".
    ///
    /// ```
    /// let map: quince::HashMap<u32, u32> = quince::HashMap::new();
    /// map.reserve(1000);
    /// assert!(map.capacity() >= 1000);
    /// ```
    pub fn reserve(&self, additional: usize) {
        self.pin().reserve(additional);
    }

    /// Gives back the room that the present entries do not need. O(capacity); other threads go on meanwhile.
    ///
    /// ```
    /// let map = quince::HashMap::with_capacity(1000);
    /// map.insert("a", 1);
    /// map.shrink_to_fit();
    /// assert!(map.capacity() < 1000);
    /// ```
    pub fn shrink_to_fit(&self) {
        self.raw.pin().shrink_to_fit();
    }

    /// Drops the removed and replaced keys and values nobody can read any more: all of them, if no thread of
    /// the process is pinned, this one included.
    ///
    /// Writers do this as they go, so it is needed only where a drop is waited for. It never waits itself.
    ///
    /// ```rust,standalone_crate
    /// use std::sync::Arc;
    ///
    /// let (map, connection) = (quince::HashMap::new(), Arc::new("tcp"));
    /// map.insert(1, connection.clone());
    /// map.remove(&1);
    /// map.flush();
    /// assert_eq!(Arc::strong_count(&connection), 1);
    /// ```
    pub fn flush(&self) {
        self.raw.flush();
    }

    /// A view of this map that hands out references, see [`Pinned`]. They borrow from the view: bind it to a name first.
    ///
    /// ```
    /// let map = quince::HashMap::from([("greeting", String::from("hello"))]);
    /// let pinned = map.pin();
    /// let greeting: &str = pinned.get("greeting").unwrap();
    /// assert_eq!(greeting, "hello");
    /// ```
    pub fn pin(&self) -> Pinned<'_, K, V, S> {
        Pinned::new(self)
    }

    /// Iterates over clones of the entries, see [`iter`](mod@iter) for what it sees of concurrent changes.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1), ("b", 2)]);
    /// let mut entries: Vec<(&str, i32)> = map.iter().collect();
    /// entries.sort();
    /// assert_eq!(entries, [("a", 1), ("b", 2)]);
    /// ```
    pub fn iter(&self) -> OwnedIter<'_, K, V> {
        OwnedIter(raw::OwnedIter::new(self.raw.pin()))
    }

    /// Iterates over clones of the keys, as [`iter`](Self::iter).
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1), ("b", 2)]);
    /// assert!(map.keys().all(|key| key < "c"));
    /// ```
    pub fn keys(&self) -> OwnedKeys<'_, K, V> {
        OwnedKeys(raw::OwnedIter::new(self.raw.pin()))
    }

    /// Iterates over clones of the values, as [`iter`](Self::iter).
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1), ("b", 2)]);
    /// assert_eq!(map.values().sum::<i32>(), 3);
    /// ```
    pub fn values(&self) -> OwnedValues<'_, K, V> {
        OwnedValues(raw::OwnedIter::new(self.raw.pin()))
    }

    /// Iterates over the entries with mutable access to the values.
    ///
    /// ```
    /// let mut map = quince::HashMap::from([("a", 1), ("b", 2)]);
    /// for (_, value) in map.iter_mut() {
    ///     *value *= 10;
    /// }
    /// assert_eq!(map.get("b"), Some(20));
    /// ```
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        IterMut(self.raw.iter_mut())
    }

    /// Iterates over the values with mutable access.
    ///
    /// ```
    /// let mut map = quince::HashMap::from([("a", vec![1]), ("b", vec![])]);
    /// map.values_mut().for_each(|list| list.push(2));
    /// assert_eq!(map.get("a"), Some(vec![1, 2]));
    /// ```
    pub fn values_mut(&mut self) -> ValuesMut<'_, K, V> {
        ValuesMut(self.raw.iter_mut())
    }

    /// Empties the map, gives up its memory, and iterates over what was in it. What is not taken is dropped
    /// with the iterator.
    ///
    /// ```
    /// let mut map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.drain().collect::<Vec<_>>(), [("a", 1)]);
    /// assert!(map.is_empty());
    /// ```
    pub fn drain(&mut self) -> Drain<'_, K, V> {
        Drain(self.raw.drain())
    }

    /// Empties the map and drops every key and value before it returns, the ones removed earlier too.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let value = Arc::new(());
    /// let mut map = quince::HashMap::from([(1, value.clone())]);
    /// map.clear_mut();
    /// assert_eq!(Arc::strong_count(&value), 1);
    /// ```
    pub fn clear_mut(&mut self) {
        self.raw.clear_mut();
    }

    /// Consumes the map and iterates over its keys.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.into_keys().collect::<Vec<_>>(), ["a"]);
    /// ```
    pub fn into_keys(self) -> IntoKeys<K, V> {
        IntoKeys(self.raw.into_iter())
    }

    /// Consumes the map and iterates over its values.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.into_values().collect::<Vec<_>>(), [1]);
    /// ```
    pub fn into_values(self) -> IntoValues<K, V> {
        IntoValues(self.raw.into_iter())
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> HashMap<K, V, S> {
    /// Removes the entries for which `keep` says `false`. It is asked again about an entry that is replaced
    /// before it can be removed; entries inserted meanwhile may be passed over.
    ///
    /// ```
    /// let map: quince::HashMap<i32, i32> = (0..8).map(|i| (i, i * i)).collect();
    /// map.retain(|key, _| key % 2 == 0);
    /// assert_eq!(map.len(), 4);
    /// ```
    pub fn retain(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.pin().retain(keep);
    }

    /// Removes the entries, one by one. Entries inserted meanwhile may stay.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    pub fn clear(&self) {
        self.pin().clear();
    }

    fn hash<Q: ?Sized + Hash>(&self, key: &Q) -> raw::Hash {
        self.raw.mix(self.hash_builder.hash_one(key))
    }

    /// Makes room in an empty map for as many entries as there will be at least.
    fn reserve_for(&self, entries: &impl Iterator) {
        if self.capacity() == 0 {
            self.reserve(entries.size_hint().0);
        }
    }

    /// The value of `key`. What makes a value on demand asks this first, and [`settle`](Self::settle)s it afterwards:
    /// two pins, of which neither lasts while the value is made. On a hit the caller drops its arguments by name: a
    /// value on its way out is leaked if a destructor panics then.
    fn find<Q>(&self, hash: raw::Hash, key: &Q) -> Option<V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        V: Clone,
    {
        self.pin().find(hash, key).map(|(_, value)| value.clone())
    }

    /// The value in the map after trying to insert this pair, which is dropped if the key was there.
    fn settle(&self, hash: raw::Hash, key: K, value: V) -> V
    where
        V: Clone,
    {
        self.pin().settle(hash, key, value).clone()
    }

    /// The value of `key`.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.get("a"), Some(1));
    /// assert_eq!(map.get("b"), None);
    /// ```
    #[must_use]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        V: Clone,
    {
        self.pin().get(key).cloned()
    }

    /// The key in the map that is equivalent to `key`, and its value.
    ///
    /// ```
    /// let map = quince::HashMap::from([(String::from("a"), 1)]);
    /// assert_eq!(map.get_key_value("a"), Some((String::from("a"), 1)));
    /// ```
    #[must_use]
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(K, V)>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: Clone,
        V: Clone,
    {
        self.pin().get_key_value(key).map(clone_pair)
    }

    /// Whether `key` is in the map.
    ///
    /// To insert a key that is absent, use [`get_or_insert_with`](Self::get_or_insert_with) or
    /// [`try_insert`](Self::try_insert): another thread may come between this answer and the insertion.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert!(map.contains_key("a"));
    /// ```
    #[must_use]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.pin().contains_key(key)
    }

    /// Puts `value` under `key` and returns the value it replaced. The new key replaces the old key too. The map's own
    /// copy of what was replaced is dropped later, see [when](Self#when-keys-and-values-are-dropped).
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// assert_eq!(map.insert("a", 1), None);
    /// assert_eq!(map.insert("a", 2), Some(1));
    /// ```
    pub fn insert(&self, key: K, value: V) -> Option<V>
    where
        V: Clone,
    {
        self.pin().insert(key, value).cloned()
    }

    /// Inserts `value` if `key` is absent and returns it; otherwise gives both back, with the value that is
    /// there.
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// assert_eq!(map.try_insert("a", 1), Ok(1));
    /// assert_eq!(map.try_insert("a", 2).unwrap_err().current, 1);
    /// ```
    pub fn try_insert(&self, key: K, value: V) -> Result<V, OccupiedError<K, V, V>>
    where
        V: Clone,
    {
        self.pin()
            .try_insert(key, value)
            .cloned()
            .map_err(OccupiedError::cloned)
    }

    /// As [`try_insert`](Self::try_insert) with a value that is made only if `key` is absent.
    ///
    /// The error holds `Some` value if the closure ran and another thread inserted the key meanwhile.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// let error = map.try_insert_with("a", || unreachable!()).unwrap_err();
    /// assert_eq!((error.current, error.key, error.value), (1, "a", None));
    /// ```
    pub fn try_insert_with(
        &self,
        key: K,
        make: impl FnOnce() -> V,
    ) -> Result<V, OccupiedError<K, Option<V>, V>>
    where
        V: Clone,
    {
        let hash = self.hash(&key);
        if let Some(current) = self.find(hash, &key) {
            drop(make);
            return Err(OccupiedError::new(current, key, None));
        }
        let value = make();
        let pinned = self.pin();
        let inserted = pinned.place(hash, key, value).cloned();
        inserted.map_err(|occupied| occupied.cloned().made())
    }

    /// The value of `key`, which is `value` if the key was absent.
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// assert_eq!(map.get_or_insert("a", 1), 1);
    /// assert_eq!(map.get_or_insert("a", 2), 1);
    /// ```
    pub fn get_or_insert(&self, key: K, value: V) -> V
    where
        V: Clone,
    {
        self.pin().get_or_insert(key, value).clone()
    }

    /// The value of `key`, made by the closure if the key was absent.
    ///
    /// Of several threads that find the key absent each runs its closure, one value is inserted, and all
    /// return that one. The calling thread is not pinned while the closure runs.
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// assert_eq!(map.get_or_insert_with("a", || 1), 1);
    /// assert_eq!(map.get_or_insert_with("a", || unreachable!()), 1);
    /// ```
    ///
    /// Work that must run once per key goes into a cell, of which there is one:
    ///
    /// ```
    /// use std::sync::{Arc, OnceLock};
    ///
    /// let clients: quince::HashMap<&str, Arc<OnceLock<String>>> = quince::HashMap::new();
    /// let cell = clients.get_or_default("db");
    /// assert_eq!(cell.get_or_init(|| "connected".to_owned()), "connected");
    /// ```
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V
    where
        V: Clone,
    {
        self.get_or_insert_with_key(key, |_| make())
    }

    /// As [`get_or_insert_with`](Self::get_or_insert_with); the closure is shown the key.
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// assert_eq!(map.get_or_insert_with_key("abc", |key| key.len()), 3);
    /// ```
    pub fn get_or_insert_with_key(&self, key: K, make: impl FnOnce(&K) -> V) -> V
    where
        V: Clone,
    {
        let hash = self.hash(&key);
        if let Some(value) = self.find(hash, &key) {
            drop((key, make));
            return value;
        }
        let value = make(&key);
        self.settle(hash, key, value)
    }

    /// As [`get_or_insert_with`](Self::get_or_insert_with); an error of the closure is returned and nothing
    /// inserted.
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// assert!(map.get_or_try_insert_with("port", || "x".parse::<u16>()).is_err());
    /// assert_eq!(map.get_or_try_insert_with("port", || "80".parse::<u16>()), Ok(80));
    /// ```
    pub fn get_or_try_insert_with<E>(
        &self,
        key: K,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E>
    where
        V: Clone,
    {
        let hash = self.hash(&key);
        if let Some(value) = self.find(hash, &key) {
            drop((key, make));
            return Ok(value);
        }
        Ok(self.settle(hash, key, make()?))
    }

    /// The value of `key`, which is `V::default()` if the key was absent.
    ///
    /// ```
    /// let map: quince::HashMap<&str, i32> = quince::HashMap::new();
    /// assert_eq!(map.get_or_default("a"), 0);
    /// ```
    pub fn get_or_default(&self, key: K) -> V
    where
        V: Clone + Default,
    {
        self.get_or_insert_with(key, V::default)
    }

    /// As [`get_or_insert_with`](Self::get_or_insert_with) with a borrowed key; the owned key is made only if
    /// it was absent.
    ///
    /// ```
    /// let map: quince::HashMap<String, i32> = quince::HashMap::new();
    /// assert_eq!(map.get_or_insert_ref_with("a", || 1), 1); // allocates a `String`
    /// assert_eq!(map.get_or_insert_ref_with("a", || 2), 1); // does not
    /// ```
    pub fn get_or_insert_ref_with<Q>(&self, key: &Q, make: impl FnOnce() -> V) -> V
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: for<'q> From<&'q Q>,
        V: Clone,
    {
        let hash = self.hash(key);
        if let Some(value) = self.find(hash, key) {
            drop(make);
            return value;
        }
        self.settle(hash, K::from(key), make())
    }

    /// As [`get_or_insert_ref_with`](Self::get_or_insert_ref_with); an error of the closure is returned and
    /// nothing inserted.
    ///
    /// ```
    /// let map: quince::HashMap<String, u16> = quince::HashMap::new();
    /// assert!(map.get_or_try_insert_ref_with("port", || "x".parse()).is_err());
    /// assert_eq!(map.get_or_try_insert_ref_with("port", || "80".parse()), Ok(80));
    /// ```
    pub fn get_or_try_insert_ref_with<Q, E>(
        &self,
        key: &Q,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: for<'q> From<&'q Q>,
        V: Clone,
    {
        let hash = self.hash(key);
        if let Some(value) = self.find(hash, key) {
            drop(make);
            return Ok(value);
        }
        let value = make()?;
        Ok(self.settle(hash, K::from(key), value))
    }

    /// As [`get_or_default`](Self::get_or_default) with a borrowed key; the owned key is made only if it was absent.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// let rooms: quince::HashMap<String, Arc<Mutex<Vec<&str>>>> = quince::HashMap::new();
    /// rooms.get_or_default_ref("lobby").lock().unwrap().push("ada");
    /// assert_eq!(*rooms.get_or_default_ref("lobby").lock().unwrap(), ["ada"]);
    /// ```
    pub fn get_or_default_ref<Q>(&self, key: &Q) -> V
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: for<'q> From<&'q Q>,
        V: Clone + Default,
    {
        self.get_or_insert_ref_with(key, V::default)
    }

    /// Replaces the value of `key` by one made from it, and returns the new value; `None` if the key is
    /// absent.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.update("a", |value| value + 1), Some(2));
    /// assert_eq!(map.update("b", |value| value + 1), None);
    /// ```
    pub fn update<Q>(&self, key: &Q, make: impl FnMut(&V) -> V) -> Option<V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: Clone,
        V: Clone,
    {
        self.pin().update(key, make).cloned()
    }

    /// As [`update`](Self::update); returns the old and the new value.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.get_and_update("a", |value| value + 1), Some((1, 2)));
    /// ```
    pub fn get_and_update<Q>(&self, key: &Q, make: impl FnMut(&V) -> V) -> Option<(V, V)>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: Clone,
        V: Clone,
    {
        self.pin().get_and_update(key, make).map(clone_pair)
    }

    /// Replaces the value of `key` by what `update` makes of it, or inserts what `insert` makes if the key is absent.
    /// Returns the new value.
    ///
    /// No update is lost: a closure is asked again if another thread came first.
    ///
    /// ```
    /// let counts: quince::HashMap<&str, u32> = quince::HashMap::new();
    /// std::thread::scope(|scope| {
    ///     for line in ["a rose is a rose", "is a rose"] {
    ///         let count = |word| counts.update_or_insert_with(word, |n| n + 1, || 1);
    ///         scope.spawn(move || line.split(' ').map(count).for_each(drop));
    ///     }
    /// });
    /// assert_eq!(["a", "rose", "is", "thorn"].map(|word| counts.get(word)), [Some(3), Some(3), Some(2), None]);
    /// ```
    ///
    /// Where values change often and can be shared, counters say, change them in place instead:
    /// `counts.pin().get_or_default(word).fetch_add(1, Relaxed)` on `AtomicU64` values replaces no entry.
    pub fn update_or_insert_with(
        &self,
        key: K,
        update: impl FnMut(&V) -> V,
        insert: impl FnMut() -> V,
    ) -> V
    where
        V: Clone,
    {
        self.pin()
            .update_or_insert_with(key, update, insert)
            .clone()
    }

    /// Inserts, replaces or removes the entry of `key`, or leaves it, as the closure decides on seeing what
    /// is there.
    ///
    /// The decision is carried out only if the entry is still what the closure saw; otherwise it is asked
    /// again. A closure that never aborts leaves the type `T` open; say `compute::<()>`.
    ///
    /// ```
    /// use quince::{Computed, HashMap, Operation};
    ///
    /// let stock = HashMap::from([("quince", 2)]);
    /// let take = |fruit| {
    ///     stock.compute(fruit, |entry| match entry {
    ///         None => Operation::Abort("no such fruit"),
    ///         Some((_, 1)) => Operation::Remove,
    ///         Some((_, count)) => Operation::Insert(count - 1),
    ///     })
    /// };
    /// assert_eq!(take("quince"), Computed::Replaced { old: 2, new: 1 });
    /// assert_eq!(take("quince"), Computed::Removed(1));
    /// assert_eq!(take("quince"), Computed::Aborted("no such fruit"));
    /// ```
    pub fn compute<T>(
        &self,
        key: K,
        decide: impl FnMut(Option<(&K, &V)>) -> Operation<V, T>,
    ) -> Computed<V, T>
    where
        V: Clone,
    {
        self.pin().compute(key, decide).cloned()
    }

    /// Removes `key` and returns its value. The map's own copy of it is dropped later, see
    /// [when](Self#when-keys-and-values-are-dropped).
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.remove("a"), Some(1));
    /// assert_eq!(map.remove("a"), None);
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        V: Clone,
    {
        self.pin().remove(key).cloned()
    }

    /// Removes `key` and returns the key that was in the map and its value.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.remove_entry("a"), Some(("a", 1)));
    /// ```
    pub fn remove_entry<Q>(&self, key: &Q) -> Option<(K, V)>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: Clone,
        V: Clone,
    {
        self.pin().remove_entry(key).map(clone_pair)
    }

    /// Removes `key` if `condition` holds of the very entry that is removed, and returns its value.
    ///
    /// `None` says that the key was absent or the condition did not hold. With `Arc` values this removes
    /// one's own entry and never a successor:
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let map = quince::HashMap::new();
    /// let mine = map.get_or_insert_with("a", || Arc::new(1));
    /// map.insert("a", Arc::new(1));
    /// assert_eq!(map.remove_if("a", |_, value| Arc::ptr_eq(value, &mine)), None);
    /// assert!(map.contains_key("a"));
    /// ```
    pub fn remove_if<Q>(&self, key: &Q, condition: impl FnMut(&K, &V) -> bool) -> Option<V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        V: Clone,
    {
        self.pin().remove_if(key, condition).cloned()
    }

    /// The value of `key`, mutably: nobody else has access to the map meanwhile.
    ///
    /// ```
    /// let mut map = quince::HashMap::from([("a", vec![1])]);
    /// map.get_mut("a").unwrap().push(2);
    /// assert_eq!(map.get("a"), Some(vec![1, 2]));
    /// ```
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.raw
            .get_mut(self.hash(key), |candidate| key.equivalent(candidate))
    }
}

impl<K, V, S: Default> Default for HashMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

/// Entries that come and go meanwhile may be in the clone or not.
impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher + Clone> Clone for HashMap<K, V, S> {
    fn clone(&self) -> Self {
        let mut clone = Self::with_capacity_and_hasher(self.len(), self.hash_builder.clone());
        clone.extend(self.iter());
        clone
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for HashMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pin().fmt(f)
    }
}

/// A panic leaves the map consistent; keys and values that may be shared after one make the map so.
impl<K: RefUnwindSafe, V: RefUnwindSafe, S: RefUnwindSafe> RefUnwindSafe for HashMap<K, V, S> {}

/// As above.
impl<K: UnwindSafe, V: UnwindSafe, S: UnwindSafe> UnwindSafe for HashMap<K, V, S> {}

/// Compares the lengths, then looks up every entry of `self` in `other`. Not a snapshot: maps that others
/// write to meanwhile may compare equal though they never were, and the reverse.
impl<K: Hash + Eq, V: PartialEq, S: BuildHasher> PartialEq for HashMap<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        let theirs = other.pin();
        self.len() == other.len()
            && self
                .pin()
                .iter()
                .all(|(key, value)| theirs.get(key) == Some(value))
    }
}

impl<K: Hash + Eq, V: Eq, S: BuildHasher> Eq for HashMap<K, V, S> {}

/// Of entries with equal keys the last one stays.
impl<K: Hash + Eq, V, S: BuildHasher + Default> FromIterator<(K, V)> for HashMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

/// Of entries with equal keys the last one stays.
impl<K: Hash + Eq, V, const N: usize> From<[(K, V); N]> for HashMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        Self::from_iter(entries)
    }
}

/// Inserts from a shared reference, as [`HashMap::insert`] does, so that several threads may extend one map.
impl<K: Hash + Eq, V, S: BuildHasher> Extend<(K, V)> for &HashMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let entries = entries.into_iter();
        self.reserve_for(&entries);
        // A pin for each entry, because `entries` may wait between two of them.
        for (key, value) in entries {
            self.pin().insert(key, value);
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Extend<(K, V)> for HashMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let entries = entries.into_iter();
        self.reserve_for(&entries);
        self.insert_many(entries);
    }
}

impl<'a, K: Hash + Eq + Copy, V: Copy, S: BuildHasher> Extend<(&'a K, &'a V)> for HashMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (&'a K, &'a V)>>(&mut self, entries: I) {
        self.extend(entries.into_iter().map(|(&key, &value)| (key, value)));
    }
}
