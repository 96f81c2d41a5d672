//! Eight fleets with one wrong step each. An invariant is worth something if it catches one of them.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};

use quince::Operation;

use super::builder::{Cancelled, Stop};
use super::cluster::{Client, Config, Settings, Spec};
use super::fleet::{Attempt, Fleet, Outcome, Recipe, Sound};
use super::pool::Pool;
use super::report::Invariant;

pub(crate) struct Twin {
    pub(crate) name: &'static str,
    pub(crate) caught_by: Invariant,
    pub(crate) recipe: fn() -> Box<dyn Recipe<RandomState>>,
}

pub(crate) static TWINS: [Twin; 8] = [
    Twin {
        name: "forget-then-retry",
        caught_by: Invariant::Settled,
        recipe: || Box::new(ForgetThenRetry),
    },
    Twin {
        name: "check-then-insert",
        caught_by: Invariant::BuiltOnce,
        recipe: || Box::new(CheckThenInsert),
    },
    Twin {
        name: "pool-overwrite",
        caught_by: Invariant::BuiltOnce,
        recipe: || Box::new(PoolOverwrite),
    },
    Twin {
        name: "overwrite",
        caught_by: Invariant::NoErrorLost,
        recipe: || Box::new(Overwrite),
    },
    Twin {
        name: "shared-defaults",
        caught_by: Invariant::ConfiguredAlone,
        recipe: || Box::<SharedDefaults>::default(),
    },
    Twin {
        name: "publish-then-connect",
        caught_by: Invariant::ReadyMeansReady,
        recipe: || Box::new(PublishThenConnect),
    },
    Twin {
        name: "announce-every-success",
        caught_by: Invariant::OneCallback,
        recipe: || Box::new(AnnounceEverySuccess),
    },
    Twin {
        name: "one-lock",
        caught_by: Invariant::NobodyDelayed,
        recipe: || Box::<OneLock>::default(),
    },
];

/// Takes a failure out of the way before the next attempt. Meanwhile nobody knows of the cluster, and if the
/// attempt is called off it stays that way.
struct ForgetThenRetry;

impl<S: BuildHasher> Recipe<S> for ForgetThenRetry {
    fn retry(&self, fleet: &Fleet<'_, S>, failed: &Outcome) -> Result<(), Cancelled> {
        let name = &failed.spec.name;
        fleet.outcomes.remove(name);
        let attempt = fleet.attempt(&failed.spec)?;
        fleet.builder.world.pause(name);
        fleet.outcomes.compute(name.clone(), |rival| {
            let before = rival.map_or(failed, |(_, outcome)| outcome);
            Operation::<_>::Insert(before.after(&attempt))
        });
        if attempt.is_ok() {
            fleet.builder.world.recovered(name);
        }
        Ok(())
    }
}

/// Two claims both find nothing, and both build.
struct CheckThenInsert;

impl<S: BuildHasher> Recipe<S> for CheckThenInsert {
    fn settle(&self, fleet: &Fleet<'_, S>, spec: &Arc<Spec>) -> Result<(), Cancelled> {
        if !fleet.outcomes.contains_key(&spec.name) {
            fleet.builder.world.pause(&spec.name);
            let outcome = Outcome::first(spec, &fleet.attempt(spec)?);
            fleet.outcomes.insert(spec.name.clone(), outcome);
        }
        Ok(())
    }
}

/// The second client takes the place of the first, which nobody closes.
struct PoolOverwrite;

impl<S: BuildHasher> Recipe<S> for PoolOverwrite {
    fn lend(&self, pool: &Pool<'_, S>, spec: &Arc<Spec>) -> Result<Arc<Client>, Stop> {
        if let Some(client) = pool.clients.get(&spec.name) {
            return Ok(client);
        }
        let client = pool.build(spec)?;
        pool.clients.insert(spec.name.clone(), Arc::clone(&client));
        Ok(client)
    }
}

/// Enters an outcome made from an earlier one that is not there any more: what came between is lost.
struct Overwrite;

impl<S: BuildHasher> Recipe<S> for Overwrite {
    fn record(&self, fleet: &Fleet<'_, S>, name: &str, attempt: &Attempt) {
        let before = fleet.outcomes.get(name).expect("outcomes stay");
        fleet.builder.world.pause(name);
        let outcome = before.after(attempt);
        fleet.outcomes.insert(name.into(), outcome);
        if attempt.is_ok() && before.client.is_none() {
            fleet.builder.world.recovered(name);
        }
    }
}

/// Fills the settings of each cluster in by writing them back to the one table that all share.
#[derive(Default)]
struct SharedDefaults(Mutex<Option<Settings>>);

impl<S: BuildHasher> Recipe<S> for SharedDefaults {
    fn resolve(&self, defaults: &Settings, spec: &Spec) -> Config {
        let mut shared = self.0.lock().unwrap();
        let settings = shared.get_or_insert_with(|| defaults.clone());
        let config = Config::resolve(settings, spec);
        settings.clone_from(&config.settings);
        config
    }
}

/// Lists a client as ready before it is connected.
struct PublishThenConnect;

impl<S: BuildHasher> Recipe<S> for PublishThenConnect {
    fn settle(&self, fleet: &Fleet<'_, S>, spec: &Arc<Spec>) -> Result<(), Cancelled> {
        fleet.built.get_or_try_init(spec.name.clone(), || {
            let enter = |attempt: &Attempt| {
                let outcome = Outcome::first(spec, attempt);
                fleet.outcomes.insert(spec.name.clone(), outcome);
            };
            let builder = &fleet.builder;
            let client = builder.prepare(spec);
            enter(&Ok(Arc::clone(&client)));
            match builder.connect(&client, spec, &|hub| fleet.claim(hub)) {
                Ok(()) => {}
                Err(Stop::Failed(failure)) => enter(&Err(failure)),
                Err(Stop::Cancelled) => return Err(Cancelled),
            }
            Ok(())
        })
    }
}

/// Replaces whatever is there when an attempt succeeds, and takes that for the recovery.
struct AnnounceEverySuccess;

impl<S: BuildHasher> Recipe<S> for AnnounceEverySuccess {
    fn record(&self, fleet: &Fleet<'_, S>, name: &str, attempt: &Attempt) {
        if attempt.is_err() {
            return Sound.record(fleet, name, attempt);
        }
        let before = fleet.outcomes.get(name).expect("outcomes stay");
        let outcome = before.after(attempt);
        fleet.outcomes.insert(name.into(), outcome);
        fleet.builder.world.recovered(name);
    }
}

/// Builds under a lock around everything, which the builder of a cluster with a hub enters again.
#[derive(Default)]
struct OneLock {
    owner: Mutex<Option<ThreadId>>,
    released: Condvar,
}

impl<S: BuildHasher> Recipe<S> for OneLock {
    fn settle(&self, fleet: &Fleet<'_, S>, spec: &Arc<Spec>) -> Result<(), Cancelled> {
        let this = Some(thread::current().id());
        let owner = self.owner.lock().unwrap();
        if *owner == this {
            drop(owner);
            return Sound.settle(fleet, spec);
        }
        let mut owner = self
            .released
            .wait_while(owner, |owner| owner.is_some())
            .unwrap();
        *owner = this;
        drop(owner);
        let settled = Sound.settle(fleet, spec);
        *self.owner.lock().unwrap() = None;
        self.released.notify_one();
        settled
    }
}
