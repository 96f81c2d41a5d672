//! [`CountedMap`]: entries that live as long as somebody holds them.
//!
//! "Remove the entry when its last user is gone" is not one step: between the look at the count and the removal somebody may
//! have found the entry and counted itself in, and goes on with an entry nobody else will find. The protocol that is right:
//!
//! ```text
//!  members   n --enter--> n + 1      n --leave--> n - 1      0 --close--> CLOSED, for ever
//! ```
//!
//! * who finds a CLOSED entry removes **that very entry**, and looks again;
//! * who leaves last closes; who has closed removes that very entry.
//!
//! So an entry that can still be entered is in the map, there is at most one such entry per key, and a successor is never
//! removed in place of its predecessor.
#![forbid(unsafe_code)]

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use equivalent::Equivalent;

use crate::HashMap;
use crate::sync::{AtomicUsize, Ordering};

/// A concurrent map whose entries exist as long as somebody is a [`Member`] of them.
///
/// [`join`](Self::join) inserts or gets a key's value and counts the caller in; dropping the [`Member`] counts it out, and the
/// last to leave removes the entry. That is what rooms of a server, per-key locks, limits per client and lists of waiters
/// need, and what is hard to get right with a count beside the value: with this map nobody ever joins an entry that is
/// being removed, and nobody removes an entry that has been joined.
///
/// ```
/// use quince::CountedMap;
/// use std::sync::Mutex;
///
/// // A lock per account, which exists as long as somebody uses it.
/// let locks: CountedMap<&str, Mutex<()>> = CountedMap::new();
/// {
///     let lock = locks.join("alice", Mutex::default);
///     let _transfer = lock.lock().unwrap();
///     assert_eq!(locks.len(), 1);
/// }
/// assert!(locks.is_empty());
/// ```
///
/// Operations are lock-free and cost what those of [`HashMap`] cost, and an allocation for each entry.
///
/// # Keys that come and go all the time
///
/// A hot key whose last member leaves a moment before the next one joins is inserted and removed each time. A map made by
/// [`keeping_idle`](Self::keeping_idle) keeps entries without members, for [`sweep`](Self::sweep) to remove now and then.
pub struct CountedMap<K, V, S = RandomState> {
    entries: HashMap<Entry<K, V>, (), S>,
    keeps_idle: bool,
}

/// A share of an entry, entered under its own key.
struct Entry<K, V>(Arc<Counted<K, V>>);

struct Counted<K, V> {
    key: K,
    value: V,
    members: AtomicUsize,
}

/// Why an entry could not be entered.
enum Refused {
    Full,
    Closed,
}

impl<K, V> Counted<K, V> {
    const CLOSED: usize = usize::MAX;

    /// n -> n + 1, if fewer than `limit` are in.
    fn enter(&self, limit: usize) -> Result<(), Refused> {
        // Relaxed: a guess, which the exchange checks.
        let mut members = self.members.load(Ordering::Relaxed);
        loop {
            if members == Self::CLOSED {
                return Err(Refused::Closed);
            }
            if members >= limit.min(Self::CLOSED - 1) {
                return Err(Refused::Full);
            }
            // ORDERING: acquire, with `leave`: who comes in sees what those did who have left.
            let entered = self.members.compare_exchange(
                members,
                members + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match entered {
                Ok(_) => return Ok(()),
                Err(now) => members = now,
            }
        }
    }

    /// n -> n - 1. Whether the caller was the last.
    fn leave(&self) -> bool {
        // ORDERING: release, with `enter` and `close`.
        self.members.fetch_sub(1, Ordering::Release) == 1
    }

    fn is_closed(&self) -> bool {
        // ORDERING: acquire, with `leave`: the members are done with the value.
        self.members.load(Ordering::Acquire) == Self::CLOSED
    }

    /// 0 -> CLOSED. Whether this call did it.
    fn close(&self) -> bool {
        // ORDERING: acquire, with `leave`: the members are done with the value.
        let closed =
            self.members
                .compare_exchange(0, Self::CLOSED, Ordering::Acquire, Ordering::Relaxed);
        closed.is_ok()
    }

    fn count(&self) -> usize {
        // Relaxed: a number that was right a moment ago.
        match self.members.load(Ordering::Relaxed) {
            Self::CLOSED => 0,
            members => members,
        }
    }
}

impl<K: Hash, V> Hash for Entry<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl<K: PartialEq, V> PartialEq for Entry<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl<K: Eq, V> Eq for Entry<K, V> {}

/// A key to look an entry up by.
struct By<'q, Q: ?Sized>(&'q Q);

impl<Q: ?Sized + Hash> Hash for By<'_, Q> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<K, V, Q: ?Sized + Equivalent<K>> Equivalent<Entry<K, V>> for By<'_, Q> {
    fn equivalent(&self, entry: &Entry<K, V>) -> bool {
        self.0.equivalent(&entry.0.key)
    }
}

impl<K, V> CountedMap<K, V> {
    /// An empty map that has not allocated, with a randomly seeded hasher.
    ///
    /// ```
    /// let rooms: quince::CountedMap<String, Vec<u8>> = quince::CountedMap::new();
    /// assert!(rooms.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(RandomState::new())
    }
}

impl<K, V, S> CountedMap<K, V, S> {
    /// An empty map that has not allocated and hashes with `hash_builder`.
    ///
    /// ```
    /// use std::hash::RandomState;
    ///
    /// let rooms = quince::CountedMap::with_hasher(RandomState::new());
    /// let lobby = rooms.join("lobby", || 0);
    /// ```
    #[must_use]
    pub fn with_hasher(hash_builder: S) -> Self {
        Self {
            entries: HashMap::with_hasher(hash_builder),
            keeps_idle: false,
        }
    }

    /// The same map, but an entry whose last member leaves stays until the next [`sweep`](Self::sweep).
    ///
    /// ```
    /// let rooms = quince::CountedMap::new().keeping_idle();
    /// drop(rooms.join("lobby", || 7));
    /// assert_eq!(*rooms.join("lobby", || 8), 7);
    /// assert_eq!(rooms.sweep(), 1);
    /// assert!(rooms.is_empty());
    /// ```
    #[must_use]
    pub fn keeping_idle(mut self) -> Self {
        self.keeps_idle = true;
        self
    }

    /// How many entries there are: exact while nobody joins or leaves.
    ///
    /// ```
    /// let rooms = quince::CountedMap::new();
    /// let (first, second) = (rooms.join("lobby", || ()), rooms.join("lobby", || ()));
    /// assert_eq!(rooms.len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry. Never `true` while somebody is a member.
    ///
    /// ```
    /// assert!(quince::CountedMap::<&str, ()>::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// As [`HashMap::flush`]: drops the values of entries that are gone.
    ///
    /// ```
    /// let rooms = quince::CountedMap::new();
    /// drop(rooms.join("lobby", || vec![0; 1000]));
    /// rooms.flush(); // drops the vector
    /// ```
    pub fn flush(&self) {
        self.entries.flush();
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> CountedMap<K, V, S> {
    /// Becomes a member of `key`'s entry, which is made if there is none.
    ///
    /// `make` runs at most once, with nothing held; if another caller is first, its result is dropped.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    ///
    /// let rooms = quince::CountedMap::new();
    /// let lobby = rooms.join("lobby", AtomicU32::default);
    /// lobby.fetch_add(1, Relaxed);
    /// assert_eq!(rooms.join("lobby", AtomicU32::default).load(Relaxed), 1);
    /// ```
    pub fn join(&self, key: K, make: impl FnOnce() -> V) -> Member<K, V, S, &Self> {
        Member::join(self, key, make)
    }

    /// As [`join`](Self::join), unless the entry has `limit` members already.
    ///
    /// ```
    /// let connections = quince::CountedMap::new();
    /// let first = connections.try_join("10.0.0.1", 1, || ());
    /// assert!(connections.try_join("10.0.0.1", 1, || ()).is_none());
    /// drop(first);
    /// assert!(connections.try_join("10.0.0.1", 1, || ()).is_some());
    /// ```
    pub fn try_join(
        &self,
        key: K,
        limit: usize,
        make: impl FnOnce() -> V,
    ) -> Option<Member<K, V, S, &Self>> {
        Member::try_join(self, key, limit, make)
    }

    /// As [`join`](Self::join) for a member that owns a share of the map: for tasks and threads that are `'static`.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let rooms = Arc::new(quince::CountedMap::new());
    /// let lobby = rooms.join_owned("lobby", || 7);
    /// std::thread::spawn(move || assert_eq!(*lobby, 7)).join().unwrap();
    /// ```
    pub fn join_owned(self: &Arc<Self>, key: K, make: impl FnOnce() -> V) -> Member<K, V, S> {
        Member::join(Arc::clone(self), key, make)
    }

    /// As [`try_join`](Self::try_join) for a member that owns a share of the map.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let connections = Arc::new(quince::CountedMap::new());
    /// let first = connections.try_join_owned("10.0.0.1", 1, || ());
    /// assert!(connections.try_join_owned("10.0.0.1", 1, || ()).is_none());
    /// ```
    pub fn try_join_owned(
        self: &Arc<Self>,
        key: K,
        limit: usize,
        make: impl FnOnce() -> V,
    ) -> Option<Member<K, V, S>> {
        Member::try_join(Arc::clone(self), key, limit, make)
    }

    /// Becomes a member of `key`'s entry, if there is one.
    ///
    /// ```
    /// let rooms = quince::CountedMap::new();
    /// assert!(rooms.get("lobby").is_none());
    /// let lobby = rooms.join("lobby", || 7);
    /// assert_eq!(rooms.get("lobby").as_deref(), Some(&7));
    /// ```
    pub fn get<Q>(&self, key: &Q) -> Option<Member<K, V, S, &Self>>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        match self.enter(&By(key), usize::MAX) {
            Entered::In(entry) => Some(Member { map: self, entry }),
            Entered::Full | Entered::Absent => None,
        }
    }

    /// How many members `key`'s entry has; 0 if there is none.
    ///
    /// ```
    /// let rooms = quince::CountedMap::new();
    /// let lobby = (rooms.join("lobby", || ()), rooms.join("lobby", || ()));
    /// assert_eq!((rooms.count("lobby"), rooms.count("attic")), (2, 0));
    /// ```
    pub fn count<Q>(&self, key: &Q) -> usize
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        let pinned = self.entries.pin();
        let entry = pinned.get_key_value(&By(key));
        entry.map_or(0, |(entry, ())| entry.0.count())
    }

    /// Removes the entries that have no members, and says how many those were. O(capacity).
    ///
    /// ```
    /// let rooms = quince::CountedMap::new().keeping_idle();
    /// let lobby = rooms.join("lobby", || ());
    /// drop(rooms.join("attic", || ()));
    /// assert_eq!((rooms.sweep(), rooms.len()), (1, 1));
    /// ```
    pub fn sweep(&self) -> usize {
        let mut swept = 0;
        self.entries.retain(|entry, ()| {
            swept += usize::from(entry.0.close());
            // Asked again, it says the same; and whose owner could not remove it goes, too.
            !entry.0.is_closed()
        });
        swept
    }

    /// Enters the entry, if there is one that can be entered; removes one that cannot.
    fn enter<Q>(&self, key: &By<'_, Q>, limit: usize) -> Entered<K, V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        let pinned = self.entries.pin();
        while let Some((Entry(found), ())) = pinned.get_key_value(key) {
            match found.enter(limit) {
                Ok(()) => return Entered::In(Arc::clone(found)),
                Err(Refused::Full) => return Entered::Full,
                Err(Refused::Closed) => self.unlink(key, found),
            }
        }
        Entered::Absent
    }

    /// Removes this very entry, which was found by `key`.
    fn unlink<Q>(&self, key: &By<'_, Q>, entry: &Arc<Counted<K, V>>)
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        let pinned = self.entries.pin();
        pinned.remove_if(key, |found, ()| Arc::ptr_eq(&found.0, entry));
    }
}

/// How an attempt to enter went.
enum Entered<K, V> {
    In(Arc<Counted<K, V>>),
    Full,
    Absent,
}

/// Whoever holds it belongs to an entry of a [`CountedMap`], and keeps it there. Dereferences to the value.
///
/// `M` is how it holds the map: as a reference, or as an `Arc` if it is owned.
///
/// ```
/// let rooms = quince::CountedMap::new();
/// let lobby = rooms.join("lobby", || 7);
/// let other = lobby.clone();
/// assert_eq!((*lobby, lobby.key(), other.count()), (7, &"lobby", 2));
/// ```
#[must_use = "the entry is left again at once"]
pub struct Member<K, V, S = RandomState, M = Arc<CountedMap<K, V, S>>>
where
    K: Hash + Eq,
    S: BuildHasher,
    M: Deref<Target = CountedMap<K, V, S>>,
{
    map: M,
    entry: Arc<Counted<K, V>>,
}

impl<K, V, S, M> Member<K, V, S, M>
where
    K: Hash + Eq,
    S: BuildHasher,
    M: Deref<Target = CountedMap<K, V, S>>,
{
    fn join(map: M, key: K, make: impl FnOnce() -> V) -> Self {
        let member = Self::try_join(map, key, usize::MAX, make);
        member.expect("fewer members than addresses")
    }

    // PANIC: `make`, `Hash` and `Eq`; nothing was entered. And the destructors of what is not needed: they run while the member
    // is a local one, as a result on its way out would be leaked, and stay a member for ever.
    fn try_join(map: M, key: K, limit: usize, make: impl FnOnce() -> V) -> Option<Self> {
        if limit == 0 {
            return None;
        }
        let own = match map.enter(&By(&key), limit) {
            Entered::In(entry) => {
                let member = Self { map, entry };
                drop((key, make));
                return Some(member);
            }
            Entered::Full => return None,
            Entered::Absent => Arc::new(Counted {
                value: make(),
                key,
                members: AtomicUsize::new(1),
            }),
        };
        loop {
            let entry = Entry(Arc::clone(&own));
            if map.entries.pin().try_insert(entry, ()).is_ok() {
                return Some(Self { map, entry: own });
            }
            match map.enter(&By(&own.key), limit) {
                Entered::In(entry) => {
                    let member = Self { map, entry };
                    drop(own);
                    return Some(member);
                }
                Entered::Full => return None,
                Entered::Absent => {}
            }
        }
    }

    /// The entry's key.
    ///
    /// ```
    /// assert_eq!(quince::CountedMap::new().join("lobby", || ()).key(), &"lobby");
    /// ```
    pub fn key(&self) -> &K {
        &self.entry.key
    }

    /// How many members the entry has, this one included.
    ///
    /// ```
    /// assert_eq!(quince::CountedMap::new().join("lobby", || ()).count(), 1);
    /// ```
    pub fn count(&self) -> usize {
        self.entry.count()
    }
}

impl<K, V, S, M> Deref for Member<K, V, S, M>
where
    K: Hash + Eq,
    S: BuildHasher,
    M: Deref<Target = CountedMap<K, V, S>>,
{
    type Target = V;

    fn deref(&self) -> &V {
        &self.entry.value
    }
}

/// One member more.
impl<K, V, S, M> Clone for Member<K, V, S, M>
where
    K: Hash + Eq,
    S: BuildHasher,
    M: Deref<Target = CountedMap<K, V, S>> + Clone,
{
    fn clone(&self) -> Self {
        let entered = self.entry.enter(usize::MAX);
        assert!(entered.is_ok(), "fewer members than addresses");
        Self {
            map: self.map.clone(),
            entry: Arc::clone(&self.entry),
        }
    }
}

impl<K, V, S, M> Drop for Member<K, V, S, M>
where
    K: Hash + Eq,
    S: BuildHasher,
    M: Deref<Target = CountedMap<K, V, S>>,
{
    // PANIC: `Hash` and `Eq` of the key. It ends here, as a destructor's could abort; then the entry stays, closed, until the
    // next who wants it, or `sweep`, removes it.
    fn drop(&mut self) {
        if self.entry.leave() && !self.map.keeps_idle && self.entry.close() {
            let unlink = || self.map.unlink(&By(&self.entry.key), &self.entry);
            _ = catch_unwind(AssertUnwindSafe(unlink));
        }
    }
}

impl<K, V, S, M> fmt::Debug for Member<K, V, S, M>
where
    K: Hash + Eq + fmt::Debug,
    V: fmt::Debug,
    S: BuildHasher,
    M: Deref<Target = CountedMap<K, V, S>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("key", self.key())
            .field("value", &**self)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

impl<K, V, S: Default> Default for CountedMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for CountedMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pinned = self.entries.pin();
        let entries = pinned.keys().map(|Entry(entry)| (&entry.key, &entry.value));
        f.debug_map().entries(entries).finish()
    }
}
