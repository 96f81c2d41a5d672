//! A live map under load, watched in a terminal: how many entries it has, for how many there is room, and how many operations
//! a second go through, while the tide of insertions comes in and goes out.
//!
//! ```text
//! cargo run --release --example watch -- --seconds 20
//! ```
//!
//! It ends by itself, and then checks that the map holds as many entries as were inserted and not removed. Where the output is
//! no terminal there is a line a second.
//!
//! `tests/watch.rs` includes this file as a module, so that what is shown is what is tested.

#[path = "support/command_line.rs"]
#[allow(dead_code, reason = "this example has no twins")]
mod command_line;
#[path = "support/random.rs"]
mod random;

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use command_line::{UsageError, each_flag, number, size};
use quince::HashMap;
use random::{Random, mix};

const HELP: &str = "\
A live map under load: entries, capacity and operations per second.

Usage: watch [OPTIONS]

      --seconds N   how long [default: 10]
      --threads N   threads that use the map [default: one for each processor]
      --keys N      different keys [default: 100000]
      --seed N      what is drawn at random follows from it [default: 1]
  -h, --help        print this

Exit status: 0 the map adds up, 1 otherwise, 2 wrong usage.";

fn main() -> ExitCode {
    command_line::run(Options::parse, |options| {
        if options.help {
            println!("{HELP}");
            return true;
        }
        let (mut screen, tick): (Box<dyn Screen>, _) = if io::stdout().is_terminal() {
            (
                Box::new(Board::new(&options.load)),
                Duration::from_millis(100),
            )
        } else {
            (Box::new(Log), Duration::from_secs(1))
        };
        let outcome = run(&options.load, tick, |reading| {
            let mut stdout = io::stdout().lock();
            stdout.write_all(screen.show(reading).as_bytes())?;
            stdout.flush()
        });
        // Whoever has closed the output is not told.
        _ = writeln!(io::stdout(), "{}", outcome.verdict());
        outcome.adds_up()
    })
}

// --- what is asked for --------------------------------------------------------------------------

pub(crate) struct Options {
    pub(crate) load: Load,
    pub(crate) help: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) duration: Duration,
    pub(crate) threads: usize,
    pub(crate) keys: usize,
    pub(crate) seed: u64,
}

impl Options {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, UsageError> {
        let mut help = false;
        let mut load = Load {
            duration: Duration::from_secs(10),
            threads: thread::available_parallelism().map_or(1, usize::from),
            keys: 100_000,
            seed: 1,
        };
        each_flag(arguments, |flag, value| {
            match flag {
                "-h" | "--help" => help = true,
                "--seconds" => {
                    let seconds = size(flag, &value()?, 1..=86_400)?;
                    load.duration = Duration::from_secs(seconds as u64);
                }
                "--threads" => load.threads = size(flag, &value()?, 1..=400)?,
                "--keys" => load.keys = size(flag, &value()?, 1..=10_000_000)?,
                "--seed" => load.seed = number(flag, &value()?)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(Self { load, help })
    }
}

// --- the load -----------------------------------------------------------------------------------

/// From a key to a number that follows from it, so that a wrong value is noticed.
type Map = HashMap<usize, u64>;

/// What one thread has done; others read it.
#[derive(Default)]
#[repr(align(64))]
struct Tally {
    operations: AtomicU64,
    inserted: AtomicU64,
    removed: AtomicU64,
    wrong: AtomicU64,
}

/// What all threads have done.
fn total(tallies: &[Tally], of: impl Fn(&Tally) -> &AtomicU64) -> u64 {
    tallies.iter().map(|tally| of(tally).load(Relaxed)).sum()
}

/// What there is to see at a moment.
pub(crate) struct Reading {
    pub(crate) elapsed: Duration,
    pub(crate) entries: usize,
    pub(crate) capacity: usize,
    pub(crate) per_second: u64,
    /// How many of a hundred changes are insertions.
    pub(crate) tide: usize,
}

pub(crate) struct Outcome {
    pub(crate) entries: usize,
    pub(crate) iterated: usize,
    pub(crate) inserted: u64,
    pub(crate) removed: u64,
    pub(crate) wrong: u64,
}

impl Outcome {
    pub(crate) fn adds_up(&self) -> bool {
        let left = self.inserted - self.removed;
        self.wrong == 0 && self.entries as u64 == left && self.iterated == self.entries
    }

    pub(crate) fn verdict(&self) -> String {
        let Self {
            entries,
            iterated,
            inserted,
            removed,
            wrong,
        } = *self;
        let [inserted, removed] = [inserted, removed].map(grouped);
        let counted = format!("{inserted} insertions, {removed} removals");
        if self.adds_up() {
            let entries = grouped(entries as u64);
            format!("{counted}: {entries} entries, which adds up")
        } else {
            format!("{counted}: {entries} entries, {iterated} seen, {wrong} wrong: DOES NOT ADD UP")
        }
    }
}

/// Half of the tide's period.
const FLOOD: Duration = Duration::from_secs(4);

/// How many of a hundred changes are insertions: none at first, all at high tide, and none again.
pub(crate) fn tide(elapsed: Duration) -> usize {
    let phase = elapsed.as_millis() % (2 * FLOOD.as_millis());
    let height = phase.min(2 * FLOOD.as_millis() - phase);
    (100 * height / FLOOD.as_millis()) as usize
}

/// Lets the load loose on a map, and shows `observe` a reading at every `tick`, until the time is over or `observe` fails.
pub(crate) fn run(
    load: &Load,
    tick: Duration,
    mut observe: impl FnMut(&Reading) -> io::Result<()>,
) -> Outcome {
    let map = Map::new();
    let tallies: Vec<_> = (0..load.threads).map(|_| Tally::default()).collect();
    let done = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        for (thread, tally) in tallies.iter().enumerate() {
            let random = Random::new(mix(load.seed ^ thread as u64));
            let (map, done) = (&map, &done);
            scope.spawn(move || work(map, load.keys, random, tally, || !done.load(Relaxed), start));
        }
        let (mut before, mut operations_before) = (Duration::ZERO, 0);
        while before < load.duration {
            let rest = load.duration - before;
            // The last reading is not of a mere instant.
            thread::sleep(if rest < tick * 3 / 2 { rest } else { tick });
            let elapsed = start.elapsed();
            let operations = total(&tallies, |tally| &tally.operations);
            let since = (elapsed - before).as_secs_f64().max(f64::MIN_POSITIVE);
            let reading = Reading {
                elapsed,
                entries: map.len(),
                capacity: map.capacity(),
                per_second: ((operations - operations_before) as f64 / since) as u64,
                tide: tide(elapsed),
            };
            if observe(&reading).is_err() {
                break;
            }
            (before, operations_before) = (elapsed, operations);
        }
        done.store(true, Relaxed);
    });
    Outcome {
        entries: map.len(),
        iterated: map.keys().count(),
        inserted: total(&tallies, |tally| &tally.inserted),
        removed: total(&tallies, |tally| &tally.removed),
        wrong: total(&tallies, |tally| &tally.wrong),
    }
}

/// One thread: half of what it does is look-ups, the rest goes with the tide.
fn work(
    map: &Map,
    keys: usize,
    mut random: Random,
    tally: &Tally,
    goes_on: impl Fn() -> bool,
    start: Instant,
) {
    /// Operations that share a pin.
    const BATCH: u64 = 64;
    while goes_on() {
        let tide = tide(start.elapsed());
        let pinned = map.pin();
        for _ in 0..BATCH {
            let key = random.below(keys);
            let value = mix(key as u64);
            let seen = if random.below(2) == 0 {
                pinned.get(&key)
            } else if random.below(100) < tide {
                match pinned.try_insert_with(key, || value) {
                    Ok(mine) => {
                        tally.inserted.fetch_add(1, Relaxed);
                        Some(mine)
                    }
                    Err(occupied) => Some(occupied.current),
                }
            } else {
                let removed = pinned.remove(&key);
                tally
                    .removed
                    .fetch_add(u64::from(removed.is_some()), Relaxed);
                removed
            };
            if seen.is_some_and(|seen| *seen != value) {
                tally.wrong.fetch_add(1, Relaxed);
            }
        }
        tally.operations.fetch_add(BATCH, Relaxed);
    }
}

// --- what is shown ------------------------------------------------------------------------------

/// How readings are shown.
pub(crate) trait Screen {
    fn show(&mut self, reading: &Reading) -> String;
}

/// One line after the other.
struct Log;

impl Screen for Log {
    fn show(&mut self, reading: &Reading) -> String {
        format!(
            "{:5.1} s  {:>9} entries, room for {:>9}, {:>11} operations a second\n",
            reading.elapsed.as_secs_f64(),
            grouped(reading.entries as u64),
            grouped(reading.capacity as u64),
            grouped(reading.per_second),
        )
    }
}

/// A few lines that are drawn again in the same place.
pub(crate) struct Board {
    title: String,
    duration: Duration,
    entries: VecDeque<u64>,
    capacity: VecDeque<u64>,
    per_second: VecDeque<u64>,
    is_drawn: bool,
}

impl Board {
    const WIDTH: usize = 50;

    pub(crate) fn new(load: &Load) -> Self {
        let (threads, keys) = (load.threads, grouped(load.keys as u64));
        Self {
            title: format!("threads: {threads}, keys: {keys}"),
            duration: load.duration,
            entries: VecDeque::new(),
            capacity: VecDeque::new(),
            per_second: VecDeque::new(),
            is_drawn: false,
        }
    }

    fn remember(history: &mut VecDeque<u64>, value: u64) {
        history.push_back(value);
        if history.len() > Self::WIDTH {
            history.pop_front();
        }
    }
}

impl Screen for Board {
    fn show(&mut self, reading: &Reading) -> String {
        let (entries, capacity) = (reading.entries as u64, reading.capacity as u64);
        Self::remember(&mut self.entries, entries);
        Self::remember(&mut self.capacity, capacity);
        Self::remember(&mut self.per_second, reading.per_second);
        let room = self.capacity.iter().copied().max().unwrap_or(0);
        let fastest = self.per_second.iter().copied().max().unwrap_or(0);
        let row = |name, value, history, largest| {
            let value = grouped(value);
            format!("{name:<11}{value:>12}  {}", sparkline(history, largest))
        };
        let (seconds, of) = (reading.elapsed.as_secs_f64(), self.duration.as_secs());
        let lines = [
            format!("{}, seconds: {seconds:.1} of {of}", self.title),
            row("entries", entries, &self.entries, room),
            row("capacity", capacity, &self.capacity, room),
            row("operations", reading.per_second, &self.per_second, fastest),
            format!("of the changes {:3} % are insertions", reading.tide),
        ];
        let mut drawn = String::new();
        if std::mem::replace(&mut self.is_drawn, true) {
            drawn += &format!("\x1b[{}A", lines.len()); // up to the first line
        }
        for line in lines {
            drawn += &format!("\x1b[2K{line}\n"); // in the place of what was there
        }
        drawn
    }
}

/// A bar for each value, as high as it is in comparison with `largest`.
pub(crate) fn sparkline(values: &VecDeque<u64>, largest: u64) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = BARS.len() as u64 - 1;
    let bar = |&value: &u64| BARS[(value.min(largest) * top).div_ceil(largest.max(1)) as usize];
    values.iter().map(bar).collect()
}

/// 1234567 as 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
