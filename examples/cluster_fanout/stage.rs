//! What the threads of one round share, the fleet or pool apart: the clusters with their faults, and the
//! points at which things are made to happen at once, or in the worst order.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::builder::{Route, Stop, World};
use super::cluster::{Client, Config, Failure, Session, Spec};
use super::plan::{CLAIMS_OF_SLOW, Cluster, Fault, Plan, Roster, cluster_number, defaults};
use super::report::{Counts, Invariant, Violations, count, get};

pub(crate) struct Stage<'r> {
    pub(crate) plan: &'r Plan,
    pub(crate) roster: &'r Roster,
    pub(crate) counts: &'r Counts,
    pub(crate) violations: &'r Violations,
    /// By the number of the cluster.
    pub(crate) posts: Vec<Post>,
    pub(crate) opened: AtomicUsize,
    pub(crate) closed: AtomicUsize,
    /// Those of all attempts.
    pub(crate) failures: Mutex<Vec<Failure>>,
    pub(crate) claims: Vec<Arc<Spec>>,
    next: AtomicUsize,
    ended: AtomicUsize,
    /// Without those of the slow cluster.
    ended_of_others: AtomicUsize,
    cancelled: AtomicBool,
    resumed: AtomicBool,
    over: AtomicBool,
}

/// What happened to one cluster.
#[derive(Default)]
pub(crate) struct Post {
    pub(crate) attempts: AtomicUsize,
    pub(crate) retries: AtomicUsize,
    pub(crate) callbacks: AtomicUsize,
    pub(crate) failed_first: AtomicBool,
    claiming: AtomicUsize,
    pausing: AtomicUsize,
}

impl<'r> Stage<'r> {
    pub(crate) fn new(
        plan: &'r Plan,
        roster: &'r Roster,
        counts: &'r Counts,
        violations: &'r Violations,
    ) -> Self {
        Self {
            plan,
            roster,
            counts,
            violations,
            posts: roster.clusters.iter().map(|_| Post::default()).collect(),
            opened: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
            failures: Mutex::default(),
            claims: roster.claims().cloned().collect(),
            next: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            ended_of_others: AtomicUsize::new(0),
            cancelled: AtomicBool::new(false),
            resumed: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    pub(crate) fn post(&self, name: &str) -> &Post {
        &self.posts[cluster_number(name)]
    }

    /// The next claim to make, together with the other claims of the same cluster.
    pub(crate) fn next_claim(&self) -> Option<&Arc<Spec>> {
        let spec = self.claims.get(count(&self.next))?;
        let cluster = self.roster.cluster(&spec.name);
        let parties = cluster.claims * cluster.specs.len();
        let most = self.plan.threads - CLAIMS_OF_SLOW;
        meet(&self.post(&spec.name).claiming, parties.min(most));
        (!self.is_cancelled()).then_some(spec)
    }

    pub(crate) fn claim_ended(&self, spec: &Spec) {
        if self.roster.cluster(&spec.name).fault != Fault::Slow {
            count(&self.ended_of_others);
        }
        self.ended.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn all_claims_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) == self.claims.len()
    }

    /// Everybody is called off: by a fault, or because a thread has panicked.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Starts over with what is there. It happens once.
    pub(crate) fn resume(&self) {
        self.resumed.store(true, Ordering::Relaxed);
        for counter in [&self.next, &self.ended, &self.ended_of_others] {
            counter.store(0, Ordering::Relaxed);
        }
        self.cancelled.store(false, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn check(&self, invariant: Invariant, holds: bool, what: impl FnOnce() -> String) {
        self.violations.check(invariant, holds, what);
    }

    /// Nobody gets hold of a client that is not connected.
    pub(crate) fn check_client(&self, client: &Client) {
        self.check(Invariant::ReadyMeansReady, client.is_connected(), || {
            format!("{} is not connected", client.config.name)
        });
    }

    fn check_config(&self, cluster: &Cluster, config: &Config) {
        let mut alone = cluster.specs.iter();
        let alone = alone.any(|spec| *config == Config::resolve(&defaults(), spec));
        self.check(Invariant::ConfiguredAlone, alone, || format!("{config:?}"));
    }

    fn take_time(&self, cluster: &Cluster) {
        match cluster.fault {
            Fault::Delayed(delay) => {
                count(&self.counts.delayed);
                thread::sleep(delay);
            }
            Fault::Slow => {
                count(&self.counts.slow);
                self.wait_for_the_others(cluster);
            }
            _ => {}
        }
    }

    /// Waits for the claims of other clusters, as long as one of them ends from time to time.
    fn wait_for_the_others(&self, cluster: &Cluster) {
        const NAP: Duration = Duration::from_micros(200);
        let others = self.claims.len() - cluster.claims * cluster.specs.len();
        let mut before = 0;
        let mut idle = 0;
        while !self.is_cancelled() {
            let ended = get(&self.ended_of_others);
            idle = if ended == before { idle + 1 } else { 0 };
            before = ended;
            if ended == others || idle == self.plan.max_naps {
                self.check(Invariant::NobodyDelayed, ended == others, || {
                    let waiting = others - ended;
                    format!("{waiting} claims waited for {}", cluster.name)
                });
                return;
            }
            thread::sleep(NAP);
        }
    }
}

impl World for Stage<'_> {
    fn connect(&self, config: &Config, route: Route) -> Result<Session, Stop> {
        let cluster = self.roster.cluster(&config.name);
        self.check_config(cluster, config);
        if cluster.fault == Fault::Cancels && !self.resumed.load(Ordering::Relaxed) {
            self.cancel();
        }
        self.take_time(cluster);
        // The error of a hub is there already, and must not get lost.
        if self.is_cancelled() && !matches!(route, Route::HubDown(_)) {
            count(&self.counts.cancelled);
            return Err(Stop::Cancelled);
        }

        count(&self.counts.attempts);
        let post = self.post(&config.name);
        let attempt = count(&post.attempts) + 1;
        let said = format!("{}, attempt {attempt}", config.name);
        let (counter, failure) = match (cluster.fault, route) {
            (_, Route::HubDown(cause)) => {
                let failure = Failure::Unreachable(said, Box::new(cause));
                (&self.counts.unreachable, failure)
            }
            (Fault::Refused { until }, _) if attempt < until => {
                (&self.counts.refused, Failure::Refused(said))
            }
            (Fault::Denied, _) => (&self.counts.denied, Failure::Denied(said)),
            (Fault::Panics, _) if attempt == 1 => (&self.counts.panics, Failure::Panicked(said)),
            (_, route) => {
                if let Route::Through(hub) = route {
                    self.check_client(&hub);
                }
                count(&self.counts.opened);
                count(&self.opened);
                let endpoint = config.endpoint.clone();
                return Ok(Session { endpoint });
            }
        };
        count(counter);
        if attempt == 1 {
            post.failed_first.store(true, Ordering::Relaxed);
        }
        self.failures.lock().unwrap().push(failure.clone());
        match failure {
            // Not by `panic!`, which would print a message for each.
            Failure::Panicked(said) => panic::resume_unwind(Box::new(said)),
            failure => Err(Stop::Failed(failure)),
        }
    }

    fn close(&self, _client: &Client) {
        count(&self.counts.surplus);
        count(&self.closed);
    }

    fn recovered(&self, name: &str) {
        count(&self.counts.recoveries);
        count(&self.post(name).callbacks);
    }

    fn pause(&self, name: &str) {
        if self.plan.pauses {
            meet(&self.post(name).pausing, 2);
        }
    }
}

/// Lets so many threads go on together. It does not insist: some may never come.
fn meet(arrivals: &AtomicUsize, parties: usize) {
    const PATIENCE: usize = 200;
    let all = (arrivals.fetch_add(1, Ordering::AcqRel) / parties + 1) * parties;
    for _ in 0..PATIENCE {
        if arrivals.load(Ordering::Acquire) >= all {
            return;
        }
        thread::yield_now();
    }
}
