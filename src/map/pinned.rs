//! The borrowed face. Every operation of the crate passes through here: hash the key, ask the session.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ptr;

use equivalent::Equivalent;

use super::HashMap;
use super::iter::{Iter, Keys, Values};
use super::many::GetMany;
use crate::raw::{self, Inserted, Session};
use crate::{Computed, OccupiedError, Operation};

/// A view of a [`HashMap`] that keeps the calling thread pinned and hands out references into the map.
///
/// Got from [`HashMap::pin`]. The rules on atomicity, closures, panics, progress and cost are those of
/// [`HashMap`]; the epoch pin is paid once for the view. A reference lives as long as the borrow of the view
/// it came from, also if its entry is replaced or removed meanwhile.
///
/// ```
/// use quince::HashMap;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let hits: HashMap<&str, AtomicU64> = HashMap::new();
/// let pinned = hits.pin();
/// for page in ["home", "about", "home"] {
///     pinned.get_or_default(page).fetch_add(1, Relaxed);
/// }
/// assert_eq!(pinned.get("home").unwrap().load(Relaxed), 2);
/// ```
///
/// **Keep it short.** While it lives, nothing that is removed anywhere in the process after it was made can
/// be freed: the map keeps the keys and values, and other users of `crossbeam-epoch`'s default collector keep
/// their garbage. Do not hold it across anything that waits; in a long loop call [`repin`](Self::repin), or
/// [`flush`](Self::flush) if the loop removes or replaces. A `Pinned` stays on its thread (it is neither
/// `Send` nor `Sync`), so it cannot be held across an `.await` in a task that moves between threads.
#[must_use = "a view that is not used pins its thread for nothing"]
pub struct Pinned<'m, K, V, S = RandomState> {
    map: &'m HashMap<K, V, S>,
    pub(super) session: Session<'m, K, V>,
}

impl<'m, K, V, S> Pinned<'m, K, V, S> {
    pub(super) fn new(map: &'m HashMap<K, V, S>) -> Self {
        Self {
            map,
            session: map.raw.pin(),
        }
    }

    /// The map this is a view of.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert!(std::ptr::eq(map.pin().map(), &map));
    /// ```
    #[must_use]
    pub fn map(&self) -> &'m HashMap<K, V, S> {
        self.map
    }

    /// As [`HashMap::len`].
    ///
    /// ```
    /// assert_eq!(quince::HashMap::from([("a", 1)]).pin().len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// As [`HashMap::is_empty`].
    ///
    /// ```
    /// assert!(!quince::HashMap::from([("a", 1)]).pin().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.session.is_empty()
    }

    /// As [`HashMap::reserve`].
    ///
    /// ```
    /// let map: quince::HashMap<u32, u32> = quince::HashMap::new();
    /// map.pin().reserve(100);
    /// assert!(map.capacity() >= 100);
    /// ```
    pub fn reserve(&self, additional: usize) {
        self.session.reserve(additional);
    }

    /// Unpins and pins again, which lets go of what was removed in the meantime. No reference got from this
    /// view is alive.
    ///
    /// ```
    /// let map: quince::HashMap<u32, u32> = (0..100).map(|i| (i, i)).collect();
    /// let mut pinned = map.pin();
    /// for round in 0..100 {
    ///     assert_eq!(pinned.get(&round), Some(&round));
    ///     pinned.repin();
    /// }
    /// ```
    pub fn repin(&mut self) {
        self.session.repin();
    }

    /// As [`HashMap::flush`]; this view does not count as a pin, since no reference got from it is alive.
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// let mut pinned = map.pin();
    /// for round in 0..100 {
    ///     pinned.insert("latest", vec![round; 1000]);
    ///     pinned.flush();
    /// }
    /// ```
    pub fn flush(&mut self) {
        self.session.flush();
    }

    /// Iterates over the entries, see [`iter`](mod@crate::iter) for what it sees of concurrent changes.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1), ("b", 2)]);
    /// for (key, value) in map.pin().iter() {
    ///     println!("{key}: {value}");
    /// }
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter(raw::Iter::new(&self.session))
    }

    /// Iterates over the keys, as [`iter`](Self::iter).
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1), ("b", 2)]);
    /// assert!(map.pin().keys().any(|key| *key == "a"));
    /// ```
    pub fn keys(&self) -> Keys<'_, K, V> {
        Keys(raw::Iter::new(&self.session))
    }

    /// Iterates over the values, as [`iter`](Self::iter).
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1), ("b", 2)]);
    /// assert_eq!(map.pin().values().max(), Some(&2));
    /// ```
    pub fn values(&self) -> Values<'_, K, V> {
        Values(raw::Iter::new(&self.session))
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Pinned<'_, K, V, S> {
    /// As [`HashMap::retain`].
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1), ("b", 2)]);
    /// map.pin().retain(|_, value| *value > 1);
    /// assert_eq!(map.len(), 1);
    /// ```
    pub fn retain(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.session.retain(keep);
    }

    /// As [`HashMap::clear`]. References to the removed entries stay good.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// let pinned = map.pin();
    /// let one = pinned.get("a").unwrap();
    /// pinned.clear();
    /// assert_eq!((pinned.get("a"), *one), (None, 1));
    /// ```
    pub fn clear(&self) {
        self.session.retain(|_, _| false);
    }

    /// Insertions that may meet an entry ask this first: a hit then writes nothing and moves no key.
    pub(super) fn find<Q>(&self, hash: raw::Hash, key: &Q) -> Option<(&K, &V)>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.session
            .find(hash, |candidate| key.equivalent(candidate))
    }

    /// Inserts this pair without asking first.
    pub(super) fn place(
        &self,
        hash: raw::Hash,
        key: K,
        value: V,
    ) -> Result<&V, OccupiedError<K, V, &V>> {
        match self.session.try_insert(hash, key, value) {
            Inserted::New(_, value) => Ok(value),
            Inserted::Present {
                current: (_, current),
                key,
                value,
            } => Err(OccupiedError::new(current, key, value)),
        }
    }

    /// The value in the map after trying to insert this pair, which is dropped if the key was there.
    pub(super) fn settle(&self, hash: raw::Hash, key: K, value: V) -> &V {
        self.place(hash, key, value)
            .unwrap_or_else(|occupied| occupied.current)
    }

    /// The value of `key`.
    ///
    /// ```
    /// let map = quince::HashMap::from([(String::from("a"), 1)]);
    /// assert_eq!(map.pin().get("a"), Some(&1));
    /// ```
    #[must_use]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The values of several keys, in their order: `None` for those that are absent. Each is looked up on its own, as by
    /// [`get`](Self::get), some time after its key was taken from `keys`; but the memory for 16 at a time is asked for
    /// together, which saves a quarter of the time where the map is larger than the processor's caches.
    ///
    /// ```
    /// let map: quince::HashMap<u64, u64> = (0..1000).map(|i| (i, i * i)).collect();
    /// let pinned = map.pin();
    /// let sum: u64 = pinned.get_many(&[1, 2, 3, 5000]).flatten().sum();
    /// assert_eq!(sum, 1 + 4 + 9);
    /// ```
    pub fn get_many<'q, Q, I>(&self, keys: I) -> GetMany<'_, K, V, I::IntoIter, S>
    where
        Q: ?Sized + Hash + Equivalent<K> + 'q,
        I: IntoIterator<Item = &'q Q>,
    {
        GetMany::new(self, keys.into_iter())
    }

    /// The key in the map that is equivalent to `key`, and its value.
    ///
    /// ```
    /// let map = quince::HashMap::from([(String::from("a"), 1)]);
    /// assert_eq!(map.pin().get_key_value("a"), Some((&String::from("a"), &1)));
    /// ```
    #[must_use]
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.find(self.map.hash(key), key)
    }

    /// Whether `key` is in the map, see [`HashMap::contains_key`].
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert!(map.pin().contains_key("a"));
    /// ```
    #[must_use]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.get_key_value(key).is_some()
    }

    /// Puts `value` under `key` and returns the value it replaced. The new key replaces the old key too.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.pin().insert("a", 2), Some(&1));
    /// ```
    pub fn insert(&self, key: K, value: V) -> Option<&V> {
        self.session.insert(self.map.hash(&key), key, value)
    }

    /// Inserts `value` if `key` is absent and returns it; otherwise gives both back, with the value that is
    /// there.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", vec![1])]);
    /// let pinned = map.pin();
    /// let error = pinned.try_insert("a", vec![2]).unwrap_err();
    /// assert_eq!((error.current, error.value), (&vec![1], vec![2]));
    /// ```
    pub fn try_insert(&self, key: K, value: V) -> Result<&V, OccupiedError<K, V, &V>> {
        let hash = self.map.hash(&key);
        match self.find(hash, &key) {
            Some((_, current)) => Err(OccupiedError::new(current, key, value)),
            None => self.place(hash, key, value),
        }
    }

    /// As [`try_insert`](Self::try_insert) with a value that is made only if `key` is absent.
    ///
    /// The error holds `Some` value if the closure ran and another thread inserted the key meanwhile.
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// let pinned = map.pin();
    /// assert_eq!(pinned.try_insert_with("a", || 1), Ok(&1));
    /// assert_eq!(pinned.try_insert_with("a", || unreachable!()).unwrap_err().value, None);
    /// ```
    pub fn try_insert_with(
        &self,
        key: K,
        make: impl FnOnce() -> V,
    ) -> Result<&V, OccupiedError<K, Option<V>, &V>> {
        let hash = self.map.hash(&key);
        if let Some((_, current)) = self.find(hash, &key) {
            return Err(OccupiedError::new(current, key, None));
        }
        self.place(hash, key, make()).map_err(OccupiedError::made)
    }

    /// The value of `key`, which is `value` if the key was absent.
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// let pinned = map.pin();
    /// assert_eq!(pinned.get_or_insert("a", 1), &1);
    /// assert_eq!(pinned.get_or_insert("a", 2), &1);
    /// ```
    pub fn get_or_insert(&self, key: K, value: V) -> &V {
        self.get_or_insert_with(key, || value)
    }

    /// The value of `key`, made by the closure if the key was absent, see [`HashMap::get_or_insert_with`].
    ///
    /// ```
    /// use std::sync::Mutex;
    ///
    /// let logs = quince::HashMap::new();
    /// let pinned = logs.pin();
    /// pinned.get_or_insert_with("web", || Mutex::new(vec![])).lock().unwrap().push("started");
    /// ```
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> &V {
        self.get_or_insert_with_key(key, |_| make())
    }

    /// As [`get_or_insert_with`](Self::get_or_insert_with); the closure is shown the key.
    ///
    /// ```
    /// let map = quince::HashMap::new();
    /// assert_eq!(map.pin().get_or_insert_with_key("abc", |key| key.len()), &3);
    /// ```
    pub fn get_or_insert_with_key(&self, key: K, make: impl FnOnce(&K) -> V) -> &V {
        let hash = self.map.hash(&key);
        if let Some((_, value)) = self.find(hash, &key) {
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
    /// let pinned = map.pin();
    /// assert!(pinned.get_or_try_insert_with("port", || "x".parse::<u16>()).is_err());
    /// assert_eq!(pinned.get_or_try_insert_with("port", || "80".parse::<u16>()), Ok(&80));
    /// ```
    pub fn get_or_try_insert_with<E>(
        &self,
        key: K,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<&V, E> {
        let hash = self.map.hash(&key);
        match self.find(hash, &key) {
            Some((_, value)) => Ok(value),
            None => Ok(self.settle(hash, key, make()?)),
        }
    }

    /// The value of `key`, which is `V::default()` if the key was absent.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// let counts: quince::HashMap<&str, AtomicU64> = quince::HashMap::new();
    /// assert_eq!(counts.pin().get_or_default("a").fetch_add(1, Relaxed), 0);
    /// ```
    pub fn get_or_default(&self, key: K) -> &V
    where
        V: Default,
    {
        self.get_or_insert_with(key, V::default)
    }

    /// As [`get_or_insert_with`](Self::get_or_insert_with) with a borrowed key; the owned key is made, with
    /// `K::from`, only if it was absent.
    ///
    /// ```
    /// let map: quince::HashMap<String, i32> = quince::HashMap::new();
    /// assert_eq!(map.pin().get_or_insert_ref_with("a", || 1), &1);
    /// ```
    pub fn get_or_insert_ref_with<Q>(&self, key: &Q, make: impl FnOnce() -> V) -> &V
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: for<'q> From<&'q Q>,
    {
        let hash = self.map.hash(key);
        match self.find(hash, key) {
            Some((_, value)) => value,
            None => self.settle(hash, K::from(key), make()),
        }
    }

    /// As [`get_or_insert_ref_with`](Self::get_or_insert_ref_with); an error of the closure is returned and
    /// nothing inserted.
    ///
    /// ```
    /// let map: quince::HashMap<String, u16> = quince::HashMap::new();
    /// let pinned = map.pin();
    /// assert!(pinned.get_or_try_insert_ref_with("port", || "x".parse()).is_err());
    /// assert_eq!(pinned.get_or_try_insert_ref_with("port", || "80".parse()), Ok(&80));
    /// ```
    pub fn get_or_try_insert_ref_with<Q, E>(
        &self,
        key: &Q,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<&V, E>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: for<'q> From<&'q Q>,
    {
        let hash = self.map.hash(key);
        match self.find(hash, key) {
            Some((_, value)) => Ok(value),
            None => {
                let value = make()?;
                Ok(self.settle(hash, K::from(key), value))
            }
        }
    }

    /// As [`get_or_default`](Self::get_or_default) with a borrowed key; the owned key is made, with `K::from`,
    /// only if it was absent.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// let counts: quince::HashMap<String, AtomicU64> = quince::HashMap::new();
    /// let pinned = counts.pin();
    /// for word in "a rose is a rose".split(' ') {
    ///     pinned.get_or_default_ref(word).fetch_add(1, Relaxed); // allocates once a word
    /// }
    /// assert_eq!(pinned.get("rose").unwrap().load(Relaxed), 2);
    /// ```
    pub fn get_or_default_ref<Q>(&self, key: &Q) -> &V
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: for<'q> From<&'q Q>,
        V: Default,
    {
        self.get_or_insert_ref_with(key, V::default)
    }

    /// The key in the map that equals `key`, which is `key` if there was none.
    pub(crate) fn key_or_insert(&self, key: K) -> &K
    where
        V: Default,
    {
        let hash = self.map.hash(&key);
        match self.find(hash, &key) {
            Some((found, _)) => found,
            None => self.settle_key(hash, key),
        }
    }

    /// The key in the map that is equivalent to `key`, made if there was none.
    ///
    /// # Panics
    /// If what is made is not equivalent to `key`: it would never be found.
    pub(crate) fn key_or_insert_with<Q>(&self, key: &Q, make: impl FnOnce(&Q) -> K) -> &K
    where
        Q: ?Sized + Hash + Equivalent<K>,
        V: Default,
    {
        let hash = self.map.hash(key);
        if let Some((found, _)) = self.find(hash, key) {
            return found;
        }
        let made = make(key);
        assert!(
            key.equivalent(&made),
            "the value that was made is another one"
        );
        self.settle_key(hash, made)
    }

    fn settle_key(&self, hash: raw::Hash, key: K) -> &K
    where
        V: Default,
    {
        match self.session.try_insert(hash, key, V::default()) {
            Inserted::New(settled, _)
            | Inserted::Present {
                current: (settled, _),
                ..
            } => settled,
        }
    }

    /// Replaces the value of `key` by one made from it, and returns the new value; `None` if the key is
    /// absent.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", vec![1])]);
    /// let doubled = |list: &Vec<i32>| list.iter().map(|item| item * 2).collect();
    /// assert_eq!(map.pin().update("a", doubled), Some(&vec![2]));
    /// ```
    pub fn update<Q>(&self, key: &Q, make: impl FnMut(&V) -> V) -> Option<&V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: Clone,
    {
        self.get_and_update(key, make).map(|(_, new)| new)
    }

    /// As [`update`](Self::update); returns the old and the new value.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.pin().get_and_update("a", |value| value + 1), Some((&1, &2)));
    /// ```
    pub fn get_and_update<Q>(&self, key: &Q, mut make: impl FnMut(&V) -> V) -> Option<(&V, &V)>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: Clone,
    {
        let make_pair = |key: &K, value: &V| (key.clone(), make(value));
        self.session.update(
            self.map.hash(key),
            |candidate| key.equivalent(candidate),
            make_pair,
        )
    }

    /// Replaces the value of `key` by what `update` makes of it, or inserts what `insert` makes if the key is absent,
    /// see [`HashMap::update_or_insert_with`]. Returns the new value.
    ///
    /// ```
    /// let longest: quince::HashMap<char, &str> = quince::HashMap::new();
    /// let pinned = longest.pin();
    /// for word in ["pear", "plum", "papaya"] {
    ///     let longer = |best: &&'static str| if word.len() > best.len() { word } else { *best };
    ///     pinned.update_or_insert_with('p', longer, || word);
    /// }
    /// assert_eq!(pinned.get(&'p'), Some(&"papaya"));
    /// ```
    pub fn update_or_insert_with(
        &self,
        key: K,
        mut update: impl FnMut(&V) -> V,
        mut insert: impl FnMut() -> V,
    ) -> &V {
        let decide = |entry: Option<(&K, &V)>| match entry {
            Some((_, value)) => Operation::Insert::<V, Infallible>(update(value)),
            None => Operation::Insert(insert()),
        };
        match self.compute(key, decide) {
            Computed::Inserted(new) | Computed::Replaced { new, .. } => new,
            Computed::Aborted(never) => match never {},
            Computed::Removed(_) | Computed::Absent => unreachable!("insertions remove nothing"),
        }
    }

    /// Inserts, replaces or removes the entry of `key`, or leaves it, as the closure decides on seeing what
    /// is there, see [`HashMap::compute`].
    ///
    /// ```
    /// use quince::{Computed, HashMap, Operation};
    ///
    /// let votes: HashMap<&str, Vec<&str>> = HashMap::new();
    /// let pinned = votes.pin();
    /// let vote = |voter| {
    ///     pinned.compute("quince", move |entry| match entry {
    ///         None => Operation::Insert(vec![voter]),
    ///         Some((_, voters)) if voters.contains(&voter) => Operation::Abort("voted already"),
    ///         Some((_, voters)) => Operation::Insert([voters, &[voter][..]].concat()),
    ///     })
    /// };
    /// assert_eq!(vote("ada"), Computed::Inserted(&vec!["ada"]));
    /// assert_eq!(vote("ada"), Computed::Aborted("voted already"));
    /// ```
    pub fn compute<T>(
        &self,
        key: K,
        decide: impl FnMut(Option<(&K, &V)>) -> Operation<V, T>,
    ) -> Computed<&V, T> {
        self.session.compute(self.map.hash(&key), key, decide)
    }

    /// Removes `key` and returns its value.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// let pinned = map.pin();
    /// assert_eq!(pinned.remove("a"), Some(&1));
    /// assert_eq!(pinned.remove("a"), None);
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.remove_if(key, |_, _| true)
    }

    /// Removes `key` and returns the key that was in the map and its value.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// assert_eq!(map.pin().remove_entry("a"), Some((&"a", &1)));
    /// ```
    pub fn remove_entry<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.remove_entry_if(key, |_, _| true)
    }

    /// Removes `key` if `condition` holds of the very entry that is removed, and returns its value.
    ///
    /// `None` says that the key was absent or the condition did not hold.
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// let pinned = map.pin();
    /// assert_eq!(pinned.remove_if("a", |_, value| *value == 2), None);
    /// assert_eq!(pinned.remove_if("a", |_, value| *value == 1), Some(&1));
    /// ```
    pub fn remove_if<Q>(&self, key: &Q, condition: impl FnMut(&K, &V) -> bool) -> Option<&V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.remove_entry_if(key, condition).map(|(_, value)| value)
    }

    fn remove_entry_if<Q>(&self, key: &Q, condition: impl FnMut(&K, &V) -> bool) -> Option<(&K, &V)>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.session.remove_if(
            self.map.hash(key),
            |candidate| key.equivalent(candidate),
            condition,
        )
    }

    /// Removes `key` if its value is still the very one `current` refers to, not merely an equal one; says
    /// whether it was.
    ///
    /// `current` has to be a reference got from this map; any other never matches. (Entries whose key and value both
    /// have no size cannot be told apart.)
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// let pinned = map.pin();
    /// let mine = pinned.get("a").unwrap();
    /// pinned.insert("a", 1);
    /// assert!(!pinned.remove_if_same("a", mine)); // this is another entry
    /// ```
    pub fn remove_if_same<Q>(&self, key: &Q, current: &V) -> bool
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        self.remove_if(key, |_, value| ptr::eq(value, current))
            .is_some()
    }

    /// Puts `value` in the place of the very value `current` refers to, not merely of an equal one, and
    /// returns it; gives `value` back if `key` is absent or its value is another one by now.
    ///
    /// `current` has to be a reference got from this map; any other never matches. (Entries whose key and value both
    /// have no size cannot be told apart.)
    ///
    /// ```
    /// let map = quince::HashMap::from([("a", 1)]);
    /// let pinned = map.pin();
    /// let seen = pinned.get("a").unwrap();
    /// assert_eq!(pinned.replace_if_same("a", seen, seen + 1), Ok(&2));
    /// assert_eq!(pinned.replace_if_same("a", seen, seen + 1), Err(2)); // `seen` is no longer in the map
    /// ```
    pub fn replace_if_same<Q>(&self, key: &Q, current: &V, value: V) -> Result<&V, V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
        K: Clone,
    {
        let hash = self.map.hash(key);
        self.session
            .replace_if_same(hash, |candidate| key.equivalent(candidate), current, value)
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for Pinned<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
