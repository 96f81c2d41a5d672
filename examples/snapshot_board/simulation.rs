//! A workspace manager at work: finalizers wait for the snapshots of their pods, workers publish what is
//! ready. Half-way the manager is restarted, which loses all it had in memory, and all events are replayed.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::board::{Board, Recipe};
use super::feed::Event;
use super::plan::{FINALIZERS_PER_POD, Fate, Plan};
use super::report::{Findings, LifeReport, Report};
use super::stage::{Stage, World, count, inject_panic, survive};

/// How far the present life of the manager has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) consumed: usize,
    pub(crate) served: usize,
}

/// Runs `plan` on boards with this `recipe`: one life until the restart and one to the end. A life that
/// stalls is the last one.
pub(crate) fn run<S: BuildHasher + Clone + Sync>(
    plan: &Plan,
    recipe: &dyn Recipe<S>,
    hasher: &S,
    observe: &dyn Fn(Progress),
) -> Report {
    let started = Instant::now();
    let world = World::new(plan);
    let mut lives = Vec::new();
    for restarted in [false, true] {
        let stage = Stage::new(&world, restarted);
        let (life, end) = live(&stage, recipe, hasher.clone(), observe);
        lives.push(life);
        if end == End::Stalled {
            break;
        }
    }
    Report {
        lives,
        elapsed: started.elapsed(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Completed,
    Restarted,
    /// Events were delivered and not consumed: publishing waits for something.
    Stalled,
}

fn live<S: BuildHasher + Sync>(
    stage: &Stage<'_>,
    recipe: &dyn Recipe<S>,
    hasher: S,
    observe: &dyn Fn(Progress),
) -> (LifeReport, End) {
    let plan = stage.world.plan;
    let replayed = if stage.restarted {
        stage.feed.delivered()
    } else {
        0
    };
    let hook = |step, pod: &str| stage.reach(step, pod);
    let board = Board::new(hasher, recipe, &hook);
    let crews = (plan.finalizers_in_flight / FINALIZERS_PER_POD).clamp(1, plan.waited.max(1));
    let finalizers_left = AtomicUsize::new(crews * FINALIZERS_PER_POD);

    let end = thread::scope(|scope| {
        let (board, finalizers_left) = (&board, &finalizers_left);
        for _ in 0..plan.workers {
            scope.spawn(|| {
                let _alarm = Alarm(stage);
                work(stage, board);
            });
        }
        for crew in 0..crews {
            for finalizer in 0..FINALIZERS_PER_POD {
                scope.spawn(move || {
                    let _alarm = Alarm(stage);
                    for pod in (crew..plan.waited).step_by(crews) {
                        finalize(stage, board, pod, finalizer);
                    }
                    finalizers_left.fetch_sub(1, Ordering::Release);
                });
            }
        }
        let end = watch(stage, finalizers_left, observe);
        stage.end(); // the workers would wait for more events
        end
    });

    let counts = &stage.counts;
    let get = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    let lost = get(&counts.ended) - get(&counts.served);
    let unconsumed = match end {
        End::Completed | End::Restarted => 0,
        End::Stalled => stage.feed.delivered() - get(&counts.consumed),
    };
    let life = LifeReport {
        findings: Findings::of(board, lost, unconsumed),
        events: get(&counts.consumed),
        orphans: get(&counts.orphans),
        replayed,
        served: get(&counts.served),
        timeouts: get(&counts.timeouts),
        finalizer_panics: get(&counts.finalizer_panics),
        worker_panics: get(&counts.worker_panics),
        events_at_close: get(&counts.events_at_close),
    };
    (life, end)
}

/// Lets nobody wait for a thread that panicked.
struct Alarm<'s>(&'s Stage<'s>);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end();
        }
    }
}

/// Publishes what comes out of the feed. A worker that panicked has not consumed its event.
fn work<S: BuildHasher>(stage: &Stage<'_>, board: &Board<'_, S>) {
    let world = stage.world;
    while let Some(event) = stage.feed.take() {
        let pod = event.snapshot;
        if event.meets {
            stage.meet_finalizers(pod);
        }
        match survive(|| board.publish(&world.names[pod], world.plan.value(pod))) {
            Ok(found) => {
                if !found {
                    count(&stage.counts.orphans);
                }
                stage.consumed(event);
            }
            Err(_) if stage.is_ending() => {} // the event is lost with all else
            Err(_) => {
                count(&stage.counts.worker_panics);
                stage.feed.redeliver(Event::of(pod));
            }
        }
    }
}

/// Waits for the snapshot of `pod`; a finalizer that was killed comes back, as its controller would start it
/// again.
fn finalize<S: BuildHasher>(stage: &Stage<'_>, board: &Board<'_, S>, pod: usize, finalizer: usize) {
    let plan = stage.world.plan;
    if stage.is_ending() || stage.has_ended(pod, finalizer) {
        return;
    }
    stage.before_registering(pod);
    let mut outcome = attempt(stage, board, pod, plan.fate(pod, finalizer));
    while outcome == Outcome::Killed && !stage.is_ending() {
        stage.before_coming_back(pod);
        outcome = attempt(stage, board, pod, Fate::Patient);
    }
    match outcome {
        Outcome::Killed => return,
        Outcome::Lost => {}
        Outcome::Served => {
            count(&stage.counts.served);
        }
    }
    stage.ended(pod, finalizer);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Served,
    Lost,
    Killed,
}

fn attempt<S: BuildHasher>(
    stage: &Stage<'_>,
    board: &Board<'_, S>,
    pod: usize,
    fate: Fate,
) -> Outcome {
    const NAP: Duration = Duration::from_millis(10);
    let world = stage.world;
    let look = || {
        match fate {
            Fate::Patient => stage.registered(pod),
            Fate::TimesOut => {}
            Fate::Panics => inject_panic(),
        }
        world.is_ready(pod).then(|| world.plan.value(pod))
    };
    // Who still waits when all events are over is lost: that is found without a limit on time.
    let patience = || {
        let patient = fate != Fate::TimesOut && !stage.is_over(pod) && !stage.is_ending();
        patient.then_some(NAP)
    };
    match survive(|| board.wait_for(&world.names[pod], &look, &patience)) {
        Ok(Some(value)) if value == world.plan.value(pod) => Outcome::Served,
        Ok(None) if fate == Fate::TimesOut => {
            count(&stage.counts.timeouts);
            Outcome::Killed
        }
        Ok(None) if stage.is_ending() => Outcome::Killed,
        Ok(_) => Outcome::Lost,
        Err(_) => {
            count(&stage.counts.finalizer_panics);
            Outcome::Killed
        }
    }
}

/// Waits for the end of a life, and says which one it is.
fn watch(stage: &Stage<'_>, finalizers_left: &AtomicUsize, observe: &dyn Fn(Progress)) -> End {
    const TICK: Duration = Duration::from_millis(2);
    /// So many ticks without an event consumed though one was delivered. Ticks, not time: a machine that
    /// stands still makes no ticks.
    const STALL: usize = 1_000;
    let mut last_consumed = 0;
    let mut idle_ticks = 0;
    while !stage.is_ending() {
        thread::sleep(TICK);
        let consumed = stage.counts.consumed.load(Ordering::Relaxed);
        let served = stage.counts.served.load(Ordering::Relaxed);
        observe(Progress { consumed, served });

        if consumed == stage.world.events && finalizers_left.load(Ordering::Acquire) == 0 {
            return End::Completed;
        }
        let idle = consumed == last_consumed && consumed < stage.feed.delivered();
        idle_ticks = if idle { idle_ticks + 1 } else { 0 };
        last_consumed = consumed;
        if idle_ticks == STALL {
            return End::Stalled;
        }
    }
    End::Restarted // or a thread has panicked, and the scope passes that on
}
