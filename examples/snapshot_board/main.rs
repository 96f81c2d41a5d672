//! A board on which any number of threads wait for events by name, in a concurrent map whose entries come and
//! go with the waiters: no notification is lost, no worker ever waits, nothing is left behind.
//!
//! ```text
//! cargo run --release --example snapshot_board -- --help
//! ```
//!
//! * `board` has the recipe; it is all that a program of its own would take from here.
//! * `twins` are boards with one wrong step, `schedules` scripts for windows that no stress test hits.
//! * `simulation` drives a board by a `plan`, on a `stage` where things happen in the worst order; `feed` has
//!   the events. `ledger` and `report` tell what came of it.
//!
//! `tests/snapshot_board.rs` includes this file as a module, so that what is shown is what is tested.

#[path = "../support/command_line.rs"]
pub(crate) mod command_line;
#[path = "../support/random.rs"]
mod random;

pub(crate) mod board;
mod feed;
mod ledger;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod schedules;
pub(crate) mod simulation;
mod stage;
pub(crate) mod twins;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::hash::RandomState;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use board::{Recipe, Sound};
use options::{HELP, Options};
use plan::Plan;
use report::Report;
use schedules::SCHEDULES;
use simulation::Progress;
use twins::{Habitat, Twin};

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

fn all_invariants_hold(options: &Options) -> bool {
    let seed = options.seed;
    println!("seed {seed}");
    let mut broken = BTreeSet::new();
    for schedule in &SCHEDULES {
        println!("schedule: {}", schedule.name);
        broken.extend((schedule.run)(&Sound).broken());
    }
    let plans = match options.snapshots {
        Some(snapshots) => vec![Plan::with_waiters(snapshots, seed)],
        None => vec![Plan::test(seed), Plan::long(seed)],
    };
    for plan in plans.into_iter().chain([Plan::herd(options.herd, seed)]) {
        let workers = options.workers;
        broken.extend(simulate(&Plan { workers, ..plan }, &Sound).broken());
    }
    for invariant in &broken {
        println!("BROKEN: {invariant}");
    }
    if broken.is_empty() {
        println!("all invariants hold");
    }
    broken.is_empty()
}

fn catches(twin: &Twin, options: &Options) -> bool {
    println!("{}, seed {}", twin.name, options.seed);
    let broken = match twin.habitat {
        Habitat::Schedule(run) => run(twin.recipe).broken(),
        Habitat::Simulation => {
            let plan = match options.snapshots {
                Some(snapshots) => Plan::with_waiters(snapshots, options.seed),
                None => Plan::test(options.seed),
            };
            let plan = Plan {
                workers: options.workers,
                yields: true,
                ..plan
            };
            simulate(&plan, twin.recipe).broken()
        }
    };
    let caught = broken.contains(&twin.caught_by);
    command_line::verdict(caught, twin.caught_by)
}

/// Runs `plan` and prints what becomes of it.
fn simulate(plan: &Plan, recipe: &dyn Recipe<RandomState>) -> Report {
    println!("{plan}");
    let printed = Cell::new(Instant::now());
    let observe = |Progress { consumed, served }| {
        if printed.get().elapsed() >= Duration::from_secs(1) {
            printed.set(Instant::now());
            println!("  ... {consumed} events consumed, {served} waiters served");
        }
    };
    let report = simulation::run(plan, recipe, &RandomState::new(), &observe);
    println!("{report}");
    report
}
