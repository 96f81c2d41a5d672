//! How long single operations take, the rare slow ones included; `benches/README.md` has the procedure.

use clap::{Parser, ValueEnum};
use cpu_time::ThreadTime;
use hdrhistogram::Histogram;
use quince_peers::contender::Contender;
use quince_peers::data::{Counters, Integers};
use quince_peers::inputs::{Inputs, Random};
use quince_peers::peer::{Choice, Job, Peer};
use quince_peers::rounds::{Comparison, interleave};
use quince_peers::team::Team;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::time::Instant;

/// Compares how long single operations of quince and its peers take: percentiles, interleaved in one process.
///
/// Reading the clock twice is part of every latency; the last line of each table shows what that alone takes. On the
/// processor's time it is a system call: hundreds of nanoseconds, which hide differences between medians.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// What to look at, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Scene::value_variants().to_vec(), hide_default_value = true)]
    scene: Vec<Scene>,

    #[command(flatten)]
    peers: Choice,

    /// Numbers of entries to fill the maps to, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1000000", value_parser = clap::value_parser!(u32).range(100..=100_000_000))]
    size: Vec<u32>,

    /// Rounds that count; one more comes first to warm up
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rounds: u16,

    /// What time is
    #[arg(long, value_enum, default_value_t = Clock::Cpu)]
    clock: Clock,

    /// Seed of the keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Scene {
    /// Inserts of new keys by one thread, from the empty map
    Insert,
    /// Look-ups of present keys while another thread inserts new ones, from a hundredth of the size
    GetMeanwhile,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Clock {
    /// Processor time of the thread: what else runs on the machine does not count, nor does sleep, as in a lock
    Cpu,
    /// Time as it passes: the scheduler and other programs count
    Wall,
}

impl Clock {
    /// Nanoseconds that `operation` takes, and its result.
    fn time<R>(self, operation: impl FnOnce() -> R) -> (u64, R) {
        let (elapsed, result) = match self {
            Self::Cpu => {
                let start = ThreadTime::now();
                let result = operation();
                (start.elapsed(), result)
            }
            Self::Wall => {
                let start = Instant::now();
                let result = operation();
                (start.elapsed(), result)
            }
        };
        (elapsed.as_nanos() as u64, result)
    }
}

type Latencies = Histogram<u64>;

/// Up to a minute, to three digits.
fn no_latencies() -> Latencies {
    Latencies::new_with_bounds(1, 60_000_000_000, 3).unwrap()
}

struct Observe;

impl Job<Integers> for Observe {
    type Run = fn(Scene, &[u64], Clock) -> Latencies;

    fn on<C: Contender<Integers> + Contender<Counters<Integers>>>() -> Self::Run {
        |scene, keys, clock| match scene {
            Scene::Insert => insert::<C>(keys, clock),
            Scene::GetMeanwhile => get_meanwhile::<C>(keys, clock),
        }
    }
}

/// Each operation takes a session of its own, so that what a guard leaves to its end counts.
fn insert<C: Contender<Integers>>(keys: &[u64], clock: Clock) -> Latencies {
    let map = C::new();
    let mut latencies = no_latencies();
    for &key in keys {
        let (time, new) = clock.time(|| C::insert(&C::session(&map), key, key));
        assert!(new);
        latencies.saturating_record(time);
    }
    assert_eq!(C::len(&map), keys.len());
    latencies
}

/// The second of two threads looks up what the first one has inserted so far.
fn get_meanwhile<C: Contender<Integers>>(keys: &[u64], clock: Clock) -> Latencies {
    const BATCH: usize = 64;
    let map = C::new();
    let (first, rest) = keys.split_at(keys.len() / 100);
    let fill = |keys: &[u64]| {
        let session = C::session(&map);
        for &key in keys {
            assert!(C::insert(&session, key, key));
        }
    };
    fill(first);
    let filled = AtomicUsize::new(first.len());
    let write = || {
        for keys in rest.chunks(BATCH) {
            fill(keys);
            filled.fetch_add(keys.len(), Release);
        }
        no_latencies()
    };
    let read = || {
        let mut latencies = no_latencies();
        let mut random = Random::new(1);
        loop {
            let present = filled.load(Acquire);
            let key = keys[random.below(present)];
            let (time, value) = clock.time(|| C::get(&C::session(&map), &key, |&value| value));
            assert_eq!(value, Some(key));
            latencies.saturating_record(time);
            if present == keys.len() {
                return latencies;
            }
        }
    };
    let (_, mut latencies) = Team::new(2).run(|member| match member.index {
        0 => write(),
        _ => read(),
    });
    latencies.pop().unwrap()
}

/// What the clock takes by itself.
fn nothing(keys: &[u64], clock: Clock) -> Latencies {
    let mut latencies = no_latencies();
    for _ in keys {
        latencies.saturating_record(clock.time(|| ()).0);
    }
    latencies
}

fn main() {
    let args = Args::parse();
    let peers = args.peers.choose::<Integers, Observe>();
    for &size in &args.size {
        let keys = Inputs::new::<Integers>(size as usize, args.seed, 0.0).present;
        for &scene in &args.scene {
            let threads = match scene {
                Scene::Insert => 1,
                Scene::GetMeanwhile => 2,
            };
            let able: Vec<_> = peers
                .iter()
                .filter(|peer| peer.can_run_on(threads))
                .collect();
            let rounds = interleave(args.rounds.into(), able.len() + 1, |place| {
                match able.get(place) {
                    Some(peer) => (peer.run)(scene, &keys, args.clock),
                    None => nothing(&keys, args.clock),
                }
            });
            println!(
                "\n{}, u64 -> u64, up to {size} entries, {} rounds",
                scene.to_possible_value().unwrap().get_name(),
                rounds.len(),
            );
            print(&able, &rounds);
        }
    }
}

type Figure = fn(&Latencies) -> f64;

const FIGURES: [(&str, Figure); 4] = [
    ("p50", |latencies| latencies.value_at_quantile(0.5) as f64),
    ("p99", |latencies| latencies.value_at_quantile(0.99) as f64),
    ("p99.9", |latencies| {
        latencies.value_at_quantile(0.999) as f64
    }),
    ("max", |latencies| latencies.max() as f64),
];

/// Per peer and percentile the median over the rounds, and the median of the per-round ratios to the first peer.
fn print<R>(peers: &[&Peer<R>], rounds: &[Vec<Latencies>]) {
    print!("  {:18}", "");
    for (name, _) in FIGURES {
        print!("{:>14}{:>8}", format!("{name}, us"), "ratio");
    }
    println!();
    let names = peers.iter().map(|peer| peer.name).chain(["(clock alone)"]);
    for (place, name) in names.enumerate() {
        print!("  {name:18}");
        for (_, figure) in FIGURES {
            let of_peer = Comparison::of(rounds, place, figure);
            let microseconds = of_peer.median() / 1000.0;
            print!("{microseconds:>14.2}{:>8.2}", of_peer.ratio);
        }
        println!();
    }
}
