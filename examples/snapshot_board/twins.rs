//! Six boards with one wrong step each. An invariant is worth something if it catches one of them.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::board::{Board, Recipe, Slot, Step, Value};
use super::report::{Findings, Invariant};
use super::schedules;

pub(crate) struct Twin {
    pub(crate) name: &'static str,
    pub(crate) caught_by: Invariant,
    pub(crate) recipe: &'static dyn Recipe<RandomState>,
    pub(crate) habitat: Habitat,
}

/// Where a twin goes wrong reliably.
pub(crate) enum Habitat {
    Simulation,
    Schedule(fn(&dyn Recipe<RandomState>) -> Findings),
}

pub(crate) static TWINS: [Twin; 6] = [
    Twin {
        name: "check-then-insert",
        caught_by: Invariant::OneOpenSlot,
        recipe: &CheckThenInsert,
        habitat: Habitat::Simulation,
    },
    Twin {
        name: "no-second-look",
        caught_by: Invariant::Served,
        recipe: &NoSecondLook,
        habitat: Habitat::Simulation,
    },
    Twin {
        name: "every-leaver-unlinks",
        caught_by: Invariant::OneOpenSlot,
        recipe: &EveryLeaverUnlinks,
        habitat: Habitat::Simulation,
    },
    Twin {
        name: "never-unlink",
        caught_by: Invariant::EmptyAfterwards,
        recipe: &NeverUnlink,
        habitat: Habitat::Simulation,
    },
    Twin {
        name: "remove-by-key",
        caught_by: Invariant::OneOpenSlot,
        recipe: &RemoveByKey,
        habitat: Habitat::Schedule(schedules::stale_owner_meets_successor),
    },
    Twin {
        name: "unbuffered-publish",
        caught_by: Invariant::PublishNeverWaits,
        recipe: &UnbufferedPublish,
        habitat: Habitat::Simulation,
    },
];

/// Two waiters both find nothing; the second insertion throws the first one's slot out.
struct CheckThenInsert;

impl<S: BuildHasher> Recipe<S> for CheckThenInsert {
    fn link(&self, board: &Board<'_, S>, pod: &str) -> Arc<Slot> {
        board.slots.get(pod).unwrap_or_else(|| {
            let slot = board.new_slot(pod);
            board.slots.insert(pod.to_owned(), Arc::clone(&slot));
            slot
        })
    }
}

/// Misses what was published before it registered.
struct NoSecondLook;

impl<S: BuildHasher> Recipe<S> for NoSecondLook {
    fn look_again(&self, look: &dyn Fn() -> Option<Value>) -> Option<Value> {
        look(); // what a simulation injects there happens all the same
        None
    }
}

/// Unlinks a slot in which others still wait; the next one to come makes a second.
struct EveryLeaverUnlinks;

impl<S: BuildHasher> Recipe<S> for EveryLeaverUnlinks {
    fn leave(&self, board: &Board<'_, S>, pod: &str, slot: &Arc<Slot>) {
        board.close_if_last(pod, slot);
        self.unlink(board, pod, slot);
    }
}

/// Leaves closed slots in the map until somebody registers for the same pod, that is mostly for ever.
struct NeverUnlink;

impl<S: BuildHasher> Recipe<S> for NeverUnlink {
    fn leave(&self, board: &Board<'_, S>, pod: &str, slot: &Arc<Slot>) {
        board.close_if_last(pod, slot);
    }
}

/// Unlinks whatever is there now.
struct RemoveByKey;

impl<S: BuildHasher> Recipe<S> for RemoveByKey {
    fn unlink(&self, board: &Board<'_, S>, pod: &str, _slot: &Arc<Slot>) {
        board.slots.remove(pod);
    }
}

/// Publishes as through a channel without a buffer: makes the slot if need be, and stays until the value has
/// been taken. One event that nobody waits for takes one worker out of service.
struct UnbufferedPublish;

impl<S: BuildHasher> Recipe<S> for UnbufferedPublish {
    fn publish(&self, board: &Board<'_, S>, pod: &str, value: Value) -> bool {
        let slot = self.link(board, pod);
        slot.set(value);
        while !slot.is_closed() {
            (board.hook)(Step::Blocked, pod);
            thread::sleep(Duration::from_millis(1));
        }
        true
    }
}
