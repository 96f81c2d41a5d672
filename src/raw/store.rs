//! The slab: where keys and values live. Nodes never move; a slot word names one by its [`Location`].
//!
//! Nodes come in chunks of growing size. A chunk keeps a bitmap of its free nodes: whoever needs nodes takes a whole
//! word of it at once (a [`Run`]), so that allocation costs one atomic swap for up to 64 nodes, and a chunk whose bits can
//! all be taken is nobody's and is given back. Knows neither the table nor the epoch's bags.

use super::snapshot::Snapshot;
use crate::sync::{
    AtomicU64, AtomicUsize, MODEL, Ordering, UnsafeCell,
    epoch::{Guard, pin},
};
use std::{cmp::Reverse, mem::MaybeUninit, ptr::NonNull};

/// A node's place: chunk number (8 bits, from 1) and offset (25 bits). The values below chunk 1 are free for the slot
/// word's own marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Location(u64);

impl Location {
    pub(super) const BITS: u32 = Self::OFFSET_BITS + 8;
    const OFFSET_BITS: u32 = 25;
    const MAX_CHUNKS: usize = 255;
    const MAX_CHUNK_LEN: usize = 1 << Self::OFFSET_BITS;

    #[inline]
    fn new(chunk: usize, offset: usize) -> Self {
        debug_assert!(chunk < Self::MAX_CHUNKS && offset < Self::MAX_CHUNK_LEN);
        Self((chunk as u64 + 1) << Self::OFFSET_BITS | offset as u64)
    }

    #[inline]
    pub(super) fn from_bits(bits: u64) -> Self {
        debug_assert!(bits >> Self::OFFSET_BITS > 0 && bits >> Self::BITS == 0);
        Self(bits)
    }

    #[inline]
    pub(super) fn to_bits(self) -> u64 {
        self.0
    }

    #[inline]
    fn chunk(self) -> usize {
        (self.0 >> Self::OFFSET_BITS) as usize - 1
    }

    #[inline]
    fn offset(self) -> usize {
        self.0 as usize & (Self::MAX_CHUNK_LEN - 1)
    }
}

/// A key and its value.
pub(super) struct Pair<K, V> {
    pub(super) key: K,
    pub(super) value: V,
}

/// Room for one pair. Who may touch it in which state: `raw`, node ownership.
pub(super) struct Node<K, V>(UnsafeCell<MaybeUninit<Pair<K, V>>>);

impl<K, V> Node<K, V> {
    /// # Safety
    /// The node is free and the caller's.
    #[inline]
    pub(super) unsafe fn write(&self, key: K, value: V) {
        self.0.with_mut(|node| {
            // SAFETY: the caller is the only one who knows of the node.
            let node = unsafe { &mut *node };
            node.write(Pair { key, value });
        });
    }

    /// # Safety
    /// The node is initialised and stays so for the lifetime of the result.
    #[inline]
    pub(super) unsafe fn pair(&self) -> &Pair<K, V> {
        self.0.with(|node| {
            // SAFETY: nobody writes to an initialised node (interior mutability of the pair aside).
            let node = unsafe { &*node };
            // SAFETY: by contract.
            unsafe { node.assume_init_ref() }
        })
    }

    /// # Safety
    /// The node is initialised and the caller's alone for the lifetime of the result.
    #[expect(clippy::mut_from_ref, reason = "the caller owns the node")]
    pub(super) unsafe fn pair_mut(&self) -> &mut Pair<K, V> {
        self.0.with_mut(|node| {
            // SAFETY: by contract nobody else has a reference.
            let node = unsafe { &mut *node };
            // SAFETY: by contract.
            unsafe { node.assume_init_mut() }
        })
    }

    /// Moves the pair out.
    ///
    /// # Safety
    /// The node is initialised and the caller's alone; it is uninitialised afterwards.
    #[inline]
    pub(super) unsafe fn take(&self) -> Pair<K, V> {
        self.0.with_mut(|node| {
            // SAFETY: by contract nobody else has a reference.
            let node = unsafe { &mut *node };
            // SAFETY: initialised, and never read again.
            let pair = unsafe { node.assume_init_read() };
            poison(node);
            pair
        })
    }

    /// Drops the pair in place.
    ///
    /// # Safety
    /// As for [`Node::take`], also if the destructor panics.
    pub(super) unsafe fn drop_pair(&self) {
        self.0.with_mut(|node| {
            // SAFETY: by contract nobody else has a reference.
            let node = unsafe { &mut *node };
            // SAFETY: initialised, and never read again.
            unsafe { node.assume_init_drop() };
            poison(node);
        });
    }
}

/// Overwrites a dead pair, so that whoever still reads it reads rubbish: a slab hides such reads from the sanitizers.
#[inline]
fn poison<T>(node: &mut MaybeUninit<T>) {
    if cfg!(quince_poison) {
        // SAFETY: any bytes are a valid `MaybeUninit`.
        unsafe { std::ptr::write_bytes(node, 0xa5, 1) };
    }
}

/// A chunk's bitmap of free nodes (1 = free) and what steers the search in it.
struct FreeMap {
    len: usize,
    words: Box<[AtomicU64]>,
    /// How many bits are set: a hint which may lag, never relied on. Read by [`FreeMap::free`] only.
    free: AtomicUsize,
    /// The word at which the last search succeeded.
    hint: AtomicUsize,
}

impl FreeMap {
    /// All nodes free.
    fn new(len: usize) -> Self {
        let full = |word| AtomicU64::new(Self::full_word(len, word));
        Self {
            len,
            words: (0..len.div_ceil(64)).map(full).collect(),
            free: AtomicUsize::new(len),
            hint: AtomicUsize::new(0),
        }
    }

    fn full_word(len: usize, word: usize) -> u64 {
        match len - word * 64 {
            rest @ 0..64 => (1 << rest) - 1,
            _ => u64::MAX,
        }
    }

    /// How many bits are set, about.
    fn free(&self) -> usize {
        // Relaxed: a hint. Bits may be taken before their giver has counted them: below zero for a moment.
        let free = self.free.load(Ordering::Relaxed) as isize;
        (free.max(0) as usize).min(self.len)
    }

    /// Takes all free bits of word `word`.
    fn take(&self, word: usize) -> u64 {
        // ORDERING: E8 with `give`: the last user of the node is done with it.
        let bits = self.words[word].swap(0, Ordering::Acquire);
        // Relaxed: a hint.
        self.free
            .fetch_sub(bits.count_ones() as usize, Ordering::Relaxed);
        bits
    }

    fn give(&self, word: usize, bits: u64) {
        // ORDERING: E8: what the giver did with the nodes is over for whoever takes them.
        self.words[word].fetch_or(bits, Ordering::Release);
        // Relaxed: a hint.
        self.free
            .fetch_add(bits.count_ones() as usize, Ordering::Relaxed);
    }

    /// Takes some free bits, if a short search finds any.
    fn take_any(&self) -> Option<(usize, u64)> {
        // A chunk with few free nodes is left alone until more have come back: the search stays short.
        if self.free() == 0 || self.free() * 16 < self.len {
            return None;
        }
        // Relaxed: a hint.
        let start = self.hint.load(Ordering::Relaxed);
        (start..self.words.len()).chain(0..start).find_map(|word| {
            // Relaxed: only a look; `take` decides.
            if self.words[word].load(Ordering::Relaxed) == 0 {
                return None;
            }
            let bits = self.take(word);
            self.hint.store(word, Ordering::Relaxed);
            (bits != 0).then_some((word, bits))
        })
    }

    /// Takes every bit, or none. On success the chunk is the caller's.
    fn take_all(&self) -> bool {
        for word in 0..self.words.len() {
            let bits = self.take(word);
            if bits != Self::full_word(self.len, word) {
                self.give(word, bits);
                (0..word).for_each(|word| self.give(word, Self::full_word(self.len, word)));
                return false;
            }
        }
        true
    }
}

/// Nodes and their bitmap; both are boxes which the store owns.
struct Chunk<K, V> {
    nodes: NonNull<Node<K, V>>,
    free: NonNull<FreeMap>,
}

impl<K, V> Clone for Chunk<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Chunk<K, V> {}

impl<K, V> Chunk<K, V> {
    fn new(len: usize) -> Self {
        #[cfg(not(loom))]
        let nodes = {
            let nodes = Box::<[Node<K, V>]>::new_uninit_slice(len);
            // SAFETY: a node is a cell of `MaybeUninit`: it needs no initialisation.
            unsafe { nodes.assume_init() }
        };
        #[cfg(loom)]
        let nodes: Box<[_]> = (0..len)
            .map(|_| Node::<K, V>(UnsafeCell::new(MaybeUninit::uninit())))
            .collect();
        Self {
            nodes: NonNull::from(Box::leak(nodes)).cast(),
            free: NonNull::from(Box::leak(Box::new(FreeMap::new(len)))),
        }
    }

    #[inline]
    fn map(&self) -> &FreeMap {
        // SAFETY: the map lives as long as its chunk, which is alive while it can be found (I8).
        unsafe { self.free.as_ref() }
    }

    /// Frees the memory; pairs that are still in it are forgotten.
    ///
    /// # Safety
    /// Called once, when nobody can find the chunk any more.
    unsafe fn free(self) {
        // SAFETY: `new` leaked this box, and the caller is the last to know of it.
        let map = unsafe { Box::from_raw(self.free.as_ptr()) };
        let nodes = std::ptr::slice_from_raw_parts_mut(self.nodes.as_ptr(), map.len);
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(nodes) });
    }
}

/// Up to 64 free nodes of one chunk that belong to whoever holds the run.
#[derive(Clone, Copy, Default)]
pub(super) struct Run {
    chunk: usize,
    word: usize,
    bits: u64,
}

impl Run {
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Location> {
        if self.bits == 0 {
            return None;
        }
        let offset = self.word * 64 + self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(Location::new(self.chunk, offset))
    }
}

/// All chunks of one map.
pub(super) struct Store<K, V> {
    /// `None` where a chunk was given back; its number is used again.
    chunks: Snapshot<Option<Chunk<K, V>>>,
}

/// How many nodes there are and how many of them are free, about.
#[derive(Clone, Copy, Default)]
pub(super) struct Extent {
    pub(super) nodes: usize,
    pub(super) free: usize,
}

impl<K, V> Store<K, V> {
    /// The first chunk holds a few nodes, or one if they are large.
    const MIN_CHUNK_LEN: usize = match size_of::<Node<K, V>>() {
        0..=128 if MODEL => 2,
        0..=128 => 16,
        129..=2048 => 4,
        _ => 1,
    };

    pub(super) fn new() -> Self {
        Self {
            chunks: Snapshot::new(),
        }
    }

    /// The node at `location`.
    ///
    /// # Safety
    /// `location` came from this store, and its chunk is not given back while `guard` is held.
    #[inline]
    pub(super) unsafe fn node<'g>(
        &'g self,
        location: Location,
        guard: &'g Guard,
    ) -> &'g Node<K, V> {
        let chunks = self.chunks.load(guard);
        debug_assert!(chunks.get(location.chunk()).is_some_and(Option::is_some));
        // SAFETY: the location was handed out after its chunk was entered, which this thread has seen (E1, E7).
        let chunk = unsafe { chunks.get_unchecked(location.chunk()) };
        // SAFETY: the chunk is still there.
        let chunk = unsafe { chunk.unwrap_unchecked() };
        // SAFETY: offsets lie within their chunk.
        let node = unsafe { chunk.nodes.add(location.offset()) };
        // SAFETY: the node is part of a live allocation, and nobody makes a `&mut Node`.
        unsafe { &*node.as_ptr() }
    }

    /// Some free nodes, from a new chunk if need be.
    ///
    /// # Panics
    /// With "capacity overflow" when there are about 2^32 nodes already.
    pub(super) fn take_run(&self, guard: &Guard) -> Run {
        loop {
            let found = self.each_chunk(guard).find_map(|(chunk, it)| {
                it.map()
                    .take_any()
                    .map(|(word, bits)| Run { chunk, word, bits })
            });
            match found {
                Some(run) => return run,
                None => self.grow(self.extent(guard).nodes / 4, guard),
            }
        }
    }

    pub(super) fn give_run(&self, run: Run, guard: &Guard) {
        if run.bits != 0 {
            self.chunk(run.chunk, guard).map().give(run.word, run.bits);
        }
    }

    /// Makes `location` free for everybody. The node must not be initialised.
    pub(super) fn give(&self, location: Location, guard: &Guard) {
        let (word, bit) = (location.offset() / 64, location.offset() % 64);
        self.chunk(location.chunk(), guard)
            .map()
            .give(word, 1 << bit);
    }

    /// Makes room for `nodes` nodes in all.
    pub(super) fn reserve(&self, nodes: usize, guard: &Guard) {
        loop {
            let missing = nodes.saturating_sub(self.extent(guard).nodes);
            if missing == 0 {
                return;
            }
            // Not less than usual: chunk numbers are few.
            self.grow(missing.max(self.extent(guard).nodes / 4), guard);
        }
    }

    pub(super) fn extent(&self, guard: &Guard) -> Extent {
        self.each_chunk(guard)
            .fold(Extent::default(), |sum, (_, chunk)| Extent {
                nodes: sum.nodes + chunk.map().len,
                free: sum.free + chunk.map().free(),
            })
    }

    /// Gives unused chunks back, the largest first, but for `keep` nodes and a quarter more than what is in use, about.
    pub(super) fn trim(&self, keep: usize, guard: &Guard) {
        let mut chunks: Vec<_> = self.each_chunk(guard).collect();
        chunks.sort_by_key(|(_, chunk)| Reverse(chunk.map().len));
        for (number, chunk) in chunks {
            let Extent { nodes, free } = self.extent(guard);
            let used = nodes - free;
            let needed = keep.max(used + used / 4);
            let map = chunk.map();
            // A chunk that is far too large for what is left goes, too: smaller ones will be made.
            let is_spare = nodes >= needed + map.len || nodes > 4 * needed;
            if map.free() < map.len || !is_spare || !map.take_all() {
                continue;
            }
            self.edit(guard, |chunks| chunks[number] = None);
            // SAFETY: all its nodes were free and are now this thread's, and it is no longer entered.
            let free = move || unsafe { chunk.free() };
            // SAFETY: whoever found the chunk before is pinned. No pair is in it, so the map need not be alive.
            unsafe { guard.defer_unchecked(free) };
        }
    }

    /// Every node that is neither free nor held in a run: exactly the initialised ones, once all runs were given back
    /// (I6). Exclusive access.
    pub(super) fn occupied(&mut self) -> Occupied<K, V> {
        let guard = pin();
        Occupied {
            chunks: self.chunks.load(&guard).to_vec(),
            chunk: 0,
            word: 0,
            bits: 0,
        }
    }

    fn each_chunk<'g>(
        &'g self,
        guard: &'g Guard,
    ) -> impl Iterator<Item = (usize, Chunk<K, V>)> + 'g {
        let chunks = self.chunks.load(guard);
        (0..chunks.len()).filter_map(move |number| Some((number, chunks[number]?)))
    }

    fn chunk(&self, number: usize, guard: &Guard) -> Chunk<K, V> {
        self.chunks.load(guard)[number].expect("a chunk with nodes in use stays entered")
    }

    /// Adds a chunk of about `len` nodes.
    #[cold]
    fn grow(&self, len: usize, guard: &Guard) {
        let entered = self.each_chunk(guard).count();
        assert!(entered < Location::MAX_CHUNKS, "capacity overflow");
        let len = len.clamp(Self::MIN_CHUNK_LEN, Location::MAX_CHUNK_LEN);
        let chunk = Chunk::new(if len > 64 {
            len.next_multiple_of(64)
        } else {
            len
        });
        let entered = self.try_edit(guard, |chunks| {
            match chunks.iter().position(Option::is_none) {
                Some(unused) => chunks[unused] = Some(chunk),
                None => {
                    // Others may have entered theirs since.
                    assert!(chunks.len() < Location::MAX_CHUNKS, "capacity overflow");
                    chunks.push(Some(chunk));
                }
            }
        });
        if !entered {
            // Another thread grew the store: look there first.
            // SAFETY: the chunk was never entered.
            unsafe { chunk.free() };
        }
    }

    fn edit(&self, guard: &Guard, change: impl Fn(&mut Vec<Option<Chunk<K, V>>>)) {
        while !self.try_edit(guard, &change) {}
    }

    fn try_edit(&self, guard: &Guard, change: impl Fn(&mut Vec<Option<Chunk<K, V>>>)) -> bool {
        let old = self.chunks.load(guard);
        let mut new = Vec::with_capacity(old.len() + 1);
        new.extend_from_slice(&old);
        change(&mut new);
        self.chunks.try_replace(old, new, guard)
    }
}

impl<K, V> Drop for Store<K, V> {
    fn drop(&mut self) {
        for chunk in self.chunks.take().into_iter().flatten() {
            // SAFETY: the store owns its chunks, and nobody else is left.
            unsafe { chunk.free() };
        }
    }
}

/// The chunks of a store as they were, and a position in them: yields the nodes in use, in memory order. Valid while the
/// store is neither changed nor dropped.
pub(super) struct Occupied<K, V> {
    chunks: Vec<Option<Chunk<K, V>>>,
    chunk: usize,
    word: usize,
    /// Nodes in use of word `word - 1` which were not yielded.
    bits: u64,
}

impl<K, V> Iterator for Occupied<K, V> {
    type Item = NonNull<Node<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.bits == 0 {
            let chunk = self.chunks.get(self.chunk)?;
            let map = chunk.as_ref().map(Chunk::map);
            match map.filter(|map| self.word < map.words.len()) {
                Some(map) => {
                    // Relaxed: exclusive access.
                    let free = map.words[self.word].load(Ordering::Relaxed);
                    self.bits = FreeMap::full_word(map.len, self.word) & !free;
                    self.word += 1;
                }
                None => (self.chunk, self.word) = (self.chunk + 1, 0),
            }
        }
        let offset = (self.word - 1) * 64 + self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        // SAFETY: offsets lie within their chunk.
        self.chunks[self.chunk].map(|chunk| unsafe { chunk.nodes.add(offset) })
    }
}
