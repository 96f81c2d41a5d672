//! From one table to the next: growing, purging tombstones and shrinking are the same.
//!
//! A bucket is moved by anybody, any number of times, with the same result; so nobody waits for a helper who stopped. A
//! copier that finds no room in the next table, or finds it moving on itself, is [`Blocked`] until the path there is
//! moved: [`Session::drive`] does that first and then begins again. That is a loop, not a recursion: the chain of
//! tables may be long.

use super::{
    bucket::{Bucket, EACH_SLOT, SLOTS, Word},
    root::Session,
    stripe::Counts,
    table::{Table, Unannounced, Walk},
    tag::Hash,
};
use crate::sync::MODEL;

/// The path of `hash` in `table` must be moved before a copier can go on.
#[derive(Clone, Copy)]
struct Blocked<'g> {
    table: &'g Table,
    hash: Hash,
}

/// What an operation did to its slot.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// S1: one more is in use.
    Filled,
    /// S5: in use it was before.
    Revived,
    /// S3: in use it stays, but perhaps few others hold entries.
    Buried,
}

/// After so many removals a thread looks whether the table is deserted.
const FEW_REMOVALS: u32 = if MODEL { 1 } else { 64 };

impl Table {
    /// Slots that may be in use: with one more it is time for the next table.
    pub(super) fn limit(&self) -> usize {
        limit(self.slots())
    }

    /// The size of the next table for `live` entries: larger if a good part of the used slots is live; else of the same
    /// size or smaller, to get rid of tombstones. How long probes are does not count: with hashes that collide, growing
    /// would not shorten them.
    fn next_bits(&self, live: usize) -> u32 {
        /// A much smaller table could be full again before this one is moved, and the next one as well.
        const MAX_SHRINK: u32 = 3;
        /// Tables of up to this size grow by four, which halves what is moved; larger ones by two, which wastes less memory.
        const SMALL: u32 = 10;
        let bits = self.bits();
        if live >= (self.slots() * 3).div_ceil(8) {
            let step = if bits <= SMALL { 2 } else { 1 };
            return (bits + step).min(Self::MAX_BITS);
        }
        let is_roomy = |&smaller: &u32| live <= (SLOTS << smaller) / 4;
        (bits.saturating_sub(MAX_SHRINK)..bits)
            .find(is_roomy)
            .unwrap_or(bits)
    }

    /// How many slots are in use: exact when nobody writes, but for what was counted just when the table was installed.
    fn used(&self, counts: Counts) -> usize {
        counts.live.saturating_add(self.tombstones(counts))
    }

    fn tombstones(&self, counts: Counts) -> usize {
        // Below zero if some of the older table are revived in the instant in which this one is installed.
        let since = counts.tombstones.wrapping_sub(self.tombstones_before) as isize;
        since.max(0) as usize
    }
}

/// Three quarters.
fn limit(slots: usize) -> usize {
    slots - slots.div_ceil(4)
}

/// The size of a table that holds `entries` without a migration.
///
/// # Panics
/// With "capacity overflow".
fn bits_for(entries: usize) -> u32 {
    let fits = |bits: &u32| limit(SLOTS << bits) >= entries;
    (0..=Table::MAX_BITS).find(fits).expect("capacity overflow")
}

impl<K, V> Session<'_, K, V> {
    /// The first table of a map that has none.
    #[cold]
    pub(super) fn first_table(&self) -> &Table {
        self.map.install_root(Table::new(0), &self.guard)
    }

    /// After a change: does a share of the migration that is going on, or looks whether it is time for one.
    #[inline]
    pub(super) fn after(&self, change: Change) {
        let Some(root) = self.root() else { return };
        if root.next(&self.guard).is_some() {
            return self.help(root);
        }
        let bits = root.bits();
        let due = self.lease().local(|local| match change {
            Change::Filled => {
                let due = local.reviewed_bits != bits || local.until_review == 0;
                local.until_review = local.until_review.saturating_sub(1);
                due
            }
            Change::Buried => {
                local.removals = local.removals.wrapping_add(1);
                local.removals % FEW_REMOVALS == 0
            }
            Change::Revived => false,
        });
        if due {
            self.review(root);
        }
    }

    /// Compares the used slots with the size of the table.
    #[cold]
    fn review(&self, table: &Table) {
        /// Smaller tables are left as they are when they are emptied.
        const LARGE: usize = 512;
        let counts = self.counts();
        let (used, slots) = (table.used(counts), table.slots());
        let is_deserted =
            slots >= LARGE && table.tombstones(counts) >= slots / 8 && counts.live < slots / 16;
        let is_due = used > table.limit() || is_deserted;
        // Who claims the allocation may be stopped before it is done: the others do not wait until the table is full.
        let is_urgent = used >= slots - slots / 8;
        if is_due && (table.claim_allocation() || is_urgent) {
            self.migrate(table, |live| table.next_bits(live));
        }
        // All stripes together may use half of the room before all of them look again; one alone, all of it.
        let share = match counts.stripes {
            0 | 1 => 1,
            many => 2 * many,
        };
        let room = table.limit().saturating_sub(used);
        let room = room.min((slots / 16).max(4)) / share;
        self.lease().local(|local| {
            local.reviewed_bits = table.bits();
            local.until_review = room;
        });
    }

    /// Begins to move `table` to one with `bits` of the number of entries, after all older ones are done with: so the chain
    /// of tables stays short.
    fn migrate(&self, table: &Table, bits: impl FnOnce(usize) -> u32) {
        while let Some(root) = self.root() {
            if std::ptr::eq(root, table) || root.next(&self.guard).is_none() {
                break;
            }
            self.finish(root);
        }
        if table.next(&self.guard).is_none() {
            let counts = self.counts();
            self.install_next(table, bits(counts.live));
        }
        self.help(table);
    }

    /// Makes room for `additional` more entries, in one go.
    ///
    /// # Panics
    /// With "capacity overflow".
    pub(crate) fn reserve(&self, additional: usize) {
        if additional == 0 {
            return;
        }
        let counts = self.counts();
        let entries = counts
            .live
            .checked_add(additional)
            .expect("capacity overflow");
        let bits = bits_for(entries);
        self.map.store.reserve(entries, &self.guard);
        match self.newest() {
            None => {
                self.map.install_root(Table::new(bits), &self.guard);
            }
            Some(table) if table.used(counts).saturating_add(additional) > table.limit() => {
                self.migrate(table, |_| bits.max(table.bits()));
            }
            Some(_) => {}
        }
        // Somebody else may have been first, with a smaller one.
        while let Some(table) = self.newest().filter(|table| table.bits() < bits) {
            self.migrate(table, |_| bits);
        }
        self.finish_all();
    }

    /// Moves to the smallest table that holds all entries, and gives back what is not in use.
    pub(crate) fn shrink_to_fit(&self) {
        self.finish_all();
        let fits = || bits_for(self.counts().live);
        if let Some(table) = self.newest().filter(|table| fits() < table.bits()) {
            self.migrate(table, bits_for);
            self.finish_all();
        }
        self.trim();
    }

    /// Finishes every migration that is going on.
    fn finish_all(&self) {
        while let Some(root) = self.root().filter(|root| root.next(&self.guard).is_some()) {
            self.finish(root);
        }
    }

    /// Moves every bucket, whatever other helpers do, and lets the next table be the root.
    fn finish<'s>(&'s self, table: &'s Table) {
        for chunk in table.buckets().chunks(64) {
            self.drive(|| self.try_move(table, chunk.iter(), |_| false));
        }
        self.promote(table);
    }

    /// Moves some buckets.
    fn help<'s>(&'s self, table: &'s Table) {
        let chunk = &table.buckets()[table.claim_chunk()];
        self.drive(|| self.try_move(table, chunk.iter(), |_| false));
        table.advance_frontier();
        if table.is_moved() {
            self.promote(table);
        }
    }

    /// Moves the path of `hash` and some more; the table in which to go on.
    #[cold]
    pub(super) fn leave<'s>(&'s self, table: &'s Table, hash: Hash) -> &'s Table {
        let next = self.next_of(table);
        self.move_path(table, hash);
        self.help(table);
        next
    }

    /// Moves every bucket of the path: from now on the next table decides about `hash`. Returns that table.
    pub(super) fn move_path<'s>(&'s self, table: &'s Table, hash: Hash) -> &'s Table {
        self.drive(|| self.try_move_path(Blocked { table, hash }));
        self.next_of(table)
    }

    /// Repeats `attempt` until it is not blocked, and moves what it was blocked by, and what that was blocked by.
    fn drive<'s>(&'s self, attempt: impl Fn() -> Result<(), Blocked<'s>>) {
        while let Err(mut blocked) = attempt() {
            // Each table is younger than the one before, and a moved path blocks nobody again: this ends.
            while let Err(deeper) = self.try_move_path(blocked) {
                blocked = deeper;
            }
        }
    }

    fn try_move_path<'s>(
        &'s self,
        Blocked { table, hash }: Blocked<'s>,
    ) -> Result<(), Blocked<'s>> {
        // Once a bucket is moved, whether it is full is settled.
        self.try_move(table, table.path(hash), |bucket| !bucket.is_full())
    }

    /// Moves bucket after bucket, until after one which is the `last`.
    fn try_move<'s>(
        &'s self,
        table: &'s Table,
        buckets: impl Iterator<Item = &'s Bucket>,
        last: impl Fn(&Bucket) -> bool,
    ) -> Result<(), Blocked<'s>> {
        let next = self.next_of(table);
        for bucket in buckets {
            self.try_move_bucket(bucket, next)?;
            if last(bucket) {
                break;
            }
        }
        Ok(())
    }

    /// Copies what is in the bucket, then closes it. Touches no node and runs no user code.
    fn try_move_bucket<'s>(&'s self, bucket: &Bucket, next: &'s Table) -> Result<(), Blocked<'s>> {
        if bucket.ctrl().is_moved() {
            return Ok(());
        }
        let mut copies = Unannounced::default();
        let copied = self.copy_all(bucket, next, &mut copies);
        copies.announce();
        copied.map(|()| bucket.close())
    }

    /// Freezes the slots and copies the live words.
    fn copy_all<'s>(
        &'s self,
        bucket: &Bucket,
        next: &'s Table,
        copies: &mut Unannounced<'s>,
    ) -> Result<(), Blocked<'s>> {
        let (mut live, mut count) = ([Word::VACANT; SLOTS], 0);
        for slot in EACH_SLOT {
            let word = bucket.freeze(slot);
            if word.is_vacant() {
                // Later slots cannot be reached: every inserter stops here.
                break;
            }
            // Without a branch: which words are live is hard to predict.
            live[count] = word;
            count += usize::from(word.is_live());
        }
        let mut live = live[..count].iter();
        live.try_for_each(|&word| self.copy(word, bucket, next, copies))
    }

    /// Sees to it that `word`, frozen in `source`, is in `dest` or a table after it, unless `source` is closed already: then
    /// it was there, and may have been changed since. (I10)
    fn copy<'s>(
        &'s self,
        word: Word,
        source: &Bucket,
        mut dest: &'s Table,
        copies: &mut Unannounced<'s>,
    ) -> Result<(), Blocked<'s>> {
        let hash = word.hash();
        let same = |met: Word| met.location() == word.location();
        loop {
            match dest.place(word, copies, same, || !source.ctrl().is_moved()) {
                Walk::Placed(place) => {
                    copies.add(place);
                    return Ok(());
                }
                Walk::Met(_) | Walk::Absent => return Ok(()),
                // Who buried a word with this hash had seen the source MOVED (I4, E6).
                Walk::Revived(_) => {
                    unreachable!("a copier meets no tombstone unless its source is closed")
                }
                Walk::Leave => {
                    let next = self.next_of(dest);
                    if !dest.path_is_moved(hash) {
                        return Err(Blocked { table: dest, hash });
                    }
                    dest = next;
                }
            }
        }
    }

    /// The next table, made now if need be: `table` is full, or moving.
    fn next_of<'s>(&'s self, table: &'s Table) -> &'s Table {
        match table.next(&self.guard) {
            Some(next) => next,
            None => self.force_next(table),
        }
    }

    /// # Panics
    /// With "capacity overflow" if the largest table is full of entries.
    #[cold]
    fn force_next<'s>(&'s self, table: &'s Table) -> &'s Table {
        let counts = self.counts();
        // Inserters that were stopped before they counted their entry may be many: look at the slots themselves, or the
        // next table is too small as well, and the one after it.
        let live = counts.live.max(table.count_live());
        let bits = table.next_bits(live);
        assert!(
            bits < Table::MAX_BITS || live < table.slots(),
            "capacity overflow"
        );
        self.install_next(table, bits)
    }

    fn install_next<'s>(&'s self, table: &'s Table, bits: u32) -> &'s Table {
        let mut next = Table::new(bits);
        // At the last moment: what comes and goes in this table afterwards is not in them.
        next.tombstones_before = self.map.stripes.fewest_tombstones(&self.guard);
        table.install(next, &self.guard)
    }

    /// Lets the root go on past `table`, every bucket of which is MOVED, and past those behind it of which that is true.
    ///
    /// If `table` is not the root yet, whoever promotes the one before goes on; should both miss each other, the next
    /// helper does it: every writer helps while the root has a next table.
    fn promote<'s>(&'s self, mut table: &'s Table) {
        while let Some(next) = table.next(&self.guard) {
            if !self.map.advance_root(table, next, &self.guard) || !next.is_moved() {
                return;
            }
            table = next;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{super::Hash, EACH_SLOT, Table};
    use crate::raw::RawMap;
    use std::{hash::BuildHasher, ptr, thread};

    fn fill(map: &RawMap<u64, u64>, keys: std::ops::Range<u64>) {
        let session = map.pin();
        for key in keys {
            session.insert(map.mix(key), key, key);
        }
    }

    /// The tables from the root to the newest one.
    fn tables(map: &RawMap<u64, u64>) -> usize {
        let session = map.pin();
        std::iter::successors(session.root(), |table| table.next(&session.guard)).count()
    }

    fn count(map: &RawMap<u64, u64>) -> usize {
        crate::raw::Iter::new(&map.pin()).count()
    }

    fn remove(map: &RawMap<u64, u64>, key: u64) {
        let removed = map
            .pin()
            .remove_if(map.mix(key), |k| *k == key, |_, _| true)
            .is_some();
        assert!(removed);
    }

    /// How many slots of the newest table are not vacant.
    fn used(map: &RawMap<u64, u64>) -> usize {
        let session = map.pin();
        let buckets = session.newest().unwrap().buckets().iter();
        let words = buckets.flat_map(|bucket| bucket.words());
        words.filter(|word| !word.is_vacant()).count()
    }

    /// How many entries an instrumented test inserts.
    const MANY: u64 = match (cfg!(miri), cfg!(debug_assertions)) {
        (true, _) => 200,
        (false, true) => 50_000,
        (false, false) => 1_000_000,
    };

    /// Inserts keys with a hash function of its own. Returns how many tables came after the first.
    fn grow(map: &RawMap<u64, u64>, keys: u64, hash: impl Fn(u64) -> u64) -> u32 {
        // Pinned throughout: a new table is never where an old one was.
        let session = map.pin();
        let newest = || session.newest().map(ptr::from_ref);
        session.insert(map.mix(hash(0)), 0, 0);
        let (mut last, mut migrations) = (newest(), 0);
        for key in 1..keys {
            map.pin().insert(map.mix(hash(key)), key, key);
            migrations += u32::from(newest() != last);
            last = newest();
        }
        assert_eq!(count(map), keys as usize);
        migrations
    }

    /// How many buckets a look-up of a present key reads, on average.
    fn mean_probe(map: &RawMap<u64, u64>) -> f64 {
        let session = map.pin();
        let table = session.newest().unwrap();
        let mut words = Vec::new();
        for bucket in table.buckets() {
            words.extend(bucket.words());
        }
        words.retain(|word| word.is_live());
        let probe = |hash: Hash| {
            let holds = |bucket: &super::Bucket| bucket.words().any(|word| word.is_live_with(hash));
            1 + table.path(hash).position(holds).unwrap()
        };
        let probes: usize = words.iter().map(|word| probe(word.hash())).sum();
        probes as f64 / words.len() as f64
    }

    #[test]
    fn growing_takes_few_migrations_and_leaves_short_probes() {
        let hasher = std::hash::RandomState::new();
        let map = RawMap::new();
        let migrations = grow(&map, MANY, |key| hasher.hash_one(key));
        let bits = map.pin().newest().unwrap().bits();
        // Two doublings at once as long as the table is small, then one by one.
        assert_eq!(migrations, if bits < 12 { bits / 2 } else { bits - 6 });
        let capacity = map.capacity() as u64;
        assert!((MANY..=4 * MANY).contains(&capacity), "{capacity}");
        assert!(mean_probe(&map) < 1.5, "{}", mean_probe(&map));
    }

    #[test]
    fn many_threads_grow_a_table_no_further_than_one() {
        const THREADS: u64 = 64;
        let hasher = std::hash::RandomState::new();
        let map = RawMap::new();
        thread::scope(|scope| {
            let insert = |thread| {
                for key in (thread..MANY).step_by(THREADS as usize) {
                    map.pin().insert(map.mix(hasher.hash_one(key)), key, key);
                }
            };
            (0..THREADS).for_each(|thread| drop(scope.spawn(move || insert(thread))));
        });
        map.pin().finish_all();
        let capacity = map.capacity() as u64;
        assert_eq!(count(&map) as u64, MANY);
        assert!((MANY..=4 * MANY).contains(&capacity), "{capacity}");
        assert!(mean_probe(&map) < 1.5, "{}", mean_probe(&map));
    }

    #[test]
    fn hashes_that_collide_take_no_more_migrations_than_others() {
        let keys = MANY / 100;
        let hashes: [fn(u64) -> u64; 4] = [|_| 7, |key| key << 48, |key| key % 16, |key| key << 20];
        for hash in hashes {
            let map = RawMap::new();
            let migrations = grow(&map, keys, hash);
            assert!(migrations <= keys.ilog2(), "{migrations} migrations");
            assert!(map.capacity() as u64 <= 4 * keys);
        }
    }

    #[test]
    fn tombstones_count_as_used_slots() {
        let map = RawMap::with_capacity(500);
        let slots = map.pin().newest().unwrap().slots();
        fill(&map, 0..200);
        for key in 1_000..1_000 + MANY / 50 {
            fill(&map, key..key + 1);
            remove(&map, key);
            let used = used(&map);
            assert!(used <= slots / 8 * 7, "{used} of {slots} slots are in use");
        }
        assert_eq!(map.pin().newest().unwrap().slots(), slots);
    }

    #[test]
    fn keys_that_come_and_go_use_no_more_slots_and_cause_no_migration() {
        let map = RawMap::with_capacity(500);
        fill(&map, 0..100);
        let session = map.pin();
        let table = session.newest().unwrap();
        for round in 0..100 {
            (0..90).for_each(|key| remove(&map, key));
            fill(&map, 0..round % 90);
            assert_eq!(table.used(session.counts()), used(&map));
            fill(&map, 0..90);
            assert_eq!(table.used(session.counts()), used(&map));
        }
        assert!(ptr::eq(session.newest().unwrap(), table));
        assert_eq!(used(&map), 100);
    }

    /// I4: its bucket was frozen by a copier who stopped, and is far from those that it helps with.
    #[test]
    fn a_writer_goes_on_in_the_next_table_after_its_path_is_moved() {
        let map = RawMap::with_capacity(5_000);
        fill(&map, 0..100);
        let session = map.pin();
        let root = session.root().unwrap();
        root.install(Table::new(root.bits()), &session.guard);
        for key in 0..100 {
            let hash = map.mix(key);
            EACH_SLOT.for_each(|slot| _ = root.home_bucket(hash).freeze(slot));
            session.insert(hash, key, key + 1);
            assert_eq!(session.find(hash, |k| *k == key), Some((&key, &(key + 1))));
        }
    }

    /// So that nobody revives the first slot for the second key.
    #[test]
    fn who_was_copied_behind_a_key_of_its_hash_is_found_there() {
        let map = RawMap::<u64, u64>::new();
        let session = map.pin();
        let hash = map.mix(7);
        (0..2).for_each(|key| _ = session.insert(hash, key, key));
        let root = session.root().unwrap();
        root.install(Table::new(0), &session.guard);
        session.move_path(root, hash);
        assert!(session.remove_if(hash, |k| *k == 0, |_, _| true).is_some());
        assert_eq!(session.insert(hash, 1, 2), Some(&1));
        assert_eq!(count(&map), 1);
    }

    /// Half of the tables are left already, the others have begun to move and were left alone.
    #[test]
    fn a_long_chain_of_tables_is_walked_on_a_small_stack() {
        let map = RawMap::with_capacity(200);
        fill(&map, 0..100);
        let session = map.pin();
        let mut chain = vec![session.root().unwrap()];
        for n in 0..64 {
            let next = chain[n].install(Table::new(chain[n].bits()), &session.guard);
            chain.push(next);
        }
        for (n, table) in chain.iter().enumerate().take(64).skip(1).rev() {
            if n % 2 == 0 {
                session.finish(table);
            } else {
                table
                    .buckets()
                    .iter()
                    .for_each(|b| _ = b.freeze(EACH_SLOT.start));
            }
        }
        session.move_path(chain[0], map.mix(7));
        assert_eq!(tables(&map), 65);
        drop(session);
        let work = move || {
            for key in 0..100 {
                assert!(map.pin().find(map.mix(key), |k| *k == key).is_some());
            }
            fill(&map, 100..200);
            (0..50).for_each(|key| remove(&map, key));
            assert_eq!((count(&map), map.len()), (150, 150));
            map.pin().finish_all();
            assert_eq!((count(&map), tables(&map)), (150, 1));
        };
        let small = thread::Builder::new().stack_size(64 << 10).spawn(work);
        small.unwrap().join().unwrap();
    }

    #[test]
    fn a_long_chain_of_tables_is_freed_on_a_small_stack() {
        let end = || {
            let map = RawMap::<u64, u64>::new();
            fill(&map, 0..5);
            let session = map.pin();
            let mut table = session.root().unwrap();
            for _ in 0..MANY / 10 {
                table = table.install(Table::new(0), &session.guard);
            }
        };
        let small = thread::Builder::new().stack_size(64 << 10).spawn(end);
        small.unwrap().join().unwrap();
    }

    #[test]
    fn a_helper_who_stops_with_a_chunk_does_not_keep_the_old_table() {
        let map = RawMap::with_capacity(10_000);
        fill(&map, 0..9_000);
        let session = map.pin();
        let root = session.root().unwrap();
        session.migrate(root, |_| root.bits() + 1);
        // It claims, and is never heard of again.
        let _ = root.claim_chunk();
        fill(&map, 9_000..20_000);
        assert!(!std::ptr::eq(root, session.root().unwrap()));
        assert!(tables(&map) <= 2);
        assert_eq!((map.len(), count(&map)), (20_000, 20_000));
    }

    #[test]
    fn a_path_is_moved_although_the_root_is_not() {
        let map = RawMap::with_capacity(10_000);
        fill(&map, 0..9_000);
        let session = map.pin();
        let root = session.root().unwrap();
        let next = root.install(Table::new(root.bits() + 1), &session.guard);
        // Chains of three: the next table moves on while most of the root has not moved.
        next.install(Table::new(root.bits()), &session.guard);
        for key in 0..9_000 {
            assert_eq!(
                session.find(map.mix(key), |k| *k == key),
                Some((&key, &key))
            );
            assert!(
                session
                    .remove_if(map.mix(key), |k| *k == key, |_, _| key % 2 == 0)
                    .is_some()
                    == (key % 2 == 0)
            );
        }
        fill(&map, 20_000..21_000);
        assert_eq!((map.len(), count(&map)), (5_500, 5_500));
        session.finish_all();
        assert_eq!((tables(&map), count(&map)), (1, 5_500));
    }

    #[test]
    fn inserters_stopped_before_they_count_do_not_make_the_next_table_too_small() {
        let map = RawMap::<u64, u64>::new();
        let session = map.pin();
        // As many as fill 28 slots, most of them not counted.
        fill(&map, 0..6);
        for key in 6..28 {
            session.place_uncounted(map.mix(key), key, key);
        }
        fill(&map, 100..200);
        assert_eq!(count(&map), 128);
        assert!(session.newest().unwrap().slots() <= 1_000);
    }

    #[test]
    fn a_deserted_table_is_left_in_steps_and_the_chain_stays_short() {
        let map = RawMap::with_capacity(200_000);
        fill(&map, 0..10);
        let mut longest = 0;
        for key in 1_000..120_000 {
            fill(&map, key..key + 1);
            remove(&map, key);
            longest = longest.max(tables(&map));
        }
        assert!(longest <= 3, "a chain of {longest} tables");
        assert!(map.capacity() < 20_000 && count(&map) == 10);
    }

    #[test]
    fn a_small_table_does_not_change_its_size_under_churn() {
        for stay in 0..4 {
            let map = RawMap::<u64, u64>::new();
            fill(&map, 0..stay);
            let mut changes = 0;
            for key in 1_000..3_000 {
                let before = map.capacity();
                fill(&map, key..key + 1);
                remove(&map, key);
                changes += usize::from(map.capacity() != before);
            }
            assert!(
                changes <= 3,
                "{changes} changes with {stay} entries that stay"
            );
        }
    }

    #[test]
    fn room_is_reserved_although_there_are_tombstones() {
        let map = RawMap::<u64, u64>::with_capacity(1_000);
        let room = map.capacity() as u64;
        // So many stay that the table is not left for a smaller one.
        fill(&map, 0..200);
        for key in 1_000..1_000 + room - 210 {
            fill(&map, key..key + 1);
            remove(&map, key);
        }
        let session = map.pin();
        session.reserve(1_000);
        let reserved = session.newest().unwrap();
        fill(&map, 10_000..11_000);
        assert!(ptr::eq(session.newest().unwrap(), reserved));
        assert_eq!(tables(&map), 1);
    }

    #[test]
    fn capacity_of_a_new_table_is_three_quarters() {
        for bits in 0..12 {
            let table = Table::new(bits);
            let limit = table.limit();
            assert!(limit * 4 <= table.slots() * 3 && (limit + 1) * 4 > table.slots() * 3);
            assert_eq!(super::bits_for(limit), bits);
        }
    }
}
