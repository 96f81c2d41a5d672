//! Changes. Each is a loop around one compare-and-swap; user code runs between the attempts, never inside one.

use super::{
    bucket::Word,
    migrate::Change,
    root::Session,
    store::Pair,
    table::{Place, Unannounced, Walk},
    tag::Hash,
};
use crate::{Computed, Operation};
use std::ptr;

/// What an insertion met.
#[must_use]
pub(crate) enum Inserted<'s, K, V> {
    /// The new pair is in the map.
    New(&'s K, &'s V),
    /// An equal key was there first: the pair comes back.
    Present {
        current: (&'s K, &'s V),
        key: K,
        value: V,
    },
}

/// Where a writer arrived.
enum Seek<'s, K, V> {
    /// At an entry with its key, in a slot that was not frozen.
    Met(Place<'s>, &'s Pair<K, V>),
    /// Its own word is in the table, perhaps in the place of a tombstone.
    Placed(Change),
    /// The key is absent, and there was nothing to place.
    Absent,
}

impl<K, V> Session<'_, K, V> {
    /// Walks the key's path in the first table in which this thread may change it: a table is left only after every
    /// bucket of the path is MOVED (I4).
    // PANIC: `eq` is user code; nothing is held.
    fn seek(
        &self,
        hash: Hash,
        new: Option<Word>,
        mut eq: impl FnMut(&K) -> bool,
    ) -> Seek<'_, K, V> {
        let mut table = match self.root() {
            Some(root) => root,
            None if new.is_none() => return Seek::Absent,
            None => self.first_table(),
        };
        loop {
            // SAFETY: the walk shows live words of buckets that were not MOVED (I8).
            let same = |word| eq(unsafe { &self.pair(word).key });
            let walk = match new {
                None => table.seek(hash, same),
                Some(new) => table.place(new, &Unannounced::NONE, same, || true),
            };
            match walk {
                Walk::Met(place) if !place.word.is_frozen() => {
                    // SAFETY: as above.
                    return Seek::Met(place, unsafe { self.pair(place.word) });
                }
                Walk::Met(_) | Walk::Leave => table = self.leave(table, hash),
                Walk::Placed(place) => {
                    place.announce();
                    return Seek::Placed(Change::Filled);
                }
                Walk::Revived(place) => {
                    if place.is_in_newest(&self.guard) {
                        self.lease().count_revived();
                    }
                    return Seek::Placed(Change::Revived);
                }
                Walk::Absent => return Seek::Absent,
            }
        }
    }

    /// Inserts, unless the key is present.
    pub(crate) fn try_insert(&self, hash: Hash, key: K, value: V) -> Inserted<'_, K, V>
    where
        K: Eq,
    {
        let draft = self.draft(key, value);
        match self.seek(hash, Some(draft.word(hash)), |key| key == draft.key()) {
            Seek::Met(_, current) => {
                let Pair { key, value } = draft.take_back();
                Inserted::Present {
                    current: (&current.key, &current.value),
                    key,
                    value,
                }
            }
            Seek::Placed(change) => {
                let new = draft.published();
                self.inserted(change);
                Inserted::New(&new.key, &new.value)
            }
            Seek::Absent => unreachable!("who has a word to place does not end without"),
        }
    }

    /// Inserts or replaces; the old value.
    pub(crate) fn insert(&self, hash: Hash, key: K, value: V) -> Option<&V>
    where
        K: Eq,
    {
        let draft = self.draft(key, value);
        let new = draft.word(hash);
        loop {
            match self.seek(hash, Some(new), |key| key == draft.key()) {
                Seek::Met(place, old) => {
                    if place.replace(new).is_ok() {
                        draft.published();
                        self.retire(place.word);
                        return Some(&old.value);
                    }
                }
                Seek::Placed(change) => {
                    draft.published();
                    self.inserted(change);
                    return None;
                }
                Seek::Absent => unreachable!("who has a word to place does not end without"),
            }
        }
    }

    /// Replaces the entry by what `make` makes of it: the old and the new value.
    // PANIC: `make` is user code; nothing is held and nothing was changed.
    pub(crate) fn update(
        &self,
        hash: Hash,
        mut eq: impl FnMut(&K) -> bool,
        mut make: impl FnMut(&K, &V) -> (K, V),
    ) -> Option<(&V, &V)> {
        loop {
            let Seek::Met(place, old) = self.seek(hash, None, &mut eq) else {
                return None;
            };
            let (key, value) = make(&old.key, &old.value);
            if let Ok(new) = self.replace(place, hash, key, value) {
                return Some((&old.value, &new.value));
            }
        }
    }

    /// Puts `value` in the place of the very entry whose value is at `current`, under a clone of its key; gives it back if
    /// that entry is no longer the key's.
    pub(crate) fn replace_if_same(
        &self,
        hash: Hash,
        mut eq: impl FnMut(&K) -> bool,
        current: &V,
        mut value: V,
    ) -> Result<&V, V>
    where
        K: Clone,
    {
        loop {
            match self.seek(hash, None, &mut eq) {
                Seek::Met(place, old) if ptr::eq(&old.value, current) => {
                    match self.replace(place, hash, old.key.clone(), value) {
                        Ok(new) => return Ok(&new.value),
                        Err(pair) => value = pair.value,
                    }
                }
                _ => return Err(value),
            }
        }
    }

    /// One attempt to replace the entry in `place`, which is retired; the pair comes back if the slot has changed.
    fn replace(
        &self,
        place: Place<'_>,
        hash: Hash,
        key: K,
        value: V,
    ) -> Result<&Pair<K, V>, Pair<K, V>> {
        let draft = self.draft(key, value);
        if place.replace(draft.word(hash)).is_err() {
            return Err(draft.take_back());
        }
        let new = draft.published();
        self.retire(place.word);
        Ok(new)
    }

    /// Removes the entry if `condition` holds for the very pair that is removed.
    // PANIC: `condition` is user code; nothing is held and nothing was changed.
    pub(crate) fn remove_if(
        &self,
        hash: Hash,
        mut eq: impl FnMut(&K) -> bool,
        mut condition: impl FnMut(&K, &V) -> bool,
    ) -> Option<(&K, &V)> {
        loop {
            let Seek::Met(place, old) = self.seek(hash, None, &mut eq) else {
                return None;
            };
            if !condition(&old.key, &old.value) {
                return None;
            }
            if self.remove(place) {
                return Some((&old.key, &old.value));
            }
        }
    }

    /// One attempt to remove the entry in `place`, which is retired.
    fn remove(&self, place: Place<'_>) -> bool {
        if place.bury().is_err() {
            return false;
        }
        self.lease().count_removed();
        if place.is_in_newest(&self.guard) {
            self.lease().count_buried();
        }
        self.retire(place.word);
        self.after(Change::Buried);
        true
    }

    /// Does what `f` says with the key's entry, or its absence.
    // PANIC: `f` is user code; nothing is held and nothing was changed.
    pub(crate) fn compute<T>(
        &self,
        hash: Hash,
        mut key: K,
        mut f: impl FnMut(Option<(&K, &V)>) -> Operation<V, T>,
    ) -> Computed<&V, T>
    where
        K: Eq,
    {
        loop {
            let met = match self.seek(hash, None, |k| *k == key) {
                Seek::Met(place, old) => Some((place, old)),
                _ => None,
            };
            let value = match f(met.map(|(_, old)| (&old.key, &old.value))) {
                Operation::Abort(reason) => return Computed::Aborted(reason),
                Operation::Insert(value) => value,
                Operation::Remove => match met {
                    None => return Computed::Absent,
                    Some((place, old)) if self.remove(place) => {
                        return Computed::Removed(&old.value);
                    }
                    Some(_) => continue,
                },
            };
            key = match met {
                Some((place, old)) => match self.replace(place, hash, key, value) {
                    Ok(new) => {
                        return Computed::Replaced {
                            old: &old.value,
                            new: &new.value,
                        };
                    }
                    Err(pair) => pair.key,
                },
                None => match self.try_insert(hash, key, value) {
                    Inserted::New(_, new) => return Computed::Inserted(new),
                    Inserted::Present { key, .. } => key,
                },
            };
        }
    }

    fn inserted(&self, change: Change) {
        self.lease().count_inserted();
        self.after(change);
    }
}

#[cfg(all(test, not(shuttle)))]
impl<K: Eq, V> Session<'_, K, V> {
    /// The first half of an insertion: what an inserter has done that is stopped before it counts.
    pub(super) fn place_uncounted(&self, hash: Hash, key: K, value: V) {
        let draft = self.draft(key, value);
        let placed = self.seek(hash, Some(draft.word(hash)), |k| k == draft.key());
        assert!(matches!(placed, Seek::Placed(_)));
        draft.published();
    }
}
