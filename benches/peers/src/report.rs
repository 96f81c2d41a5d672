//! Medians, and the spread around them.

use clap::ValueEnum;
use quince_peers::data::Data;
use quince_peers::peer::Peer;
use quince_peers::rounds::Comparison;
use quince_peers::workload::{Case, Sample, Workload};

/// One table: per peer the median time, its quartiles, and the median of the per-round ratios to the first peer.
pub fn print<D: Data, R>(
    workload: Workload,
    case: &Case<D::Key>,
    peers: &[&Peer<R>],
    rounds: &[Vec<Sample>],
) {
    println!(
        "\n{}, {}, {} entries{}, {} thread(s), {} per session, {} rounds",
        workload.to_possible_value().unwrap().get_name(),
        D::LABEL,
        case.inputs.size(),
        drawn(case.inputs.skew),
        case.team.threads(),
        case.batch,
        rounds.len(),
    );
    println!(
        "  {:18}{:>10}{:>22}{:>20}{}",
        "",
        "ns/op",
        "quartiles",
        format!("time / {}", peers[0].name),
        growth(&rounds[0][0], || "resident, KiB".to_owned()),
    );
    for (place, peer) in peers.iter().enumerate() {
        let of_peer = Comparison::of(rounds, place, Sample::nanoseconds);
        let [low, time, high] = of_peer.quartiles;
        let most = || {
            let growths = rounds.iter().filter_map(|round| round[place].growth());
            format!("{:+}", growths.max().unwrap_or(0) / 1024)
        };
        println!(
            "  {:18}{time:>10.1}{:>22}{:>20.2}{}",
            peer.name,
            format!("{low:.1} .. {high:.1}"),
            of_peer.ratio,
            growth(&rounds[0][place], most),
        );
    }
}

fn drawn(skew: f64) -> String {
    if skew == 0.0 {
        String::new()
    } else {
        format!(" drawn by Zipf's law with exponent {skew}")
    }
}

/// A column for workloads that watch memory.
fn growth(sample: &Sample, text: impl Fn() -> String) -> String {
    match sample.growth() {
        Some(_) => format!("{:>20}", text()),
        None => String::new(),
    }
}
