//! How large a simulation is, and what is wrong with which cluster. All of it follows from the seed, except
//! for the order in which the threads get to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::cluster::{Name, Settings, Spec};
use super::random::{Random, finish};

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) clusters: usize,
    /// Each starts from nothing, with other faults.
    pub(crate) rounds: usize,
    pub(crate) threads: usize,
    /// So many threads want the client of a cluster, at about the same time.
    pub(crate) claims: usize,
    /// Of a build that is delayed.
    pub(crate) max_delay: Duration,
    /// A build that waits for all others takes so many naps in vain before it gives up. Naps rather than time:
    /// a machine that stands still takes none.
    pub(crate) max_naps: usize,
    pub(crate) seed: u64,
    /// Let rivals catch up between two steps. Without it two cores often miss a race.
    pub(crate) pauses: bool,
}

pub(crate) const THREADS: usize = 16;

/// Fewer than threads, since all of them wait until the others are done.
pub(crate) const CLAIMS_OF_SLOW: usize = 2;

impl Plan {
    pub(crate) fn new(clusters: usize, rounds: usize, seed: u64) -> Self {
        Self {
            clusters,
            rounds,
            threads: THREADS,
            claims: 4,
            max_delay: Duration::from_millis(1),
            max_naps: 50_000,
            seed,
            pauses: false,
        }
    }

    /// As many clusters as there really were, some more, and so many that the tables have to grow.
    pub(crate) fn sizes(seed: u64) -> [Self; 3] {
        let delayed = |millis, plan| Self {
            max_delay: Duration::from_millis(millis),
            ..plan
        };
        [
            Self::new(12, 1_000, seed),
            delayed(50, Self::new(200, 5, seed)),
            delayed(5, Self::new(5_000, 1, seed)),
        ]
    }

    /// Where faults show: with rivals close together, and less patience with those that stop everybody.
    pub(crate) fn for_twins(clusters: usize, seed: u64) -> Self {
        Self {
            max_naps: 1_000,
            pauses: true,
            ..Self::new(clusters, 1, seed)
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} clusters, rounds: {}, {} threads, {} claims of each cluster, delays of up to {:?}",
            self.clusters, self.rounds, self.threads, self.claims, self.max_delay,
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Delayed(Duration),
    /// Takes until all claims of other clusters have ended, as they must.
    Slow,
    /// Until the attempt of this number.
    Refused {
        until: usize,
    },
    Denied,
    /// The first attempt.
    Panics,
    /// All builds that are under way are called off with this one, and are asked for again later.
    Cancels,
}

pub(crate) struct Cluster {
    pub(crate) name: Name,
    /// Two with different endpoints, if there is a mistake in the configuration.
    pub(crate) specs: Vec<Arc<Spec>>,
    /// How many there are of each spec.
    pub(crate) claims: usize,
    pub(crate) fault: Fault,
}

/// What one round has to do with.
pub(crate) struct Roster {
    pub(crate) defaults: Arc<Settings>,
    pub(crate) clusters: Vec<Cluster>,
}

const SETTINGS: [&str; 6] = [
    "burst",
    "keepalive",
    "queries",
    "retries",
    "streams",
    "timeout",
];

pub(crate) fn defaults() -> Settings {
    SETTINGS.into_iter().zip(1..).collect()
}

impl Roster {
    /// The same faults in each dozen of clusters. In every other round, that of a cluster in the middle cuts
    /// the round short.
    pub(crate) fn new(plan: &Plan, round: usize) -> Self {
        const DOZEN: usize = 12;
        let mut random = Random::new(finish(plan.seed ^ finish(round as u64)));
        let middle = plan.clusters / 2 / DOZEN * DOZEN;
        let cancels = round % 2 == 0;
        let mut clusters: Vec<Cluster> = Vec::with_capacity(plan.clusters);
        // Hubs have higher numbers, so that they are mostly built for those behind them.
        for number in (0..plan.clusters).rev() {
            let mut delayed = || {
                let micros = plan.max_delay.as_micros() as usize;
                Fault::Delayed(Duration::from_micros(random.below(micros + 1) as u64))
            };
            let fault = match number % DOZEN {
                0 if number == 0 => Fault::Slow,
                0 | 9 => delayed(),
                3 | 8 => Fault::Refused {
                    until: 2 + random.below(4),
                },
                5 => Fault::Panics,
                6 if cancels && number - 6 == middle => Fault::Cancels,
                7 => Fault::Denied,
                _ => Fault::None,
            };
            let has_hub = matches!(number % DOZEN, 1 | 2);
            let hub = clusters.last().filter(|_| has_hub);
            let hub = hub.map(|hub| Arc::clone(&hub.specs[0]));
            let endpoints = if number % DOZEN == 4 { 2 } else { 1 };
            let name = cluster_name(number);
            let mut spec = |endpoint| {
                let mut override_one = |_| {
                    let setting = SETTINGS[random.below(SETTINGS.len())];
                    (setting, 100 + random.below(900) as u64)
                };
                Arc::new(Spec {
                    name: name.clone(),
                    endpoint: format!("https://{name}.example:{endpoint}"),
                    overrides: (0..2).map(&mut override_one).collect(),
                    hub: hub.clone(),
                })
            };
            clusters.push(Cluster {
                specs: (443..443 + endpoints).map(&mut spec).collect(),
                claims: match fault {
                    Fault::Slow => CLAIMS_OF_SLOW,
                    _ => plan.claims,
                },
                name,
                fault,
            });
        }
        clusters.reverse();
        Self {
            defaults: Arc::new(defaults()),
            clusters,
        }
    }

    pub(crate) fn cluster(&self, name: &str) -> &Cluster {
        &self.clusters[cluster_number(name)]
    }

    /// Every claim there is, those of one cluster after one another.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &Arc<Spec>> {
        self.clusters.iter().flat_map(|cluster| {
            let specs = &cluster.specs;
            specs.iter().cycle().take(specs.len() * cluster.claims)
        })
    }
}

pub(crate) fn cluster_name(number: usize) -> Name {
    format!("cluster-{number:05}").into()
}

pub(crate) fn cluster_number(name: &str) -> usize {
    let (_, number) = name.rsplit_once('-').expect("made by `cluster_name`");
    number.parse().expect("made by `cluster_name`")
}
