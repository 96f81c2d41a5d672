//! The way from an absent key to its value.

use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use equivalent::Equivalent;

use super::making::{Making, Running, Slot};
use super::{OnceMap, PinnedOnce};
use crate::OccupiedError;

/// Where a caller who wants a value finds itself. `R` is how its face hands out values.
pub(super) enum Entered<R, V> {
    Ready(R),
    /// Somebody else is at it.
    Making(Arc<Making<V>>),
    /// This caller is to make it.
    Claimed(Arc<Making<V>>),
}

impl<'p, V> Entered<&'p V, V> {
    pub(super) fn found(slot: &'p Slot<V>) -> Self {
        match slot {
            Slot::Ready(value) => Self::Ready(value),
            Slot::Making(making) => Self::Making(Arc::clone(making)),
        }
    }
}

impl<V: Clone> Entered<&V, V> {
    pub(super) fn cloned(self) -> Entered<V, V> {
        match self {
            Self::Ready(value) => Entered::Ready(value.clone()),
            Self::Making(making) => Entered::Making(making),
            Self::Claimed(making) => Entered::Claimed(making),
        }
    }
}

/// Why a call did not make the value.
pub(super) enum Unmade<R, E> {
    Present(R),
    Failed(E),
}

impl<R> Unmade<R, Infallible> {
    pub(super) fn occupied<K>(self, key: K) -> OccupiedError<K, (), R> {
        let Self::Present(current) = self;
        OccupiedError::new(current, key, ())
    }
}

/// A key whose value this call is to make. Unless it publishes one, the key is absent again when the claim is gone.
pub(super) struct Claim<'c, K: Hash + Eq, V, S: BuildHasher> {
    once: &'c OnceMap<K, V, S>,
    key: &'c K,
    making: &'c Arc<Making<V>>,
}

impl<'c, K: Hash + Eq, V, S: BuildHasher> Claim<'c, K, V, S> {
    pub(super) fn new(once: &'c OnceMap<K, V, S>, key: &'c K, making: &'c Arc<Making<V>>) -> Self {
        Self { once, key, making }
    }
}

impl<K: Hash + Eq + Clone, V, S: BuildHasher> Claim<'_, K, V, S> {
    /// Puts the value where everybody finds it, and wakes who waits for it.
    pub(super) fn publish<'p>(self, pinned: &'p PinnedOnce<'_, K, V, S>, value: V) -> &'p V {
        let value = pinned.replace(self.key, self.making, value);
        self.making.settle();
        mem::forget(self);
        value
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Drop for Claim<'_, K, V, S> {
    // PANIC: `Hash` and `Eq` of the key, maybe for the second time: it ends here, as a destructor's would abort. Then the
    // entry stays, settled, until the next who wants it unlinks it.
    fn drop(&mut self) {
        let unlink = || self.once.pin().unlink(self.key, self.making);
        _ = catch_unwind(AssertUnwindSafe(unlink));
        self.making.settle();
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> OnceMap<K, V, S> {
    /// Waits until `making` has ended; removes it if it has failed and is still there.
    pub(super) fn wait_for<Q>(&self, key: &Q, making: &Arc<Making<V>>)
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        if making.is_settled() {
            self.pin().unlink(key, making);
        } else {
            making.wait();
        }
    }
}

impl<K: Hash + Eq + Clone, V, S: BuildHasher> OnceMap<K, V, S> {
    /// Makes the value of `key`, or waits until it is made. `enter` and `publish` are those of a face.
    // PANIC: `init`; the claim clears the mark, and one of those who wait takes over.
    pub(super) fn try_settle<R, E>(
        &self,
        key: &K,
        enter: impl Fn() -> Entered<R, V>,
        init: impl FnOnce() -> Result<V, E>,
        publish: impl FnOnce(Claim<'_, K, V, S>, V) -> R,
    ) -> Result<R, Unmade<R, E>> {
        loop {
            match enter() {
                Entered::Ready(value) => return Err(Unmade::Present(value)),
                Entered::Making(making) => self.wait_for(key, &making),
                Entered::Claimed(making) => {
                    let claim = Claim::new(self, key, &making);
                    let made = {
                        let _running = Running::enter(&making);
                        init()
                    };
                    return match made {
                        Ok(value) => Ok(publish(claim, value)),
                        Err(error) => Err(Unmade::Failed(error)),
                    };
                }
            }
        }
    }
}
