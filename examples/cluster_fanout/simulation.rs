//! A controller at work: all who need a client of some cluster ask for it, two tasks retry what failed, one
//! looks at what is ready, and the caller goes on to change the defaults it has handed over.

use std::hash::BuildHasher;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::audit::{self, Answers};
use super::builder::Stop;
use super::cluster::{Settings, Spec};
use super::fleet::{Fleet, Recipe};
use super::plan::{Plan, Roster, cluster_name, cluster_number};
use super::pool::Pool;
use super::report::{Invariant, Report, count};
use super::stage::Stage;

/// Runs every round of `plan`, each with a fleet and with a pool.
pub(crate) fn run<S: BuildHasher + Clone + Sync>(
    plan: &Plan,
    recipe: &dyn Recipe<S>,
    hasher: &S,
    observe: &dyn Fn(usize),
) -> Report {
    let started = Instant::now();
    let mut report = Report::default();
    for round in 0..plan.rounds {
        observe(round);
        let roster = Roster::new(plan, round);

        let stage = Stage::new(plan, &roster, &report.fleets, &report.violations);
        let own = Arc::clone(&roster.defaults);
        let fleet = Fleet::new(hasher.clone(), own, recipe, &stage);
        run_fleet(&stage, &fleet);

        let stage = Stage::new(plan, &roster, &report.pools, &report.violations);
        let own = Arc::clone(&roster.defaults);
        let pool = Pool::new(hasher.clone(), own, recipe, &stage);
        run_pool(&stage, &pool);
    }
    report.elapsed = started.elapsed();
    report
}

/// Rivals who come to a failed cluster at the same time: a timer, and an operator who cannot wait for it.
const RETRIERS: usize = 2;

fn run_fleet<S: BuildHasher + Sync>(stage: &Stage<'_>, fleet: &Fleet<'_, S>) {
    let answers = Answers::default();
    let claim = |spec: &Arc<Spec>| match fleet.claim(spec) {
        Err(Stop::Cancelled) => {}
        Err(Stop::Failed(failure)) => answers.add(stage, spec, Err(failure)),
        Ok(client) => answers.add(stage, spec, Ok(client)),
    };
    let retry: &(dyn Fn() + Sync) = &|| retry_failed(stage, fleet);
    let watch = || watch(stage, fleet);
    drive(stage, &claim, &[retry; RETRIERS], &watch);
    audit::fleet(stage, fleet, answers);
}

fn run_pool<S: BuildHasher + Sync>(stage: &Stage<'_>, pool: &Pool<'_, S>) {
    let answers = Answers::default();
    let errors = Mutex::new(Vec::new());
    let claim = |spec: &Arc<Spec>| loop {
        match pool.client(spec) {
            Err(Stop::Cancelled) => return,
            Ok(client) => return answers.add(stage, spec, Ok(client)),
            Err(Stop::Failed(failure)) => {
                errors.lock().unwrap().extend(failure.chain().cloned());
                if failure.is_final() {
                    return answers.add(stage, spec, Err(failure));
                }
            }
        }
    };
    drive(stage, &claim, &[], &|| {});
    audit::pool(stage, pool, answers, errors.into_inner().unwrap());
}

/// Makes all claims, beside so many tasks that end when there is nothing left to do, and one until the end.
fn drive(
    stage: &Stage<'_>,
    claim: &(dyn Fn(&Arc<Spec>) + Sync),
    beside: &[&(dyn Fn() + Sync)],
    until_end: &(dyn Fn() + Sync),
) {
    let watched = |task: &dyn Fn()| {
        let _alarm = Alarm(stage);
        task();
    };
    thread::scope(|scope| {
        scope.spawn(|| watched(until_end));
        scope.spawn(|| watched(&|| change_own_defaults(stage)));
        let _end = End(stage);
        loop {
            let start = Barrier::new(stage.plan.threads + beside.len());
            thread::scope(|scope| {
                let (start, watched) = (&start, &watched);
                for _ in 0..stage.plan.threads {
                    scope.spawn(move || {
                        start.wait();
                        watched(&|| {
                            while let Some(spec) = stage.next_claim() {
                                claim(spec);
                                stage.claim_ended(spec);
                            }
                        });
                    });
                }
                for task in beside {
                    scope.spawn(move || {
                        start.wait();
                        watched(task);
                    });
                }
            });
            if !stage.is_cancelled() {
                break;
            }
            stage.resume();
        }
    });
}

/// Lets nobody wait for a thread that panicked.
struct Alarm<'s>(&'s Stage<'s>);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.cancel();
        }
    }
}

struct End<'s>(&'s Stage<'s>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn retry_failed<S: BuildHasher>(stage: &Stage<'_>, fleet: &Fleet<'_, S>) {
    loop {
        let last = stage.all_claims_ended();
        let failed = fleet.failed();
        for name in &failed {
            if fleet.retry(name) == Ok(true) {
                count(&stage.counts.retries);
                count(&stage.post(name).retries);
            }
        }
        if stage.is_cancelled() || (last && failed.is_empty()) {
            return;
        }
        thread::yield_now();
    }
}

/// Looks again and again which clusters are ready.
fn watch<S: BuildHasher>(stage: &Stage<'_>, fleet: &Fleet<'_, S>) {
    const NAP: Duration = Duration::from_micros(100);
    let mut last = false;
    let mut known = vec![None; stage.posts.len()];
    while !last {
        last = stage.is_over();
        count(&stage.counts.looks);
        let mut seen = vec![None; known.len()];
        for (name, client) in fleet.look() {
            seen[cluster_number(&name)] = Some(client.is_some());
            if let Some(client) = client {
                stage.check_client(&client);
            }
        }
        for (number, (before, now)) in known.iter().zip(&seen).enumerate() {
            stage.check(
                Invariant::Settled,
                before.is_none() || now.is_some(),
                || format!("{} was there, and is not any more", cluster_name(number)),
            );
            let stays_ready = *before != Some(true) || *now == Some(true);
            stage.check(Invariant::ReadyMeansReady, stays_ready, || {
                format!("{} was ready, and is not any more", cluster_name(number))
            });
        }
        known = seen;
        if stage.plan.pauses {
            thread::yield_now();
        } else {
            thread::sleep(NAP);
        }
    }
}

/// The caller had handed its table over, and needs another one.
fn change_own_defaults(stage: &Stage<'_>) {
    const NAP: Duration = Duration::from_micros(100);
    let mut own: Arc<Settings> = Arc::clone(&stage.roster.defaults);
    while !stage.is_over() {
        for value in Arc::make_mut(&mut own).values_mut() {
            *value += 1;
        }
        count(&stage.counts.changes);
        thread::sleep(NAP);
    }
}
