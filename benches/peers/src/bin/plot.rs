//! Charts of what an operation costs, by size and by threads; `benches/README.md` has the procedure.

use clap::{Parser, ValueEnum};
use plotters::prelude::*;
use quince_peers::data::{Data, Integers};
use quince_peers::inputs::Inputs;
use quince_peers::peer::{Choice, Job, Peer};
use quince_peers::rounds::{Comparison, interleave};
use quince_peers::team::Team;
use quince_peers::workload::{Case, Measure, Sample, Workload};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// Draws what an operation of quince and its peers takes: one chart over sizes and one over threads per workload.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Where to write the charts, in SVG
    directory: PathBuf,

    /// Workloads to draw, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "get_hit,get_miss,fill_disjoint,remove_insert",
        hide_possible_values = true
    )]
    workload: Vec<Workload>,

    #[command(flatten)]
    peers: Choice,

    /// The largest number of entries in a chart over sizes; the smallest is 1000
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    max_size: u32,

    /// The number of entries in a chart over threads
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    size: u32,

    /// Numbers of threads in a chart over threads, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,

    /// Rounds that count, of which the median is drawn; one more comes first to warm up
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rounds: u16,

    /// Seed of keys, order and mixes
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Operations per session.
const BATCH: usize = 64;

type Measured = <Measure as Job<Integers>>::Run;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let peers = args.peers.choose::<Integers, Measure>();
    fs::create_dir_all(&args.directory)?;
    for &workload in &args.workload {
        let sizes = sizes(args.max_size);
        Chart {
            workload,
            axis: "entries",
            base: 10.0,
            caption: "1 thread".to_owned(),
            lines: lines(&peers, &sizes, |size| {
                measure(workload, size, 1, &peers, &args)
            }),
        }
        .draw(&args.directory)?;
        if !workload.is_serial() {
            let size = args.size as usize;
            let threads: Vec<usize> = args.threads.iter().map(|&threads| threads.into()).collect();
            Chart {
                workload,
                axis: "threads",
                base: 2.0,
                caption: format!("{size} entries"),
                lines: lines(&peers, &threads, |threads| {
                    measure(workload, size, threads, &peers, &args)
                }),
            }
            .draw(&args.directory)?;
        }
    }
    Ok(())
}

/// Two per decade.
fn sizes(largest: u32) -> Vec<usize> {
    iter::successors(Some(1_000.0), |size| Some(size * 10_f64.sqrt()))
        .map(|size| size.round() as usize)
        .take_while(|&size| size <= largest as usize)
        .collect()
}

/// A name and what was measured, from left to right.
type Line = (&'static str, Vec<(f64, f64)>);

/// `measure` says for a place on the axis how many nanoseconds each peer takes, if it can run there.
fn lines(
    peers: &[Peer<Measured>],
    axis: &[usize],
    measure: impl Fn(usize) -> Vec<(usize, f64)>,
) -> Vec<Line> {
    let mut lines: Vec<Line> = peers.iter().map(|peer| (peer.name, Vec::new())).collect();
    for &x in axis {
        for (peer, y) in measure(x) {
            lines[peer].1.push((x as f64, y));
        }
    }
    lines
}

fn measure(
    workload: Workload,
    size: usize,
    threads: usize,
    peers: &[Peer<Measured>],
    args: &Args,
) -> Vec<(usize, f64)> {
    let inputs = Inputs::new::<Integers>(size, args.seed, 0.0);
    let case = Case {
        inputs: &inputs,
        team: Team::new(threads),
        batch: BATCH,
    };
    let able: Vec<usize> = (0..peers.len())
        .filter(|&peer| peers[peer].can_run_on(threads))
        .collect();
    let rounds = interleave(args.rounds.into(), able.len(), |place| {
        (peers[able[place]].run)(workload, &case)
    });
    let time = |place| Comparison::of(&rounds, place, Sample::nanoseconds).median();
    let times = (0..able.len()).map(time);
    able.iter().copied().zip(times).collect()
}

struct Chart {
    workload: Workload,
    /// What is on the horizontal axis, and the base of its logarithm.
    axis: &'static str,
    base: f64,
    caption: String,
    lines: Vec<Line>,
}

impl Chart {
    /// Writes `<workload>-<axis>.svg`.
    fn draw(&self, directory: &Path) -> Result<(), Box<dyn Error>> {
        let workload = self.workload.to_possible_value().unwrap();
        let workload = workload.get_name();
        let path = directory.join(format!("{workload}-{}.svg", self.axis));
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let (left, right) = bounds(points().map(|&(x, _)| x));
        let (low, high) = bounds(points().map(|&(_, y)| y));

        let root = SVGBackend::new(&path, (900, 500)).into_drawing_area();
        root.fill(&WHITE)?;
        let (area, legend) = root.split_horizontally(740);
        let mut chart = ChartBuilder::on(&area)
            .caption(
                format!("{workload}, {}, {}", Integers::LABEL, self.caption),
                ("sans-serif", 20),
            )
            .margin(20)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(
                (left..right).log_scale().base(self.base),
                (decade_below(low)..high * 1.1).log_scale(),
            )?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(self.axis)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_desc("nanoseconds per operation")
            .y_label_formatter(&|y| y.to_string())
            .draw()?;
        for (index, (name, points)) in self.lines.iter().enumerate() {
            let colour = Palette99::pick(index).to_rgba();
            let line = colour.stroke_width(if index == 0 { 3 } else { 1 });
            chart.draw_series(LineSeries::new(points.iter().copied(), line).point_size(3))?;
            let y = 60 + 20 * index as i32;
            legend.draw(&PathElement::new([(0, y), (16, y)], colour.stroke_width(3)))?;
            legend.draw(&Text::new(*name, (24, y - 7), ("sans-serif", 15)))?;
        }
        root.present()?;
        println!("{}", path.display());
        Ok(())
    }
}

fn decade_below(value: f64) -> f64 {
    10_f64.powf(value.log10().floor())
}

/// The least and the greatest of `values`, kept apart.
fn bounds(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let greatest = values.fold(0.0, f64::max);
    (least, greatest.max(least * 1.1))
}
