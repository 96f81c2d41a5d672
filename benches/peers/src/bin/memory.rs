//! What maps ask of the allocator; `benches/README.md` has the procedure.

use cap::Cap;
use clap::{Parser, ValueEnum};
use quince_peers::contender::Contender;
use quince_peers::data::{Counters, Integers};
use quince_peers::inputs::Inputs;
use quince_peers::peer::{Choice, Job};
use quince_peers::workload::{batched, slide};
use std::alloc::System;
use std::process::Command;
use std::{env, iter, mem};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Compares the bytes that quince and its peers request from the allocator for maps u64 -> u64.
///
/// Each figure is found in a process of its own, since some maps leave memory to the next one to free.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    peers: Choice,

    /// The largest number of entries
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(20_000..=100_000_000))]
    size: u32,

    /// Seed of the keys
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Find one figure of one contender
    #[arg(long, hide = true, num_args = 2)]
    only: Option<Vec<String>>,
}

/// Columns: a heading, a figure, and another one to divide it by.
const COLUMNS: [(&str, Figure, Option<Figure>); 8] = [
    ("struct", Figure::Struct, None),
    ("empty", Figure::Empty, None),
    ("16 entries", Figure::Sixteen, None),
    ("mean/entry", Figure::MeanPerEntry, None),
    ("worst/entry", Figure::WorstPerEntry, None),
    ("emptied, x", Figure::Emptied, Some(Figure::Rest)),
    ("reused, x", Figure::Reused, Some(Figure::Rest)),
    ("churned, x", Figure::Churned, Some(Figure::Window)),
];

/// In bytes; all but the first one leave the struct out.
#[derive(Clone, Copy, ValueEnum)]
enum Figure {
    Struct,
    Empty,
    Sixteen,
    MeanPerEntry,
    WorstPerEntry,
    /// When all entries but those of `Rest` were removed.
    Emptied,
    /// When those left were then replaced by 100,000 removals and insertions.
    Reused,
    /// A new map of a thousand entries.
    Rest,
    /// When each entry of a map as in `Window` was replaced ten times.
    Churned,
    /// A new map of a tenth of the entries.
    Window,
}

struct Weigh;

impl Job<Integers> for Weigh {
    type Run = fn(Figure, &Inputs<u64>) -> f64;

    fn on<C: Contender<Integers> + Contender<Counters<Integers>>>() -> Self::Run {
        |figure, inputs| {
            let keys = &inputs.present;
            let rest = &keys[..1_000];
            let window = &keys[..keys.len() / 10];
            match figure {
                Figure::Struct => mem::size_of::<<C as Contender<Integers>>::Map>() as f64,
                Figure::Empty => small::<C>(&[]),
                Figure::Sixteen => small::<C>(&keys[..16]),
                Figure::MeanPerEntry => {
                    let per_entry = per_entry::<C>(keys);
                    per_entry.iter().sum::<f64>() / per_entry.len() as f64
                }
                Figure::WorstPerEntry => per_entry::<C>(keys).into_iter().fold(0.0, f64::max),
                Figure::Emptied => thinned::<C>(keys, rest.len(), &[]),
                Figure::Reused => thinned::<C>(keys, rest.len(), &inputs.fresh::<Integers>(50_000)),
                Figure::Rest => replaced::<C>(rest, &[]),
                Figure::Churned => replaced::<C>(window, &inputs.absent),
                Figure::Window => replaced::<C>(window, &[]),
            }
        }
    }
}

/// The change of what is allocated, since it was made.
struct Scale(usize);

impl Scale {
    fn new() -> Self {
        Self(ALLOCATOR.allocated())
    }

    fn bytes(&self) -> f64 {
        ALLOCATOR.allocated() as f64 - self.0 as f64
    }
}

const BATCH: usize = 64;

fn fill<C: Contender<Integers>>(map: &C::Map, keys: &[u64]) {
    batched::<C, Integers, _>(map, BATCH, keys, |session, &key| {
        assert!(C::insert(session, key, key));
    });
}

/// One of many maps.
fn small<C: Contender<Integers>>(keys: &[u64]) -> f64 {
    const MAPS: usize = 1_000;
    let mut maps = Vec::with_capacity(MAPS);
    let scale = Scale::new();
    maps.extend(iter::repeat_with(C::new).take(MAPS));
    maps.iter().for_each(|map| fill::<C>(map, keys));
    scale.bytes() / MAPS as f64
}

/// At twenty sizes of a map that grows, from a tenth of the keys to all of them, each larger by the same factor.
fn per_entry<C: Contender<Integers>>(keys: &[u64]) -> Vec<f64> {
    const SIZES: usize = 20;
    let size = |index: usize| {
        let power = index as f64 / (SIZES - 1) as f64 - 1.0;
        (keys.len() as f64 * 10_f64.powf(power)).round() as usize
    };
    let scale = Scale::new();
    let map = C::new();
    (0..SIZES)
        .map(|index| {
            fill::<C>(&map, &keys[C::len(&map)..size(index)]);
            scale.bytes() / C::len(&map) as f64
        })
        .collect()
}

/// A map that is given all keys, keeps `rest` of them, and then has the oldest ones replaced by `newest`.
fn thinned<C: Contender<Integers>>(keys: &[u64], rest: usize, newest: &[u64]) -> f64 {
    let slid = [&keys[..rest], newest].concat();
    let scale = Scale::new();
    let map = C::new();
    fill::<C>(&map, keys);
    batched::<C, Integers, _>(&map, BATCH, &keys[rest..], |session, key| {
        assert!(C::remove(session, key));
    });
    slide::<C, Integers>(&map, BATCH, &slid[..newest.len()], newest);
    scale.bytes()
}

/// A map of `keys`, the oldest ones of which are replaced by `newest`.
fn replaced<C: Contender<Integers>>(keys: &[u64], newest: &[u64]) -> f64 {
    thinned::<C>(keys, keys.len(), newest)
}

fn main() {
    let args = Args::parse();
    let peers = args.peers.choose::<Integers, Weigh>();
    if let Some([name, figure]) = args.only.as_deref() {
        let peer = peers.iter().find(|peer| peer.name == name).unwrap();
        let figure = Figure::from_str(figure, false).unwrap();
        let inputs = Inputs::new::<Integers>(args.size as usize, args.seed, 0.0);
        println!("{}", (peer.run)(figure, &inputs));
        return;
    }
    println!("u64 -> u64, {} to {} entries", args.size / 10, args.size);
    let headings = COLUMNS.map(|(heading, ..)| format!("{heading:>12}"));
    println!("  {:18}{}", "", headings.concat());
    for peer in peers {
        let cells = COLUMNS.map(|(_, figure, unit)| {
            let unit = unit.map_or(1.0, |unit| ask(peer.name, unit));
            format!("{:>12.1}", ask(peer.name, figure) / unit)
        });
        println!("  {:18}{}", peer.name, cells.concat());
    }
}

/// Finds a figure in a new process.
fn ask(peer: &str, figure: Figure) -> f64 {
    let figure = figure.to_possible_value().unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args(env::args_os().skip(1))
        .args(["--only", peer, figure.get_name()])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    text.trim()
        .parse()
        .unwrap_or_else(|_| panic!("{peer}: {errors}"))
}
