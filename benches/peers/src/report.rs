//! Medians, and the spread around them.

use crate::data::Data;
use crate::peer::Peer;
use crate::workload::{Case, Workload};
use clap::ValueEnum;

/// One table: per peer the median time, its quartiles, and the median of the per-round ratios to the first peer.
pub fn print<D: Data>(
    workload: Workload,
    case: &Case<D::Key>,
    peers: &[Peer<D>],
    rounds: &[Vec<f64>],
) {
    println!(
        "\n{}, {}, {} entries, {} thread(s), {} per session, {} rounds",
        workload.to_possible_value().unwrap().get_name(),
        D::LABEL,
        case.inputs.size(),
        case.team.threads(),
        case.batch,
        rounds.len(),
    );
    println!(
        "  {:18}{:>10}{:>22}{:>20}",
        "",
        "ns/op",
        "quartiles",
        format!("time / {}", peers[0].name),
    );
    for (place, peer) in peers.iter().enumerate() {
        let [low, time, high] = quartiles(rounds.iter().map(|times| times[place]));
        let [_, ratio, _] = quartiles(rounds.iter().map(|times| times[place] / times[0]));
        println!(
            "  {:18}{time:>10.1}{:>22}{ratio:>20.2}",
            peer.name,
            format!("{low:.1} .. {high:.1}"),
        );
    }
}

/// By the nearest rank.
fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| sorted[(sorted.len() - 1) * quarter / 4])
}
