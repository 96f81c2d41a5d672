//! Scripted schedules for the windows in which limiters go wrong, at cap 1.

use std::net::IpAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::ledger::{Ledger, Visit};
use super::limiter::{Limiter, MakeLimiter, Rules, Step};
use super::plan::nth_ip;
use super::report::Findings;

pub(crate) struct Schedule {
    pub(crate) name: &'static str,
    pub(crate) run: fn(MakeLimiter) -> Findings,
}

pub(crate) static SCHEDULES: [Schedule; 3] = [
    Schedule {
        name: "the last connection ends while a newcomer looks at its entry",
        run: last_one_goes_under_newcomer,
    },
    Schedule {
        name: "two newcomers find no entry",
        run: two_newcomers_at_once,
    },
    Schedule {
        name: "one address stands still in the middle of an admission",
        run: one_address_stands_still,
    },
];

const CAP: usize = 1;

/// The newcomer has found the entry and not counted itself in when the last connection ends and the entry is
/// removed. What the newcomer goes on with must not be beside what the third one finds.
pub(crate) fn last_one_goes_under_newcomer(make: MakeLimiter) -> Findings {
    play(Step::Found, make, |stage| {
        let ip = nth_ip(0);
        let last = stage.admit(ip);
        let (newcomer, ()) = stage.while_one_is_caught(ip, || {
            drop(last);
            stage.limiter.sweep();
        });
        let third = stage.admit(ip);
        drop((newcomer, third));
        0
    })
}

/// The first one has found no entry and not linked its own when the second one comes.
pub(crate) fn two_newcomers_at_once(make: MakeLimiter) -> Findings {
    play(Step::Linking, make, |stage| {
        let ip = nth_ip(0);
        let both = stage.while_one_is_caught(ip, || stage.admit(ip));
        drop(both);
        0
    })
}

/// An admission stands still; one of another address goes through meanwhile.
pub(crate) fn one_address_stands_still(make: MakeLimiter) -> Findings {
    /// Naps, not time: on a machine that stands still they do not pass.
    const PATIENCE: usize = 1_000;
    const NAP: Duration = Duration::from_millis(1);
    play(Step::Linking, make, |stage| {
        thread::scope(|scope| {
            let (_, went_through) = stage.while_one_is_caught(nth_ip(0), || {
                let other = scope.spawn(|| drop(stage.admit(nth_ip(1))));
                (0..PATIENCE).any(|_| {
                    thread::sleep(NAP);
                    other.is_finished()
                })
            });
            usize::from(!went_through)
        })
    })
}

/// Runs `script`, which returns how many waited for another address, with a trap at `step`.
fn play(step: Step, make: MakeLimiter, script: impl FnOnce(&Stage<'_>) -> usize) -> Findings {
    let ledger = Ledger::default();
    let trap = Trap {
        step,
        armed: AtomicBool::new(false),
        caught: Barrier::new(2),
        released: Barrier::new(2),
    };
    let hook = |step| trap.pass(step);
    let limiter = make(Rules {
        cap: CAP,
        hook: &hook,
        ledger: &ledger,
    });
    let waited = script(&Stage {
        limiter: &*limiter,
        ledger: &ledger,
        trap: &trap,
    });
    Findings::of(limiter, &ledger, CAP, waited)
}

struct Stage<'s> {
    limiter: &'s dyn Limiter,
    ledger: &'s Ledger,
    trap: &'s Trap,
}

impl<'s> Stage<'s> {
    fn admit(&self, ip: IpAddr) -> Option<Visit<'s>> {
        self.ledger.admit(self.limiter, ip)
    }

    /// Runs `script` while somebody who asks for a place is in the trap, and lets him go on then.
    fn while_one_is_caught<R>(
        &self,
        ip: IpAddr,
        script: impl FnOnce() -> R,
    ) -> (Option<Visit<'s>>, R) {
        self.trap.armed.store(true, Ordering::Release);
        thread::scope(|scope| {
            let caught = scope.spawn(|| self.admit(ip));
            self.trap.caught.wait();
            let result = script();
            self.trap.released.wait();
            (caught.join().expect("an answer"), result)
        })
    }
}

/// Catches the first to take a step after it was armed.
struct Trap {
    step: Step,
    armed: AtomicBool,
    caught: Barrier,
    released: Barrier,
}

impl Trap {
    fn pass(&self, step: Step) {
        if step == self.step && self.armed.swap(false, Ordering::AcqRel) {
            self.caught.wait();
            self.released.wait();
        }
    }
}
