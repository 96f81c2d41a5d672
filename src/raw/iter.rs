//! Iteration in the order of the home buckets.
//!
//! All entries with one home lie on one path, and a hash never changes: so a position in the space of hashes stays
//! meaningful while tables come and go. One step reads the path of one home bucket; if a bucket of it was MOVED, it moves
//! the whole path and reads the next table instead, where those entries then are: the hashes of that home, and no others.
//! Each hash is in exactly one step: a key that is present all the time is seen once, and no key is seen twice.

use super::{
    bucket::{Bucket, Ctrl, EACH_SLOT, SLOTS, Word},
    root::Session,
    store::Pair,
    table::Table,
    tag::Hash,
};
use crate::sync::MODEL;
use std::{ops::Range, ptr};

/// A part of the space of hashes. Its halves show each of its keys once, whenever and on whatever thread each is iterated
/// over.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    start: u32,
    end: u32,
}

impl Part {
    pub(crate) const ALL: Self = Self {
        start: 0,
        end: Hash::END,
    };

    #[cfg(any(feature = "rayon", all(test, not(any(loom, shuttle)))))]
    pub(crate) fn halves(self) -> (Self, Self) {
        let Self { start, end } = self;
        let middle = start + (end - start) / 2;
        (Self { start, end: middle }, Self { start: middle, end })
    }
}

/// A position between two steps, and what was read ahead.
pub(super) struct Cursor {
    /// The hashes below were read, or are none of the cursor's.
    position: u32,
    /// Nor are those from here on.
    end: u32,
    /// Live words, of buckets that were not MOVED.
    found: Vec<Word>,
}

impl Cursor {
    /// How many entries are looked up ahead, about, so that the memory of their nodes is on its way when they are asked for.
    const AHEAD: usize = if MODEL { 1 } else { 32 };

    fn over(part: Part) -> Self {
        Self {
            position: part.start,
            end: part.end,
            found: Vec::new(),
        }
    }

    /// The next entry and its hash. The same session in every call: its pin protects what was found.
    #[inline]
    fn next_hashed<'s, K, V>(
        &mut self,
        session: &'s Session<'_, K, V>,
    ) -> Option<(Hash, &'s Pair<K, V>)> {
        if self.found.is_empty() {
            self.read_ahead(session);
        }
        let word = self.found.pop()?;
        // SAFETY: `scan` found it live in a bucket that was not MOVED (I8).
        Some((word.hash(), unsafe { session.pair(word) }))
    }

    #[inline]
    fn next<'s, K, V>(&mut self, session: &'s Session<'_, K, V>) -> Option<(&'s K, &'s V)> {
        let (_, Pair { key, value }) = self.next_hashed(session)?;
        Some((key, value))
    }

    /// Takes as many steps as find some entries. None are found at the end only.
    fn read_ahead<K, V>(&mut self, session: &Session<'_, K, V>) {
        let Some(root) = session.root() else {
            self.position = self.end;
            return;
        };
        while self.position < self.end && self.found.len() < Self::AHEAD {
            self.step(session, root);
        }
        // SAFETY: as in `next_hashed`.
        let prefetch = |&word: &Word| unsafe { session.prefetch(word) };
        self.found.iter().for_each(prefetch);
    }

    /// Reads the entries of one home bucket.
    fn step<'s, K, V>(&mut self, session: &'s Session<'_, K, V>, mut table: &'s Table) {
        let start = Hash::from_bits(self.position);
        // In a smaller table a home has more hashes; but only the path of this one was moved out of the larger table.
        let mut end = self.end.min(table.home_end(start));
        while !scan(table, start.to_bits()..end, &mut self.found) {
            table = session.move_path(table, start);
            end = end.min(table.home_end(start));
        }
        self.position = end;
    }
}

/// Appends the live words with `hashes`, all of one home. `false`, and nothing appended, if a bucket of the path is MOVED.
///
/// Slots are read backwards: a key that is removed and inserted again goes to the same slot or a later one, and then no earlier
/// one will have it again (I11, E1). So no key is found twice.
fn scan(table: &Table, hashes: Range<u32>, found: &mut Vec<Word>) -> bool {
    let start = Hash::from_bits(hashes.start);
    let home = table.home_bucket(start);
    let ctrl = home.ctrl();
    if ctrl.is_moved() {
        return false;
    }
    if ctrl.ends_path() {
        collect(home, ctrl, &hashes, found);
        return true;
    }
    let before = found.len();
    let last = table
        .path(start)
        .position(|bucket| bucket.ctrl().ends_path());
    for bucket in (0..=last.unwrap_or(table.buckets().len() - 1)).rev() {
        let bucket = table.path_bucket(start, bucket);
        let ctrl = bucket.ctrl();
        if ctrl.is_moved() {
            found.truncate(before);
            return false;
        }
        collect(bucket, ctrl, &hashes, found);
    }
    true
}

/// Appends the announced live words with `hashes`, the last slot first.
#[inline]
fn collect(bucket: &Bucket, ctrl: Ctrl, hashes: &Range<u32>, found: &mut Vec<Word>) {
    let mut words = [Word::VACANT; SLOTS];
    let mut count = 0;
    for slot in EACH_SLOT.rev() {
        let word = bucket.load(slot);
        // Without a branch: which slots are in use is hard to predict.
        words[count] = word;
        let is_of_home = word.hash().to_bits().wrapping_sub(hashes.start) < hashes.len() as u32;
        count += usize::from(ctrl.announces(slot) & word.is_live() & is_of_home);
    }
    let before = found.len();
    found.extend_from_slice(&words);
    found.truncate(before + count);
}

/// Yields the entries of a borrowed session.
pub(crate) struct Iter<'s, K, V> {
    session: &'s Session<'s, K, V>,
    cursor: Cursor,
}

impl<'s, K, V> Iter<'s, K, V> {
    pub(crate) fn new(session: &'s Session<'_, K, V>) -> Self {
        Self::over(session, Part::ALL)
    }

    pub(crate) fn over(session: &'s Session<'_, K, V>, part: Part) -> Self {
        Self {
            session,
            cursor: Cursor::over(part),
        }
    }
}

impl<'s, K, V> Iterator for Iter<'s, K, V> {
    type Item = (&'s K, &'s V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.cursor.next(self.session)
    }
}

/// Owns its session, and lends one entry at a time.
pub(crate) struct OwnedIter<'m, K, V> {
    session: Session<'m, K, V>,
    cursor: Cursor,
}

impl<'m, K, V> OwnedIter<'m, K, V> {
    pub(crate) fn new(session: Session<'m, K, V>) -> Self {
        Self {
            session,
            cursor: Cursor::over(Part::ALL),
        }
    }

    pub(crate) fn next(&mut self) -> Option<(&K, &V)> {
        self.cursor.next(&self.session)
    }
}

impl<K, V> Session<'_, K, V> {
    /// Exact: the sum of the counts may be zero for a moment while entries come and go.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts().live == 0 && Iter::new(self).next().is_none()
    }

    /// Removes every entry that `keep` rejects. An entry which is replaced meanwhile is asked about again.
    pub(crate) fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool)
    where
        K: Eq,
    {
        let mut cursor = Cursor::over(Part::ALL);
        while let Some((hash, Pair { key, value })) = cursor.next_hashed(self) {
            if !keep(key, value) {
                let same = |k: &K| ptr::eq(k, key) || k == key;
                self.remove_if(hash, same, |k, v| ptr::eq(v, value) || !keep(k, v));
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{Iter, Part, Table};
    use crate::raw::{RawMap, Session};

    #[test]
    fn a_step_in_a_smaller_table_covers_only_what_was_moved_there() {
        let map = RawMap::<u64, u64>::with_capacity(500);
        let session = map.pin();
        (0..40).for_each(|key| _ = session.insert(map.mix(key), key, key));
        let root = session.root().unwrap();
        let smaller = Table::new(root.bits() - 3);
        root.install(smaller, &session.guard);
        for key in 0..40 {
            session.move_path(root, map.mix(key));
            assert_eq!(super::Iter::new(&session).count(), 40);
        }
    }

    /// What is found in each of the parts that so many halvings make.
    fn found_in_parts(session: &Session<'_, u64, u64>, halvings: u32, part: Part) -> Vec<u64> {
        if halvings == 0 {
            return Iter::over(session, part).map(|(&key, _)| key).collect();
        }
        let (below, above) = part.halves();
        let (ends, joint) = ((below.start, above.end), (below.end, above.start));
        assert_eq!((ends, joint.0), ((part.start, part.end), joint.1));
        let mut found = found_in_parts(session, halvings - 1, below);
        found.extend(found_in_parts(session, halvings - 1, above));
        found
    }

    #[test]
    fn parts_show_each_entry_once_also_if_they_end_inside_of_a_home() {
        let map = RawMap::<u64, u64>::with_capacity(500);
        let session = map.pin();
        (0..400).for_each(|key| _ = session.insert(map.mix(key), key, key));
        let root = session.root().unwrap();
        let all = |found: Vec<u64>| {
            let unique = std::collections::BTreeSet::from_iter(found.iter().copied());
            assert_eq!((found.len(), unique.len()), (400, 400));
        };
        // Finer than homes in the end.
        (0..12).for_each(|halvings| all(found_in_parts(&session, halvings, Part::ALL)));
        root.install(Table::new(root.bits() - 3), &session.guard);
        for key in 0..400 {
            session.move_path(root, map.mix(key));
            if key % 50 == 0 {
                (0..12).for_each(|halvings| all(found_in_parts(&session, halvings, Part::ALL)));
            }
        }
    }

    #[test]
    fn an_entry_that_is_not_counted_yet_is_there() {
        let mut map = RawMap::<u64, u64>::new();
        map.pin().place_uncounted(map.mix(1), 1, 1);
        let session = map.pin();
        assert_eq!(session.counts().live, 0);
        assert!(!session.is_empty());
        assert_eq!(super::Iter::new(&session).count(), 1);
        session.retain(|_, _| false);
        assert!(session.is_empty());
        drop(session);
        assert!(map.iter_mut().next().is_none());
    }
}
