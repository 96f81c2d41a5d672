//! When a retired node may be freed: bags, and the epoch that times them.
//!
//! The map owns its garbage. The epoch only tells when a grace period is over: a sealed bag defers a closure that owns
//! nothing but a flag. So keys and values need neither `'static` nor `Send`, are never dropped by a foreign thread's
//! `pin`, and do not outlive the map. Knows neither the table nor the slab.

use super::store::Location;
use crate::sync::{Arc, AtomicBool, MODEL, Ordering, epoch::Guard, thread_local};
use std::{
    any::Any,
    cell::Cell,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

/// Retired nodes of one stripe: an open bag, and sealed ones in the order of their sealing.
#[derive(Default)]
pub(super) struct Garbage {
    open: Vec<Location>,
    sealed: VecDeque<Bag>,
}

struct Bag {
    nodes: Vec<Location>,
    ripe: Arc<AtomicBool>,
}

impl Garbage {
    /// Puts a node that nobody can find any more in the open bag. Returns how many are in it now.
    pub(super) fn push(&mut self, node: Location) -> usize {
        self.open.push(node);
        self.open.len()
    }

    /// Closes the open bag: it ripens once every guard of now is gone. The caller flushes `guard` afterwards: a nested pin
    /// never collects by itself. `false` if the bag is empty.
    pub(super) fn seal(&mut self, guard: &Guard) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let ripe = Arc::new(AtomicBool::new(false));
        self.sealed.push_back(Bag {
            nodes: std::mem::take(&mut self.open),
            ripe: Arc::clone(&ripe),
        });
        // ORDERING: E9 with `pop_ripe`: the epoch's own fences order every reader's last look before this store.
        guard.defer(move || ripe.store(true, Ordering::Release));
        true
    }

    /// The oldest bag, if its grace period is over: its nodes are the caller's.
    pub(super) fn pop_ripe(&mut self) -> Option<Vec<Location>> {
        let oldest = self.sealed.front()?;
        // ORDERING: E9 with `seal`.
        if !oldest.ripe.load(Ordering::Acquire) {
            return None;
        }
        self.sealed.pop_front().map(|bag| bag.nodes)
    }

    /// Takes over what another stripe has left.
    pub(super) fn absorb(&mut self, mut other: Self) {
        self.open.append(&mut other.open);
        self.sealed.append(&mut other.sealed);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.sealed.is_empty()
    }

    /// All bags, ripe or not: for exclusive access, when nobody can be looking.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Location> + use<> {
        let sealed = std::mem::take(&mut self.sealed);
        let open = std::mem::take(&mut self.open);
        sealed.into_iter().flat_map(|bag| bag.nodes).chain(open)
    }
}

/// Runs destructors one by one and goes on when one panics, so that a bad one costs nobody else's value. Says at the end
/// what the first panic was.
#[derive(Default)]
pub(super) struct Contained(Option<Box<dyn Any + Send>>);

impl Contained {
    pub(super) fn run(&mut self, destructor: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(destructor)) {
            match self.0 {
                None => self.0 = Some(payload),
                Some(_) => discard(payload),
            }
        }
    }

    /// Goes on with the first panic: for destructors which the caller has asked for.
    pub(super) fn resume(self) {
        match self.0 {
            Some(payload) if !std::thread::panicking() => resume_unwind(payload),
            Some(payload) => discard(payload),
            None => {}
        }
    }

    /// Swallows it: for destructors that happen to run in somebody's unrelated call. The panic hook has reported it.
    pub(super) fn swallow(self) {
        if MODEL {
            // It may be the model checker's report.
            return self.resume();
        }
        self.0.into_iter().for_each(discard);
    }
}

/// Drops what a panic carried. That may panic as well; what this second panic carries is leaked.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
}

/// Held while a thread frees bags; a destructor that comes back here does not start another round, or garbage that
/// makes garbage would recurse. The outer round goes on until nothing is ripe.
pub(super) struct Freeing(());

thread_local! {
    // Model checkers have no constant ones.
    #[allow(clippy::missing_const_for_thread_local)]
    static FREEING: Cell<bool> = Cell::new(false)
}

impl Freeing {
    pub(super) fn begin() -> Option<Self> {
        // Not `then_some`: a guard made and dropped would end the outer round's.
        (!FREEING.with(|freeing| freeing.replace(true))).then(|| Self(()))
    }
}

impl Drop for Freeing {
    fn drop(&mut self) {
        FREEING.with(|freeing| freeing.set(false));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::epoch;

    #[test]
    fn a_bag_is_not_ripe_while_a_guard_of_its_sealing_is_held() {
        let mut garbage = Garbage::default();
        let node = Location::from_bits(1 << 25);
        let guard = epoch::pin();
        garbage.push(node);
        garbage.seal(&guard);
        guard.flush();
        for _ in 0..100 {
            epoch::pin().flush();
            assert!(garbage.pop_ripe().is_none());
        }
        drop(guard);
        // Other tests of this process pin, too: not every flush advances the epoch.
        let ripe = std::iter::repeat_with(|| {
            std::thread::yield_now();
            epoch::pin().flush();
            garbage.pop_ripe()
        });
        assert_eq!(ripe.flatten().next(), Some(vec![node]));
        assert!(garbage.is_empty());
    }

    #[test]
    fn a_panicking_destructor_does_not_stop_the_others() {
        let mut ran = 0;
        let mut contained = Contained::default();
        for i in 0..3 {
            contained.run(|| {
                ran += 1;
                assert_ne!(i, 1, "expected by the test");
            });
        }
        assert_eq!(ran, 3);
        assert!(catch_unwind(AssertUnwindSafe(|| contained.resume())).is_err());
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_ends_there() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("expected by the test");
            }
        }
        let mut contained = Contained::default();
        (0..3).for_each(|_| contained.run(|| std::panic::panic_any(Bomb)));
        contained.swallow();
    }

    #[test]
    fn freeing_does_not_nest() {
        let outer = Freeing::begin();
        assert!(outer.is_some());
        assert!(Freeing::begin().is_none());
        assert!(Freeing::begin().is_none());
        drop(outer);
        assert!(Freeing::begin().is_some());
    }
}
