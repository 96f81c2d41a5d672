//! The iterators of [`HashMap`] and [`Pinned`].
//!
//! | iterator | made by | items | others may use the map meanwhile |
//! |---|---|---|---|
//! | [`Iter`], [`Keys`], [`Values`] | [`Pinned`] | references | yes |
//! | [`OwnedIter`], [`OwnedKeys`], [`OwnedValues`] | [`HashMap`], `&self` | clones | yes |
//! | [`IterMut`], [`ValuesMut`] | [`HashMap`], `&mut self` | mutable references to values | no |
//! | [`Drain`] | [`HashMap`], `&mut self` | the entries themselves | no |
//! | [`IntoIter`], [`IntoKeys`], [`IntoValues`] | [`HashMap`], `self` | the entries themselves | no |
//!
//! Those of [`HashSet`](crate::HashSet) and [`PinnedSet`](crate::PinnedSet) are the ones over keys: a set is a map of keys.
//!
//! The order is arbitrary and a full pass costs O(capacity). The first two rows are **weakly consistent**: a
//! key that is in the map all the time is yielded exactly once, with a value it had at some moment of the
//! pass; a key that comes or goes meanwhile may be yielded or not; no key is yielded twice. They keep the
//! calling thread pinned, see [`Pinned`].
#![forbid(unsafe_code)]

use std::convert::identity;
use std::fmt;
use std::iter::FusedIterator;

#[cfg(feature = "rayon")]
pub use super::parallel::ParMap;
use super::{HashMap, Pinned, clone_pair};
use crate::raw;

/// Defines iterators as `Name<'lifetime>(inner) [bounds] -> item = map`, where `map` makes an item of an
/// entry of `inner`; ending in `, size_hint` if `inner` knows how many are left.
macro_rules! iterators {
    ($(
        $(#[$attribute:meta])*
        $name:ident<$($life:lifetime)?>($inner:ty) [$($param:ident: $bound:ident),*] -> $item:ty = $map:expr
        $(, $size_hint:ident)?;
    )*) => {$(
        $(#[$attribute])*
        pub struct $name<$($life,)? K, V>(pub(super) $inner);

        impl<$($life,)? K, V> Iterator for $name<$($life,)? K, V>
        where
            $($param: $bound),*
        {
            type Item = $item;

            fn next(&mut self) -> Option<Self::Item> {
                self.0.next().map($map)
            }

            $(
                fn $size_hint(&self) -> (usize, Option<usize>) {
                    self.0.$size_hint()
                }
            )?
        }

        impl<$($life,)? K, V> FusedIterator for $name<$($life,)? K, V> where $($param: $bound),* {}

        impl<$($life,)? K, V> fmt::Debug for $name<$($life,)? K, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

iterators! {
    /// Borrowed entries, from [`Pinned::iter`].
    #[must_use = "iterators are lazy and do nothing unless consumed"]
    Iter<'s>(raw::Iter<'s, K, V>) [] -> (&'s K, &'s V) = identity;

    /// Borrowed keys, from [`Pinned::keys`].
    #[must_use = "iterators are lazy and do nothing unless consumed"]
    Keys<'s>(raw::Iter<'s, K, V>) [] -> &'s K = |(key, _)| key;

    /// Borrowed values, from [`Pinned::values`].
    #[must_use = "iterators are lazy and do nothing unless consumed"]
    Values<'s>(raw::Iter<'s, K, V>) [] -> &'s V = |(_, value)| value;

    /// Clones of entries, from [`HashMap::iter`].
    #[must_use = "iterators are lazy and do nothing unless consumed"]
    OwnedIter<'m>(raw::OwnedIter<'m, K, V>) [K: Clone, V: Clone] -> (K, V) = clone_pair;

    /// Clones of keys, from [`HashMap::keys`].
    #[must_use = "iterators are lazy and do nothing unless consumed"]
    OwnedKeys<'m>(raw::OwnedIter<'m, K, V>) [K: Clone] -> K = |(key, _)| key.clone();

    /// Clones of values, from [`HashMap::values`].
    #[must_use = "iterators are lazy and do nothing unless consumed"]
    OwnedValues<'m>(raw::OwnedIter<'m, K, V>) [V: Clone] -> V = |(_, value)| value.clone();

    /// Entries with mutable values, from [`HashMap::iter_mut`].
    #[must_use = "iterators are lazy and do nothing unless consumed"]
    IterMut<'m>(raw::IterMut<'m, K, V>) [] -> (&'m K, &'m mut V) = identity, size_hint;

    /// Mutable values, from [`HashMap::values_mut`].
    #[must_use = "iterators are lazy and do nothing unless consumed"]
    ValuesMut<'m>(raw::IterMut<'m, K, V>) [] -> &'m mut V = |(_, value)| value, size_hint;

    /// Entries moved out of a map that stays, from [`HashMap::drain`]. Entries it has not yielded are dropped
    /// with it.
    Drain<'m>(raw::Drain<'m, K, V>) [] -> (K, V) = identity, size_hint;

    /// Entries of a map that is consumed, from its [`IntoIterator`]. Entries it has not yielded are dropped
    /// with it.
    IntoIter<>(raw::IntoIter<K, V>) [] -> (K, V) = identity, size_hint;

    /// Keys of a map that is consumed, from [`HashMap::into_keys`].
    // Dropped by name: a value returned from a closure is leaked if a later destructor of it panics.
    IntoKeys<>(raw::IntoIter<K, V>) [] -> K = |(key, value)| { drop(value); key }, size_hint;

    /// Values of a map that is consumed, from [`HashMap::into_values`].
    IntoValues<>(raw::IntoIter<K, V>) [] -> V = |(key, value)| { drop(key); value }, size_hint;
}

impl<K, V> ExactSizeIterator for IterMut<'_, K, V> {}
impl<K, V> ExactSizeIterator for ValuesMut<'_, K, V> {}
impl<K, V> ExactSizeIterator for Drain<'_, K, V> {}
impl<K, V> ExactSizeIterator for IntoIter<K, V> {}
impl<K, V> ExactSizeIterator for IntoKeys<K, V> {}
impl<K, V> ExactSizeIterator for IntoValues<K, V> {}

impl<K, V, S> IntoIterator for HashMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        IntoIter(self.raw.into_iter())
    }
}

/// Clones, as [`HashMap::iter`].
impl<'m, K: Clone, V: Clone, S> IntoIterator for &'m HashMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = OwnedIter<'m, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'m, K, V, S> IntoIterator for &'m mut HashMap<K, V, S> {
    type Item = (&'m K, &'m mut V);
    type IntoIter = IterMut<'m, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<'s, K, V, S> IntoIterator for &'s Pinned<'_, K, V, S> {
    type Item = (&'s K, &'s V);
    type IntoIter = Iter<'s, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
