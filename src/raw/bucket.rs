//! One cache line of the table: a control word and seven slot words. The only file which does atomics on them: every
//! method is one edge of the state diagrams in `raw`, and the bit layouts do not leave this file.

use super::{
    store::Location,
    tag::{Hash, Tag},
};
use crate::sync::{AtomicU64, INSTANT, MODEL, Ordering};
use std::{fmt, ops::Range};

/// Slots in a bucket; fewer under the model checker, where two are enough to fill, pass and wrap.
pub(super) const SLOTS: usize = if MODEL { 2 } else { 7 };

/// The numbers of the slots: slot `i` is word `i` of its bucket, and its tag is byte `i` of the control word.
pub(super) const EACH_SLOT: Range<usize> = 1..SLOTS + 1;

/// Acquire and release at least; more where the order between keys matters (E0).
const LOAD: Ordering = INSTANT.0;
const CHANGE: Ordering = INSTANT.1;

#[repr(C, align(64))]
pub(super) struct Bucket {
    /// The control word and the slots. One array: so the number of a slot that was found in the control word needs no check.
    words: [AtomicU64; SLOTS + 1],
}

impl Bucket {
    #[cfg(any(loom, shuttle, test))]
    pub(super) fn new() -> Self {
        Self {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The control word now.
    #[inline]
    pub(super) fn ctrl(&self) -> Ctrl {
        // ORDERING: E2 with `announce`, E3 with `close`. E0.
        Ctrl(self.words[0].load(LOAD))
    }

    /// Slot `slot` now.
    #[inline]
    pub(super) fn load(&self, slot: usize) -> Word {
        debug_assert!(EACH_SLOT.contains(&slot));
        // ORDERING: E1 with `publish`, `replace` and `revive`, E6 with `replace`, `bury` and `revive`. E0.
        Word(self.words[slot].load(LOAD))
    }

    /// S1: vacant -> live. The word met instead, if another thread was first.
    #[inline]
    pub(super) fn publish(&self, slot: usize, new: Word) -> Result<(), Word> {
        debug_assert!(new.is_live() && !new.is_frozen());
        self.exchange(slot, Word::VACANT, new)
    }

    /// S2: live -> live, same key.
    #[inline]
    pub(super) fn replace(&self, slot: usize, old: Word, new: Word) -> Result<(), Word> {
        debug_assert!(old.is_live() && !old.is_frozen());
        debug_assert!(new.is_live() && new.hash() == old.hash() && !new.is_frozen());
        self.exchange(slot, old, new.passed_like(old))
    }

    /// S3: live -> tombstone.
    #[inline]
    pub(super) fn bury(&self, slot: usize, old: Word) -> Result<(), Word> {
        debug_assert!(old.is_live() && !old.is_frozen());
        self.exchange(slot, old, old.to_tombstone())
    }

    /// S5: tombstone -> live, same hash.
    #[inline]
    fn revive(&self, slot: usize, old: Word, new: Word) -> Result<(), Word> {
        debug_assert!(old.is_revivable() && new.is_live() && new.hash() == old.hash());
        self.exchange(slot, old, new)
    }

    /// S6: live -> live and PASSED.
    #[inline(never)]
    fn pass(&self, slot: usize, old: Word) -> Result<(), Word> {
        debug_assert!(old.is_live() && !old.is_frozen());
        self.exchange(slot, old, old.to_passed())
    }

    /// Examines a slot on behalf of `new`, and again whenever another thread changes it meanwhile. Takes it if it is vacant
    /// or a tombstone that may be revived, provided that `new` is still `wanted` then.
    // PANIC: `same` may run the user's `Eq`; nothing is held.
    #[inline(always)]
    pub(super) fn offer(
        &self,
        slot: usize,
        new: Word,
        same: &mut impl FnMut(Word) -> bool,
        wanted: &impl Fn() -> bool,
    ) -> Offer {
        let mut word = self.load(slot);
        loop {
            let changed = if word.is_vacant() {
                if word.is_frozen() {
                    return Offer::Frozen;
                }
                if !wanted() {
                    return Offer::Unwanted;
                }
                self.publish(slot, new).map(|()| Offer::Placed)
            } else if word.hash() != new.hash() {
                return Offer::Passed(word);
            } else if word.is_live() {
                if same(word) {
                    return Offer::Same(word);
                }
                if word.is_passed() || word.is_frozen() {
                    return Offer::Passed(word);
                }
                self.pass(slot, word).map(|()| Offer::Passed(word))
            } else if word.is_revivable() {
                if !wanted() {
                    return Offer::Unwanted;
                }
                self.revive(slot, word, new).map(|()| Offer::Revived)
            } else {
                return Offer::Passed(word);
            };
            match changed {
                Ok(offer) => return offer,
                Err(met) => word = met,
            }
        }
    }

    #[inline]
    fn exchange(&self, slot: usize, old: Word, new: Word) -> Result<(), Word> {
        debug_assert!(EACH_SLOT.contains(&slot));
        // ORDERING: success is the releasing half of E1 (the node) and E6 (what this thread knows of MOVED); failure
        // is a `load`. E0.
        self.words[slot]
            .compare_exchange(old.0, new.0, CHANGE, LOAD)
            .map(drop)
            .map_err(Word)
    }

    /// S4: any -> the same, frozen. Returns the word without marks; nothing changes it any more.
    #[inline]
    pub(super) fn freeze(&self, slot: usize) -> Word {
        let seen = self.load(slot);
        if seen.is_frozen() || seen.is_spent() {
            // Final already: that spares the locked instruction.
            return seen.unmarked();
        }
        // ORDERING: E6, the observing half. Releases nothing of its own.
        Word(self.words[slot].fetch_or(Word::FROZEN, Ordering::Acquire)).unmarked()
    }

    /// C1: shows the tags of slots that are not vacant. Anybody may, any number of times.
    #[inline]
    pub(super) fn announce(&self, tags: Tags) {
        if tags.0 != 0 {
            // ORDERING: E2: who sees a tag sees the slot filled. E0.
            self.words[0].fetch_or(tags.0, CHANGE);
        }
    }

    /// C2: every entry of this bucket is in the next table.
    pub(super) fn close(&self) {
        // ORDERING: E3: who sees the mark sees the copies, and all that the copier saw. E0.
        self.words[0].fetch_or(Ctrl::MOVED, CHANGE);
    }

    /// Whether no slot is vacant, so that paths lead on to the next bucket.
    pub(super) fn is_full(&self) -> bool {
        !self.load(SLOTS).is_vacant()
    }

    /// Every slot now, one after the other.
    pub(super) fn words(&self) -> impl Iterator<Item = Word> {
        EACH_SLOT.map(|slot| self.load(slot))
    }
}

/// What examining a slot on behalf of a new word came to.
#[must_use]
pub(super) enum Offer {
    /// The slot was vacant, and has taken it.
    Placed,
    /// The slot was a tombstone, and has taken it.
    Revived,
    /// The slot holds the same.
    Same(Word),
    /// The slot is of no use: it never will be, if it has the same hash (I11).
    Passed(Word),
    /// The slot could have taken it, but it is no longer wanted.
    Unwanted,
    /// The slot is vacant for ever.
    Frozen,
}

/// A decoded control word: bit 0 is MOVED, byte `i` is the tag of slot `i`, 0 while it is not announced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ctrl(u64);

impl Ctrl {
    const MOVED: u64 = 1;
    /// The bit of each slot that says that it is announced.
    const ANNOUNCED: u64 = {
        let (mut all, mut slot) = (0, EACH_SLOT.start);
        while slot < EACH_SLOT.end {
            all |= (Tag::ANNOUNCED as u64) << tag_shift(slot);
            slot += 1;
        }
        all
    };
    const ONES: u64 = 0x0101_0101_0101_0101;

    #[inline]
    pub(super) fn is_moved(self) -> bool {
        self.0 & Self::MOVED != 0
    }

    /// This, with `tags` announced.
    #[inline]
    pub(super) fn with(self, tags: Tags) -> Self {
        Self(self.0 | tags.0)
    }

    /// The slots which show `tag`, and perhaps others which are announced. All bytes are compared at once: after the
    /// exclusive or those which show it are zero, and the top bit of the unannounced ones is set, so that they are told
    /// apart exactly, else a reader could see an entry that a later reader does not. A byte that is one may pass for zero.
    #[inline]
    pub(super) fn matching(self, tag: Tag) -> Slots {
        let differing = self.0 ^ (u64::from(tag.to_byte()) * Self::ONES);
        Slots(differing.wrapping_sub(Self::ONES) & !differing & Self::ANNOUNCED)
    }

    /// The slots of [`Ctrl::matching`] and of [`Ctrl::unannounced`].
    #[inline]
    pub(super) fn matching_or_unannounced(self, tag: Tag) -> Slots {
        Slots(self.matching(tag).0 | self.unannounced().0)
    }

    /// Whether all these tags are announced.
    #[inline]
    pub(super) fn announces_all(self, tags: Tags) -> bool {
        self.0 & tags.0 == tags.0
    }

    /// The slots which are not announced.
    #[inline]
    fn unannounced(self) -> Slots {
        Slots(!self.0 & Self::ANNOUNCED)
    }

    /// Whether `slot` is announced.
    #[inline]
    pub(super) fn announces(self, slot: usize) -> bool {
        self.0 & u64::from(Tag::ANNOUNCED) << tag_shift(slot) != 0
    }

    /// Whether this is the last bucket of every path that comes here.
    #[inline]
    pub(super) fn ends_path(self) -> bool {
        !self.unannounced().is_empty()
    }
}

/// Where the tag of `slot` is in the control word.
const fn tag_shift(slot: usize) -> u32 {
    8 * slot as u32
}

/// Tags of one bucket, to be announced together.
#[derive(Clone, Copy, Default)]
pub(super) struct Tags(u64);

impl Tags {
    #[inline]
    pub(super) fn add(&mut self, slot: usize, tag: Tag) {
        self.0 |= u64::from(tag.to_byte()) << tag_shift(slot);
    }

    #[inline]
    pub(super) fn of(slot: usize, tag: Tag) -> Self {
        let mut tags = Self::default();
        tags.add(slot, tag);
        tags
    }
}

/// A set of slots of one bucket, lowest first.
#[derive(Clone, Copy)]
pub(super) struct Slots(u64);

impl Slots {
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() as usize / 8;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

/// A decoded slot word: `hash (29) | PASSED (1) | FROZEN (1) | location (33)`. Location 0 is vacant, 1 a tombstone that may
/// be revived, 2 one that may not (both keep their hash, so that their tag stays derivable), all others name a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    pub(super) const VACANT: Self = Self(0);
    const TOMBSTONE: u64 = 1;
    const SPENT: u64 = 2;
    const FROZEN: u64 = 1 << Location::BITS;
    const PASSED: u64 = Self::FROZEN << 1;
    const LOCATION: u64 = Self::FROZEN - 1;
    const HASH_SHIFT: u32 = Location::BITS + 2;

    #[inline]
    pub(super) fn live(hash: Hash, location: Location) -> Self {
        Self(u64::from(hash.to_bits()) << Self::HASH_SHIFT | location.to_bits())
    }

    #[inline]
    fn to_tombstone(self) -> Self {
        let tombstone = if self.is_passed() {
            Self::SPENT
        } else {
            Self::TOMBSTONE
        };
        Self(self.0 & !Self::LOCATION | tombstone)
    }

    #[inline]
    pub(super) fn to_passed(self) -> Self {
        Self(self.0 | Self::PASSED)
    }

    #[inline]
    fn passed_like(self, other: Self) -> Self {
        Self(self.0 | other.0 & Self::PASSED)
    }

    #[inline]
    fn is_passed(self) -> bool {
        self.0 & Self::PASSED != 0
    }

    #[inline]
    pub(super) fn is_vacant(self) -> bool {
        self.0 & Self::LOCATION == 0
    }

    #[inline]
    pub(super) fn is_live(self) -> bool {
        self.0 & Self::LOCATION > Self::SPENT
    }

    /// Whether this is a tombstone whose slot may be used again.
    #[inline]
    fn is_revivable(self) -> bool {
        self.0 & (Self::FROZEN | Self::LOCATION) == Self::TOMBSTONE
    }

    #[inline]
    fn is_spent(self) -> bool {
        self.0 & Self::LOCATION == Self::SPENT
    }

    #[inline]
    fn unmarked(self) -> Self {
        Self(self.0 & !(Self::FROZEN | Self::PASSED))
    }

    #[inline]
    pub(super) fn is_frozen(self) -> bool {
        self.0 & Self::FROZEN != 0
    }

    #[inline]
    pub(super) fn hash(self) -> Hash {
        Hash::from_bits((self.0 >> Self::HASH_SHIFT) as u32)
    }

    /// Whether this is an entry with all of these hash bits: only then is its key worth a look.
    #[inline]
    pub(super) fn is_live_with(self, hash: Hash) -> bool {
        let marks = Self::FROZEN | Self::PASSED;
        let rest = (self.0 ^ u64::from(hash.to_bits()) << Self::HASH_SHIFT) & !marks;
        rest > Self::SPENT && rest <= Self::LOCATION
    }

    /// Where the node of a live word is.
    #[inline]
    pub(super) fn location(self) -> Location {
        debug_assert!(self.is_live());
        Location::from_bits(self.0 & Self::LOCATION)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match () {
            () if self.is_vacant() => "vacant",
            () if self.is_live() => "live",
            () => "tombstone",
        };
        write!(f, "{state}({:#x}, frozen: {})", self.0, self.is_frozen())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn word(hash: u32, location: u64) -> Word {
        Word::live(Hash::from_bits(hash), Location::from_bits(location))
    }

    const A: u64 = 1 << 25;
    const B: u64 = A + 1;

    #[test]
    fn a_vacant_slot_takes_one_word_and_shows_the_winner_to_the_loser() {
        let bucket = Bucket::new();
        assert_eq!(bucket.publish(1, word(7, A)), Ok(()));
        assert_eq!(bucket.publish(1, word(9, B)), Err(word(7, A)));
        assert_eq!(bucket.load(1), word(7, A));
    }

    /// Offers a word, which is always wanted, to a slot of words that are all different keys.
    fn offer(bucket: &Bucket, slot: usize, new: Word) -> Offer {
        bucket.offer(slot, new, &mut |_| false, &|| true)
    }

    #[test]
    fn a_buried_slot_keeps_its_hash_and_takes_a_word_of_this_hash_only() {
        let bucket = Bucket::new();
        bucket.publish(1, word(7, A)).unwrap();
        bucket.replace(1, word(7, A), word(7, B)).unwrap();
        assert!(bucket.bury(1, word(7, A)).is_err());
        bucket.bury(1, word(7, B)).unwrap();
        let tombstone = bucket.load(1);
        assert!(tombstone.is_revivable() && !tombstone.is_live() && !tombstone.is_vacant());
        assert_eq!(tombstone.hash(), Hash::from_bits(7));
        assert_eq!(bucket.publish(1, word(7, A)), Err(tombstone));
        assert!(matches!(offer(&bucket, 1, word(8, A)), Offer::Passed(_)));
        assert!(matches!(offer(&bucket, 1, word(7, A)), Offer::Revived));
        assert_eq!(bucket.load(1), word(7, A));
    }

    #[test]
    fn a_slot_that_was_passed_by_its_hash_never_takes_a_word_again() {
        let bucket = Bucket::new();
        bucket.publish(1, word(7, A)).unwrap();
        assert!(matches!(offer(&bucket, 1, word(8, B)), Offer::Passed(_)));
        assert!(!bucket.load(1).is_passed(), "another hash may pass");
        assert!(matches!(offer(&bucket, 1, word(7, B)), Offer::Passed(_)));
        assert!(
            bucket.bury(1, word(7, A)).is_err(),
            "who buries has to know"
        );
        let passed = bucket.load(1);
        bucket.replace(1, passed, word(7, B)).unwrap();
        assert!(bucket.load(1).is_passed(), "a replacement keeps the mark");
        bucket.bury(1, bucket.load(1)).unwrap();
        assert!(bucket.load(1).is_spent());
        assert!(matches!(offer(&bucket, 1, word(7, A)), Offer::Passed(_)));
    }

    #[test]
    fn a_frozen_slot_refuses_every_change() {
        let bucket = Bucket::new();
        bucket.publish(1, word(7, A)).unwrap();
        assert_eq!(bucket.freeze(1), word(7, A));
        assert!(bucket.freeze(2).is_vacant());
        assert!(bucket.replace(1, word(7, A), word(7, B)).is_err());
        assert!(bucket.bury(1, word(7, A)).is_err());
        let met = bucket.publish(2, word(8, B)).unwrap_err();
        assert!(met.is_vacant() && met.is_frozen());
        assert!(bucket.load(1).is_live_with(Hash::from_bits(7)));
        assert!(matches!(offer(&bucket, 1, word(7, B)), Offer::Passed(_)));
        assert!(matches!(offer(&bucket, 2, word(7, B)), Offer::Frozen));
    }

    #[test]
    fn a_frozen_tombstone_is_not_revived() {
        let bucket = Bucket::new();
        bucket.publish(1, word(7, A)).unwrap();
        bucket.bury(1, word(7, A)).unwrap();
        let tombstone = bucket.load(1);
        assert!(!bucket.freeze(1).is_live());
        assert!(bucket.revive(1, tombstone, word(7, B)).is_err());
        assert!(matches!(offer(&bucket, 1, word(7, B)), Offer::Passed(_)));
    }

    #[test]
    fn a_copy_starts_without_marks() {
        let bucket = Bucket::new();
        bucket.publish(1, word(7, A)).unwrap();
        assert!(matches!(offer(&bucket, 1, word(7, B)), Offer::Passed(_)));
        assert_eq!(bucket.freeze(1), word(7, A));
    }

    #[test]
    fn a_closed_bucket_stays_closed() {
        let bucket = Bucket::new();
        assert!(!bucket.ctrl().is_moved());
        bucket.close();
        bucket.close();
        assert!(bucket.ctrl().is_moved());
    }

    #[test]
    fn tags_match_where_they_are_and_nothing_matches_where_none_is_announced() {
        for (byte, other) in (0..=255u32).flat_map(|byte| (0..=255).map(move |other| (byte, other)))
        {
            let bucket = Bucket::new();
            let [tag, other] = [byte, other].map(|byte| Hash::from_bits(byte).tag());
            for (slot, tag) in [(1, tag), (3, tag), (4, other)] {
                bucket.announce(Tags::of(slot, tag));
            }
            for close in [false, true] {
                if close {
                    bucket.close();
                }
                let ctrl = bucket.ctrl();
                let matching: Vec<_> = ctrl.matching(tag).collect();
                let may_match = other.to_byte() ^ tag.to_byte() <= 1;
                assert!(matching == [1, 3, 4] && may_match || matching == [1, 3] && other != tag);
                assert_eq!(ctrl.unannounced().collect::<Vec<_>>(), [2, 5, 6, 7]);
                let announced = EACH_SLOT.filter(|&slot| ctrl.announces(slot));
                assert_eq!(announced.collect::<Vec<_>>(), [1, 3, 4]);
            }
        }
    }
}
