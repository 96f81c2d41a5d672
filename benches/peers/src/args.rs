//! The command line.

use clap::{Parser, ValueEnum};
use quince_peers::peer::Choice;
use quince_peers::workload::Workload;

/// Runs quince and its peers under the same workloads, interleaved in one process, and checks their results.
#[derive(Parser)]
#[command(version)]
pub struct Args {
    /// Workloads to run, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Workload::value_variants().to_vec(), hide_default_value = true)]
    pub workload: Vec<Workload>,

    #[command(flatten)]
    pub peers: Choice,

    /// Numbers of threads, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,

    /// Numbers of entries, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1000,100000", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub size: Vec<u32>,

    /// How skewed the draws of keys are: exponents of a Zipf distribution, separated by commas; 0 draws evenly.
    /// Workloads that draw no keys run once
    #[arg(long, value_name = "EXPONENT", value_delimiter = ',', default_value = "0,0.99", value_parser = exponent)]
    pub zipf: Vec<f64>,

    /// Rounds that count; one more comes first to warm up
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub rounds: u16,

    /// Operations per session (pin or guard); 1 pins for every operation
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,

    /// Keys and values
    #[arg(long, value_enum, default_value_t = Kind::Integers)]
    pub data: Kind,

    /// Seed of keys, order and mixes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Kind {
    /// u64 -> u64
    Integers,
    /// String of 24 bytes -> Arc<u64>
    Text,
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse().ok();
    exponent
        .filter(|exponent| (0.0..=10.0).contains(exponent))
        .ok_or_else(|| "not a number from 0 to 10".to_owned())
}
