//! The example `watch` for a fraction of a second, what it draws, and its command line.
#![cfg(not(any(loom, miri)))] // real time

mod support;
/// The example itself: what is tested is what is shown.
#[path = "../examples/watch.rs"]
#[allow(dead_code, reason = "`main` is not used here")]
mod watch;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use support::{command_line, watchdog};
use watch::{Board, Load, Options, Outcome, Reading, Screen, grouped, run, sparkline, tide};

const LOAD: Load = Load {
    duration: Duration::from_millis(300),
    threads: 4,
    keys: 100,
    seed: 1,
};
const TICK: Duration = Duration::from_millis(10);

#[test]
fn a_watched_map_adds_up_and_is_seen_alive() {
    let _watchdog = watchdog::start();
    let (mut readings, mut operations) = (0, 0);
    let outcome = run(&LOAD, TICK, |reading| {
        readings += 1;
        operations += reading.per_second;
        assert!(reading.elapsed > Duration::ZERO && reading.tide <= 100);
        Ok(())
    });
    assert!(outcome.adds_up(), "{}", outcome.verdict());
    assert!(outcome.inserted > 0 && readings > 0 && operations > 0);
}

#[test]
fn a_lost_entry_a_doubled_one_and_a_wrong_value_are_noticed() {
    let outcome = |entries, iterated, wrong| Outcome {
        entries,
        iterated,
        inserted: 10,
        removed: 7,
        wrong,
    };
    assert!(outcome(3, 3, 0).adds_up());
    for wrong in [outcome(2, 2, 0), outcome(3, 4, 0), outcome(3, 3, 1)] {
        assert!(wrong.verdict().contains("DOES NOT ADD UP"));
    }
}

#[test]
fn it_ends_when_nobody_looks_any_more() {
    let _watchdog = watchdog::start();
    let forever = Load {
        duration: Duration::from_secs(86_400),
        ..LOAD
    };
    let outcome = run(&forever, TICK, |_| Err(io::ErrorKind::BrokenPipe.into()));
    assert!(outcome.adds_up());
}

#[test]
fn the_tide_comes_in_and_goes_out() {
    let heights = [0, 2, 4, 6, 8].map(|seconds| tide(Duration::from_secs(seconds)));
    assert_eq!(heights, [0, 50, 100, 50, 0]);
}

#[test]
fn a_board_is_drawn_in_the_place_of_the_one_before() {
    let mut board = Board::new(&LOAD);
    let reading = |entries| Reading {
        elapsed: Duration::from_secs(1),
        entries,
        capacity: 1_000,
        per_second: 1_234_567,
        tide: 50,
    };
    let first = board.show(&reading(0));
    let second = board.show(&reading(1_000));
    let lines = first.lines().count();
    assert!(first.contains("1,234,567") && !first.contains("\x1b[5A"));
    assert!(second.starts_with(&format!("\x1b[{lines}A")));
    assert_eq!(second.lines().count(), lines);
    assert!(second.contains("1,000   █"), "{second}"); // empty, then full
}

#[test]
fn bars_are_as_high_as_their_values() {
    let bars = |values: [u64; 4], largest| sparkline(&VecDeque::from(values), largest);
    assert_eq!(bars([0, 1, 400, 800], 800), " ▁▄█");
    assert_eq!(bars([0; 4], 0), "    ");
    assert_eq!(
        [0, 999, 1_000, 1_234_567].map(grouped),
        ["0", "999", "1,000", "1,234,567"]
    );
}

#[test]
fn nonsense_on_the_command_line_is_refused() {
    let refusal = |arguments: &[&str]| command_line::refusal(Options::parse, arguments);
    command_line::assert_nonsense_is_refused(refusal, &["--seconds", "--threads", "--keys"], []);
    assert!(Options::parse(["--help".to_owned()]).is_ok_and(|options| options.help));
}
