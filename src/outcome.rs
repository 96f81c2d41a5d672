//! What conditional operations are asked to do, and what they report: a leaf that both the map and its engine
//! use.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;

/// An insertion met an entry with an equal key; the key and the value that were not used come back.
///
/// `R` is how the face hands out the value that is in the map: a clone from [`HashMap`](crate::HashMap), a
/// reference from [`Pinned`](crate::Pinned). [`try_insert_with`](crate::HashMap::try_insert_with) reports the
/// value as `Some` only if its closure ran and lost the race for the key.
///
/// ```
/// use quince::{HashMap, OccupiedError};
///
/// let map = HashMap::from([("port", 80)]);
/// let error = map.try_insert("port", 8080).unwrap_err();
/// assert_eq!(error.to_string(), "the key is already in the map");
/// assert_eq!(error, OccupiedError { current: 80, key: "port", value: 8080 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OccupiedError<K, V, R> {
    /// The value in the map.
    pub current: R,
    /// The key that was not inserted.
    pub key: K,
    /// The value that was not inserted.
    pub value: V,
}

impl<K, V, R> OccupiedError<K, V, R> {
    pub(crate) fn new(current: R, key: K, value: V) -> Self {
        Self {
            current,
            key,
            value,
        }
    }

    /// The same error of an insertion that makes its value on demand, and did.
    pub(crate) fn made(self) -> OccupiedError<K, Option<V>, R> {
        OccupiedError::new(self.current, self.key, Some(self.value))
    }
}

impl<K, V, R: Clone> OccupiedError<K, V, &R> {
    pub(crate) fn cloned(self) -> OccupiedError<K, V, R> {
        OccupiedError::new(self.current.clone(), self.key, self.value)
    }
}

impl<K, V, R> fmt::Display for OccupiedError<K, V, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key is already in the map")
    }
}

impl<K: fmt::Debug, V: fmt::Debug, R: fmt::Debug> Error for OccupiedError<K, V, R> {}

/// What the closure of [`HashMap::compute`](crate::HashMap::compute) wants done with the entry it was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<V, T = ()> {
    /// Put this value under the key, replacing the value that is there.
    Insert(V),
    /// Remove the entry. Asking this of an absent entry yields [`Computed::Absent`].
    Remove,
    /// Leave the map as it is and hand this to the caller.
    Abort(T),
}

/// What [`HashMap::compute`](crate::HashMap::compute) did.
///
/// `R` is how the face hands out values: clones from [`HashMap`](crate::HashMap), references from
/// [`Pinned`](crate::Pinned).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computed<R, T = ()> {
    /// The key was absent and now has this value.
    Inserted(R),
    /// The key had the value `old` and now has the value `new`.
    Replaced {
        /// The value that was replaced.
        old: R,
        /// The value that is in the map.
        new: R,
    },
    /// The key had this value and is now absent.
    Removed(R),
    /// The entry was to be removed, and there was none.
    Absent,
    /// The closure called it off.
    Aborted(T),
}

impl<V: Clone, T> Computed<&V, T> {
    pub(crate) fn cloned(self) -> Computed<V, T> {
        match self {
            Self::Inserted(new) => Computed::Inserted(new.clone()),
            Self::Replaced { old, new } => Computed::Replaced {
                old: old.clone(),
                new: new.clone(),
            },
            Self::Removed(old) => Computed::Removed(old.clone()),
            Self::Absent => Computed::Absent,
            Self::Aborted(reason) => Computed::Aborted(reason),
        }
    }
}
