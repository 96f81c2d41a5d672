//! A short array which is read often and replaced rarely, as a whole (read-copy-update): the chunk directory and the
//! list of stripes.

use crate::sync::{AtomicPtr, Ordering, Watched, epoch::Guard};
use std::{ops::Deref, ptr};

/// The array's current version; `null` stands for an empty array.
pub(super) struct Snapshot<T: Copy>(AtomicPtr<Watched<Vec<T>>>);

/// One version, readable as long as the guard it was loaded under.
pub(super) struct Version<'g, T>(Option<&'g Watched<Vec<T>>>);

impl<T> Clone for Version<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Version<'_, T> {}

impl<T> Version<'_, T> {
    /// Item `index`, without a look at how many there are.
    ///
    /// # Safety
    /// This version has such an item.
    #[inline]
    pub(super) unsafe fn get_unchecked(&self, index: usize) -> &T {
        // SAFETY: it has items, so it is not the empty array.
        let items = unsafe { self.0.unwrap_unchecked() };
        // SAFETY: by contract.
        unsafe { items.get_unchecked(index) }
    }
}

impl<T> Deref for Version<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.0.map_or(&[], |items| items)
    }
}

impl<T: Copy> Snapshot<T> {
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(super) fn load<'g>(&'g self, _guard: &'g Guard) -> Version<'g, T> {
        // ORDERING: E7 with `try_replace`.
        let current = self.0.load(Ordering::Acquire);
        // SAFETY: versions stay allocated while a guard which might have seen them is held (I8).
        Version(unsafe { current.as_ref() })
    }

    /// Puts `new` in the place of `old`, which is retired. `false` if `old` is no longer the current version.
    pub(super) fn try_replace(&self, old: Version<'_, T>, new: Vec<T>, guard: &Guard) -> bool {
        let old = old
            .0
            .map_or(ptr::null_mut(), |items| ptr::from_ref(items).cast_mut());
        let new = Box::into_raw(Box::new(Watched::new(new)));
        // ORDERING: E7: who sees the version sees its items and what they point at. A failure looks at nothing.
        let won = self
            .0
            .compare_exchange(old, new, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        let dead = if won { old } else { new };
        if dead.is_null() {
            return won;
        }
        // SAFETY: `dead` came from `Box::into_raw`; it is `new`, which nobody else has seen, or `old`, which nobody can
        // find any more once all guards of now are gone. Its items have no destructor, so the map need not be alive.
        let free = move || unsafe { drop(Box::from_raw(dead)) };
        if won {
            // SAFETY: as above.
            unsafe { guard.defer_unchecked(free) };
        } else {
            free();
        }
        won
    }

    /// Takes the current version out.
    pub(super) fn take(&mut self) -> Vec<T> {
        // Relaxed: exclusive access.
        let current = self.0.swap(ptr::null_mut(), Ordering::Relaxed);
        if current.is_null() {
            return Vec::new();
        }
        // SAFETY: the current version is owned by this snapshot and came from `Box::into_raw`.
        let current = unsafe { Box::from_raw(current) };
        current.into_inner()
    }
}

impl<T: Copy> Drop for Snapshot<T> {
    fn drop(&mut self) {
        self.take();
    }
}
