//! Plain data whose accesses a model checker shall see.

use std::ops::Deref;

/// What is made by one thread, read by all who find it, and freed by one: loom sees all three, and complains if their order
/// is left to chance. Elsewhere just a `T`.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    value: T,
    #[cfg(loom)]
    accesses: Accesses,
}

impl<T> Watched<T> {
    #[inline(always)]
    pub(crate) fn new(value: T) -> Self {
        Self {
            value,
            #[cfg(loom)]
            accesses: Accesses(super::UnsafeCell::new(())),
        }
    }

    #[inline(always)]
    pub(crate) fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Watched<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        #[cfg(loom)]
        self.accesses.0.with(|_| ());
        &self.value
    }
}

#[cfg(loom)]
#[derive(Debug)]
struct Accesses(super::UnsafeCell<()>);

// SAFETY: loom itself finds out whether the accesses are ordered.
#[cfg(loom)]
unsafe impl Sync for Accesses {}

#[cfg(loom)]
impl Drop for Accesses {
    fn drop(&mut self) {
        self.0.with_mut(|_| ());
    }
}
