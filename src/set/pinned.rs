//! The borrowed face of the set: the map's, with the keys for results.
#![forbid(unsafe_code)]

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};

use equivalent::Equivalent;

use crate::iter::Keys;
use crate::{HashMap, Pinned};

/// A view of a [`HashSet`](crate::HashSet) that keeps the calling thread pinned and hands out references into the set.
///
/// What is said of [`Pinned`] holds here: keep it short, it stays on its thread, and what it lends lives as long as its
/// borrow, removed or not.
///
/// ```
/// use quince::HashSet;
///
/// let (rust, lock_free) = (HashSet::from(["quince", "papaya"]), HashSet::from(["quince", "growt"]));
/// let (rust, lock_free) = (rust.pin(), lock_free.pin());
/// assert_eq!(rust.intersection(&lock_free).collect::<Vec<_>>(), [&"quince"]);
/// ```
///
/// # Two sets
///
/// [`union`](Self::union), [`difference`](Self::difference) and their relatives look at one set value by value and at
/// the other one meanwhile. They are **no snapshot** of either. They answer rightly for every value that neither set
/// gains or loses while they run; one that comes to or goes from a set meanwhile may be yielded or not, and by `union`
/// and `symmetric_difference` twice.
#[must_use = "a view that is not used pins its thread for nothing"]
pub struct PinnedSet<'m, T, S = RandomState> {
    map: Pinned<'m, T, (), S>,
}

impl<'m, T, S> PinnedSet<'m, T, S> {
    pub(super) fn new(map: &'m HashMap<T, (), S>) -> Self {
        Self { map: map.pin() }
    }

    /// As [`HashSet::len`](crate::HashSet::len).
    ///
    /// ```
    /// assert_eq!(quince::HashSet::from(["a"]).pin().len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// As [`HashSet::is_empty`](crate::HashSet::is_empty).
    ///
    /// ```
    /// assert!(!quince::HashSet::from(["a"]).pin().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// As [`HashSet::reserve`](crate::HashSet::reserve).
    ///
    /// ```
    /// let set: quince::HashSet<u32> = quince::HashSet::new();
    /// set.pin().reserve(100);
    /// assert!(set.capacity() >= 100);
    /// ```
    pub fn reserve(&self, additional: usize) {
        self.map.reserve(additional);
    }

    /// Unpins and pins again, as [`Pinned::repin`].
    ///
    /// ```
    /// let set: quince::HashSet<u32> = (0..100).collect();
    /// let mut pinned = set.pin();
    /// for round in 0..100 {
    ///     assert_eq!(pinned.take(&round), Some(&round));
    ///     pinned.repin();
    /// }
    /// ```
    pub fn repin(&mut self) {
        self.map.repin();
    }

    /// As [`HashSet::flush`](crate::HashSet::flush); this view does not count as a pin.
    ///
    /// ```
    /// let set: quince::HashSet<u32> = (0..100).collect();
    /// let mut pinned = set.pin();
    /// pinned.clear();
    /// pinned.flush();
    /// ```
    pub fn flush(&mut self) {
        self.map.flush();
    }

    /// Iterates over the values, see [`iter`](mod@crate::iter) for what it sees of concurrent changes.
    ///
    /// ```
    /// let set = quince::HashSet::from(["a", "b"]);
    /// for value in set.pin().iter() {
    ///     println!("{value}");
    /// }
    /// ```
    pub fn iter(&self) -> Keys<'_, T, ()> {
        self.map.keys()
    }
}

impl<T: Hash + Eq, S: BuildHasher> PinnedSet<'_, T, S> {
    /// As [`HashSet::retain`](crate::HashSet::retain).
    ///
    /// ```
    /// let set = quince::HashSet::from([1, 2]);
    /// set.pin().retain(|value| *value > 1);
    /// assert_eq!(set.len(), 1);
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&T) -> bool) {
        self.map.retain(|value, ()| keep(value));
    }

    /// As [`HashSet::clear`](crate::HashSet::clear). References to the removed values stay good.
    ///
    /// ```
    /// let set = quince::HashSet::from(["a"]);
    /// let pinned = set.pin();
    /// let a = pinned.get("a").unwrap();
    /// pinned.clear();
    /// assert_eq!((pinned.get("a"), *a), (None, "a"));
    /// ```
    pub fn clear(&self) {
        self.map.clear();
    }

    /// Whether `value` is in the set, see [`HashSet::contains`](crate::HashSet::contains).
    ///
    /// ```
    /// assert!(quince::HashSet::from(["a"]).pin().contains("a"));
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
    /// assert_eq!(set.pin().get("a"), Some(&String::from("a")));
    /// ```
    #[must_use]
    pub fn get<Q>(&self, value: &Q) -> Option<&T>
    where
        Q: ?Sized + Hash + Equivalent<T>,
    {
        self.map.get_key_value(value).map(|(value, ())| value)
    }

    /// Inserts `value` unless an equal one is in the set, see [`HashSet::insert`](crate::HashSet::insert).
    ///
    /// ```
    /// let set = quince::HashSet::new();
    /// let pinned = set.pin();
    /// assert!(pinned.insert("a"));
    /// assert!(!pinned.insert("a"));
    /// ```
    pub fn insert(&self, value: T) -> bool {
        self.map.try_insert(value, ()).is_ok()
    }

    /// The value in the set that equals `value`, which is `value` itself if there was none.
    ///
    /// ```
    /// let set = quince::HashSet::new();
    /// let pinned = set.pin();
    /// let first: &String = pinned.get_or_insert(String::from("a"));
    /// assert!(std::ptr::eq(first, pinned.get_or_insert(String::from("a"))));
    /// ```
    pub fn get_or_insert(&self, value: T) -> &T {
        self.map.key_or_insert(value)
    }

    /// The value in the set that is equivalent to `value`, made by the closure if there was none.
    ///
    /// Panics if what the closure makes is not equivalent to `value`.
    ///
    /// ```
    /// let set: quince::HashSet<String> = quince::HashSet::new();
    /// assert_eq!(set.pin().get_or_insert_with("a", |value| value.to_owned()), "a");
    /// ```
    pub fn get_or_insert_with<Q>(&self, value: &Q, make: impl FnOnce(&Q) -> T) -> &T
    where
        Q: ?Sized + Hash + Equivalent<T>,
    {
        self.map.key_or_insert_with(value, make)
    }

    /// As [`get_or_insert_with`](Self::get_or_insert_with); the value is made with `T::from`.
    ///
    /// ```
    /// let set: quince::HashSet<Box<str>> = quince::HashSet::new();
    /// let pinned = set.pin();
    /// let interned: &str = pinned.get_or_insert_ref("a"); // allocates
    /// assert!(std::ptr::eq(interned, &**pinned.get_or_insert_ref("a"))); // does not
    /// ```
    pub fn get_or_insert_ref<Q>(&self, value: &Q) -> &T
    where
        Q: ?Sized + Hash + Equivalent<T>,
        T: for<'q> From<&'q Q>,
    {
        self.get_or_insert_with(value, |value| T::from(value))
    }

    /// Removes `value` and says whether it was there, see [`HashSet::remove`](crate::HashSet::remove).
    ///
    /// ```
    /// let set = quince::HashSet::from(["a"]);
    /// assert!(set.pin().remove("a"));
    /// assert!(!set.pin().remove("a"));
    /// ```
    pub fn remove<Q>(&self, value: &Q) -> bool
    where
        Q: ?Sized + Hash + Equivalent<T>,
    {
        self.map.remove(value).is_some()
    }

    /// Removes `value` and returns the value that was in the set.
    ///
    /// ```
    /// let set = quince::HashSet::from([String::from("a")]);
    /// assert_eq!(set.pin().take("a"), Some(&String::from("a")));
    /// ```
    pub fn take<Q>(&self, value: &Q) -> Option<&T>
    where
        Q: ?Sized + Hash + Equivalent<T>,
    {
        self.map.remove_entry(value).map(|(value, ())| value)
    }

    /// Iterates over what is in either set. [No snapshot](Self#two-sets); O(capacity of both).
    ///
    /// ```
    /// let (a, b) = (quince::HashSet::from([1, 2]), quince::HashSet::from([2, 3]));
    /// assert_eq!(a.pin().union(&b.pin()).count(), 3);
    /// ```
    pub fn union<'s>(&'s self, other: &'s PinnedSet<'_, T, S>) -> impl Iterator<Item = &'s T> {
        self.iter().chain(other.difference(self))
    }

    /// Iterates over what is in both sets. [No snapshot](Self#two-sets); O(capacity of the smaller one).
    ///
    /// ```
    /// let (a, b) = (quince::HashSet::from([1, 2]), quince::HashSet::from([2, 3]));
    /// assert_eq!(a.pin().intersection(&b.pin()).collect::<Vec<_>>(), [&2]);
    /// ```
    pub fn intersection<'s>(
        &'s self,
        other: &'s PinnedSet<'_, T, S>,
    ) -> impl Iterator<Item = &'s T> {
        let (fewer, more) = match self.len() <= other.len() {
            true => (self.iter(), other),
            false => (other.iter(), self),
        };
        fewer.filter(|value| more.contains(*value))
    }

    /// Iterates over what is in this set and not in `other`. [No snapshot](Self#two-sets); O(capacity of this one).
    ///
    /// ```
    /// let (a, b) = (quince::HashSet::from([1, 2]), quince::HashSet::from([2, 3]));
    /// assert_eq!(a.pin().difference(&b.pin()).collect::<Vec<_>>(), [&1]);
    /// ```
    pub fn difference<'s>(&'s self, other: &'s PinnedSet<'_, T, S>) -> impl Iterator<Item = &'s T> {
        self.iter().filter(|value| !other.contains(*value))
    }

    /// Iterates over what is in one of the sets and not in the other. [No snapshot](Self#two-sets); O(capacity of
    /// both).
    ///
    /// ```
    /// let (a, b) = (quince::HashSet::from([1, 2]), quince::HashSet::from([2, 3]));
    /// assert_eq!(a.pin().symmetric_difference(&b.pin()).sum::<i32>(), 4);
    /// ```
    pub fn symmetric_difference<'s>(
        &'s self,
        other: &'s PinnedSet<'_, T, S>,
    ) -> impl Iterator<Item = &'s T> {
        self.difference(other).chain(other.difference(self))
    }

    /// Whether every value of this set is in `other`. [No snapshot](Self#two-sets); O(capacity of this one).
    ///
    /// ```
    /// let (a, b) = (quince::HashSet::from([1, 2]), quince::HashSet::from([1, 2, 3]));
    /// assert!(a.pin().is_subset(&b.pin()));
    /// ```
    #[must_use]
    pub fn is_subset(&self, other: &PinnedSet<'_, T, S>) -> bool {
        self.difference(other).next().is_none()
    }

    /// Whether every value of `other` is in this set. [No snapshot](Self#two-sets); O(capacity of `other`).
    ///
    /// ```
    /// let (a, b) = (quince::HashSet::from([1, 2, 3]), quince::HashSet::from([1, 2]));
    /// assert!(a.pin().is_superset(&b.pin()));
    /// ```
    #[must_use]
    pub fn is_superset(&self, other: &PinnedSet<'_, T, S>) -> bool {
        other.is_subset(self)
    }

    /// Whether no value is in both sets. [No snapshot](Self#two-sets); O(capacity of the smaller one).
    ///
    /// ```
    /// let (a, b) = (quince::HashSet::from([1, 2]), quince::HashSet::from([3]));
    /// assert!(a.pin().is_disjoint(&b.pin()));
    /// ```
    #[must_use]
    pub fn is_disjoint(&self, other: &PinnedSet<'_, T, S>) -> bool {
        self.intersection(other).next().is_none()
    }
}

impl<T: fmt::Debug, S> fmt::Debug for PinnedSet<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}
