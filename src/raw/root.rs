//! The engine's two types: the map, and a session in which one thread uses it.

use super::{
    bucket::Word,
    reclaim::{Contained, Freeing, Garbage},
    store::{Extent, Location, Node, Pair, Store},
    stripe::{Counts, Lease, Local, Stripes},
    table::Table,
    tag::Hash,
};
use crate::sync::{
    AtomicPtr, INSTANT, MODEL, Ordering,
    epoch::{self, Guard},
    prefetch, random_odd, repin,
};
use std::{cell::OnceCell, marker::PhantomData, ptr};

/// The map without its hasher. An empty one owns no memory.
pub(crate) struct RawMap<K, V> {
    root: AtomicPtr<Table>,
    pub(super) store: Store<K, V>,
    pub(super) stripes: Stripes,
    /// See [`Hash::mix`].
    seed: u64,
    /// Neither `K` nor `V` may be exchanged for a sub- or supertype, and `Send` and `Sync` are decided below.
    pairs: PhantomData<*mut (K, V)>,
}

// SAFETY: the map owns its pairs, and whoever has the map alone may drop them: they must be `Send`. Everything else in it
// is plain memory.
unsafe impl<K: Send, V: Send> Send for RawMap<K, V> {}

// SAFETY: a shared map lends `&K` and `&V` to every thread, and any thread may come to drop a pair that another one
// inserted: both must be `Send` and `Sync`.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for RawMap<K, V> {}

impl<K, V> RawMap<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            root: AtomicPtr::new(ptr::null_mut()),
            store: Store::new(),
            stripes: Stripes::new(),
            seed: random_odd(),
            pairs: PhantomData,
        }
    }

    /// # Panics
    /// With "capacity overflow" if `capacity` entries are more than a table can hold.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let map = Self::new();
        map.pin().reserve(capacity);
        map
    }

    #[inline]
    pub(crate) fn mix(&self, user_hash: u64) -> Hash {
        Hash::mix(user_hash, self.seed)
    }

    #[inline]
    pub(crate) fn pin(&self) -> Session<'_, K, V> {
        Session {
            map: self,
            lease: OnceCell::new(),
            guard: epoch::pin(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.pin().counts().live
    }

    /// How many entries fit before the next migration, if none is removed.
    pub(crate) fn capacity(&self) -> usize {
        self.pin().capacity()
    }

    pub(crate) fn flush(&self) {
        self.pin().flush();
    }

    /// The oldest table which is not completely moved.
    #[inline]
    pub(super) fn root<'g>(&'g self, _guard: &'g Guard) -> Option<&'g Table> {
        // ORDERING: E5 with `install_root` and `advance_root`. E0: null is an answer.
        let root = self.root.load(INSTANT.0);
        // SAFETY: a table found under a guard stays allocated until the guard ends (I8).
        unsafe { root.as_ref() }
    }

    /// M0: the first table, unless there is one: then that one.
    pub(super) fn install_root<'g>(&'g self, first: Box<Table>, guard: &'g Guard) -> &'g Table {
        if let Some(root) = self.root(guard) {
            return root;
        }
        let first = Box::into_raw(first);
        // ORDERING: E5: who sees the table sees its buckets. The failure reads another thread's table. E0.
        let installed = self
            .root
            .compare_exchange(ptr::null_mut(), first, INSTANT.1, INSTANT.0);
        let current = installed.err().unwrap_or(first);
        if current != first {
            // SAFETY: `first` came from a box, and nobody else has seen it.
            drop(unsafe { Box::from_raw(first) });
        }
        // SAFETY: as in `root`.
        unsafe { &*current }
    }

    /// M3: the root goes from `old` to `next`, its next table, and `old` is retired. Every bucket of `old` is MOVED.
    /// Whether this call did it.
    pub(super) fn advance_root(&self, old: &Table, next: &Table, guard: &Guard) -> bool {
        /// 64 KiB.
        const LARGE: usize = 1024;
        let is_large = old.buckets().len() >= LARGE;
        let old = ptr::from_ref(old).cast_mut();
        let next = ptr::from_ref(next).cast_mut();
        // ORDERING: E5: who sees the new root sees all that the old one's copiers left there. A failure looks at nothing.
        let advanced = self
            .root
            .compare_exchange(old, next, Ordering::Release, Ordering::Relaxed);
        if advanced.is_ok() {
            // SAFETY: `old` came from a box, and nobody who pins from now on can find it: only the root led there.
            let free = move || unsafe { drop(Box::from_raw(old)) };
            // SAFETY: a table holds no key and no value, so the map need not be alive when it is freed.
            unsafe { guard.defer_unchecked(free) };
            if is_large {
                // Not left to wait for more of the thread's garbage.
                guard.flush();
            }
        }
        advanced.is_ok()
    }

    /// Takes all tables out, with exclusive access.
    pub(super) fn free_tables(&mut self) {
        // Relaxed: exclusive access.
        let root = self.root.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the map owns the chain, and nobody else is left.
        unsafe { Table::free_chain(root) };
    }
}

/// A pinned epoch and, from the first write on, a stripe. What it lends is bounded by its borrow. Neither `Send` nor
/// `Sync`, as its guard is not.
pub(crate) struct Session<'m, K, V> {
    pub(super) map: &'m RawMap<K, V>,
    lease: OnceCell<Lease>,
    // Last: the stripe goes back while the epoch is still pinned.
    pub(super) guard: Guard,
}

impl<'m, K, V> Session<'m, K, V> {
    /// How many retired nodes make a bag: few if they are large.
    const BAG: usize = match 32 * 1024 / (size_of::<Pair<K, V>>() + 1) {
        _ if MODEL => 2,
        0..8 => 8,
        many @ 8..128 => many,
        _ => 128,
    };

    #[inline]
    pub(super) fn lease(&self) -> &Lease {
        self.lease
            .get_or_init(|| self.map.stripes.lease(&self.guard))
    }

    #[inline]
    pub(super) fn root(&self) -> Option<&Table> {
        self.map.root(&self.guard)
    }

    /// The table that no other one follows.
    pub(super) fn newest(&self) -> Option<&Table> {
        let mut table = self.root()?;
        while let Some(next) = table.next(&self.guard) {
            table = next;
        }
        Some(table)
    }

    pub(super) fn counts(&self) -> Counts {
        self.map.stripes.counts(&self.guard)
    }

    /// The entry of a live word.
    ///
    /// # Safety
    /// `word` was seen live in a bucket whose control word, loaded before by this session, was not MOVED (I8).
    #[inline]
    pub(super) unsafe fn pair(&self, word: Word) -> &Pair<K, V> {
        // SAFETY: I8, also for the next one.
        let node = unsafe { self.map.store.node(word.location(), &self.guard) };
        // SAFETY: a node in a table is initialised.
        unsafe { node.pair() }
    }

    /// Asks for the memory of a live word's entry.
    ///
    /// # Safety
    /// As for [`Session::pair`].
    #[inline]
    pub(super) unsafe fn prefetch(&self, word: Word) {
        // SAFETY: I8.
        let node = unsafe { self.map.store.node(word.location(), &self.guard) };
        prefetch(node);
    }

    /// Writes a pair into a node that nobody else knows.
    #[inline]
    pub(super) fn draft(&self, key: K, value: V) -> Draft<'_, 'm, K, V> {
        let location = self.allocate();
        // SAFETY: a free node's chunk stays.
        let node = unsafe { self.map.store.node(location, &self.guard) };
        // SAFETY: the node is free, and was just given to this session alone.
        unsafe { node.write(key, value) };
        Draft {
            session: self,
            location,
            node,
        }
    }

    #[inline]
    fn allocate(&self) -> Location {
        match self.lease().local(Local::pop_free) {
            Some(node) => node,
            None => self.allocate_slow(),
        }
    }

    #[cold]
    fn allocate_slow(&self) -> Location {
        loop {
            // Memory that was touched before is cheaper than fresh memory.
            if !self.collect() {
                let run = self.map.store.take_run(&self.guard);
                let before = self
                    .lease()
                    .local(|local| std::mem::replace(&mut local.run, run));
                self.map.store.give_run(before, &self.guard);
            }
            if let Some(node) = self.lease().local(Local::pop_free) {
                return node;
            }
        }
    }

    /// Makes an uninitialised node free.
    fn release(&self, node: Location) {
        let kept = self.lease().local(|local| {
            let keep = local.free.len() < Local::MAX_FREE;
            if keep {
                local.free.push(node);
            }
            keep
        });
        if !kept {
            self.map.store.give(node, &self.guard);
        }
    }

    /// Retires a node which was just unlinked: it is dropped after its grace period.
    #[inline]
    pub(super) fn retire(&self, word: Word) {
        let in_bag = self
            .lease()
            .local(|local| local.garbage.push(word.location()));
        if in_bag >= Self::BAG {
            self.turn_over();
        }
    }

    /// Seals the bag, frees ripe ones, and sees to it that what another stripe was left with is freed, too.
    #[cold]
    fn turn_over(&self) {
        let left_behind = self.map.stripes.each_free(&self.guard).find_map(|lease| {
            lease.local(|local| {
                let has_garbage = !local.garbage.is_empty();
                has_garbage.then(|| std::mem::take(&mut local.garbage))
            })
        });
        self.seal(left_behind);
        self.collect();
    }

    /// Seals this session's open bag together with `more`. Whether there was anything in it.
    fn seal(&self, more: impl IntoIterator<Item = Garbage>) -> bool {
        let sealed = self.lease().local(|local| {
            more.into_iter()
                .for_each(|garbage| local.garbage.absorb(garbage));
            local.garbage.seal(&self.guard)
        });
        self.guard.flush();
        sealed
    }

    /// Frees every ripe bag of this session. Whether there was one.
    // PANIC: destructors of keys and values; contained one by one. Nothing is held: they may use the map.
    fn collect(&self) -> bool {
        let Some(_freeing) = Freeing::begin() else {
            return false;
        };
        let mut any = false;
        while let Some(nodes) = self.lease().local(|local| local.garbage.pop_ripe()) {
            any = true;
            let mut contained = Contained::default();
            for location in nodes {
                // SAFETY: a retired node's chunk stays.
                let node = unsafe { self.map.store.node(location, &self.guard) };
                // SAFETY: retired once, and its grace period is over: the node is this session's (I7).
                contained.run(|| unsafe { node.drop_pair() });
                self.release(location);
            }
            contained.swallow();
        }
        if any && self.is_sparse() {
            self.trim();
        }
        any
    }

    /// Whether most nodes are unused, and there are more than the table needs.
    fn is_sparse(&self) -> bool {
        let Extent { nodes, free } = self.map.store.extent(&self.guard);
        free > nodes / 4 * 3 && nodes > 2 * self.capacity().max(128)
    }

    /// Entries that fit before the next migration.
    pub(super) fn capacity(&self) -> usize {
        self.newest().map_or(0, Table::limit)
    }

    /// Gives back what is not in use, but for as many nodes as the table has room for.
    pub(super) fn trim(&self) {
        self.give_nodes_back(self.lease());
        self.map.store.trim(self.capacity(), &self.guard);
    }

    /// Free nodes in a stripe keep their chunks from being given back.
    fn give_nodes_back(&self, lease: &Lease) {
        let (run, free) = lease.local(|local| {
            (
                std::mem::take(&mut local.run),
                std::mem::take(&mut local.free),
            )
        });
        self.map.store.give_run(run, &self.guard);
        free.into_iter()
            .for_each(|node| self.map.store.give(node, &self.guard));
    }

    pub(crate) fn repin(&mut self) {
        repin(&mut self.guard);
    }

    /// Frees all that was retired, of every stripe which nobody holds, if no other thread stays pinned for long; and
    /// unused memory.
    // `&mut`: nothing lent by this session is alive, so it may repin.
    pub(crate) fn flush(&mut self) {
        /// Rounds without a ripe bag after which somebody must be pinned. Two advance the epoch far enough; the others
        /// work through what the rest of the process has deferred, eight of the collector's bags a round.
        const PATIENCE: u32 = if MODEL { 4 } else { 4096 };
        /// How often destructors may retire something more that is then freed, too.
        const GENERATIONS: u32 = 64;
        let (mut idle, mut generations) = (0, 0);
        while idle < PATIENCE {
            if generations < GENERATIONS {
                generations += u32::from(self.gather());
            }
            if self.lease().local(|local| local.garbage.is_empty()) {
                break;
            }
            self.repin();
            self.guard.flush();
            idle = if self.collect() { 0 } else { idle + 1 };
        }
        self.trim();
    }

    /// Takes over the garbage of every stripe that nobody holds, and seals it. Whether there was any.
    fn gather(&self) -> bool {
        let mut left_behind = Vec::new();
        for lease in self.map.stripes.each_free(&self.guard) {
            left_behind.push(lease.local(|local| std::mem::take(&mut local.garbage)));
            self.give_nodes_back(&lease);
        }
        self.seal(left_behind)
    }
}

impl<K, V> Drop for Session<'_, K, V> {
    // Also keeps a session from being dropped after its map: the lease by itself has no lifetime.
    fn drop(&mut self) {
        self.lease.take();
    }
}

/// A pair in a node which is not in the table yet.
pub(super) struct Draft<'s, 'm, K, V> {
    session: &'s Session<'m, K, V>,
    location: Location,
    node: &'s Node<K, V>,
}

impl<'s, K, V> Draft<'s, '_, K, V> {
    #[inline]
    pub(super) fn word(&self, hash: Hash) -> Word {
        Word::live(hash, self.location)
    }

    #[inline]
    pub(super) fn key(&self) -> &K {
        // SAFETY: `draft` wrote the pair, and it is there until `self` is gone.
        unsafe { &self.node.pair().key }
    }

    /// The table has it now.
    #[inline]
    pub(super) fn published(self) -> &'s Pair<K, V> {
        let node = self.node;
        std::mem::forget(self);
        // SAFETY: a node in the table stays initialised while the session is pinned (I8).
        unsafe { node.pair() }
    }

    /// Takes the pair back.
    pub(super) fn take_back(self) -> Pair<K, V> {
        let pair = self.withdraw();
        std::mem::forget(self);
        pair
    }

    fn withdraw(&self) -> Pair<K, V> {
        // SAFETY: never published, so nobody else knows the node; and both callers end `self` right away.
        let pair = unsafe { self.node.take() };
        self.session.release(self.location);
        pair
    }
}

impl<K, V> Drop for Draft<'_, '_, K, V> {
    fn drop(&mut self) {
        // PANIC: the pair's destructors run last.
        drop(self.withdraw());
    }
}
