//! One client per cluster, built once however many ask for it: the example `cluster_fanout` at small sizes,
//! its broken twins, scripted schedules, and its command line.
#![cfg(all(feature = "once", not(any(loom, miri))))] // dozens of threads in real time

/// The example itself: what is tested is what is shown.
#[path = "../examples/cluster_fanout/main.rs"]
#[allow(dead_code, reason = "`main` and what it prints are not used here")]
mod cluster_fanout;
mod support;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use cluster_fanout::builder::{Cancelled, Route, Stop, World};
use cluster_fanout::cluster::{Client, Config, Failure, Session, Spec};
use cluster_fanout::fleet::{Fleet, Outcome, Recipe, Sound};
use cluster_fanout::options::Options;
use cluster_fanout::plan::{Plan, defaults};
use cluster_fanout::pool::Pool;
use cluster_fanout::report::{Counts, Report};
use cluster_fanout::simulation;
use cluster_fanout::twins::{TWINS, Twin};
use support::command_line;
use support::hashers::Hashes;
use support::watchdog;

/// With rivals close together.
fn plan(clusters: usize, rounds: usize) -> Plan {
    Plan {
        pauses: true,
        ..Plan::new(clusters, rounds, 1)
    }
}

fn run_soundly<S: BuildHasher + Clone + Sync>(plan: &Plan, hasher: &S) -> Report {
    let _watchdog = watchdog::start();
    let report = simulation::run(plan, &Sound, hasher, &|_| {});
    assert_eq!(report.broken(), BTreeSet::new(), "{report:#?}");
    report
}

#[test]
fn every_cluster_is_settled_once_whatever_goes_wrong() {
    let report = run_soundly(&plan(12, 40), &RandomState::new());

    // Nothing of this was spared:
    let got = |count: fn(&Counts) -> &AtomicUsize| {
        [&report.fleets, &report.pools].map(|counts| count(counts).load(Ordering::Relaxed))
    };
    let spared = |count| got(count).contains(&0);
    assert!(!spared(|counts| &counts.refused), "{report:#?}");
    assert!(!spared(|counts| &counts.denied), "{report:#?}");
    assert!(!spared(|counts| &counts.panics), "{report:#?}");
    assert!(!spared(|counts| &counts.unreachable), "{report:#?}");
    assert!(!spared(|counts| &counts.conflicts), "{report:#?}");
    assert!(!spared(|counts| &counts.delayed), "{report:#?}");
    assert!(!spared(|counts| &counts.slow), "{report:#?}");
    assert!(!spared(|counts| &counts.cancelled), "{report:#?}");
    assert!(!spared(|counts| &counts.changes), "{report:#?}");
    assert!(!spared(|counts| &counts.surplus), "{report:#?}");
    let [looks, _] = got(|counts| &counts.looks);
    assert!(looks > 0);
    let [recoveries, _] = got(|counts| &counts.recoveries);
    assert!((3 * 40..=5 * 40).contains(&recoveries), "{report:#?}"); // hubs may be up in time
    assert_eq!(got(|counts| &counts.ready), [11 * 40; 2]);
}

#[test]
fn every_cluster_is_settled_once_without_pauses() {
    run_soundly(&Plan::new(60, 2, 2), &RandomState::new());
}

#[test]
fn every_cluster_is_settled_once_while_the_tables_grow() {
    run_soundly(&plan(600, 1), &RandomState::new());
}

#[test]
fn every_cluster_is_settled_once_when_all_names_collide() {
    run_soundly(&plan(120, 1), &Hashes::Constant);
}

#[test]
fn every_cluster_is_settled_once_when_all_threads_come_in_the_same_order() {
    let claims = Plan::new(1, 1, 1).threads;
    let plan = plan(36, 1);
    run_soundly(&Plan { claims, ..plan }, &RandomState::new());
}

/// Two may wait for the slow build, and one is left.
#[test]
fn three_threads_are_enough() {
    let threads = 3;
    let plan = plan(60, 1);
    run_soundly(&Plan { threads, ..plan }, &RandomState::new());
}

fn twin(name: &str) -> &'static Twin {
    let mut twins = TWINS.iter();
    twins.find(|twin| twin.name == name).expect("a known twin")
}

/// What a fleet with the fault `name` does wrong is seen by the check that is meant for it.
#[track_caller]
fn assert_caught(name: &str) {
    let _watchdog = watchdog::start();
    let twin = twin(name);
    let plan = Plan::for_twins(60, 1);
    let report = simulation::run(&plan, &*(twin.recipe)(), &RandomState::new(), &|_| {});
    assert!(
        report.broken().contains(&twin.caught_by),
        "{name}: {report:#?}"
    );
}

#[test]
fn a_cluster_forgotten_before_a_retry_is_caught() {
    assert_caught("forget-then-retry");
}

#[test]
fn a_second_build_by_check_then_insert_is_caught() {
    assert_caught("check-then-insert");
}

#[test]
fn a_client_overwritten_in_the_pool_is_caught() {
    assert_caught("pool-overwrite");
}

#[test]
fn an_error_lost_by_overwriting_is_caught() {
    assert_caught("overwrite");
}

#[test]
fn defaults_that_are_written_back_to_are_caught() {
    assert_caught("shared-defaults");
}

#[test]
fn a_client_listed_before_it_is_connected_is_caught() {
    assert_caught("publish-then-connect");
}

#[test]
fn a_callback_for_every_success_is_caught() {
    assert_caught("announce-every-success");
}

#[test]
fn a_build_that_everybody_waits_for_is_caught() {
    assert_caught("one-lock");
}

/// A world in which a script says how each attempt to connect ends.
struct Script<'s> {
    connect: &'s (dyn Fn(&Config, usize) -> Result<(), Stop> + Sync),
    pause: &'s (dyn Fn(usize) + Sync),
    attempts: AtomicUsize,
    pauses: AtomicUsize,
    closed: AtomicUsize,
    callbacks: AtomicUsize,
}

impl<'s> Script<'s> {
    /// Both closures are also told how many calls there were before.
    fn new(
        connect: &'s (dyn Fn(&Config, usize) -> Result<(), Stop> + Sync),
        pause: &'s (dyn Fn(usize) + Sync),
    ) -> Self {
        Self {
            connect,
            pause,
            attempts: AtomicUsize::new(0),
            pauses: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
            callbacks: AtomicUsize::new(0),
        }
    }

    fn fleet<'w>(&'w self, recipe: &'w dyn Recipe<RandomState>) -> Fleet<'w, RandomState> {
        Fleet::new(RandomState::new(), Arc::new(defaults()), recipe, self)
    }

    fn pool<'w>(&'w self, recipe: &'w dyn Recipe<RandomState>) -> Pool<'w, RandomState> {
        Pool::new(RandomState::new(), Arc::new(defaults()), recipe, self)
    }
}

fn next(counter: &AtomicUsize) -> usize {
    counter.fetch_add(1, Ordering::AcqRel)
}

fn get(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::Acquire)
}

impl World for Script<'_> {
    fn connect(&self, config: &Config, route: Route) -> Result<Session, Stop> {
        if let Route::HubDown(cause) = route {
            let failure = Failure::Unreachable(config.name.to_string(), Box::new(cause));
            return Err(Stop::Failed(failure));
        }
        (self.connect)(config, next(&self.attempts))?;
        let endpoint = config.endpoint.clone();
        Ok(Session { endpoint })
    }

    fn close(&self, client: &Client) {
        assert!(client.is_connected());
        next(&self.closed);
    }

    fn recovered(&self, _name: &str) {
        next(&self.callbacks);
    }

    fn pause(&self, _name: &str) {
        (self.pause)(next(&self.pauses));
    }
}

fn spec(name: &str, hub: Option<Arc<Spec>>) -> Arc<Spec> {
    Arc::new(Spec {
        name: name.into(),
        endpoint: format!("https://{name}.example"),
        overrides: [].into(),
        hub,
    })
}

fn refused() -> Stop {
    Stop::Failed(Failure::Refused("not today".to_owned()))
}

/// Four claims come at the same time, whose attempts to connect fail, and get the same error: after how many
/// attempts?
fn attempts_for_claims_at_once(recipe: &dyn Recipe<RandomState>) -> usize {
    const CLAIMS: usize = 4;
    let _watchdog = watchdog::start();
    let (begun, all) = (AtomicUsize::new(0), Barrier::new(CLAIMS));
    let fail_when_all_have_begun = |_: &Config, _| {
        while get(&begun) < CLAIMS {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(1)); // they are about to wait
        Err(refused())
    };
    let meet = |_| {
        all.wait();
    };
    let script = Script::new(&fail_when_all_have_begun, &meet);
    let fleet = script.fleet(recipe);
    let spec = spec("a", None);
    thread::scope(|scope| {
        let claim = || {
            next(&begun);
            fleet.claim(&spec)
        };
        for claim in [(); CLAIMS].map(|()| scope.spawn(claim)) {
            assert_eq!(claim.join().unwrap().unwrap_err(), refused());
        }
    });
    assert_eq!(fleet.outcomes.get("a").unwrap().failures.len(), 1);
    get(&script.attempts)
}

#[test]
fn all_who_claim_get_the_error_of_one_attempt() {
    assert_eq!(attempts_for_claims_at_once(&Sound), 1);
    let recipe = (twin("check-then-insert").recipe)();
    assert_eq!(attempts_for_claims_at_once(&*recipe), 4);
}

#[test]
fn whoever_waits_takes_over_from_a_claim_that_is_called_off() {
    let _watchdog = watchdog::start();
    let (begun, call_off) = (Barrier::new(2), Barrier::new(2));
    let first_is_called_off = |_: &Config, attempt| {
        if attempt > 0 {
            return Ok(());
        }
        begun.wait();
        call_off.wait();
        Err(Stop::Cancelled)
    };
    let script = Script::new(&first_is_called_off, &|_| {});
    let fleet = script.fleet(&Sound);
    let spec = spec("a", None);
    thread::scope(|scope| {
        let first = scope.spawn(|| fleet.claim(&spec));
        begun.wait();
        let second = scope.spawn(|| fleet.claim(&spec));
        thread::sleep(Duration::from_millis(1)); // it is about to wait
        assert!(!second.is_finished());
        call_off.wait();
        assert_eq!(first.join().unwrap().unwrap_err(), Stop::Cancelled);
        assert!(second.join().unwrap().unwrap().is_connected());
    });
    assert_eq!(get(&script.attempts), 2);
    assert!(fleet.outcomes.get("a").unwrap().failures.is_empty());
}

/// Runs `script` while the client of "slow" is being built.
fn in_the_middle_of_a_build(
    recipe: &dyn Recipe<RandomState>,
    script: impl FnOnce(&Fleet<'_, RandomState>),
) {
    let _watchdog = watchdog::start();
    let (begun, go_on) = (Barrier::new(2), Barrier::new(2));
    let slow = |config: &Config, _| {
        if &*config.name == "slow" {
            begun.wait();
            go_on.wait();
        }
        Ok(())
    };
    let world = Script::new(&slow, &|_| {});
    let fleet = world.fleet(recipe);
    let spec = spec("slow", None);
    thread::scope(|scope| {
        let claim = scope.spawn(|| fleet.claim(&spec));
        begun.wait();
        script(&fleet);
        go_on.wait();
        assert!(claim.join().unwrap().unwrap().is_connected());
    });
}

#[test]
fn a_build_shows_nothing_before_it_is_finished_and_delays_nobody_else() {
    in_the_middle_of_a_build(&Sound, |fleet| {
        assert!(fleet.look().is_empty());
        assert!(fleet.claim(&spec("other", None)).unwrap().is_connected());
        assert_eq!(fleet.look().len(), 1);
    });
}

#[test]
fn a_client_published_before_it_is_connected_can_be_seen() {
    in_the_middle_of_a_build(&*(twin("publish-then-connect").recipe)(), |fleet| {
        let [(_, Some(client))] = &fleet.look()[..] else {
            panic!("{:?}", fleet.look());
        };
        assert!(!client.is_connected());
    });
}

/// The outcome after two retries, the callbacks and the clients closed: one retry stops before it enters what
/// `it_came_to`, at its pause of that number, and the other one succeeds meanwhile.
fn after_a_late_entry(
    recipe: &dyn Recipe<RandomState>,
    pause: usize,
    it_came_to: Result<(), Stop>,
) -> (Outcome, [usize; 2]) {
    let _watchdog = watchdog::start();
    let (stopped, go_on) = (Barrier::new(2), Barrier::new(2));
    let connect = |_: &Config, attempt| match attempt {
        0 => Err(refused()),
        1 => it_came_to.clone(),
        _ => Ok(()),
    };
    let stop = |number| {
        if number == pause {
            stopped.wait();
            go_on.wait();
        }
    };
    let script = Script::new(&connect, &stop);
    let fleet = script.fleet(recipe);
    fleet.claim(&spec("a", None)).unwrap_err();
    thread::scope(|scope| {
        let late = scope.spawn(|| fleet.retry("a"));
        stopped.wait();
        assert_eq!(fleet.retry("a"), Ok(true));
        go_on.wait();
        assert_eq!(late.join().unwrap(), Ok(true));
    });
    let counts = [&script.callbacks, &script.closed].map(get);
    (fleet.outcomes.get("a").unwrap(), counts)
}

#[test]
fn a_failure_that_comes_after_a_recovery_is_kept_and_takes_nothing_away() {
    let (outcome, counts) = after_a_late_entry(&Sound, 0, Err(refused()));
    assert!(outcome.client.is_some());
    assert_eq!(outcome.failures.len(), 2);
    assert_eq!(counts, [1, 0]);

    let (outcome, _) = after_a_late_entry(&*(twin("overwrite").recipe)(), 1, Err(refused()));
    assert!(outcome.client.is_none(), "the twin makes a difference");
}

#[test]
fn of_two_attempts_that_succeed_one_calls_back_and_the_other_closes_its_client() {
    let (outcome, counts) = after_a_late_entry(&Sound, 0, Ok(()));
    assert!(outcome.client.is_some());
    assert_eq!(counts, [1, 1]);

    let recipe = (twin("announce-every-success").recipe)();
    let (_, counts) = after_a_late_entry(&*recipe, 0, Ok(()));
    assert_eq!(counts, [2, 0], "the twin makes a difference");
}

/// How many failures are known of a cluster whose retry was called off.
fn failures_after_a_retry_called_off(recipe: &dyn Recipe<RandomState>) -> Option<usize> {
    let fail_once = |_: &Config, attempt| match attempt {
        0 => Err(refused()),
        _ => Err(Stop::Cancelled),
    };
    let script = Script::new(&fail_once, &|_| {});
    let fleet = script.fleet(recipe);
    fleet.claim(&spec("a", None)).unwrap_err();
    assert_eq!(fleet.retry("a"), Err(Cancelled));
    let outcome = fleet.outcomes.get("a");
    outcome.map(|outcome| outcome.failures.len())
}

#[test]
fn a_retry_that_is_called_off_forgets_nothing() {
    assert_eq!(failures_after_a_retry_called_off(&Sound), Some(1));
    let recipe = (twin("forget-then-retry").recipe)();
    assert_eq!(failures_after_a_retry_called_off(&*recipe), None);
}

#[test]
fn a_panic_is_an_outcome_from_which_a_cluster_recovers_once() {
    let panic_once = |_: &Config, attempt| {
        if attempt == 0 {
            std::panic::resume_unwind(Box::new("out of order"));
        }
        Ok(())
    };
    let script = Script::new(&panic_once, &|_| {});
    let fleet = script.fleet(&Sound);
    let spec = spec("a", None);
    let panicked = Stop::Failed(Failure::Panicked("out of order".to_owned()));
    assert_eq!(fleet.claim(&spec).unwrap_err(), panicked);
    assert_eq!(fleet.claim(&spec).unwrap_err(), panicked);
    assert_eq!(fleet.retry("a"), Ok(true));
    assert_eq!(fleet.retry("a"), Ok(false));
    assert!(fleet.claim(&spec).unwrap().is_connected());
    assert_eq!([&script.attempts, &script.callbacks].map(get), [2, 1]);
}

#[test]
fn what_is_denied_is_not_retried() {
    let denied = || Stop::Failed(Failure::Denied("go away".to_owned()));
    let deny = |_: &Config, _| Err(denied());
    let script = Script::new(&deny, &|_| {});
    let fleet = script.fleet(&Sound);
    assert_eq!(fleet.claim(&spec("a", None)).unwrap_err(), denied());
    assert_eq!(fleet.failed().len(), 0);
    assert_eq!(fleet.retry("a"), Ok(false));
    assert_eq!(get(&script.attempts), 1);
}

#[test]
fn a_builder_asks_for_the_cluster_it_goes_through() {
    let fail_once = |config: &Config, attempt| match attempt {
        0 => {
            assert_eq!(&*config.name, "hub");
            Err(refused())
        }
        _ => Ok(()),
    };
    let script = Script::new(&fail_once, &|_| {});
    let fleet = script.fleet(&Sound);
    let spoke = spec("spoke", Some(spec("hub", None)));
    let Err(Stop::Failed(failure)) = fleet.claim(&spoke) else {
        panic!("the hub is down");
    };
    let causes: Vec<_> = failure.chain().skip(1).cloned().map(Stop::Failed).collect();
    assert_eq!(causes, [refused()]);
    assert_eq!(fleet.failed().len(), 2);
    assert_eq!(fleet.retry("hub"), Ok(true));
    assert_eq!(fleet.retry("spoke"), Ok(true));
    assert!(fleet.claim(&spoke).unwrap().is_connected());
}

#[test]
fn a_cluster_that_goes_through_itself_fails_instead_of_waiting() {
    let _watchdog = watchdog::start();
    let script = Script::new(&|_, _| Ok(()), &|_| {});
    let fleet = script.fleet(&Sound);
    let ouroboros = spec("a", Some(spec("a", None)));
    let claim = fleet.claim(&ouroboros);
    assert!(
        matches!(claim, Err(Stop::Failed(Failure::Panicked(_)))),
        "{claim:?}"
    );
    assert_eq!(get(&script.attempts), 0);
}

#[test]
fn of_two_endpoints_with_one_name_the_second_is_told_of_the_first() {
    let script = Script::new(&|_, _| Ok(()), &|_| {});
    let (fleet, pool) = (script.fleet(&Sound), script.pool(&Sound));
    let first = spec("a", None);
    let second = Arc::new(Spec {
        endpoint: "https://b.example".to_owned(),
        name: "a".into(),
        overrides: [].into(),
        hub: None,
    });
    let conflict = Stop::Failed(Failure::Conflict(first.endpoint.clone()));
    assert!(fleet.claim(&first).is_ok() && pool.client(&first).is_ok());
    assert_eq!(fleet.claim(&second).unwrap_err(), conflict);
    assert_eq!(pool.client(&second).unwrap_err(), conflict);
    assert_eq!(get(&script.attempts), 2);
}

/// The setting of a cluster that takes it from the defaults, after another one has overridden it, and the
/// caller has changed its own table.
fn setting_after_an_override(recipe: &dyn Recipe<RandomState>) -> u64 {
    let script = Script::new(&|_, _| Ok(()), &|_| {});
    let mut own = Arc::new(defaults());
    let fleet = Fleet::new(RandomState::new(), Arc::clone(&own), recipe, &script);
    let special = Arc::new(Spec {
        name: "special".into(),
        endpoint: String::new(),
        overrides: [("timeout", 700)].into(),
        hub: None,
    });
    fleet.claim(&special).unwrap();
    Arc::make_mut(&mut own).insert("timeout", 900);
    fleet.claim(&spec("a", None)).unwrap().config.settings["timeout"]
}

#[test]
fn a_setting_is_that_of_the_defaults_whoever_was_built_before() {
    assert_eq!(setting_after_an_override(&Sound), defaults()["timeout"]);
    let recipe = (twin("shared-defaults").recipe)();
    assert_eq!(setting_after_an_override(&*recipe), 700);
}

/// Two build a client for the pool at the same time. How many are closed, and how many are in use.
fn after_a_race_for_the_pool(recipe: &dyn Recipe<RandomState>) -> [usize; 2] {
    let _watchdog = watchdog::start();
    let both_have_built = Barrier::new(2);
    let wait = |_| {
        both_have_built.wait();
    };
    let script = Script::new(&|_, _| Ok(()), &wait);
    let pool = script.pool(recipe);
    let spec = spec("a", None);
    let [one, other] = thread::scope(|scope| {
        let client = || pool.client(&spec).unwrap();
        [(); 2]
            .map(|()| scope.spawn(client))
            .map(|thread| thread.join().unwrap())
    });
    assert_eq!(get(&script.attempts), 2);
    let in_use = if Arc::ptr_eq(&one, &other) { 1 } else { 2 };
    [get(&script.closed), in_use]
}

#[test]
fn a_surplus_client_comes_back_and_is_closed() {
    assert_eq!(after_a_race_for_the_pool(&Sound), [1, 1]);
    let recipe = (twin("pool-overwrite").recipe)();
    assert_eq!(after_a_race_for_the_pool(&*recipe), [0, 2]);
}

#[test]
fn a_failure_leaves_nothing_in_the_pool() {
    let fail_once = |_: &Config, attempt| if attempt == 0 { Err(refused()) } else { Ok(()) };
    let script = Script::new(&fail_once, &|_| {});
    let pool = script.pool(&Sound);
    let spec = spec("a", None);
    assert_eq!(pool.client(&spec).unwrap_err(), refused());
    assert!(pool.clients.is_empty());
    assert!(pool.client(&spec).unwrap().is_connected());
    assert_eq!(pool.clients.len(), 1);
}

#[test]
fn nonsense_on_the_command_line_is_refused() {
    let refusal = |arguments: &[&str]| command_line::refusal(Options::parse, arguments);
    command_line::assert_nonsense_is_refused(
        refusal,
        &["--clusters", "--rounds", "--threads"],
        TWINS.iter().map(|twin| twin.name),
    );
    assert!(refusal(&["--threads", "2"]).contains("from 3"));
}

#[test]
fn the_command_line_sets_sizes_and_seed() {
    let line = "--clusters 30 --rounds 40 --threads 5 --seed 0 --broken one-lock --help";
    let options = Options::parse(line.split(' ').map(str::to_owned)).unwrap();
    assert_eq!(options.clusters, Some(30));
    assert_eq!(options.rounds, Some(40));
    assert_eq!(options.threads, 5);
    assert_eq!(options.seed, 0);
    assert_eq!(options.broken.map(|twin| twin.name), Some("one-lock"));
    assert!(options.help);
}
