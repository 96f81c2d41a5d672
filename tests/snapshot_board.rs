//! Threads that wait for events by name, on slots that come and go in the map with them: the example
//! `snapshot_board` at its smallest size, its broken twins, its scripted schedules and its command line.
#![cfg(not(any(loom, miri)))] // a hundred and more threads in real time

/// The example itself: what is tested is what is shown.
#[path = "../examples/snapshot_board/main.rs"]
#[allow(dead_code, reason = "`main` and what it prints are not used here")]
mod snapshot_board;
mod support;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use snapshot_board::board::{Board, Sound};
use snapshot_board::options::Options;
use snapshot_board::plan::{Plan, pod_name};
use snapshot_board::report::Report;
use snapshot_board::schedules::SCHEDULES;
use snapshot_board::simulation;
use snapshot_board::twins::{Habitat, TWINS, Twin};
use support::command_line;
use support::hashers::Hashes;
use support::watchdog;

/// With the window between look-up and linking widened.
fn plan() -> Plan {
    Plan {
        yields: true,
        ..Plan::test(1)
    }
}

fn run_soundly<S: BuildHasher + Clone + Sync>(plan: &Plan, hasher: &S) -> Report {
    let _watchdog = watchdog::start();
    let report = simulation::run(plan, &Sound, hasher, &|_| {});
    assert_eq!(report.broken(), BTreeSet::new(), "{report:#?}");
    assert_eq!(report.total(|life| life.served), plan.finalizers());
    report
}

#[test]
fn every_waiter_is_served_and_nothing_is_left_behind() {
    let plan = plan();
    assert_eq!(plan.events(), 7_500);
    assert_eq!(pod_name(plan.snapshots).len(), 45);

    let report = run_soundly(&plan, &RandomState::new());

    // Nothing of this was spared:
    let [first, second] = &report.lives[..] else {
        panic!("one restart makes two lives: {report:#?}");
    };
    assert!(first.served > 0 && second.served > 0, "{report:#?}");
    assert!(second.replayed > plan.events() / 2, "{report:#?}");
    assert_eq!(second.events, plan.events());
    assert!(report.total(|life| life.timeouts) > 0, "{report:#?}");
    assert!(
        report.total(|life| life.finalizer_panics) > 0,
        "{report:#?}"
    );
    assert!(report.total(|life| life.worker_panics) > 0, "{report:#?}");
    assert!(report.total(|life| life.events_at_close) > 0, "{report:#?}");
}

#[test]
fn every_waiter_is_served_without_widened_windows() {
    run_soundly(&Plan::test(2), &RandomState::new());
}

#[test]
fn every_waiter_is_served_while_the_table_grows() {
    let finalizers_in_flight = 300;
    run_soundly(
        &Plan {
            finalizers_in_flight,
            ..plan()
        },
        &RandomState::new(),
    );
}

#[test]
fn every_waiter_is_served_when_all_pods_collide() {
    run_soundly(&plan(), &Hashes::Constant);
}

#[test]
fn one_worker_is_enough_for_any_number_of_orphans() {
    let workers = 1;
    run_soundly(&Plan { workers, ..plan() }, &RandomState::new());
}

#[test]
fn a_herd_of_orphans_leaves_nothing_behind() {
    let report = run_soundly(&Plan::herd(10_000, 1), &RandomState::new());
    assert_eq!(report.total(|life| life.findings.made), 0);
}

#[test]
fn schedules_between_closing_and_unlinking_end_well() {
    let _watchdog = watchdog::start();
    for schedule in &SCHEDULES {
        let findings = (schedule.run)(&Sound);
        assert_eq!(
            findings.broken(),
            BTreeSet::new(),
            "{}: {findings:#?}",
            schedule.name
        );
    }
}

#[test]
fn publication_wakes_all_who_sleep() {
    const WAITERS: usize = 3;
    let _watchdog = watchdog::start();
    let board = Board::new(RandomState::new(), &Sound, &|_, _| {});
    // Some rounds, as a waiter may be late and find the value without having slept.
    for round in 0..20 {
        let nearly_asleep = AtomicUsize::new(0);
        let patience = || {
            nearly_asleep.fetch_add(1, Ordering::Relaxed);
            Some(Duration::from_secs(3_600))
        };
        thread::scope(|scope| {
            let wait = || board.wait_for("pod", &|| None, &patience);
            let waiters = [(); WAITERS].map(|()| scope.spawn(wait));
            while nearly_asleep.load(Ordering::Relaxed) < WAITERS {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(1));
            board.publish("pod", round);
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), Some(round));
            }
        });
    }
}

fn twin(name: &str) -> &'static Twin {
    let mut twins = TWINS.iter();
    twins.find(|twin| twin.name == name).expect("a known twin")
}

/// What a board with the fault `name` does wrong is seen by the check that is meant for it.
#[track_caller]
fn assert_caught(name: &str) {
    let _watchdog = watchdog::start();
    let twin = twin(name);
    let broken = match twin.habitat {
        Habitat::Simulation => {
            simulation::run(&plan(), twin.recipe, &RandomState::new(), &|_| {}).broken()
        }
        Habitat::Schedule(run) => run(twin.recipe).broken(),
    };
    assert!(broken.contains(&twin.caught_by), "{name} broke {broken:?}");
}

#[test]
fn a_second_slot_made_by_check_then_insert_is_caught() {
    assert_caught("check-then-insert");
}

#[test]
fn a_value_missed_without_a_second_look_is_caught() {
    assert_caught("no-second-look");
}

#[test]
fn a_slot_unlinked_under_its_waiters_is_caught() {
    assert_caught("every-leaver-unlinks");
}

#[test]
fn a_slot_that_is_never_unlinked_is_caught() {
    assert_caught("never-unlink");
}

#[test]
fn a_successor_removed_by_key_is_caught() {
    assert_caught("remove-by-key");
}

#[test]
fn a_publisher_that_waits_to_be_received_is_caught() {
    assert_caught("unbuffered-publish");
}

#[test]
fn without_a_second_look_a_publication_into_a_closed_slot_is_lost() {
    let _watchdog = watchdog::start();
    let name = "publication between closing and unlinking";
    let mut schedules = SCHEDULES.iter();
    let schedule = schedules.find(|schedule| schedule.name == name).unwrap();
    let findings = (schedule.run)(twin("no-second-look").recipe);
    assert_eq!(findings.lost, 1);
}

#[test]
fn nonsense_on_the_command_line_is_refused() {
    let refusal = |arguments: &[&str]| command_line::refusal(Options::parse, arguments);
    command_line::assert_nonsense_is_refused(
        refusal,
        &["--snapshots", "--herd", "--workers"],
        TWINS.iter().map(|twin| twin.name),
    );
}

#[test]
fn the_command_line_sets_sizes_and_seed() {
    let line = "--snapshots 30 --herd 40 --workers 5 --seed 0 --broken never-unlink --help";
    let options = Options::parse(line.split(' ').map(str::to_owned)).unwrap();
    assert_eq!(options.snapshots, Some(30));
    assert_eq!(options.herd, 40);
    assert_eq!(options.workers, 5);
    assert_eq!(options.seed, 0);
    assert_eq!(options.broken.map(|twin| twin.name), Some("never-unlink"));
    assert!(options.help);
}
