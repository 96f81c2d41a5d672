//! The public set: [`HashSet`] speaks in clones, [`PinnedSet`] in references. Both are the map's faces with keys and nothing
//! else.
#![forbid(unsafe_code)]

#[cfg(feature = "rayon")]
mod parallel;
mod pinned;

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};

use equivalent::Equivalent;

pub use self::pinned::PinnedSet;
use crate::HashMap;
use crate::iter::{IntoKeys, Keys, OwnedKeys};

/// A concurrent hash set: a [`HashMap`] of keys alone, with the map's promises on atomicity, closures, panics,
/// progress, cost and [drops](HashMap#when-keys-and-values-are-dropped).
///
/// Its methods hand out **clones**; [`pin`](Self::pin) gives a [`PinnedSet`] that hands out **references**, and
/// relates two sets to each other.
///
/// ```
/// use quince::HashSet;
///
/// let seen = HashSet::new();
/// let new = std::thread::scope(|scope| {
///     let threads = [0; 4].map(|_| scope.spawn(|| (0..100).filter(|&job| seen.insert(job)).count()));
///     threads.map(|thread| thread.join().unwrap())
/// });
/// assert_eq!(new.iter().sum::<usize>(), 100); // each job was new to one thread
/// ```
///
/// Interning: one `Arc` for all equal strings, and no allocation for a string that is known.
///
/// ```
/// use std::sync::Arc;
///
/// let names: quince::HashSet<Arc<str>> = quince::HashSet::new();
/// let (first, second) = (names.get_or_insert_ref("ada"), names.get_or_insert_ref("ada"));
/// assert!(Arc::ptr_eq(&first, &second));
/// ```
pub struct HashSet<T, S = RandomState> {
    map: HashMap<T, (), S>,
}

impl<T> HashSet<T> {
    /// An empty set that has not allocated, with a randomly seeded hasher.
    ///
    /// ```
    /// let set: quince::HashSet<&str> = quince::HashSet::new();
    /// assert!(set.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(RandomState::new())
    }

    /// An empty set with room for `capacity` values. Panics with "capacity overflow" if that many cannot be addressed.
    ///
    /// ```
    /// let set: quince::HashSet<&str> = quince::HashSet::with_capacity(100);
    /// assert!(set.capacity() >= 100);
    /// ```
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_hasher(capacity, RandomState::new())
    }
}

impl<T, S> HashSet<T, S> {
    /// An empty set that has not allocated and hashes with `hash_builder`.
    ///
    /// ```
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    ///
    /// let set = quince::HashSet::with_hasher(BuildHasherDefault::<DefaultHasher>::new());
    /// set.insert("a");
    /// ```
    #[must_use]
    pub fn with_hasher(hash_builder: S) -> Self {
        let map = HashMap::with_hasher(hash_builder);
        Self { map }
    }

    /// An empty set with room for `capacity` values that hashes with `hash_builder`. Panics with "capacity overflow"
    /// if that many cannot be addressed.
    ///
    /// ```
    /// use std::hash::RandomState;
    ///
    /// let set: quince::HashSet<u32> = quince::HashSet::with_capacity_and_hasher(64, RandomState::new());
    /// assert!(set.capacity() >= 64);
    /// ```
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hash_builder: S) -> Self {
        let map = HashMap::with_capacity_and_hasher(capacity, hash_builder);
        Self { map }
    }

    /// The hasher of this set.
    ///
    /// ```
    /// use std::hash::BuildHasher;
    ///
    /// let set: quince::HashSet<&str> = quince::HashSet::new();
    /// assert_eq!(set.hasher().hash_one("a"), set.hasher().hash_one("a"));
    /// ```
    #[must_use]
    pub fn hasher(&self) -> &S {
        self.map.hasher()
    }

    /// How many values the set holds before it grows, about: see [`HashMap::capacity`].
    ///
    /// ```
    /// let set: quince::HashSet<&str> = quince::HashSet::new();
    /// assert_eq!(set.capacity(), 0);
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.map.capacity()
    }

    /// How many values the set holds: exact while nobody writes, else a number it passed through or nearly so.
    ///
    /// ```
    /// assert_eq!(quince::HashSet::from(["a", "b"]).len(), 2);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the set holds no value. Never `true` while some value stays in the set.
    ///
    /// ```
    /// assert!(!quince::HashSet::from(["a"]).is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Makes room for `additional` more values at once. O(capacity); other threads go on meanwhile. Panics with
    /// "capacity overflow".
    ///
    /// ```
    /// let set: quince::HashSet<u32> = quince::HashSet::new();
    /// set.reserve(1000);
    /// assert!(set.capacity() >= 1000);
    /// ```
    pub fn reserve(&self, additional: usize) {
        self.map.reserve(additional);
    }

    /// Gives back the room that the present values do not need. O(capacity); other threads go on meanwhile.
    ///
    /// ```
    /// let set = quince::HashSet::with_capacity(1000);
    /// set.insert("a");
    /// set.shrink_to_fit();
    /// assert!(set.capacity() < 1000);
    /// ```
    pub fn shrink_to_fit(&self) {
        self.map.shrink_to_fit();
    }

    /// Drops the removed values nobody can read any more, see [`HashMap::flush`].
    ///
    /// ```rust,standalone_crate
    /// use std::sync::Arc;
    ///
    /// let (set, name) = (quince::HashSet::new(), Arc::<str>::from("ada"));
    /// set.insert(name.clone());
    /// set.remove("ada");
    /// set.flush();
    /// assert_eq!(Arc::strong_count(&name), 1);
    /// ```
    pub fn flush(&self) {
        self.map.flush();
    }

    /// A view of this set that hands out references, see [`PinnedSet`]. They borrow from the view: bind it to a name
    /// first.
    ///
    /// ```
    /// let set = quince::HashSet::from([String::from("hello")]);
    /// let pinned = set.pin();
    /// let greeting: &str = pinned.get("hello").unwrap();
    /// assert_eq!(greeting, "hello");
    /// ```
    pub fn pin(&self) -> PinnedSet<'_, T, S> {
        PinnedSet::new(&self.map)
    }

    /// Iterates over clones of the values, see [`iter`](mod@crate::iter) for what it sees of concurrent changes.
    ///
    /// ```
    /// let set = quince::HashSet::from([1, 2, 3]);
    /// assert_eq!(set.iter().sum::<i32>(), 6);
    /// ```
    pub fn iter(&self) -> OwnedKeys<'_, T, ()> {
        self.map.keys()
    }

    /// Empties the set, gives up its memory, and iterates over what was in it. What is not taken is dropped with the
    /// iterator.
    ///
    /// ```
    /// let mut set = quince::HashSet::from(["a"]);
    /// assert_eq!(set.drain().collect::<Vec<_>>(), ["a"]);
    /// assert!(set.is_empty());
    /// ```
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = T> {
        self.map.drain().map(|(value, ())| value)
    }

    /// Empties the set and drops every value before it returns, the ones removed earlier too.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let value = Arc::new(1);
    /// let mut set = quince::HashSet::from([value.clone()]);
    /// set.clear_mut();
    /// assert_eq!(Arc::strong_count(&value), 1);
    /// ```
    pub fn clear_mut(&mut self) {
        self.map.clear_mut();
    }
}

impl<T: Hash + Eq, S: BuildHasher> HashSet<T, S> {
    /// Removes the values for which `keep` says `false`. Values inserted meanwhile may be passed over.
    ///
    /// ```
    /// let set: quince::HashSet<i32> = (0..8).collect();
    /// set.retain(|value| value % 2 == 0);
    /// assert_eq!(set.len(), 4);
    /// ```
    pub fn retain(&self, keep: impl FnMut(&T) -> bool) {
        self.pin().retain(keep);
    }

    /// Removes the values, one by one. Values inserted meanwhile may stay.
    ///
    /// ```
    /// let set = quince::HashSet::from(["a"]);
    /// set.clear();
    /// assert!(set.is_empty());
    /// ```
    pub fn clear(&self) {
        self.map.clear();
    }

    /// Whether `value` is in the set.
    ///
    /// To insert a value that is absent, look at what [`insert`](Self::insert) returns: another thread may come between
    /// this answer and the insertion.
    ///
    /// ```
    /// assert!(quince::HashSet::from(["a"]).contains("a"));
    /// ```
    #[must_use]
    pub fn contains<Q>(&self, value: &Q) -> bool
    where
        Q: ?Sized + Hash + Equivalent<T>,
    {
        self.map.contains_key(value)
    }

    /// The value in the set that is equivalent to `value`.
    ///
    /// ```
    /// let set = quince::HashSet::from([String::from("a")]);
    /// assert_eq!(set.get("a"), Some(String::from("a")));
    /// ```
    #[must_use]
    pub fn get<Q>(&self, value: &Q) -> Option<T>
    where
        Q: ?Sized + Hash + Equivalent<T>,
        T: Clone,
    {
        self.pin().get(value).cloned()
    }

    /// Inserts `value` unless an equal one is in the set, which then stays. Says whether it was inserted: of all
    /// threads that insert a value, one is told `true`.
    ///
    /// ```
    /// let set = quince::HashSet::new();
    /// assert!(set.insert("a"));
    /// assert!(!set.insert("a"));
    /// ```
    pub fn insert(&self, value: T) -> bool {
        self.pin().insert(value)
    }

    /// The value in the set that equals `value`, which is `value` itself if there was none.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let set = quince::HashSet::new();
    /// let first = set.get_or_insert(Arc::new("a"));
    /// assert!(Arc::ptr_eq(&first, &set.get_or_insert(Arc::new("a"))));
    /// ```
    pub fn get_or_insert(&self, value: T) -> T
    where
        T: Clone,
    {
        self.pin().get_or_insert(value).clone()
    }

    /// The value in the set that is equivalent to `value`, made by the closure if there was none, see
    /// [`PinnedSet::get_or_insert_with`].
    ///
    /// ```
    /// let set: quince::HashSet<String> = quince::HashSet::new();
    /// assert_eq!(set.get_or_insert_with("a", |value| value.to_owned()), "a"); // allocates
    /// assert_eq!(set.get_or_insert_with("a", |_| unreachable!()), "a");
    /// ```
    pub fn get_or_insert_with<Q>(&self, value: &Q, make: impl FnOnce(&Q) -> T) -> T
    where
        Q: ?Sized + Hash + Equivalent<T>,
        T: Clone,
    {
        self.pin().get_or_insert_with(value, make).clone()
    }

    /// As [`get_or_insert_with`](Self::get_or_insert_with); the value is made with `T::from`.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let set: quince::HashSet<Arc<str>> = quince::HashSet::new();
    /// let interned: Arc<str> = set.get_or_insert_ref("a");
    /// assert_eq!(&*interned, "a");
    /// ```
    pub fn get_or_insert_ref<Q>(&self, value: &Q) -> T
    where
        Q: ?Sized + Hash + Equivalent<T>,
        T: Clone + for<'q> From<&'q Q>,
    {
        self.pin().get_or_insert_ref(value).clone()
    }

    /// Removes `value` and says whether it was there: of all threads that remove a value, one is told `true`.
    ///
    /// ```
    /// let set = quince::HashSet::from(["a"]);
    /// assert!(set.remove("a"));
    /// assert!(!set.remove("a"));
    /// ```
    pub fn remove<Q>(&self, value: &Q) -> bool
    where
        Q: ?Sized + Hash + Equivalent<T>,
    {
        self.pin().remove(value)
    }

    /// Removes `value` and returns the value that was in the set. The set's own copy of it is dropped later, see
    /// [when](HashMap#when-keys-and-values-are-dropped).
    ///
    /// ```
    /// let set = quince::HashSet::from([String::from("a")]);
    /// assert_eq!(set.take("a"), Some(String::from("a")));
    /// ```
    pub fn take<Q>(&self, value: &Q) -> Option<T>
    where
        Q: ?Sized + Hash + Equivalent<T>,
        T: Clone,
    {
        self.pin().take(value).cloned()
    }
}

impl<T, S: Default> Default for HashSet<T, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

/// Values that come and go meanwhile may be in the clone or not.
impl<T: Hash + Eq + Clone, S: BuildHasher + Clone> Clone for HashSet<T, S> {
    fn clone(&self) -> Self {
        let map = self.map.clone();
        Self { map }
    }
}

impl<T: fmt::Debug, S> fmt::Debug for HashSet<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pin().fmt(f)
    }
}

/// Not a snapshot, as the map's.
impl<T: Hash + Eq, S: BuildHasher> PartialEq for HashSet<T, S> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl<T: Hash + Eq, S: BuildHasher> Eq for HashSet<T, S> {}

/// Of equal values the first one stays.
impl<T: Hash + Eq, S: BuildHasher + Default> FromIterator<T> for HashSet<T, S> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut set = Self::default();
        set.extend(values);
        set
    }
}

/// Of equal values the first one stays.
impl<T: Hash + Eq, const N: usize> From<[T; N]> for HashSet<T> {
    fn from(values: [T; N]) -> Self {
        Self::from_iter(values)
    }
}

/// Inserts from a shared reference, as [`HashSet::insert`] does, so that several threads may extend one set.
impl<T: Hash + Eq, S: BuildHasher> Extend<T> for &HashSet<T, S> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        let values = values.into_iter();
        if self.capacity() == 0 {
            self.reserve(values.size_hint().0);
        }
        // A pin for each value, because `values` may wait between two of them.
        for value in values {
            self.insert(value);
        }
    }
}

impl<T: Hash + Eq, S: BuildHasher> Extend<T> for HashSet<T, S> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        (&*self).extend(values);
    }
}

impl<'a, T: Hash + Eq + Copy, S: BuildHasher> Extend<&'a T> for HashSet<T, S> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, values: I) {
        self.extend(values.into_iter().copied());
    }
}

impl<T, S> IntoIterator for HashSet<T, S> {
    type Item = T;
    type IntoIter = IntoKeys<T, ()>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.into_keys()
    }
}

/// Clones, as [`HashSet::iter`].
impl<'m, T: Clone, S> IntoIterator for &'m HashSet<T, S> {
    type Item = T;
    type IntoIter = OwnedKeys<'m, T, ()>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'s, T, S> IntoIterator for &'s PinnedSet<'_, T, S> {
    type Item = &'s T;
    type IntoIter = Keys<'s, T, ()>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
