//! Look-ups. They write nothing, wait for nobody, and never go back.

use super::{
    bucket::{Bucket, Ctrl},
    root::{RawMap, Session},
    store::{Node, Pair},
    table::Table,
    tag::Hash,
};
use crate::sync::{
    epoch::{self, Guard},
    prefetch,
};

impl<K, V> RawMap<K, V> {
    /// The node whose entry has `hash` and a key that `eq` accepts.
    ///
    /// One pass over the path in each table from the root on; a further table is looked at only if a bucket of the path
    /// was MOVED. Linearization: a hit at the load of the slot, or, if the bucket was closed since its control word was
    /// loaded, just before that; a miss at the load of the last control word which could have shown the entry.
    // PANIC: `eq` is user code; nothing is held.
    #[inline(always)]
    pub(super) fn find<'g>(
        &'g self,
        hash: Hash,
        mut eq: impl FnMut(&K) -> bool,
        guard: &'g Guard,
    ) -> Option<&'g Node<K, V>> {
        // Nearly every path is one bucket long: by itself it compiles to a few instructions.
        let table = self.root(guard)?;
        let home = table.home_bucket(hash);
        let ctrl = home.ctrl();
        if !ctrl.is_moved() {
            let found = self.find_in(home, ctrl, hash, &mut eq, guard);
            if found.is_some() || ctrl.ends_path() {
                return found;
            }
        }
        self.find_further(table, ctrl, hash, eq, guard)
    }

    /// The pass from the second bucket on; the first one's control word was `home`.
    #[inline(never)]
    fn find_further<'g>(
        &'g self,
        mut table: &'g Table,
        home: Ctrl,
        hash: Hash,
        mut eq: impl FnMut(&K) -> bool,
        guard: &'g Guard,
    ) -> Option<&'g Node<K, V>> {
        let mut moved = home.is_moved();
        let mut seen = if home.ends_path() { usize::MAX } else { 1 };
        loop {
            for bucket in table.path_from(hash, seen) {
                let ctrl = bucket.ctrl();
                if ctrl.is_moved() {
                    // Its entries are in the next table now; those of later buckets may still be here. (I5)
                    moved = true;
                } else if let Some(node) = self.find_in(bucket, ctrl, hash, &mut eq, guard) {
                    return Some(node);
                }
                if ctrl.ends_path() {
                    break;
                }
            }
            if !moved {
                return None;
            }
            table = table.next(guard)?;
            (moved, seen) = (false, 0);
        }
    }

    /// Looks at the slots of one bucket, whose control word was `ctrl`, not MOVED.
    #[inline(always)]
    fn find_in<'g>(
        &'g self,
        bucket: &Bucket,
        ctrl: Ctrl,
        hash: Hash,
        eq: &mut impl FnMut(&K) -> bool,
        guard: &'g Guard,
    ) -> Option<&'g Node<K, V>> {
        debug_assert!(!ctrl.is_moved());
        for slot in ctrl.matching(hash.tag()) {
            let word = bucket.load(slot);
            if !word.is_live_with(hash) {
                continue;
            }
            // SAFETY: live, in a bucket that was not MOVED (I8).
            let node = unsafe { self.store.node(word.location(), guard) };
            // SAFETY: a node in a table is initialised (I6).
            if eq(unsafe { &node.pair().key }) {
                return Some(node);
            }
        }
        None
    }

    /// # Panics
    /// If `eq` does.
    pub(crate) fn get_mut(&mut self, hash: Hash, eq: impl FnMut(&K) -> bool) -> Option<&mut V> {
        let guard = epoch::pin();
        let node = self.find(hash, eq, &guard)?;
        // SAFETY: the map is borrowed exclusively for as long as the result, so no session is alive.
        let value: *mut V = unsafe { &raw mut node.pair_mut().value };
        // SAFETY: and an entry of the table stays where it is until somebody removes it.
        Some(unsafe { &mut *value })
    }
}

impl<K, V> Session<'_, K, V> {
    /// The entry with `hash` and a key that `eq` accepts.
    #[inline(always)]
    pub(crate) fn find(&self, hash: Hash, eq: impl FnMut(&K) -> bool) -> Option<(&K, &V)> {
        let node = self.map.find(hash, eq, &self.guard)?;
        // SAFETY: found in the table under this session's guard (I8).
        let Pair { key, value } = unsafe { node.pair() };
        Some((key, value))
    }

    /// Asks for the memory of the bucket in which `hash` is looked up first.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: Hash) {
        let mut table = self.root();
        while let Some(this) = table {
            prefetch(this.home_bucket(hash));
            table = this.next(&self.guard);
        }
    }

    /// Asks for the memory of the entry which, as it seems, has `hash`.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: Hash) {
        let Some(root) = self.root() else { return };
        let home = root.home_bucket(hash);
        let ctrl = home.ctrl();
        if ctrl.is_moved() {
            return;
        }
        let mut words = ctrl.matching(hash.tag()).map(|slot| home.load(slot));
        if let Some(word) = words.find(|word| word.is_live_with(hash)) {
            // SAFETY: live, in a bucket that was not MOVED (I8).
            unsafe { self.prefetch(word) };
        }
    }
}
