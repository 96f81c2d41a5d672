//! Sets in rayon's iterators: as maps of keys alone.
#![forbid(unsafe_code)]

use std::hash::{BuildHasher, Hash};

use rayon::iter::{FromParallelIterator, IntoParallelIterator, ParallelExtend, ParallelIterator};
use rayon::vec;

use super::HashSet;
use crate::iter::ParMap;

impl<T: Send + Sync, S> HashSet<T, S> {
    /// Shows every value to `f`, on the threads of rayon's pool, and iterates over what it returns, see
    /// [`HashMap::par_map`](crate::HashMap::par_map).
    ///
    /// ```
    /// use rayon::prelude::*;
    ///
    /// let words = quince::HashSet::from(["a", "rose"]);
    /// assert_eq!(words.par_map(|word| word.len()).max(), Some(4));
    /// ```
    pub fn par_map<R: Send>(
        &self,
        f: impl Fn(&T) -> R + Send + Sync,
    ) -> impl ParallelIterator<Item = R> {
        self.map.par_map(move |value, ()| f(value))
    }

    /// Shows every value to `f`, on the threads of rayon's pool.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    ///
    /// let (numbers, sum) = (quince::HashSet::from([1, 2, 3]), AtomicU32::new(0));
    /// numbers.par_for_each(|number| _ = sum.fetch_add(*number, Relaxed));
    /// assert_eq!(sum.into_inner(), 6);
    /// ```
    pub fn par_for_each(&self, f: impl Fn(&T) + Send + Sync) {
        self.map.par_for_each(|value, ()| f(value));
    }
}

/// Clones, see [`HashSet::par_map`].
impl<'m, T: Clone + Send + Sync, S> IntoParallelIterator for &'m HashSet<T, S> {
    type Item = T;
    type Iter = ParMap<'m, T, (), fn(&T, &()) -> T>;

    fn into_par_iter(self) -> Self::Iter {
        self.map.par_map(|value, ()| value.clone())
    }
}

/// Collects the values first.
impl<T: Send, S> IntoParallelIterator for HashSet<T, S> {
    type Item = T;
    type Iter = vec::IntoIter<T>;

    fn into_par_iter(self) -> Self::Iter {
        self.into_iter().collect::<Vec<_>>().into_par_iter()
    }
}

/// Inserts from all threads at once: of equal values any one stays.
impl<T, S> ParallelExtend<T> for &HashSet<T, S>
where
    T: Hash + Eq + Send + Sync,
    S: BuildHasher + Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = T>>(&mut self, values: I) {
        let values = values.into_par_iter();
        if self.capacity() == 0 {
            self.reserve(values.opt_len().unwrap_or(0));
        }
        values.for_each(|value| _ = self.insert(value));
    }
}

/// As above.
impl<T, S> ParallelExtend<T> for HashSet<T, S>
where
    T: Hash + Eq + Send + Sync,
    S: BuildHasher + Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = T>>(&mut self, values: I) {
        (&*self).par_extend(values);
    }
}

/// Of equal values any one stays.
///
/// ```
/// use rayon::prelude::*;
///
/// let squares: quince::HashSet<u32> = (0..100).into_par_iter().map(|n| n * n).collect();
/// assert!(squares.contains(&49));
/// ```
impl<T, S> FromParallelIterator<T> for HashSet<T, S>
where
    T: Hash + Eq + Send + Sync,
    S: BuildHasher + Default + Sync,
{
    fn from_par_iter<I: IntoParallelIterator<Item = T>>(values: I) -> Self {
        let mut set = Self::default();
        set.par_extend(values);
        set
    }
}
