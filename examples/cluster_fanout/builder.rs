//! The building of one client, which may take long, fail, panic, be called off, and need other clients.

use std::any::Any;
use std::hash::BuildHasher;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::cluster::{Client, Config, Failure, Session, Settings, Spec};
use super::fleet::Recipe;

/// What a fleet and a pool ask of their surroundings.
pub(crate) trait World: Sync {
    fn connect(&self, config: &Config, route: Route) -> Result<Session, Stop>;

    fn close(&self, client: &Client);

    /// The callback: a cluster that had failed is ready.
    fn recovered(&self, name: &str);

    /// Called between two steps that a rival may come between.
    fn pause(&self, name: &str);
}

pub(crate) enum Route {
    Direct,
    Through(Arc<Client>),
    HubDown(Failure),
}

/// Why a request ended without a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Failed(Failure),
    Cancelled,
}

/// The caller was called off, which says nothing about the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancelled;

impl From<Cancelled> for Stop {
    fn from(Cancelled: Cancelled) -> Self {
        Self::Cancelled
    }
}

/// How the builder of one client asks for that of a hub.
pub(crate) type Ask<'a> = &'a dyn Fn(&Arc<Spec>) -> Result<Arc<Client>, Stop>;

pub(crate) struct Builder<'w, S> {
    /// Shared by all builds and changed by none.
    pub(crate) defaults: Arc<Settings>,
    pub(crate) world: &'w dyn World,
    pub(crate) recipe: &'w dyn Recipe<S>,
}

impl<S: BuildHasher> Builder<'_, S> {
    pub(crate) fn build(&self, spec: &Spec, ask: Ask<'_>) -> Result<Arc<Client>, Stop> {
        let client = self.prepare(spec);
        self.connect(&client, spec, ask)?;
        Ok(client)
    }

    pub(crate) fn prepare(&self, spec: &Spec) -> Arc<Client> {
        let config = self.recipe.resolve(&self.defaults, spec);
        Arc::new(Client::new(config))
    }

    /// A panic is a failure as any other, so that all who wait for the client hear of it.
    pub(crate) fn connect(&self, client: &Client, spec: &Spec, ask: Ask<'_>) -> Result<(), Stop> {
        let connect = || {
            let route = match spec.hub.as_ref().map(ask) {
                None => Route::Direct,
                Some(Ok(hub)) => Route::Through(hub),
                Some(Err(Stop::Failed(failure))) => Route::HubDown(failure),
                Some(Err(Stop::Cancelled)) => return Err(Stop::Cancelled),
            };
            self.world.connect(&client.config, route)
        };
        let session = panic::catch_unwind(AssertUnwindSafe(connect))
            .unwrap_or_else(|panic| Err(Stop::Failed(Failure::Panicked(message(&*panic)))))?;
        client.open(session);
        Ok(())
    }
}

fn message(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}
