//! A server that limits the live connections of each client address, with `quince::CountedMap`: never more than
//! the cap, nobody refused while there is room, no entry for an address without connections.
//!
//! ```text
//! cargo run --release --example per_ip_cap -- --help
//! ```
//!
//! * `limiter` has the cap and `server` uses it; that is all that a program of its own would take from here.
//! * `twins` are limiters with one fault each, `schedules` scripts for the windows in which they go wrong.
//! * `simulation` lets the `client`s of a `plan` loose on a server. `ledger` and `report` tell what came of it.
//!
//! Clients that connect and send nothing are what such a cap is for, so that addresses are those of the
//! connections: clients are bound to one of 127.0.0.0/8 each, which takes a system where all of that is local.
//!
//! `tests/per_ip_cap.rs` includes this file as a module, so that what is shown is what is tested.

#[path = "../support/command_line.rs"]
pub(crate) mod command_line;
#[path = "../support/random.rs"]
mod random;

pub(crate) mod client;
pub(crate) mod ledger;
pub(crate) mod limiter;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod schedules;
pub(crate) mod server;
pub(crate) mod simulation;
pub(crate) mod twins;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use limiter::MakeLimiter;
use options::{HELP, Options};
use plan::Plan;
use report::Invariant;
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
    let (name, make): (_, MakeLimiter) = if options.lazy {
        ("lazy", limiter::lazy)
    } else {
        ("eager", limiter::eager)
    };
    println!("{name}, seed {}", options.seed);
    let mut broken = BTreeSet::new();
    for schedule in &SCHEDULES {
        println!("schedule: {}", schedule.name);
        broken.extend((schedule.run)(make).broken());
    }
    broken.extend(simulate(options, make, false));
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
        Habitat::Schedule(run) => run(twin.make).broken(),
        Habitat::Simulation => simulate(options, twin.make, true),
    };
    let caught = broken.contains(&twin.caught_by);
    command_line::verdict(caught, twin.caught_by)
}

/// Runs a server for each cap, prints what becomes of it, and returns which invariants it broke.
fn simulate(options: &Options, make: MakeLimiter, yields: bool) -> BTreeSet<Invariant> {
    let mut broken = BTreeSet::new();
    for cap in options.cap.map_or(vec![1, 4], |cap| vec![cap]) {
        let plan = Plan {
            addresses: options.addresses,
            connections: options.connections,
            cap,
            threads: options.threads,
            seed: options.seed,
            yields,
        };
        println!("{plan}");
        let printed = Cell::new(Instant::now());
        let observe = |Progress { served, refused }| {
            if printed.get().elapsed() >= Duration::from_secs(1) {
                printed.set(Instant::now());
                println!("  ... {served} connections served, {refused} refused");
            }
        };
        let report = simulation::run(&plan, make, &observe);
        println!("{report}");
        broken.extend(report.findings.broken());
    }
    broken
}
