//! What writers keep to themselves: counts, free nodes, garbage.
//!
//! A stripe is leased to one session at a time, taken with one swap that is tried and never waited for; when all are
//! taken another one is made. So a writer counts, allocates and retires without shared read-modify-writes.

use super::{
    reclaim::Garbage,
    snapshot::{Snapshot, Version},
    store::{Location, Run},
};
use crate::sync::{
    AtomicBool, AtomicIsize, AtomicUsize, MODEL, Ordering, UnsafeCell,
    epoch::{Guard, pin},
    thread_index,
};
use crossbeam_utils::CachePadded;
use std::ptr::NonNull;

/// Padded, since every stripe is written by another thread.
struct Stripe {
    leased: AtomicBool,
    /// This stripe's share of the number of entries; may be negative.
    len: AtomicIsize,
    /// Tombstones that were made through this stripe, and those that were revived; both only grow.
    buried: AtomicUsize,
    revived: AtomicUsize,
    local: UnsafeCell<Local>,
}

// SAFETY: `local` is touched only by the holder of the lease, or with exclusive access to the map (I9). It holds plain
// numbers and flags: keys and values are never reached through a stripe.
unsafe impl Sync for Stripe {}

/// Belongs to the holder of the lease. No user code runs while it is borrowed (I9).
#[derive(Default)]
pub(super) struct Local {
    /// Free nodes, recently used ones last.
    pub(super) free: Vec<Location>,
    /// More of them, of one chunk.
    pub(super) run: Run,
    pub(super) garbage: Garbage,
    /// Which table `until_review` was computed for, by its size; and how many slots may be filled before the next one.
    pub(super) reviewed_bits: u32,
    pub(super) until_review: usize,
    /// Removals.
    pub(super) removals: u32,
}

impl Local {
    /// Recently freed nodes that a stripe keeps for itself.
    pub(super) const MAX_FREE: usize = if MODEL { 2 } else { 256 };

    #[inline]
    pub(super) fn pop_free(&mut self) -> Option<Location> {
        self.free.pop().or_else(|| self.run.pop())
    }
}

impl Stripe {
    fn new() -> Self {
        Self {
            leased: AtomicBool::new(true),
            len: AtomicIsize::new(0),
            buried: AtomicUsize::new(0),
            revived: AtomicUsize::new(0),
            local: UnsafeCell::new(Local::default()),
        }
    }

    fn buried(&self) -> usize {
        // Relaxed: see `Lease::add`.
        self.buried.load(Ordering::Relaxed)
    }

    fn revived(&self) -> usize {
        // Relaxed: see `Lease::add`.
        self.revived.load(Ordering::Relaxed)
    }

    fn try_lease(&self) -> Option<Lease> {
        // Relaxed: a look that spares the line; the swap decides.
        if self.leased.load(Ordering::Relaxed) {
            return None;
        }
        // ORDERING: E10 with the end of the lease before.
        let taken = self.leased.swap(true, Ordering::Acquire);
        // Not `then_some`: a lease made and dropped would end somebody else's.
        (!taken).then(|| Lease {
            stripe: NonNull::from(self),
        })
    }
}

/// A leased stripe. It has no lifetime, so that sessions are covariant; whoever holds it borrows the map, which owns the
/// stripe.
pub(super) struct Lease {
    stripe: NonNull<Stripe>,
}

impl Lease {
    #[inline]
    fn stripe(&self) -> &Stripe {
        // SAFETY: stripes are freed when the map is dropped; whoever holds the lease borrows the map.
        unsafe { self.stripe.as_ref() }
    }

    /// Runs `f` on what belongs to the leaseholder. `f` must not run user code, nor call this again (I9).
    #[inline]
    pub(super) fn local<R>(&self, f: impl FnOnce(&mut Local) -> R) -> R {
        self.stripe().local.with_mut(|local| {
            // SAFETY: the lease is this session's, sessions stay on their thread, and `f` does not come back here (I9).
            f(unsafe { &mut *local })
        })
    }

    #[inline]
    pub(super) fn count_inserted(&self) {
        self.add(1);
    }

    #[inline]
    pub(super) fn count_removed(&self) {
        self.add(-1);
    }

    /// A tombstone in the newest table.
    #[inline]
    pub(super) fn count_buried(&self) {
        Self::increment(&self.stripe().buried);
    }

    /// One that holds an entry again.
    #[inline]
    pub(super) fn count_revived(&self) {
        Self::increment(&self.stripe().revived);
    }

    #[inline]
    fn add(&self, change: isize) {
        // Relaxed: only the leaseholder writes, and whoever wants an exact sum has synchronised with all writers.
        let len = self.stripe().len.load(Ordering::Relaxed);
        self.stripe().len.store(len + change, Ordering::Relaxed);
    }

    #[inline]
    fn increment(count: &AtomicUsize) {
        // Relaxed: as in `add`.
        let before = count.load(Ordering::Relaxed);
        count.store(before.wrapping_add(1), Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // ORDERING: E10: the next holder sees `local` as it was left.
        self.stripe().leased.store(false, Ordering::Release);
    }
}

/// Sums over all stripes; exact when nobody writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Entries in the map.
    pub(super) live: usize,
    /// Tombstones made in what was the newest table then, less those revived; not too few of them.
    pub(super) tombstones: usize,
    /// How many stripes there are.
    pub(super) stripes: usize,
}

/// All stripes of a map; they live as long as the map.
pub(super) struct Stripes(Snapshot<NonNull<CachePadded<Stripe>>>);

impl Stripes {
    pub(super) fn new() -> Self {
        Self(Snapshot::new())
    }

    /// A stripe that nobody else has.
    #[inline]
    pub(super) fn lease(&self, guard: &Guard) -> Lease {
        self.try_lease_any(guard).unwrap_or_else(|| self.add(guard))
    }

    fn try_lease_any(&self, guard: &Guard) -> Option<Lease> {
        let all = self.0.load(guard);
        let start = thread_index().checked_rem(all.len())?;
        let (before, from_start) = all.split_at(start);
        from_start
            .iter()
            .chain(before)
            .find_map(|&stripe| Self::get(stripe).try_lease())
    }

    /// Leases every stripe that is free now, one after the other.
    pub(super) fn each_free<'g>(&'g self, guard: &'g Guard) -> impl Iterator<Item = Lease> + 'g {
        let all = self.0.load(guard);
        (0..all.len()).filter_map(move |i| Self::get(all[i]).try_lease())
    }

    #[cold]
    fn add(&self, guard: &Guard) -> Lease {
        let stripe = NonNull::from(Box::leak(Box::new(CachePadded::new(Stripe::new()))));
        loop {
            let old = self.0.load(guard);
            let mut new = Vec::with_capacity(old.len() + 1);
            new.extend_from_slice(&old);
            new.push(stripe);
            if self.0.try_replace(old, new, guard) {
                return Lease {
                    stripe: NonNull::from(Self::get(stripe)),
                };
            }
        }
    }

    pub(super) fn counts(&self, guard: &Guard) -> Counts {
        let all = self.0.load(guard);
        // Relaxed: see `Lease::add`.
        let len = |stripe: &Stripe| stripe.len.load(Ordering::Relaxed) as usize;
        let live = Self::sum(all, len) as isize;
        let revived = Self::sum(all, Stripe::revived);
        Counts {
            // The sum may be below zero for a moment: a removal counted here, its insertion not yet there.
            live: live.max(0) as usize,
            // After the revived ones: those that are made and revived meanwhile are not subtracted.
            tombstones: Self::sum(all, Stripe::buried).wrapping_sub(revived),
            stripes: all.len(),
        }
    }

    /// As [`Counts::tombstones`], but not too many.
    pub(super) fn fewest_tombstones(&self, guard: &Guard) -> usize {
        let all = self.0.load(guard);
        let buried = Self::sum(all, Stripe::buried);
        buried.wrapping_sub(Self::sum(all, Stripe::revived))
    }

    fn sum(
        stripes: Version<'_, NonNull<CachePadded<Stripe>>>,
        count: impl Fn(&Stripe) -> usize,
    ) -> usize {
        let counts = stripes.iter().map(|&stripe| count(Self::get(stripe)));
        counts.fold(0, usize::wrapping_add)
    }

    /// What the stripes hold, with exclusive access: also of those whose session was leaked.
    pub(super) fn for_each_local(&mut self, mut f: impl FnMut(&mut Local)) {
        let guard = pin();
        for &stripe in &*self.0.load(&guard) {
            Self::get(stripe).local.with_mut(|local| {
                // SAFETY: exclusive access to the map; a leaked session cannot be used any more (I9).
                f(unsafe { &mut *local })
            });
        }
    }

    #[inline]
    fn get<'m>(stripe: NonNull<CachePadded<Stripe>>) -> &'m Stripe {
        // SAFETY: stripes are freed when the map is dropped; callers borrow the map.
        unsafe { stripe.as_ref() }
    }
}

impl Drop for Stripes {
    fn drop(&mut self) {
        for stripe in self.0.take() {
            // SAFETY: `add` leaked the box, and the list is gone.
            drop(unsafe { Box::from_raw(stripe.as_ptr()) });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_leased_stripe_is_not_leased_again_and_a_new_one_is_made() {
        let stripes = Stripes::new();
        let guard = pin();
        let first = stripes.lease(&guard);
        let second = stripes.lease(&guard);
        assert_ne!(first.stripe, second.stripe);
        assert!(stripes.try_lease_any(&guard).is_none());
        drop(first);
        assert!(stripes.try_lease_any(&guard).is_some());
        assert_eq!(stripes.counts(&guard).stripes, 2);
    }

    #[test]
    fn counts_sum_over_stripes() {
        let stripes = Stripes::new();
        let guard = pin();
        let (first, second) = (stripes.lease(&guard), stripes.lease(&guard));
        (0..3).for_each(|_| first.count_inserted());
        second.count_removed();
        (0..2).for_each(|_| second.count_buried());
        let counts = stripes.counts(&guard);
        assert_eq!((counts.live, counts.tombstones), (2, 2));
        first.count_revived();
        let counts = stripes.counts(&guard);
        assert_eq!((counts.live, counts.tombstones), (2, 1));
        assert_eq!(stripes.fewest_tombstones(&guard), 1);
    }
}
