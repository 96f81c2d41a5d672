//! The lighter variant: clients are made when they are asked for, and those who ask wait for nobody.
//!
//! Callers that race each build a client; the map takes one of them, and gives the others back to those who
//! built them, to be closed. A failure is its caller's alone, who may try again.

use std::hash::BuildHasher;
use std::sync::Arc;

use quince::HashMap;

use super::builder::{Builder, Stop, World};
use super::cluster::{Client, Failure, Name, Settings, Spec};
use super::fleet::Recipe;

pub(crate) struct Pool<'w, S> {
    pub(crate) clients: HashMap<Name, Arc<Client>, S>,
    pub(crate) builder: Builder<'w, S>,
}

impl<'w, S: BuildHasher> Pool<'w, S> {
    pub(crate) fn new(
        hasher: S,
        defaults: Arc<Settings>,
        recipe: &'w dyn Recipe<S>,
        world: &'w dyn World,
    ) -> Self {
        Self {
            clients: HashMap::with_hasher(hasher),
            builder: Builder {
                defaults,
                world,
                recipe,
            },
        }
    }

    pub(crate) fn client(&self, spec: &Arc<Spec>) -> Result<Arc<Client>, Stop> {
        let client = self.builder.recipe.lend(self, spec)?;
        if client.config.endpoint != spec.endpoint {
            let other = client.config.endpoint.clone();
            return Err(Stop::Failed(Failure::Conflict(other)));
        }
        Ok(client)
    }

    pub(crate) fn build(&self, spec: &Spec) -> Result<Arc<Client>, Stop> {
        let client = self.builder.build(spec, &|hub| self.client(hub))?;
        self.builder.world.pause(&spec.name);
        Ok(client)
    }
}
