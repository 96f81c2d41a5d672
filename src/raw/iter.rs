//! Iteration in the order of the hashes.
//!
//! All entries with one home lie on one path, and a hash never changes: so a position in the space of hashes stays
//! meaningful while tables come and go. One step reads the path of one home bucket; if a bucket of it was MOVED, it moves
//! the whole path and reads the next table instead, where those entries then are: the hashes of that home, and no others.
//! Each hash is in exactly one step: a key that is present all the time is seen once, and no key is seen twice.

use super::{
    bucket::Word,
    root::Session,
    store::Pair,
    table::{Place, Table},
    tag::Hash,
};
use std::{ops::Range, ptr};

/// A position between two steps, and what the last step found.
pub(super) struct Cursor {
    /// The hashes below were seen.
    position: u32,
    /// Live words, last first, of buckets that were not MOVED.
    found: Vec<Word>,
}

impl Cursor {
    fn new() -> Self {
        Self {
            position: 0,
            found: Vec::new(),
        }
    }

    /// The next entry and its hash. The same session in every call: its pin protects what was found.
    fn next_hashed<'s, K, V>(
        &mut self,
        session: &'s Session<'_, K, V>,
    ) -> Option<(Hash, &'s Pair<K, V>)> {
        loop {
            if let Some(word) = self.found.pop() {
                // SAFETY: `scan` found it live in a bucket that was not MOVED (I8).
                return Some((word.hash(), unsafe { session.pair(word) }));
            }
            self.step(session)?;
        }
    }

    fn next<'s, K, V>(&mut self, session: &'s Session<'_, K, V>) -> Option<(&'s K, &'s V)> {
        let (_, Pair { key, value }) = self.next_hashed(session)?;
        Some((key, value))
    }

    /// Reads the entries of one home bucket. `None` at the end.
    fn step<K, V>(&mut self, session: &Session<'_, K, V>) -> Option<()> {
        if self.position >= Hash::END {
            return None;
        }
        let Some(mut table) = session.root() else {
            self.position = Hash::END;
            return None;
        };
        let start = Hash::from_bits(self.position);
        // In a smaller table a home has more hashes; but only the path of this one was moved out of the larger table.
        let mut end = Hash::END;
        loop {
            end = end.min(table.home_end(start));
            if scan(table, start.to_bits()..end, &mut self.found) {
                self.position = end;
                return Some(());
            }
            table = session.move_path(table, start);
        }
    }
}

/// Finds the live words with `hashes`, all of one home. `false` if a bucket of the path is MOVED.
fn scan(table: &Table, hashes: Range<u32>, found: &mut Vec<Word>) -> bool {
    found.clear();
    let complete = visit(table, hashes.clone(), |place| found.push(place.word));
    if complete && may_repeat_a_key(found) {
        let mut places = Vec::new();
        let complete = visit(table, hashes, |place| places.push(place));
        // The first slot of a key which was inserted again in a later one shows a tombstone by now.
        found.clear();
        found.extend(
            places
                .into_iter()
                .filter(|place| place.is_live())
                .map(|place| place.word),
        );
        return complete;
    }
    complete
}

/// Whether a key may be among `words` twice: removed after its slot was read, and inserted again in a later slot, which
/// was read, too. Then the hashes are equal.
fn may_repeat_a_key(words: &[Word]) -> bool {
    const FEW: usize = 16;
    let equal = |(i, a): (usize, &Word)| words[i + 1..].iter().any(|b| a.hash() == b.hash());
    words.len() > FEW || words.iter().enumerate().any(equal)
}

/// Shows each live word with `hashes`, all of one home. `false` if a bucket of the path is MOVED.
fn visit<'t>(table: &'t Table, hashes: Range<u32>, mut show: impl FnMut(Place<'t>)) -> bool {
    for bucket in table.path(Hash::from_bits(hashes.start)) {
        let ctrl = bucket.ctrl();
        if ctrl.is_moved() {
            return false;
        }
        for slot in ctrl.announced() {
            let word = bucket.load(slot);
            if word.is_live() && hashes.contains(&word.hash().to_bits()) {
                show(Place::new(bucket, slot, word));
            }
        }
        if ctrl.ends_path() {
            break;
        }
    }
    true
}

/// Yields the entries of a borrowed session.
pub(crate) struct Iter<'s, K, V> {
    session: &'s Session<'s, K, V>,
    cursor: Cursor,
}

impl<'s, K, V> Iter<'s, K, V> {
    pub(crate) fn new(session: &'s Session<'_, K, V>) -> Self {
        Self {
            session,
            cursor: Cursor::new(),
        }
    }
}

impl<'s, K, V> Iterator for Iter<'s, K, V> {
    type Item = (&'s K, &'s V);

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
            cursor: Cursor::new(),
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
        let mut cursor = Cursor::new();
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
    use super::Table;
    use crate::raw::RawMap;

    #[test]
    fn a_step_in_a_smaller_table_covers_only_what_was_moved_there() {
        let map = RawMap::<u64, u64>::with_capacity(500);
        let session = map.pin();
        (0..40).for_each(|key| _ = session.insert(map.mix(key), key, key));
        let root = session.root().unwrap();
        let smaller = Table::new(root.bits() - 3, 0);
        root.install(smaller, &session.guard);
        for key in 0..40 {
            session.move_path(root, map.mix(key));
            assert_eq!(super::Iter::new(&session).count(), 40);
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
