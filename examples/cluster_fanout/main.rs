//! A controller that builds one client per cluster: each is built once, however many ask for it at the same
//! time, no failure is lost, and a build that takes long delays nobody else.
//!
//! ```text
//! cargo run --release --example cluster_fanout -- --help
//! ```
//!
//! * `fleet` has the recipe, `pool` a lighter one; with `cluster`, which says what a client is, and `builder`,
//!   how one comes about, they are all that a program of its own would take from here.
//! * `twins` are fleets with one wrong step.
//! * `simulation` drives them by a `plan`, on a `stage` where things go wrong; `audit` and `report` tell what
//!   came of it.
//!
//! `tests/cluster_fanout.rs` includes this file as a module, so that what is shown is what is tested.

#[path = "../support/command_line.rs"]
pub(crate) mod command_line;
#[path = "../support/random.rs"]
mod random;

mod audit;
pub(crate) mod builder;
pub(crate) mod cluster;
pub(crate) mod fleet;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod report;
pub(crate) mod simulation;
mod stage;
pub(crate) mod twins;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::hash::RandomState;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fleet::{Recipe, Sound};
use options::{HELP, Options};
use plan::Plan;
use report::{Invariant, Report};
use twins::Twin;

fn main() -> ExitCode {
    command_line::run(Options::parse, |options| {
        if options.help {
            println!("{HELP}");
            true
        } else if let Some(twin) = options.broken {
            catches(twin, options)
        } else {
            all_invariants_hold(options)
        }
    })
}

/// `plan`, as far as the command line does not say otherwise.
fn with_options(plan: Plan, options: &Options) -> Plan {
    Plan {
        rounds: options.rounds.unwrap_or(plan.rounds),
        threads: options.threads,
        ..plan
    }
}

fn all_invariants_hold(options: &Options) -> bool {
    let seed = options.seed;
    println!("seed {seed}");
    let plans = match options.clusters {
        Some(clusters) => vec![Plan::new(clusters, 1, seed)],
        None => Plan::sizes(seed).into(),
    };
    let mut broken = BTreeSet::new();
    for plan in plans {
        broken.extend(simulate(&with_options(plan, options), &Sound).broken());
    }
    for invariant in Invariant::ALL {
        let verdict = if broken.contains(&invariant) {
            "BROKEN"
        } else {
            "holds"
        };
        println!("{verdict}: {invariant}");
    }
    broken.is_empty()
}

fn catches(twin: &Twin, options: &Options) -> bool {
    println!("{}, seed {}", twin.name, options.seed);
    let plan = Plan::for_twins(options.clusters.unwrap_or(200), options.seed);
    let report = simulate(&with_options(plan, options), &*(twin.recipe)());
    let caught = report.broken().contains(&twin.caught_by);
    command_line::verdict(caught, twin.caught_by)
}

/// Runs `plan` and prints what becomes of it.
fn simulate(plan: &Plan, recipe: &dyn Recipe<RandomState>) -> Report {
    println!("{plan}");
    let printed = Cell::new(Instant::now());
    let observe = |round| {
        if printed.get().elapsed() >= Duration::from_secs(1) {
            printed.set(Instant::now());
            println!("  ... {round} rounds done");
        }
    };
    let report = simulation::run(plan, recipe, &RandomState::new(), &observe);
    println!("{report}");
    report
}
