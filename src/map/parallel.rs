//! Maps and sets in rayon's iterators, by the feature `rayon`.
#![forbid(unsafe_code)]

use std::fmt;
use std::hash::{BuildHasher, Hash};

use rayon::iter::plumbing::{Folder, UnindexedConsumer, UnindexedProducer, bridge_unindexed};
use rayon::iter::{FromParallelIterator, IntoParallelIterator, ParallelExtend, ParallelIterator};
use rayon::vec;

use super::HashMap;
use crate::raw::{self, Part, RawMap};

impl<K, V, S> HashMap<K, V, S> {
    /// Shows every entry to `f`, on the threads of rayon's pool, and iterates over what it returns. As
    /// [`iter`](Self::iter) it is weakly consistent: a key that is in the map all the time is shown exactly once, and
    /// none twice.
    ///
    /// The entries are split into pieces by their hashes. Each piece pins the thread that runs it, and that is why `f`
    /// does not return references: they would end with the piece. What the following adaptors do with an item is done
    /// under the same pin, so none of it should wait. `par_iter` iterates over clones of the entries.
    ///
    /// ```
    /// use rayon::prelude::*;
    ///
    /// let texts = quince::HashMap::from([("a", "a rose is"), ("b", "a rose")]);
    /// assert_eq!(texts.par_map(|_, text| text.split(' ').count()).sum::<usize>(), 5);
    /// assert_eq!(texts.par_iter().filter(|(_, text)| text.len() < 7).collect::<Vec<_>>(), [("b", "a rose")]);
    /// ```
    pub fn par_map<R, F>(&self, f: F) -> ParMap<'_, K, V, F>
    where
        K: Send + Sync,
        V: Send + Sync,
        R: Send,
        F: Fn(&K, &V) -> R + Send + Sync,
    {
        ParMap { map: &self.raw, f }
    }

    /// Shows every entry to `f`, on the threads of rayon's pool, see [`par_map`](Self::par_map).
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// let hits: quince::HashMap<u32, AtomicU64> = (0..100).map(|page| (page, AtomicU64::new(7))).collect();
    /// hits.par_for_each(|_, hits| hits.store(0, Relaxed));
    /// assert!(hits.pin().values().all(|hits| hits.load(Relaxed) == 0));
    /// ```
    pub fn par_for_each(&self, f: impl Fn(&K, &V) + Send + Sync)
    where
        K: Send + Sync,
        V: Send + Sync,
    {
        self.par_map(f).for_each(|()| ());
    }
}

/// What a function makes of the entries, in parallel, from [`HashMap::par_map`], or clones of them, from `par_iter`.
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct ParMap<'m, K, V, F> {
    map: &'m RawMap<K, V>,
    f: F,
}

impl<K, V, F> fmt::Debug for ParMap<'_, K, V, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParMap").finish_non_exhaustive()
    }
}

impl<K, V, R, F> ParallelIterator for ParMap<'_, K, V, F>
where
    K: Send + Sync,
    V: Send + Sync,
    R: Send,
    F: Fn(&K, &V) -> R + Send + Sync,
{
    type Item = R;

    fn drive_unindexed<C: UnindexedConsumer<R>>(self, consumer: C) -> C::Result {
        let whole = Piece {
            map: self.map,
            f: &self.f,
            part: Part::ALL,
            // Down to about one entry: rayon splits further only while threads have nothing to do.
            halvings: self.map.capacity().max(1).ilog2(),
        };
        bridge_unindexed(whole, consumer)
    }
}

/// The entries with the hashes of a part.
struct Piece<'m, K, V, F> {
    map: &'m RawMap<K, V>,
    f: &'m F,
    part: Part,
    /// How often it may be split.
    halvings: u32,
}

impl<K, V, R, F> UnindexedProducer for Piece<'_, K, V, F>
where
    K: Send + Sync,
    V: Send + Sync,
    F: Fn(&K, &V) -> R + Sync,
{
    type Item = R;

    fn split(self) -> (Self, Option<Self>) {
        let Some(halvings) = self.halvings.checked_sub(1) else {
            return (self, None);
        };
        let half = |part| Self {
            part,
            halvings,
            ..self
        };
        let (below, above) = self.part.halves();
        (half(below), Some(half(above)))
    }

    fn fold_with<C: Folder<R>>(self, folder: C) -> C {
        let session = self.map.pin();
        let entries = raw::Iter::over(&session, self.part);
        folder.consume_iter(entries.map(|(key, value)| (self.f)(key, value)))
    }
}

/// Clones, see [`HashMap::par_map`].
impl<'m, K, V, S> IntoParallelIterator for &'m HashMap<K, V, S>
where
    K: Clone + Send + Sync,
    V: Clone + Send + Sync,
{
    type Item = (K, V);
    type Iter = ParMap<'m, K, V, fn(&K, &V) -> (K, V)>;

    fn into_par_iter(self) -> Self::Iter {
        self.par_map(|key, value| (key.clone(), value.clone()))
    }
}

/// Collects the entries first.
impl<K: Send, V: Send, S> IntoParallelIterator for HashMap<K, V, S> {
    type Item = (K, V);
    type Iter = vec::IntoIter<(K, V)>;

    fn into_par_iter(self) -> Self::Iter {
        self.into_iter().collect::<Vec<_>>().into_par_iter()
    }
}

/// Collects references first.
impl<'m, K: Sync, V: Send, S> IntoParallelIterator for &'m mut HashMap<K, V, S> {
    type Item = (&'m K, &'m mut V);
    type Iter = vec::IntoIter<(&'m K, &'m mut V)>;

    fn into_par_iter(self) -> Self::Iter {
        self.iter_mut().collect::<Vec<_>>().into_par_iter()
    }
}

/// Inserts from all threads at once: of entries with equal keys any one stays.
impl<K, V, S> ParallelExtend<(K, V)> for &HashMap<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        let entries = entries.into_par_iter();
        if self.capacity() == 0 {
            self.reserve(entries.opt_len().unwrap_or(0));
        }
        // A pin for each entry, because `entries` may wait between two of them.
        entries.for_each(|(key, value)| _ = self.pin().insert(key, value));
    }
}

/// As above.
impl<K, V, S> ParallelExtend<(K, V)> for HashMap<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        (&*self).par_extend(entries);
    }
}

/// Of entries with equal keys any one stays.
///
/// ```
/// use rayon::prelude::*;
///
/// let squares: quince::HashMap<u32, u32> = (0..100).into_par_iter().map(|n| (n, n * n)).collect();
/// assert_eq!(squares.get(&7), Some(49));
/// ```
impl<K, V, S> FromParallelIterator<(K, V)> for HashMap<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Default + Sync,
{
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.par_extend(entries);
        map
    }
}

/// What is lent ends with its piece; a clone does not.
///
/// ```
/// let map = quince::HashMap::from([(1, String::new())]);
/// let values = map.par_map(|_, value| value.clone());
/// ```
/// ```compile_fail
/// let map = quince::HashMap::from([(1, String::new())]);
/// let values = map.par_map(|_, value| value);
/// ```
/// Neither by another way out:
/// ```
/// let map = quince::HashMap::from([(1, String::new())]);
/// let kept = std::sync::Mutex::new(None::<String>);
/// map.par_for_each(|_, value| *kept.lock().unwrap() = Some(value.clone()));
/// ```
/// ```compile_fail,E0521
/// let map = quince::HashMap::from([(1, String::new())]);
/// let kept = std::sync::Mutex::new(None::<&String>);
/// map.par_for_each(|_, value| *kept.lock().unwrap() = Some(value));
/// ```
#[cfg(doctest)]
mod what_is_lent_ends_with_its_piece {}

/// Threads share the map, so keys and values are `Send` and `Sync`.
///
/// ```
/// let map = quince::HashMap::from([(1, std::sync::atomic::AtomicU8::new(2))]);
/// map.par_for_each(|_, _| ());
/// ```
/// ```compile_fail,E0277
/// let map = quince::HashMap::from([(1, std::cell::Cell::new(2))]);
/// map.par_for_each(|_, _| ());
/// ```
#[cfg(doctest)]
mod pieces_are_run_by_several_threads {}
