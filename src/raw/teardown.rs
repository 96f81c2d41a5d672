//! Exclusive access: who is alone with the map goes through the slab in memory order and never looks at a table.
//!
//! A node is initialised exactly if it is neither free nor in a stripe's hands (I6). So once the stripes have given back
//! their free nodes, the bitmaps tell which pairs there are to drop: entries, and what was retired and not freed yet.

use super::{
    reclaim::Contained,
    root::RawMap,
    store::{Location, Node, Occupied, Pair, Store},
    stripe::Local,
};
use crate::sync::epoch;
use std::{marker::PhantomData, mem, ptr::NonNull};

impl<K, V> RawMap<K, V> {
    /// Marks the free nodes of all stripes free; returns the retired ones.
    fn settle(&mut self) -> Vec<Location> {
        let Self { store, stripes, .. } = self;
        let guard = epoch::pin();
        let mut retired = Vec::new();
        stripes.for_each_local(
            |Local {
                 run, free, garbage, ..
             }| {
                store.give_run(mem::take(run), &guard);
                mem::take(free)
                    .into_iter()
                    .for_each(|node| store.give(node, &guard));
                retired.extend(garbage.take_all());
            },
        );
        retired
    }

    /// Drops what was retired: now the initialised nodes are the entries.
    ///
    /// # Panics
    /// If a destructor does, after all others have run.
    fn drop_garbage(&mut self) {
        let mut contained = Contained::default();
        let retired = self.settle();
        let guard = epoch::pin();
        for location in retired {
            // SAFETY: a retired node's chunk stays.
            let node = unsafe { self.store.node(location, &guard) };
            // SAFETY: exclusive access: nobody can be looking at a retired node (I7).
            contained.run(|| unsafe { node.drop_pair() });
            self.store.give(location, &guard);
        }
        contained.resume();
    }

    pub(crate) fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        self.drop_garbage();
        IterMut {
            remaining: self.len(),
            nodes: self.store.occupied(),
            map: PhantomData,
        }
    }

    pub(crate) fn into_iter(mut self) -> IntoIter<K, V> {
        self.drop_garbage();
        IntoIter {
            remaining: self.len(),
            nodes: self.store.occupied(),
            _store: mem::replace(&mut self.store, Store::new()),
        }
    }

    /// Takes everything out, memory included: the map is empty even if the result is leaked.
    pub(crate) fn drain(&mut self) -> Drain<'_, K, V> {
        Drain(mem::replace(self, Self::new()).into_iter(), PhantomData)
    }

    pub(crate) fn clear_mut(&mut self) {
        *self = Self::new();
    }
}

impl<K, V> Drop for RawMap<K, V> {
    // PANIC: destructors of keys and values; every other one still runs, and the first panic goes on afterwards.
    fn drop(&mut self) {
        self.free_tables();
        let mut contained = Contained::default();
        if mem::needs_drop::<Pair<K, V>>() {
            self.settle();
            for node in self.store.occupied() {
                // SAFETY: exclusive access; the store lives.
                let node = unsafe { node.as_ref() };
                // SAFETY: initialised (I6), and the store is not used again.
                contained.run(|| unsafe { node.drop_pair() });
            }
        }
        contained.resume();
    }
}

/// Yields every entry, the value mutably.
pub(crate) struct IterMut<'m, K, V> {
    remaining: usize,
    nodes: Occupied<K, V>,
    map: PhantomData<&'m mut RawMap<K, V>>,
}

impl<'m, K, V> Iterator for IterMut<'m, K, V> {
    type Item = (&'m K, &'m mut V);

    fn next(&mut self) -> Option<Self::Item> {
        let node: NonNull<Node<K, V>> = self.nodes.next()?;
        self.remaining -= 1;
        // SAFETY: the map is borrowed exclusively for 'm, so the store stays as it is.
        let node: &'m Node<K, V> = unsafe { node.as_ref() };
        // SAFETY: initialised (I6), and each node is yielded once.
        let Pair { key, value } = unsafe { node.pair_mut() };
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

// SAFETY: as good as a `&mut RawMap`, of which it yields `&K` and `&mut V`.
unsafe impl<K: Sync, V: Send> Send for IterMut<'_, K, V> {}

// SAFETY: a shared one gives access to nothing.
unsafe impl<K: Sync, V: Sync> Sync for IterMut<'_, K, V> {}

/// Yields every entry of a map that is borrowed meanwhile, owned.
pub(crate) struct Drain<'m, K, V>(IntoIter<K, V>, PhantomData<&'m mut RawMap<K, V>>);

impl<K, V> Iterator for Drain<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

/// Yields every entry, owned. What was not yielded is dropped with it.
pub(crate) struct IntoIter<K, V> {
    remaining: usize,
    nodes: Occupied<K, V>,
    _store: Store<K, V>,
}

// SAFETY: owns pairs and the memory they are in, nothing else.
unsafe impl<K: Send, V: Send> Send for IntoIter<K, V> {}

// SAFETY: a shared one gives access to nothing.
unsafe impl<K: Sync, V: Sync> Sync for IntoIter<K, V> {}

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.nodes.next()?;
        self.remaining -= 1;
        // SAFETY: the store is ours.
        let node = unsafe { node.as_ref() };
        // SAFETY: initialised (I6), and each node is yielded once.
        let Pair { key, value } = unsafe { node.take() };
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl<K, V> Drop for IntoIter<K, V> {
    fn drop(&mut self) {
        let mut contained = Contained::default();
        if mem::needs_drop::<Pair<K, V>>() {
            for node in &mut self.nodes {
                // SAFETY: the store is ours.
                let node = unsafe { node.as_ref() };
                // SAFETY: as in `next`.
                contained.run(|| unsafe { node.drop_pair() });
            }
        }
        contained.resume();
    }
}
