//! Scripted schedules for the window between closing a slot and unlinking it: too narrow for a stress test.

use std::hash::RandomState;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use super::board::{Board, Recipe, Step, Value};
use super::report::Findings;

pub(crate) struct Schedule {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&dyn Recipe<RandomState>) -> Findings,
}

pub(crate) static SCHEDULES: [Schedule; 3] = [
    Schedule {
        name: "stale owner meets successor",
        run: stale_owner_meets_successor,
    },
    Schedule {
        name: "late joiner meets a closed slot",
        run: late_joiner_meets_closed_slot,
    },
    Schedule {
        name: "publication between closing and unlinking",
        run: publication_between_closing_and_unlinking,
    },
];

const POD: &str = "pod";
const VALUE: Value = 42;

fn not_yet() -> Option<Value> {
    None
}

fn ready() -> Option<Value> {
    Some(VALUE)
}

fn impatient() -> Option<Duration> {
    None
}

/// While the last waiter stands before the unlinking, a successor is linked: the unlinking must spare it, so
/// that who comes next joins the successor, and both get the value.
pub(crate) fn stale_owner_meets_successor(recipe: &dyn Recipe<RandomState>) -> Findings {
    while_owner_closes(recipe, |board, owner| {
        let successor = board.register(POD);
        owner.unlink();
        let third = board.register(POD);
        board.publish(POD, VALUE);
        vec![
            successor.look_or_wait(&not_yet, &impatient),
            third.look_or_wait(&not_yet, &impatient),
        ]
    })
}

/// Who comes while the closed slot is still linked gets another one, in which the value arrives.
fn late_joiner_meets_closed_slot(recipe: &dyn Recipe<RandomState>) -> Findings {
    while_owner_closes(recipe, |board, owner| {
        let late = board.register(POD);
        board.publish(POD, VALUE);
        let got = late.look_or_wait(&not_yet, &impatient);
        owner.unlink();
        vec![got]
    })
}

/// The value goes to the closed slot, where nobody sees it: the next to come finds it by looking again.
fn publication_between_closing_and_unlinking(recipe: &dyn Recipe<RandomState>) -> Findings {
    while_owner_closes(recipe, |board, owner| {
        board.publish(POD, VALUE);
        let got = board.wait_for(POD, &ready, &impatient);
        owner.unlink();
        vec![got]
    })
}

/// A waiter that has closed its slot and not unlinked it.
struct ClosingOwner<'scope> {
    thread: ScopedJoinHandle<'scope, Option<Value>>,
    go_on: &'scope Barrier,
}

impl ClosingOwner<'_> {
    /// Returns when the owner is gone.
    fn unlink(self) {
        self.go_on.wait();
        self.thread.join().expect("the owner does not panic");
    }
}

/// Runs `script` against the one waiter of a slot, which ran out of patience. The script returns what others
/// got: the value, if all is well.
fn while_owner_closes(
    recipe: &dyn Recipe<RandomState>,
    script: impl FnOnce(&Board<'_, RandomState>, ClosingOwner<'_>) -> Vec<Option<Value>>,
) -> Findings {
    let first = AtomicBool::new(true);
    let (closed, go_on) = (Barrier::new(2), Barrier::new(2));
    let hook = |step, _: &str| {
        if step == Step::Closed && first.swap(false, Ordering::Relaxed) {
            closed.wait();
            go_on.wait();
        }
    };
    let board = Board::new(RandomState::new(), recipe, &hook);
    let got = thread::scope(|scope| {
        let thread = scope.spawn(|| board.wait_for(POD, &not_yet, &impatient));
        closed.wait();
        let go_on = &go_on;
        script(&board, ClosingOwner { thread, go_on })
    });
    let lost = got.iter().filter(|value| **value != Some(VALUE)).count();
    Findings::of(board, lost, 0)
}
