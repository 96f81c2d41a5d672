//! One client per cluster, and what became of each.
//!
//! *Claim*: whoever comes first builds the client, everybody else waits for the same outcome. That is an
//! [`OnceMap`], whose initialiser is the build. A failure is an outcome, too: nobody else runs into it again,
//! and it is not lost. Being called off is none, so one of those who wait takes over.
//!
//! *Retry*: a failure gives way to a success by a conditional replacement. Of several that succeed at once one
//! is told that it made the difference, which calls back; the others close their surplus clients.
//!
//! *Look*: which clusters are ready is read from a map of finished outcomes. Readers never wait for a build.
//!
//! * A value of an `OnceMap` does not change. So it holds who was built, and a [`HashMap`] beside it holds
//!   the outcomes, which do. The build enters its outcome there before the others stop waiting.
//! * Nothing is held while a client is built: a build that takes for ever delays those who want that very
//!   client, and may ask for other clients itself.
//! * What all builds share, the defaults, is not changed by any of them.

use std::hash::BuildHasher;
use std::sync::Arc;

use quince::{HashMap, OnceMap};

use super::builder::{Builder, Cancelled, Stop, World};
use super::cluster::{Client, Config, Failure, Name, Settings, Spec};
use super::pool::Pool;

pub(crate) struct Fleet<'w, S> {
    pub(crate) built: OnceMap<Name, (), S>,
    pub(crate) outcomes: HashMap<Name, Outcome, S>,
    pub(crate) builder: Builder<'w, S>,
}

/// What an attempt to build a client came to.
pub(crate) type Attempt = Result<Arc<Client>, Failure>;

/// What came of all attempts for one cluster. It is ready if there is a client, and failed if there is none.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// What it was built for.
    pub(crate) spec: Arc<Spec>,
    pub(crate) client: Option<Arc<Client>>,
    /// All of them, also those of attempts that ended after another one had succeeded.
    pub(crate) failures: Vec<Failure>,
}

impl<'w, S: BuildHasher + Clone> Fleet<'w, S> {
    pub(crate) fn new(
        hasher: S,
        defaults: Arc<Settings>,
        recipe: &'w dyn Recipe<S>,
        world: &'w dyn World,
    ) -> Self {
        Self {
            built: OnceMap::with_hasher(hasher.clone()),
            outcomes: HashMap::with_hasher(hasher),
            builder: Builder {
                defaults,
                world,
                recipe,
            },
        }
    }
}

impl<S: BuildHasher> Fleet<'_, S> {
    /// The client of a cluster, or why there is none: built by this call, or by another one that this one
    /// waits for.
    pub(crate) fn claim(&self, spec: &Arc<Spec>) -> Result<Arc<Client>, Stop> {
        self.builder.recipe.settle(self, spec)?;
        let outcome = self.outcomes.get(&spec.name);
        let outcome = outcome.ok_or(Stop::Failed(Failure::Forgotten))?;
        if outcome.spec.endpoint != spec.endpoint {
            let other = outcome.spec.endpoint.clone();
            return Err(Stop::Failed(Failure::Conflict(other)));
        }
        outcome.result().map_err(Stop::Failed)
    }

    /// Makes one more attempt if there is hope, and tells whether it did.
    pub(crate) fn retry(&self, name: &str) -> Result<bool, Cancelled> {
        let hopeful = self.outcomes.get(name).filter(Outcome::may_recover);
        if let Some(outcome) = &hopeful {
            self.builder.recipe.retry(self, outcome)?;
        }
        Ok(hopeful.is_some())
    }

    /// All clusters that have an outcome so far, with the clients of those that are ready.
    pub(crate) fn look(&self) -> Vec<(Name, Option<Arc<Client>>)> {
        let outcomes = self.outcomes.pin();
        let look = |(name, outcome): (&Name, &Outcome)| (name.clone(), outcome.client.clone());
        outcomes.iter().map(look).collect()
    }

    /// The clusters that failed and may recover, by name.
    pub(crate) fn failed(&self) -> Vec<Name> {
        let outcomes = self.outcomes.pin();
        let failed = outcomes.iter().filter(|(_, outcome)| outcome.may_recover());
        let mut failed: Vec<_> = failed.map(|(name, _)| name.clone()).collect();
        failed.sort_unstable();
        failed
    }

    pub(crate) fn attempt(&self, spec: &Spec) -> Result<Attempt, Cancelled> {
        match self.builder.build(spec, &|hub| self.claim(hub)) {
            Ok(client) => Ok(Ok(client)),
            Err(Stop::Failed(failure)) => Ok(Err(failure)),
            Err(Stop::Cancelled) => Err(Cancelled),
        }
    }
}

impl Outcome {
    pub(crate) fn first(spec: &Arc<Spec>, attempt: &Attempt) -> Self {
        let none = Self {
            spec: Arc::clone(spec),
            client: None,
            failures: Vec::new(),
        };
        none.after(attempt)
    }

    /// What one more attempt makes of it. The first client stays.
    pub(crate) fn after(&self, attempt: &Attempt) -> Self {
        let mut outcome = self.clone();
        match attempt {
            Ok(client) => {
                outcome.client.get_or_insert_with(|| Arc::clone(client));
            }
            Err(failure) => outcome.failures.push(failure.clone()),
        }
        outcome
    }

    pub(crate) fn result(&self) -> Attempt {
        let last = || self.failures.last().expect("no client, so it failed");
        self.client.clone().ok_or_else(|| last().clone())
    }

    fn may_recover(&self) -> bool {
        const MAX_FAILURES: usize = 50;
        self.failures.len() < MAX_FAILURES && self.result().is_err_and(|last| !last.is_final())
    }
}

/// The steps of the recipe. The provided methods are right; each can be replaced by a wrong one.
pub(crate) trait Recipe<S: BuildHasher>: Sync {
    fn resolve(&self, defaults: &Settings, spec: &Spec) -> Config {
        Config::resolve(defaults, spec)
    }

    /// Sees to it that the cluster has an outcome.
    fn settle(&self, fleet: &Fleet<'_, S>, spec: &Arc<Spec>) -> Result<(), Cancelled> {
        fleet.built.get_or_try_init(spec.name.clone(), || {
            let outcome = Outcome::first(spec, &fleet.attempt(spec)?);
            fleet.outcomes.insert(spec.name.clone(), outcome);
            Ok(())
        })
    }

    /// Makes one more attempt. The failure stays where it is, in case this one is called off.
    fn retry(&self, fleet: &Fleet<'_, S>, failed: &Outcome) -> Result<(), Cancelled> {
        let attempt = fleet.attempt(&failed.spec)?;
        fleet.builder.world.pause(&failed.spec.name);
        self.record(fleet, &failed.spec.name, &attempt);
        Ok(())
    }

    /// Enters what came of an attempt.
    fn record(&self, fleet: &Fleet<'_, S>, name: &str, attempt: &Attempt) {
        let update = |outcome: &Outcome| outcome.after(attempt);
        let updated = fleet.outcomes.get_and_update(name, update);
        let (before, _) = updated.expect("it has failed before, and outcomes stay");
        if let Ok(client) = attempt {
            match before.client {
                None => fleet.builder.world.recovered(name),
                Some(_) => fleet.builder.world.close(client),
            }
        }
    }

    /// The client of a pool: the one that is there, or one more, of which the map takes the first to come.
    fn lend(&self, pool: &Pool<'_, S>, spec: &Arc<Spec>) -> Result<Arc<Client>, Stop> {
        if let Some(client) = pool.clients.get(&spec.name) {
            return Ok(client); // saves building one in vain; `try_insert` decides
        }
        let client = pool.build(spec)?;
        let inserted = pool.clients.try_insert(spec.name.clone(), client);
        Ok(inserted.unwrap_or_else(|occupied| {
            pool.builder.world.close(&occupied.value);
            occupied.current
        }))
    }
}

pub(crate) struct Sound;

impl<S: BuildHasher> Recipe<S> for Sound {}
