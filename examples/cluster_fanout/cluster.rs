//! What there is to know about a cluster: what it is configured with, and the client that talks to it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub(crate) type Name = Arc<str>;
pub(crate) type Settings = BTreeMap<&'static str, u64>;

/// What an operator has written down.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) name: Name,
    pub(crate) endpoint: String,
    /// The rest is taken from the defaults.
    pub(crate) overrides: Settings,
    /// The cluster through which this one is reached.
    pub(crate) hub: Option<Arc<Spec>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) name: Name,
    pub(crate) endpoint: String,
    pub(crate) settings: Settings,
}

impl Config {
    /// A function of its arguments alone: it is the same whatever else is configured, and in whatever order.
    pub(crate) fn resolve(defaults: &Settings, spec: &Spec) -> Self {
        let mut settings = defaults.clone();
        settings.extend(&spec.overrides);
        Self {
            name: Arc::clone(&spec.name),
            endpoint: spec.endpoint.clone(),
            settings,
        }
    }
}

/// Made first and connected then, as in many a library. Until then it is of no use to anybody.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) config: Config,
    session: OnceLock<Session>,
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) endpoint: String,
}

impl Client {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            session: OnceLock::new(),
        }
    }

    pub(crate) fn open(&self, session: Session) {
        self.session
            .set(session)
            .expect("a client is connected once");
    }

    pub(crate) fn is_connected(&self) -> bool {
        let session = self.session.get();
        session.is_some_and(|session| session.endpoint == self.config.endpoint)
    }
}

/// Why there is no client. The text says which attempt it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    Refused(String),
    Denied(String),
    Panicked(String),
    /// The hub is down, and why.
    Unreachable(String, Box<Failure>),
    /// The client of that name is for this other endpoint.
    Conflict(String),
    /// The outcome is not where it was. Only a broken fleet gets here.
    Forgotten,
}

impl Failure {
    /// Whether trying again is in vain.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::Conflict(_))
    }

    /// This failure and those that led to it.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |failure| match failure {
            Self::Unreachable(_, cause) => Some(cause),
            _ => None,
        })
    }
}
