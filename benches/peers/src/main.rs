//! quince and its peers under the same workloads; `benches/README.md` has the procedure.

mod args;
mod contender;
mod data;
mod inputs;
mod peer;
mod report;
mod team;
mod workload;

use args::{Args, Kind};
use clap::Parser;
use data::{Data, Integers, Text};
use inputs::Inputs;
use peer::Peer;
use team::Team;
use workload::{Case, Workload};

fn main() {
    let args = Args::parse();
    match args.data {
        Kind::Integers => compare_all::<Integers>(&args),
        Kind::Text => compare_all::<Text>(&args),
    }
}

fn compare_all<D: Data>(args: &Args) {
    let mut peers = peer::all::<D>();
    let baseline = peers[0].name;
    peers.retain(|peer| {
        let chosen = args.peer.iter().any(|name| name == peer.name);
        chosen || args.peer.is_empty() || peer.name == baseline
    });
    for &size in &args.size {
        let inputs = Inputs::new::<D>(size as usize, args.seed);
        for &workload in &args.workload {
            for threads in threads_of(workload, args) {
                let case = Case {
                    inputs: &inputs,
                    team: Team::new(threads),
                    batch: args.batch as usize,
                };
                let rounds = interleave(&peers, workload, &case, args.rounds.into());
                report::print(workload, &case, &peers, &rounds);
            }
        }
    }
}

fn threads_of(workload: Workload, args: &Args) -> Vec<usize> {
    if workload.is_serial() {
        vec![1]
    } else {
        args.threads.iter().map(|&threads| threads.into()).collect()
    }
}

/// Nanoseconds per operation, by round and peer. Each round runs every peer once and starts with another one,
/// so that what the machine does meanwhile falls on all of them alike.
fn interleave<D: Data>(
    peers: &[Peer<D>],
    workload: Workload,
    case: &Case<D::Key>,
    rounds: usize,
) -> Vec<Vec<f64>> {
    let round = |start: usize| {
        let mut times = vec![0.0; peers.len()];
        for offset in 0..peers.len() {
            let place = (start + offset) % peers.len();
            times[place] = (peers[place].measure)(workload, case).nanoseconds();
        }
        times
    };
    (0..=rounds).map(round).skip(1).collect()
}
