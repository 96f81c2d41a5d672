//! What is checked at the end of a round; the rest is checked where it happens.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::cluster::{Client, Failure, Name, Settings, Spec};
use super::fleet::Fleet;
use super::plan::{Fault, defaults};
use super::pool::Pool;
use super::report::{Invariant, count, get};
use super::stage::Stage;

/// What came back for each claim that was not called off.
#[derive(Default)]
pub(super) struct Answers(Mutex<Vec<Answer>>);

type Answer = (Arc<Spec>, Result<Arc<Client>, Failure>);

impl Answers {
    pub(super) fn add(
        &self,
        stage: &Stage<'_>,
        spec: &Arc<Spec>,
        answer: Result<Arc<Client>, Failure>,
    ) {
        count(&stage.counts.claims);
        self.0.lock().unwrap().push((Arc::clone(spec), answer));
    }

    /// Everybody got the one client that is there, or was told what has happened. That is sorted by now.
    fn audit(self, stage: &Stage<'_>, kept: &BTreeMap<Name, Arc<Client>>) {
        let happened = stage.failures.lock().unwrap();
        for (spec, answer) in self.0.into_inner().unwrap() {
            let name = &spec.name;
            let kept = kept.get(name);
            let conflicts = kept.is_some_and(|kept| kept.config.endpoint != spec.endpoint);
            let (invariant, holds) = match &answer {
                Ok(client) => {
                    let same = kept.is_some_and(|kept| Arc::ptr_eq(client, kept));
                    (Invariant::BuiltOnce, same && !conflicts)
                }
                Err(Failure::Conflict(_)) => {
                    count(&stage.counts.conflicts);
                    (Invariant::NoErrorLost, conflicts)
                }
                Err(Failure::Forgotten) => (Invariant::Settled, false),
                Err(failure) => (
                    Invariant::NoErrorLost,
                    happened.binary_search(failure).is_ok(),
                ),
            };
            stage.check(invariant, holds, || {
                let got = answer.as_ref().map(|client| &client.config.endpoint);
                format!("{name} was asked for at {}, and got {got:?}", spec.endpoint)
            });
        }
    }
}

pub(super) fn fleet<S: BuildHasher>(stage: &Stage<'_>, fleet: &Fleet<'_, S>, answers: Answers) {
    let mut kept = BTreeMap::new();
    let mut failures = Vec::new();
    for (cluster, post) in stage.roster.clusters.iter().zip(&stage.posts) {
        let name = &cluster.name;
        let outcome = fleet.outcomes.get(name);
        let client = outcome.as_ref().and_then(|outcome| outcome.client.clone());
        let ready = client.is_some();
        let denied = cluster.fault == Fault::Denied;
        stage.check(
            Invariant::Settled,
            outcome.is_some() && ready != denied,
            || format!("{name}, {:?}, ended with {outcome:?}", cluster.fault),
        );
        let (attempts, retries) = (get(&post.attempts), get(&post.retries));
        stage.check(Invariant::BuiltOnce, attempts == 1 + retries, || {
            format!("{name} was built {attempts} times, with {retries} retries")
        });
        let recovered = ready && post.failed_first.load(Ordering::Relaxed);
        let callbacks = get(&post.callbacks);
        stage.check(
            Invariant::OneCallback,
            callbacks == usize::from(recovered),
            || format!("{callbacks} callbacks for {name}, recovered: {recovered}"),
        );
        failures.extend(outcome.into_iter().flat_map(|outcome| outcome.failures));
        kept.extend(client.map(|client| (name.clone(), client)));
    }
    check_errors(stage, failures);
    answers.audit(stage, &kept);
    check_clients(stage, kept.len());
    let present = fleet.outcomes.len();
    stage.check(Invariant::Settled, present == stage.posts.len(), || {
        format!("{present} outcomes")
    });
    check_defaults(stage, &fleet.builder.defaults);
}

pub(super) fn pool<S: BuildHasher>(
    stage: &Stage<'_>,
    pool: &Pool<'_, S>,
    answers: Answers,
    mut errors: Vec<Failure>,
) {
    let kept: BTreeMap<_, _> = pool.clients.iter().collect();
    for cluster in &stage.roster.clusters {
        let ready = kept.contains_key(&cluster.name);
        let denied = cluster.fault == Fault::Denied;
        stage.check(Invariant::Settled, ready != denied, || {
            format!("{}, {:?}, ready: {ready}", cluster.name, cluster.fault)
        });
    }
    errors.retain(|error| !matches!(error, Failure::Conflict(_)));
    check_errors(stage, errors);
    answers.audit(stage, &kept);
    check_clients(stage, kept.len());
    check_defaults(stage, &pool.builder.defaults);
}

/// What was reported is exactly what has happened.
fn check_errors(stage: &Stage<'_>, mut reported: Vec<Failure>) {
    let mut happened = stage.failures.lock().unwrap();
    happened.sort_unstable();
    reported.sort_unstable();
    stage.check(Invariant::NoErrorLost, *happened == reported, || {
        let lost = happened.iter().find(|error| !reported.contains(error));
        format!(
            "{} errors of {} were reported; lost: {lost:?}",
            reported.len(),
            happened.len()
        )
    });
}

fn check_clients(stage: &Stage<'_>, kept: usize) {
    stage.counts.ready.fetch_add(kept, Ordering::Relaxed);
    let (opened, closed) = (get(&stage.opened), get(&stage.closed));
    stage.check(Invariant::BuiltOnce, opened == closed + kept, || {
        format!("{opened} clients opened, {closed} closed, {kept} kept")
    });
}

fn check_defaults(stage: &Stage<'_>, handed_over: &Settings) {
    stage.check(
        Invariant::ConfiguredAlone,
        *handed_over == defaults(),
        || format!("the defaults are {handed_over:?}"),
    );
}
