//! A cap on the live connections of each address, on entries that come and go with them: the example
//! `per_ip_cap` at a small size, its limiters without a network, its broken twins and its command line.
#![cfg(all(target_os = "linux", not(any(loom, miri))))] // real time, and all of 127.0.0.0/8 on loopback

/// The example itself: what is tested is what is shown.
#[path = "../examples/per_ip_cap/main.rs"]
#[allow(dead_code, reason = "`main` and what it prints are not used here")]
mod per_ip_cap;
mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::mem;
use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use per_ip_cap::client::{self, Conduct};
use per_ip_cap::ledger::Ledger;
use per_ip_cap::limiter::{self, Limiter, MakeLimiter, PerAddress, Rules, Swept};
use per_ip_cap::options::Options;
use per_ip_cap::plan::{Plan, nth_ip};
use per_ip_cap::report::{Findings, Invariant, Report};
use per_ip_cap::schedules;
use per_ip_cap::server::{Server, WELCOME};
use per_ip_cap::simulation;
use per_ip_cap::twins::{Habitat, TWINS, Twin};
use support::command_line;
use support::hashers::Hashes;
use support::{Random, Stop, race, size, watchdog};

fn eager_with_equal_hashes(rules: Rules<'_>) -> Box<dyn Limiter + '_> {
    Box::new(PerAddress::new(rules, Hashes::Constant))
}

fn lazy_with_equal_hashes(rules: Rules<'_>) -> Box<dyn Limiter + '_> {
    Box::new(Swept::new(rules, Hashes::Constant))
}

/// All that are right.
const SOUND: [MakeLimiter; 4] = [
    limiter::eager,
    limiter::lazy,
    eager_with_equal_hashes,
    lazy_with_equal_hashes,
];

fn twin(name: &str) -> &'static Twin {
    let mut twins = TWINS.iter();
    twins.find(|twin| twin.name == name).expect("a known twin")
}

// --- schedules ----------------------------------------------------------------------------------

#[test]
fn one_is_admitted_where_the_last_connection_ends_under_a_newcomer() {
    let _watchdog = watchdog::start();
    let schedule = schedules::last_one_goes_under_newcomer;
    for make in SOUND {
        let findings = schedule(make);
        assert_eq!(findings.broken(), BTreeSet::new(), "{findings:#?}");
        assert_eq!((findings.most_at_once, findings.made), (1, 2));
    }
    // A conditional removal is not enough: the newcomer counts itself in where nobody else looks.
    assert_eq!(schedule(twin("remove-if-zero").make).most_at_once, 2);
    assert_eq!(schedule(twin("remove-by-key").make).most_at_once, 2);
}

#[test]
fn one_of_two_newcomers_is_admitted() {
    let _watchdog = watchdog::start();
    let schedule = schedules::two_newcomers_at_once;
    for make in SOUND {
        let findings = schedule(make);
        assert_eq!(findings.broken(), BTreeSet::new(), "{findings:#?}");
        assert_eq!(findings.most_at_once, 1);
    }
    assert_eq!(schedule(twin("check-then-join").make).most_at_once, 2);
}

#[test]
fn an_address_that_stands_still_is_waited_for_by_nobody() {
    let _watchdog = watchdog::start();
    let schedule = schedules::one_address_stands_still;
    for make in SOUND {
        let findings = schedule(make);
        assert_eq!(findings.broken(), BTreeSet::new(), "{findings:#?}");
        assert_eq!(findings.made, 2, "an entry for each address");
    }
    assert_eq!(schedule(twin("one-lock").make).waited, 1);
}

#[test]
fn a_hot_address_keeps_its_entry_until_the_sweep() {
    let ledger = Ledger::default();
    let rules = Rules {
        cap: 1,
        hook: &|_| {},
        ledger: &ledger,
    };
    let come_and_go = |limiter: &dyn Limiter| {
        let before = ledger.made();
        for _ in 0..10 {
            assert!(ledger.admit(limiter, nth_ip(0)).is_some());
        }
        ledger.made() - before
    };
    let (eager, lazy) = (limiter::eager(rules), limiter::lazy(rules));
    assert_eq!((come_and_go(&*eager), eager.entries()), (10, 0));
    assert_eq!((come_and_go(&*lazy), lazy.entries()), (1, 1));
    let visit = ledger.admit(&*lazy, nth_ip(0));
    lazy.sweep();
    assert_eq!(lazy.entries(), 1, "its connection is live");
    drop(visit);
    lazy.sweep();
    assert_eq!(lazy.entries(), 0);
}

// --- without a network --------------------------------------------------------------------------

/// Threads that go from one address to another, while one more sweeps. They hold two places each, of which they
/// give up every seventh in a panic. In the same order all of them would come and go together: none would come
/// while another one goes.
fn rush(make: MakeLimiter, cap: usize) -> Findings {
    const THREADS: usize = 6;
    const ADDRESSES: u32 = 3;
    let rounds = size(4_000);
    let ledger = Ledger::default();
    let hook = |_| thread::yield_now();
    let limiter = make(Rules {
        cap,
        hook: &hook,
        ledger: &ledger,
    });
    let done = Stop::default();
    race(THREADS + 1, |thread| {
        if thread == THREADS {
            while !done.is_set() {
                limiter.sweep();
                thread::yield_now();
            }
            return;
        }
        let _done = done.on_drop();
        let mut held = [None, None];
        let mut random = Random::new(thread as u64);
        for round in 0..rounds {
            let next = ledger.admit(&*limiter, nth_ip(random.below(ADDRESSES) as usize));
            let previous = mem::replace(&mut held[round % 2], next);
            let leave = move || {
                let _previous = previous;
                if round % 7 == 0 {
                    panic::resume_unwind(Box::new("injected"));
                }
            };
            let _ = panic::catch_unwind(AssertUnwindSafe(leave));
        }
    });
    assert_eq!(ledger.admitted() + ledger.refused(), THREADS * rounds);
    assert!(ledger.refused() > 0, "the cap was never met");
    Findings::of(limiter, &ledger, cap, 0)
}

fn rush_soundly(make: MakeLimiter) {
    for cap in [1, 2] {
        let findings = rush(make, cap);
        assert_eq!(findings.broken(), BTreeSet::new(), "{findings:#?}");
        assert_eq!(findings.most_at_once, cap, "the cap was never reached");
    }
}

#[test]
fn no_rush_breaks_the_cap() {
    rush_soundly(limiter::eager);
}

#[test]
fn no_rush_breaks_the_cap_while_others_sweep() {
    rush_soundly(limiter::lazy);
}

#[test]
fn no_rush_breaks_the_cap_when_all_addresses_collide() {
    rush_soundly(eager_with_equal_hashes);
    rush_soundly(lazy_with_equal_hashes);
}

#[test]
fn a_rush_shows_what_is_wrong_with_the_twins() {
    for twin in &TWINS {
        if let Habitat::Simulation = twin.habitat {
            let mut broken = rush(twin.make, 1).broken();
            broken.extend(rush(twin.make, 2).broken());
            let name = twin.name;
            assert!(broken.contains(&twin.caught_by), "{name} broke {broken:?}");
        }
    }
}

// --- with a server ------------------------------------------------------------------------------

fn plan(cap: usize) -> Plan {
    Plan {
        addresses: 20,
        connections: size(8_000),
        cap,
        threads: 16,
        seed: 1,
        yields: true,
    }
}

fn run(plan: &Plan, make: MakeLimiter) -> Report {
    let _watchdog = watchdog::start();
    let report = simulation::run(plan, make, &|_| {});
    assert_eq!(report.admitted + report.refused, plan.connections);
    assert_eq!(report.welcomed, report.admitted, "as the clients heard it");
    report
}

fn run_soundly(plan: &Plan, make: MakeLimiter) {
    let report = run(plan, make);
    let broken = report.findings.broken();
    assert_eq!(broken, BTreeSet::new(), "{report:#?}");
    // Nothing of this was spared:
    assert_eq!(report.findings.most_at_once, plan.cap, "{report:#?}");
    assert!(report.refused > 0, "{report:#?}");
    assert!(report.panics > 0, "{report:#?}");
}

#[test]
fn a_server_with_a_cap_of_one_keeps_to_it() {
    run_soundly(&plan(1), limiter::eager);
}

#[test]
fn a_server_with_a_larger_cap_keeps_to_it() {
    run_soundly(&plan(3), limiter::eager);
}

#[test]
fn a_server_that_sweeps_keeps_to_its_cap() {
    run_soundly(&plan(1), limiter::lazy);
}

#[test]
fn a_server_keeps_to_its_cap_without_widened_windows() {
    let yields = false;
    run_soundly(&Plan { yields, ..plan(1) }, limiter::eager);
}

/// What a limiter with the fault `name` does wrong is seen by the check that is meant for it.
#[track_caller]
fn assert_caught(name: &str) -> BTreeSet<Invariant> {
    let twin = twin(name);
    assert!(matches!(twin.habitat, Habitat::Simulation));
    let broken = run(&plan(1), twin.make).findings.broken();
    assert!(broken.contains(&twin.caught_by), "{name} broke {broken:?}");
    broken
}

#[test]
fn a_second_connection_beside_a_removed_count_is_caught() {
    assert_caught("remove-if-zero");
}

#[test]
fn a_count_removed_under_its_connections_is_caught() {
    assert_caught("remove-by-key");
}

#[test]
fn a_cap_that_is_checked_before_joining_is_caught() {
    assert_caught("check-then-join");
}

#[test]
fn an_entry_that_is_never_removed_is_caught() {
    assert_caught("never-removed");
}

#[test]
fn a_place_lost_in_a_panic_is_caught() {
    let broken = assert_caught("counted-by-hand");
    assert!(
        broken.contains(&Invariant::NoEntryLeaks),
        "broke {broken:?}"
    );
}

/// Runs `script` against a server with a cap of one.
fn with_server(script: impl FnOnce(SocketAddr)) {
    let _watchdog = watchdog::start();
    let ledger = Ledger::default();
    let limiter = limiter::eager(Rules {
        cap: 1,
        hook: &|_| {},
        ledger: &ledger,
    });
    Server::new(&*limiter, &ledger).serve_while(script);
    let findings = Findings::of(limiter, &ledger, 1, 0);
    assert_eq!(findings.broken(), BTreeSet::new(), "{findings:#?}");
}

#[test]
fn whoever_has_seen_the_end_of_his_connection_can_come_again() {
    with_server(|server| {
        for _ in 0..20 {
            for conduct in [Conduct::Brief, Conduct::Long, Conduct::Poisonous] {
                assert!(client::call(server, nth_ip(0), conduct).unwrap());
            }
        }
    });
}

#[test]
fn a_silent_client_takes_a_place_of_its_own_address() {
    with_server(|server| {
        let silent = client::connect(server, nth_ip(0)).unwrap();
        let mut greeting = String::new();
        BufReader::new(&silent).read_line(&mut greeting).unwrap();
        assert_eq!(greeting, WELCOME);
        assert!(!client::call(server, nth_ip(0), Conduct::Brief).unwrap());
        assert!(client::call(server, nth_ip(1), Conduct::Brief).unwrap());
    });
}

// --- command line -------------------------------------------------------------------------------

#[test]
fn nonsense_on_the_command_line_is_refused() {
    let refusal = |arguments: &[&str]| command_line::refusal(Options::parse, arguments);
    command_line::assert_nonsense_is_refused(
        refusal,
        &["--addresses", "--connections", "--cap", "--threads"],
        TWINS.iter().map(|twin| twin.name),
    );
    assert!(refusal(&["--lazy", "--broken", "one-lock"]).contains("exclude"));
}

#[test]
fn the_command_line_sets_sizes_and_seed() {
    let line = "--addresses 30 --connections 40 --cap 5 --threads 6 --seed 0 --lazy --help";
    let options = Options::parse(line.split(' ').map(str::to_owned)).unwrap();
    assert_eq!(options.addresses, 30);
    assert_eq!(options.connections, 40);
    assert_eq!(options.cap, Some(5));
    assert_eq!(options.threads, 6);
    assert_eq!(options.seed, 0);
    assert!(options.lazy && options.help);
    let options = Options::parse(["--broken", "one-lock"].map(str::to_owned)).unwrap();
    assert_eq!(options.broken.map(|twin| twin.name), Some("one-lock"));
}
