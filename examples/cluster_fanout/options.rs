//! The command line.

use super::command_line::{UsageError, each_flag, number, size, twin};
use super::plan::{CLAIMS_OF_SLOW, THREADS};
use super::twins::{TWINS, Twin};

pub(crate) const HELP: &str = "\
A controller builds one client per cluster, on many threads, while clusters fail, recover and need each other.

Usage: cluster_fanout [OPTIONS]

      --clusters N    N clusters instead of 12, of 200 and of 5000
      --rounds N      how often that starts over [default: 1, for the three sizes 1000, 5 and 1]
      --threads N     threads that claim clients [default: 16]
      --seed N        what is drawn at random follows from it [default: 1]
      --broken TWIN   run a fleet with a known fault instead, and show that it is caught
  -h, --help          print this

Twins:
      forget-then-retry       removes a failed outcome before it tries again
      check-then-insert       looks the outcome up, and builds if there is none
      pool-overwrite          puts the client it built in the place of another one
      overwrite               enters an outcome whatever has been entered meanwhile
      shared-defaults         writes the settings of a cluster back to the table of defaults
      publish-then-connect    lists a client as ready before it is connected
      announce-every-success  calls back for each attempt that succeeds
      one-lock                holds a lock while it builds

Exit status: 0 all invariants hold (with --broken: the fault was caught), 1 otherwise, 2 wrong usage.";

pub(crate) struct Options {
    pub(crate) clusters: Option<usize>,
    pub(crate) rounds: Option<usize>,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    pub(crate) broken: Option<&'static Twin>,
    pub(crate) help: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clusters: None,
            rounds: None,
            threads: THREADS,
            seed: 1,
            broken: None,
            help: false,
        }
    }
}

impl Options {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, UsageError> {
        let mut options = Self::default();
        each_flag(arguments, |flag, value| {
            match flag {
                "-h" | "--help" => options.help = true,
                "--clusters" => options.clusters = Some(size(flag, &value()?, 1..=100_000)?),
                "--rounds" => options.rounds = Some(size(flag, &value()?, 1..=1_000_000)?),
                // Two may wait for the one build that takes until the others are done.
                "--threads" => options.threads = size(flag, &value()?, CLAIMS_OF_SLOW + 1..=256)?,
                "--seed" => options.seed = number(flag, &value()?)?,
                "--broken" => options.broken = Some(twin(&value()?, &TWINS, |twin| twin.name)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(options)
    }
}
