//! quince and its peers under the same workloads; `benches/README.md` has the procedure.

mod args;
mod report;

use args::{Args, Kind};
use clap::Parser;
use quince_peers::data::{Data, Integers, Text};
use quince_peers::inputs::Inputs;
use quince_peers::peer::{Job, Peer};
use quince_peers::rounds::interleave;
use quince_peers::team::Team;
use quince_peers::workload::{Case, Measure, Workload};

fn main() {
    let args = Args::parse();
    match args.data {
        Kind::Integers => compare_all::<Integers>(&args),
        Kind::Text => compare_all::<Text>(&args),
    }
}

fn compare_all<D: Data>(args: &Args) {
    let peers = args.peers.choose::<D, Measure>();
    for &workload in &args.workload {
        for size in sizes_of(workload, args) {
            for skew in skews_of(workload, args) {
                let inputs = Inputs::new::<D>(size, args.seed, skew);
                for threads in threads_of(workload, args) {
                    let case = Case {
                        inputs: &inputs,
                        team: Team::new(threads),
                        batch: args.batch as usize,
                    };
                    compare::<D>(workload, &case, &peers, args.rounds);
                }
            }
        }
    }
}

fn compare<D: Data>(
    workload: Workload,
    case: &Case<D::Key>,
    peers: &[Peer<<Measure as Job<D>>::Run>],
    rounds: u16,
) {
    let able: Vec<_> = peers
        .iter()
        .filter(|peer| peer.can_run_on(case.team.threads()))
        .collect();
    let rounds = interleave(rounds.into(), able.len(), |place| {
        (able[place].run)(workload, case)
    });
    report::print::<D, _>(workload, case, &able, &rounds);
}

fn sizes_of(workload: Workload, args: &Args) -> Vec<usize> {
    match workload.fixed_size() {
        Some(size) => vec![size],
        None => args.size.iter().map(|&size| size as usize).collect(),
    }
}

fn skews_of(workload: Workload, args: &Args) -> Vec<f64> {
    if workload.draws_keys() {
        args.zipf.clone()
    } else {
        vec![0.0]
    }
}

fn threads_of(workload: Workload, args: &Args) -> Vec<usize> {
    if workload.is_serial() {
        vec![1]
    } else {
        args.threads.iter().map(|&threads| threads.into()).collect()
    }
}
