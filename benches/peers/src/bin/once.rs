//! Maps that make each value once, under the same two workloads, interleaved; `benches/README.md` has the procedure.

use clap::Parser;
use quince_peers::contender::Hasher;
use quince_peers::rounds::{Comparison, interleave};
use quince_peers::team::Team;
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

type Cell = Arc<OnceLock<u64>>;

/// Compares `quince::OnceMap` with what else makes a value once per key, and checks that it does.
#[derive(Parser)]
struct Args {
    /// Numbers of threads, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,

    /// Numbers of keys, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1000,100000")]
    size: Vec<u64>,

    /// Rounds that count; one more comes first to warm up
    #[arg(long, default_value_t = 11)]
    rounds: usize,
}

/// A map that makes each value once.
trait Once {
    type Map: Sync;
    fn new(size: u64) -> Self::Map;
    fn get_or_init(map: &Self::Map, key: u64, init: impl FnOnce() -> u64) -> u64;
}

struct Quince;
impl Once for Quince {
    type Map = quince::OnceMap<u64, u64, Hasher>;
    fn new(_: u64) -> Self::Map {
        Self::Map::default()
    }
    fn get_or_init(map: &Self::Map, key: u64, init: impl FnOnce() -> u64) -> u64 {
        map.get_or_init(key, init)
    }
}

/// A shared cell as the value of the plain map.
struct QuinceCell;
impl Once for QuinceCell {
    type Map = quince::HashMap<u64, OnceLock<u64>, Hasher>;
    fn new(_: u64) -> Self::Map {
        Self::Map::default()
    }
    fn get_or_init(map: &Self::Map, key: u64, init: impl FnOnce() -> u64) -> u64 {
        *map.pin().get_or_default(key).get_or_init(init)
    }
}

struct Moka;
impl Once for Moka {
    type Map = moka::sync::Cache<u64, u64, Hasher>;
    fn new(size: u64) -> Self::Map {
        moka::sync::Cache::builder()
            .max_capacity(4 * size)
            .build_with_hasher(Hasher::default())
    }
    fn get_or_init(map: &Self::Map, key: u64, init: impl FnOnce() -> u64) -> u64 {
        map.get_with(key, init)
    }
}

struct QuickCache;
impl Once for QuickCache {
    type Map = quick_cache::sync::Cache<u64, u64>;
    fn new(size: u64) -> Self::Map {
        Self::Map::new(4 * size as usize)
    }
    fn get_or_init(map: &Self::Map, key: u64, init: impl FnOnce() -> u64) -> u64 {
        let Ok(value) = map.get_or_insert_with(&key, || Ok::<_, Infallible>(init()));
        value
    }
}

struct DashMapCell;
impl Once for DashMapCell {
    type Map = dashmap::DashMap<u64, Cell, Hasher>;
    fn new(_: u64) -> Self::Map {
        Self::Map::default()
    }
    fn get_or_init(map: &Self::Map, key: u64, init: impl FnOnce() -> u64) -> u64 {
        // The look first spares the exclusive lock.
        let found = map.get(&key).map(|cell| Cell::clone(&cell));
        let cell = found.unwrap_or_else(|| Cell::clone(&map.entry(key).or_default()));
        *cell.get_or_init(init)
    }
}

struct MutexCell;
impl Once for MutexCell {
    type Map = Mutex<hashbrown::HashMap<u64, Cell, Hasher>>;
    fn new(_: u64) -> Self::Map {
        Self::Map::default()
    }
    fn get_or_init(map: &Self::Map, key: u64, init: impl FnOnce() -> u64) -> u64 {
        let cell = Cell::clone(map.lock().unwrap().entry(key).or_default());
        *cell.get_or_init(init)
    }
}

/// Nanoseconds per operation in the eyes of a thread: all keys present, and all threads on the same absent ones.
struct Times {
    hit: f64,
    burst: f64,
}

fn measure<C: Once>(threads: usize, size: u64) -> Times {
    let team = Team::new(threads);
    let keys: Vec<u64> = (0..size)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let pass = |map: &C::Map, runs: &AtomicUsize| {
        let (time, sums) = team.run(|_| {
            let value = |&key: &u64| {
                C::get_or_init(map, key, || {
                    runs.fetch_add(1, Relaxed);
                    key
                })
            };
            keys.iter().map(value).fold(0, u64::wrapping_add)
        });
        let sum = keys.iter().copied().fold(0, u64::wrapping_add);
        assert!(
            sums.iter().all(|&of_thread| of_thread == sum),
            "wrong values"
        );
        time.as_nanos() as f64 / size as f64
    };
    let passes = ((1 << 19) / size).max(1);
    let (mut hit, mut burst) = (0.0, 0.0);
    for _ in 0..passes {
        let (map, runs) = (C::new(size), AtomicUsize::new(0));
        burst += pass(&map, &runs);
        hit += pass(&map, &runs);
        assert_eq!(runs.into_inner(), keys.len(), "each value is made once");
        drop(black_box(map));
    }
    Times {
        hit: hit / passes as f64,
        burst: burst / passes as f64,
    }
}

type Measure = fn(usize, u64) -> Times;

fn main() {
    let args = Args::parse();
    let contenders: [(&str, Measure); 6] = [
        ("quince OnceMap", measure::<Quince>),
        ("quince + OnceLock", measure::<QuinceCell>),
        ("moka get_with", measure::<Moka>),
        ("quick_cache", measure::<QuickCache>),
        ("dashmap + OnceLock", measure::<DashMapCell>),
        ("mutex + OnceLock", measure::<MutexCell>),
    ];
    for &size in &args.size {
        for &threads in &args.threads {
            let rounds = interleave(args.rounds, contenders.len(), |place| {
                (contenders[place].1)(threads, size)
            });
            println!(
                "\n{size} keys, {threads} thread(s), {} rounds",
                rounds.len()
            );
            println!(
                "  {:20}{:>10}{:>16}{:>14}{:>16}",
                "", "hit ns", "time / quince", "burst ns", "time / quince"
            );
            for (place, (name, _)) in contenders.iter().enumerate() {
                let hit = Comparison::of(&rounds, place, |times| times.hit);
                let burst = Comparison::of(&rounds, place, |times| times.burst);
                println!(
                    "  {name:20}{:>10.1}{:>16.2}{:>14.1}{:>16.2}",
                    hit.median(),
                    hit.ratio,
                    burst.median(),
                    burst.ratio,
                );
            }
        }
    }
}
