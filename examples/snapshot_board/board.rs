//! The board, pod name -> [`Slot`], and the retire recipe that lets its entries come and go.
//!
//! Who waits: *register* (insert or get the slot, count up; if it is closed, unlink that very slot and try
//! again), *look* at the truth again, *wait*. Who publishes: make the truth visible, then get, set, wake; it
//! makes no slot and waits for nobody. The last to leave *closes* the slot and then *unlinks* it, unless
//! another one has taken its place.
//!
//! * No value is lost: whoever publishes before a slot is linked made the truth visible before, and is seen
//!   by the second look; whoever publishes later finds the slot. That takes an order between setting the
//!   truth and looking at it, such as a lock around it gives; `World` in `stage.rs` has the details.
//! * A pod has one open slot at most: a slot leaves the map only after it was closed, and nobody joins a
//!   closed one.
//! * The map holds no more entries than there are waiters: there is nothing to sweep.
//!
//! `quince::CountedMap` has the recipe ready for use. Here it is spelled out, so that a twin can get one step
//! wrong, and a schedule can make something happen between two of them.

use std::hash::BuildHasher;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use quince::HashMap;

use super::ledger::{Ledger, SlotRecord};

pub(crate) type Value = u64;

/// How long to wait before asking again; `None` ends the waiting. With a deadline that is
/// `deadline.checked_duration_since(Instant::now())`.
pub(crate) type Patience<'p> = &'p dyn Fn() -> Option<Duration>;

/// What a board tells about where a thread stands, so that a simulation can make something happen there.
pub(crate) type Hook<'h> = &'h (dyn Fn(Step, &str) + Sync);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The look-up found no slot, the new one is not linked yet.
    Linking,
    /// A publisher has got a slot and not set its value yet.
    Found,
    /// The last waiter has closed a slot and not unlinked it yet.
    Closed,
    /// A publisher has to wait. Only a broken board gets here.
    Blocked,
}

pub(crate) struct Board<'h, S> {
    pub(crate) slots: HashMap<String, Arc<Slot>, S>,
    pub(crate) hook: Hook<'h>,
    recipe: &'h dyn Recipe<S>,
    ledger: Arc<Ledger>,
}

impl<'h, S: BuildHasher> Board<'h, S> {
    pub(crate) fn new(hasher: S, recipe: &'h dyn Recipe<S>, hook: Hook<'h>) -> Self {
        Self {
            slots: HashMap::with_hasher(hasher),
            hook,
            recipe,
            ledger: Arc::default(),
        }
    }

    /// Waits for what is published for `pod`; `None` if it runs out of patience before.
    pub(crate) fn wait_for(
        &self,
        pod: &str,
        look: &dyn Fn() -> Option<Value>,
        patience: Patience<'_>,
    ) -> Option<Value> {
        self.register(pod).look_or_wait(look, patience)
    }

    /// Hands `value` to everybody who waits for `pod`, and tells whether there was a slot. The truth that
    /// `value` reports must be visible already.
    pub(crate) fn publish(&self, pod: &str, value: Value) -> bool {
        self.recipe.publish(self, pod, value)
    }

    /// A place among those who wait for `pod`, in an open slot.
    pub(crate) fn register<'b>(&'b self, pod: &'b str) -> Registration<'b, S> {
        loop {
            let slot = self.recipe.link(self, pod);
            if slot.join() {
                return Registration {
                    board: self,
                    pod,
                    slot,
                };
            }
            self.recipe.unlink(self, pod, &slot);
        }
    }

    pub(crate) fn new_slot(&self, pod: &str) -> Arc<Slot> {
        (self.hook)(Step::Linking, pod);
        Arc::new(Slot::new(SlotRecord::new(&self.ledger, pod)))
    }

    /// Counts a waiter of `slot` down, and tells whether that closed it.
    pub(crate) fn close_if_last(&self, pod: &str, slot: &Slot) -> bool {
        let closed = slot.leave();
        if closed {
            (self.hook)(Step::Closed, pod);
        }
        closed
    }

    /// The number of entries and the account of all slots, after the last of them is gone.
    pub(crate) fn tear_down(self) -> (usize, Arc<Ledger>) {
        (self.slots.len(), self.ledger)
    }
}

/// The steps of the recipe. The provided methods are right; each can be replaced by a wrong one.
pub(crate) trait Recipe<S: BuildHasher>: Sync {
    /// The slot of `pod`, a new one if it has none.
    fn link(&self, board: &Board<'_, S>, pod: &str) -> Arc<Slot> {
        board
            .slots
            .get_or_insert_ref_with(pod, || board.new_slot(pod))
    }

    /// Looks at the truth again, once registered: what was published before found no slot.
    fn look_again(&self, look: &dyn Fn() -> Option<Value>) -> Option<Value> {
        look()
    }

    fn publish(&self, board: &Board<'_, S>, pod: &str, value: Value) -> bool {
        let Some(slot) = board.slots.get(pod) else {
            return false;
        };
        (board.hook)(Step::Found, pod);
        slot.set(value);
        true
    }

    fn leave(&self, board: &Board<'_, S>, pod: &str, slot: &Arc<Slot>) {
        if board.close_if_last(pod, slot) {
            self.unlink(board, pod, slot);
        }
    }

    /// Unlinks `slot`, which is closed, but not a successor in its place.
    fn unlink(&self, board: &Board<'_, S>, pod: &str, slot: &Arc<Slot>) {
        board
            .slots
            .remove_if(pod, |_, linked| Arc::ptr_eq(linked, slot));
    }
}

pub(crate) struct Sound;

impl<S: BuildHasher> Recipe<S> for Sound {}

/// A waiter's place in a slot, given up on drop: also if the waiter runs out of patience or panics.
#[must_use]
pub(crate) struct Registration<'b, S: BuildHasher> {
    board: &'b Board<'b, S>,
    pod: &'b str,
    slot: Arc<Slot>,
}

impl<S: BuildHasher> Registration<'_, S> {
    /// Nothing is pinned here: a thread that waits with a `quince::Pinned` at hand would keep all removed
    /// entries from being freed.
    pub(crate) fn look_or_wait(
        &self,
        look: &dyn Fn() -> Option<Value>,
        patience: Patience<'_>,
    ) -> Option<Value> {
        let recipe = self.board.recipe;
        recipe.look_again(look).or_else(|| self.slot.wait(patience))
    }
}

impl<S: BuildHasher> Drop for Registration<'_, S> {
    fn drop(&mut self) {
        self.board.recipe.leave(self.board, self.pod, &self.slot);
    }
}

/// Where any number of threads wait for one value.
pub(crate) struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiters: Waiters,
    value: Option<Value>,
    record: SlotRecord,
}

enum Waiters {
    Open(usize),
    /// For ever: nobody joins any more.
    Closed,
}

impl Slot {
    fn new(record: SlotRecord) -> Self {
        Self {
            state: Mutex::new(State {
                waiters: Waiters::Open(0),
                value: None,
                record,
            }),
            changed: Condvar::new(),
        }
    }

    /// Counts one waiter more, unless the slot is closed.
    fn join(&self) -> bool {
        let mut state = self.lock();
        let Waiters::Open(waiters) = state.waiters else {
            return false;
        };
        state.waiters = Waiters::Open(waiters + 1);
        if waiters == 0 {
            state.record.open();
        }
        true
    }

    /// Counts one waiter less. The last one closes the slot, and is told so.
    fn leave(&self) -> bool {
        let mut state = self.lock();
        let Waiters::Open(waiters) = state.waiters else {
            unreachable!("a slot with a waiter is open");
        };
        let last = waiters == 1;
        if last {
            state.waiters = Waiters::Closed;
            state.record.close();
        } else {
            state.waiters = Waiters::Open(waiters - 1);
        }
        last
    }

    /// Sets the value, once and for all, and wakes those who wait for it.
    pub(crate) fn set(&self, value: Value) {
        self.lock().value.get_or_insert(value);
        self.changed.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.lock().waiters, Waiters::Closed)
    }

    /// Patience is asked before the value, so that a value that came before patience ended is not missed.
    fn wait(&self, patience: Patience<'_>) -> Option<Value> {
        loop {
            let nap = patience();
            let state = self.lock();
            if state.value.is_some() {
                return state.value;
            }
            drop(self.changed.wait_timeout(state, nap?).unwrap());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap() // no user code runs under this lock
    }
}
