//! One table: its buckets, the path of a hash through them, and the writer's walk along it.

use super::{
    array::Buckets,
    bucket::{Bucket, Offer, SLOTS, Tags, Word},
    tag::{HASH_BITS, Hash},
};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, MODEL, Ordering, Watched, epoch::Guard};
use std::{ops::Range, ptr};

/// What every look-up reads comes first, in a cache line which only a migration writes.
#[repr(C)]
pub(super) struct Table {
    buckets: Watched<Buckets>,
    /// A hash shifted right by this is its home bucket.
    shift: u32,
    /// What [`super::stripe::Counts::tombstones`] was when this table was installed: what came since is here.
    pub(super) tombstones_before: usize,
    next: AtomicPtr<Table>,
    /// Whether somebody is allocating `next`; a hint that saves the others the work.
    allocating: AtomicBool,
    progress: Progress,
}

/// How far the migration out of a table is.
#[repr(align(64))]
struct Progress {
    /// Where the next helper starts.
    cursor: AtomicUsize,
    /// All buckets before this one are known to be MOVED.
    frontier: AtomicUsize,
}

/// Buckets that a helper moves at a time: microseconds.
const CHUNK: usize = if MODEL { 1 } else { 16 };

impl Table {
    /// 2^29 buckets: then each hash has its own.
    pub(super) const MAX_BITS: u32 = if usize::BITS < 64 { 24 } else { HASH_BITS };

    /// A vacant table of `1 << bits` buckets.
    pub(super) fn new(bits: u32) -> Box<Self> {
        debug_assert!(bits <= Self::MAX_BITS);
        Box::new(Self {
            buckets: Watched::new(Buckets::new(1 << bits)),
            shift: HASH_BITS - bits,
            tombstones_before: 0,
            next: AtomicPtr::new(ptr::null_mut()),
            allocating: AtomicBool::new(false),
            progress: Progress {
                cursor: AtomicUsize::new(0),
                frontier: AtomicUsize::new(0),
            },
        })
    }

    #[inline]
    pub(super) fn bits(&self) -> u32 {
        HASH_BITS - self.shift
    }

    pub(super) fn slots(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    pub(super) fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    #[inline]
    fn home(&self, hash: Hash) -> usize {
        (hash.to_bits() >> self.shift) as usize
    }

    /// One past the last hash of the same home bucket.
    pub(super) fn home_end(&self, hash: Hash) -> u32 {
        (self.home(hash) as u32 + 1) << self.shift
    }

    /// The first bucket of the path of `hash`.
    #[inline]
    pub(super) fn home_bucket(&self, hash: Hash) -> &Bucket {
        let home = self.home(hash);
        debug_assert!(home < self.buckets.len());
        // SAFETY: of the `HASH_BITS` bits of a hash the shift leaves as many as the number of buckets has.
        unsafe { self.buckets.get_unchecked(home) }
    }

    /// The buckets in which an entry with `hash` may be: its home, and the following ones as long as all before are
    /// full. Every bucket once.
    #[inline]
    pub(super) fn path(&self, hash: Hash) -> impl Iterator<Item = &Bucket> {
        self.path_from(hash, 0)
    }

    /// The same without the first few of them.
    #[inline]
    pub(super) fn path_from(&self, hash: Hash, few: usize) -> impl Iterator<Item = &Bucket> {
        (few..self.buckets.len()).map(move |index| self.path_bucket(hash, index))
    }

    /// Bucket `index` of the path of `hash`.
    #[inline]
    pub(super) fn path_bucket(&self, hash: Hash, index: usize) -> &Bucket {
        // There are a power of two of them.
        let last = self.buckets.len() - 1;
        &self.buckets[(self.home(hash) + index) & last]
    }

    /// The table that this one moves to.
    #[inline]
    pub(super) fn next<'g>(&'g self, _guard: &'g Guard) -> Option<&'g Table> {
        // ORDERING: E4 with `install`.
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: a table found under a guard stays allocated until the guard ends (I8).
        unsafe { next.as_ref() }
    }

    /// M1: makes `next` the next table, unless there is one: then that one.
    pub(super) fn install<'g>(&'g self, next: Box<Table>, _guard: &'g Guard) -> &'g Table {
        let next = Box::into_raw(next);
        // ORDERING: E4: who sees the table sees its buckets. The failure reads another thread's table.
        let installed =
            self.next
                .compare_exchange(ptr::null_mut(), next, Ordering::Release, Ordering::Acquire);
        let current = installed.err().unwrap_or(next);
        if current != next {
            // SAFETY: `next` came from a box, and nobody else has seen it.
            drop(unsafe { Box::from_raw(next) });
        }
        // SAFETY: as in `next`.
        unsafe { &*current }
    }

    /// Whether the caller is the first to want the next table allocated.
    pub(super) fn claim_allocation(&self) -> bool {
        // Relaxed: a hint.
        !self.allocating.swap(true, Ordering::Relaxed)
    }

    /// Some buckets to move: each chunk once, and then what is left of those whose helpers have not come to an end, from
    /// the front.
    pub(super) fn claim_chunk(&self) -> Range<usize> {
        let claimed = || {
            // Relaxed, twice: moving a bucket twice does no harm.
            let unclaimed = self.progress.cursor.load(Ordering::Relaxed) < self.buckets.len();
            unclaimed.then(|| self.progress.cursor.fetch_add(CHUNK, Ordering::Relaxed))
        };
        let start = claimed().filter(|&start| start < self.buckets.len());
        self.chunk(start.unwrap_or_else(|| self.frontier()))
    }

    /// Moves the frontier over chunks which are MOVED, a few at a time.
    pub(super) fn advance_frontier(&self) {
        const FEW: usize = 4;
        let mut frontier = self.frontier();
        for _ in 0..FEW {
            let chunk = self.chunk(frontier);
            if chunk.is_empty()
                || !self.buckets[chunk.clone()]
                    .iter()
                    .all(|b| b.ctrl().is_moved())
            {
                return;
            }
            // ORDERING: E3 once more: who sees the frontier at the end sees every bucket MOVED, also those that others
            // have looked at, since each of them changes the same word. A failure tells only where to go on.
            let advanced = self.progress.frontier.compare_exchange(
                frontier,
                chunk.end,
                Ordering::Release,
                Ordering::Relaxed,
            );
            frontier = advanced.map_or_else(|now| now, |_| chunk.end);
        }
    }

    /// M2: all buckets are known to be MOVED.
    pub(super) fn is_moved(&self) -> bool {
        self.frontier() == self.buckets.len()
    }

    fn frontier(&self) -> usize {
        // ORDERING: E3 with `advance_frontier`.
        self.progress.frontier.load(Ordering::Acquire)
    }

    fn chunk(&self, start: usize) -> Range<usize> {
        start..self.buckets.len().min(start + CHUNK)
    }

    /// How many live words there are, about.
    pub(super) fn count_live(&self) -> usize {
        let words = self.buckets.iter().flat_map(Bucket::words);
        words.filter(|word| word.is_live()).count()
    }

    /// Whether every bucket of the path is MOVED: only then may `next` be written for this hash (I4).
    pub(super) fn path_is_moved(&self, hash: Hash) -> bool {
        for bucket in self.path(hash) {
            if !bucket.ctrl().is_moved() {
                return false;
            }
            if !bucket.is_full() {
                break;
            }
        }
        true
    }

    /// Walks the path of `hash` as one who changes: up to a live entry with this hash which is the `same`.
    // PANIC: `same` may run the user's `Eq`; nothing is held.
    #[inline]
    pub(super) fn seek(&self, hash: Hash, mut same: impl FnMut(Word) -> bool) -> Walk<'_> {
        for bucket in self.path(hash) {
            let ctrl = bucket.ctrl();
            if ctrl.is_moved() {
                return Walk::Leave;
            }
            for slot in ctrl.matching(hash.tag()) {
                let word = bucket.load(slot);
                if word.is_live_with(hash) && same(word) {
                    return Walk::Met(Place {
                        table: self,
                        bucket,
                        slot,
                        word,
                    });
                }
            }
            if ctrl.ends_path() {
                return Walk::Absent;
            }
        }
        Walk::Leave
    }

    /// Walks the path of `new`'s hash as one who places it: up to a live entry with this hash which is the `same`, or to
    /// the first slot that may take it, if it is still `wanted`.
    ///
    /// Slots are examined in their order. None with this hash is left behind that may be revived (I11), no bucket is passed
    /// unless its slots are announced, and no entry is met that is not (I3). Slots in `own`, which the caller has filled,
    /// count as announced.
    // PANIC: `same` may run the user's `Eq`; nothing is held.
    #[inline]
    pub(super) fn place(
        &self,
        new: Word,
        own: &Unannounced<'_>,
        mut same: impl FnMut(Word) -> bool,
        wanted: impl Fn() -> bool,
    ) -> Walk<'_> {
        for bucket in self.path(new.hash()) {
            let mut passed = own.of(self, bucket);
            let shown = bucket.ctrl();
            let ctrl = shown.with(passed);
            if ctrl.is_moved() {
                return Walk::Leave;
            }
            for slot in ctrl.matching_or_unannounced(new.hash().tag()) {
                let place = |word| Place {
                    table: self,
                    bucket,
                    slot,
                    word,
                };
                match bucket.offer(slot, new, &mut same, &wanted) {
                    Offer::Passed(word) => passed.add(slot, word.hash().tag()),
                    Offer::Placed => return Walk::Placed(place(new)),
                    Offer::Revived => return Walk::Revived(place(new)),
                    Offer::Unwanted => return Walk::Absent,
                    Offer::Frozen => return Walk::Leave,
                    Offer::Same(word) => {
                        if !ctrl.announces(slot) {
                            place(word).announce();
                        }
                        return Walk::Met(place(word));
                    }
                }
            }
            if !shown.announces_all(passed) {
                bucket.announce(passed);
            }
        }
        Walk::Leave
    }

    /// Frees a chain of tables.
    ///
    /// # Safety
    /// Exclusive access; `table` is null or came from a box.
    pub(super) unsafe fn free_chain(mut table: *mut Table) {
        while !table.is_null() {
            // SAFETY: each table owns its next one, and nobody else is left.
            let this = unsafe { Box::from_raw(table) };
            // Relaxed: exclusive access.
            table = this.next.load(Ordering::Relaxed);
        }
    }
}

/// How a walk ended.
#[must_use]
pub(super) enum Walk<'t> {
    /// At a live slot which `same` accepted.
    Met(Place<'t>),
    /// In a vacant slot that took the new word, which the caller must announce.
    Placed(Place<'t>),
    /// In the slot of a tombstone, which took the new word and was announced before.
    Revived(Place<'t>),
    /// At the end of the path, with nothing to place.
    Absent,
    /// This table no longer decides, or is full: go on in the next one.
    Leave,
}

/// Slots that one copier filled and has yet to announce, of the few buckets that it fills at a time.
#[derive(Default)]
pub(super) struct Unannounced<'t> {
    buckets: [Option<(&'t Bucket, Tags)>; FEW],
}

/// The entries of a bucket go to two or four neighbours, unless these run over.
const FEW: usize = 4;

impl<'t> Unannounced<'t> {
    /// No slots: for those who announce at once.
    pub(super) const NONE: Self = Self {
        buckets: [None; FEW],
    };

    /// By its number, not its address: models must run the same way each time.
    #[inline]
    fn place_of(table: &Table, bucket: &Bucket) -> usize {
        let [first, this] = [table.buckets.as_ptr(), bucket].map(<*const Bucket>::addr);
        (this - first) / size_of::<Bucket>() % FEW
    }

    /// Those of `bucket`, which is in `table`.
    #[inline]
    fn of(&self, table: &Table, bucket: &Bucket) -> Tags {
        match self.buckets[Self::place_of(table, bucket)] {
            Some((known, tags)) if ptr::eq(known, bucket) => tags,
            _ => Tags::default(),
        }
    }

    /// One more; what is in its way is announced.
    #[inline]
    pub(super) fn add(&mut self, place: Place<'t>) {
        let (slot, tag) = (place.slot, place.word.hash().tag());
        match &mut self.buckets[Self::place_of(place.table, place.bucket)] {
            Some((known, tags)) if ptr::eq(*known, place.bucket) => tags.add(slot, tag),
            other => {
                let before = other.replace((place.bucket, Tags::of(slot, tag)));
                before.into_iter().for_each(Self::show);
            }
        }
    }

    /// C1 for all of them, one locked instruction a bucket.
    pub(super) fn announce(self) {
        self.buckets.into_iter().flatten().for_each(Self::show);
    }

    fn show((bucket, tags): (&'t Bucket, Tags)) {
        bucket.announce(tags);
    }
}

/// A slot, and the live word seen in it.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    table: &'t Table,
    bucket: &'t Bucket,
    slot: usize,
    pub(super) word: Word,
}

impl Place<'_> {
    /// C1 for this slot.
    #[inline]
    pub(super) fn announce(self) {
        self.bucket
            .announce(Tags::of(self.slot, self.word.hash().tag()));
    }

    /// S2, unless the slot has changed.
    pub(super) fn replace(self, new: Word) -> Result<(), Word> {
        self.change(|word| self.bucket.replace(self.slot, word, new))
    }

    /// S3, unless the slot has changed.
    pub(super) fn bury(self) -> Result<(), Word> {
        self.change(|word| self.bucket.bury(self.slot, word))
    }

    /// Once more, if the slot was only marked (S6) meanwhile: the entry is the same.
    fn change(self, attempt: impl Fn(Word) -> Result<(), Word>) -> Result<(), Word> {
        attempt(self.word).or_else(|met| {
            if met == self.word.to_passed() {
                attempt(met)
            } else {
                Err(met)
            }
        })
    }

    /// Whether a tombstone here has to be counted: as soon as there is a next table, none is left behind in it.
    pub(super) fn is_in_newest(self, guard: &Guard) -> bool {
        self.table.next(guard).is_none()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{super::store::Location, *};

    /// The first inserter is stopped before it announces, and what went past its slot is removed again.
    #[test]
    fn slots_are_offered_in_their_order_announced_or_not() {
        let hash = Hash::from_bits(7);
        let word = |node: u64| Word::live(hash, Location::from_bits(1 << 25 | node));
        let [first, other, again] = [0, 1, 2].map(word);
        let table = Table::new(0);
        let place = |new, same| {
            let same = |met: Word| met.location() == Word::location(same);
            table.place(new, &Unannounced::NONE, same, || true)
        };
        assert!(matches!(place(first, first), Walk::Placed(_)));
        let Walk::Placed(behind) = place(other, other) else {
            panic!("a key was not placed behind another one");
        };
        behind.announce();
        behind.bury().unwrap();
        let Walk::Met(met) = place(again, first) else {
            panic!("a key was placed behind itself");
        };
        assert_eq!(met.word.location(), first.location());
        assert!(table.home_bucket(hash).ctrl().announces(met.slot));
    }

    #[test]
    fn each_copy_is_announced_however_many_buckets_they_fill() {
        let bits = FEW.ilog2() + 1;
        let table = Table::new(bits);
        let mut copies = Unannounced::default();
        for home in 0..table.buckets().len() as u32 {
            let hash = Hash::from_bits(home << (HASH_BITS - bits));
            let word = Word::live(hash, Location::from_bits(1 << 25));
            let Walk::Placed(place) = table.place(word, &copies, |_| false, || true) else {
                panic!("there is no room in a vacant table");
            };
            copies.add(place);
        }
        copies.announce();
        for bucket in table.buckets() {
            assert!(bucket.ctrl().announces(1));
        }
    }
}
