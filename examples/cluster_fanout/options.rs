//! The command line.

use std::fmt;
use std::ops::RangeInclusive;

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

/// Why the command line makes no sense.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Options {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, UsageError> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(flag) = arguments.next() {
            let mut value = || {
                let missing = || UsageError(format!("{flag} needs a value"));
                arguments.next().ok_or_else(missing)
            };
            match flag.as_str() {
                "-h" | "--help" => options.help = true,
                "--clusters" => options.clusters = Some(size(&flag, &value()?, 1..=100_000)?),
                "--rounds" => options.rounds = Some(size(&flag, &value()?, 1..=1_000_000)?),
                // Two may wait for the one build that takes until the others are done.
                "--threads" => options.threads = size(&flag, &value()?, CLAIMS_OF_SLOW + 1..=256)?,
                "--seed" => options.seed = number(&flag, &value()?)?,
                "--broken" => options.broken = Some(twin(&value()?)?),
                _ => return Err(UsageError(format!("unknown argument {flag:?}, see --help"))),
            }
        }
        Ok(options)
    }
}

fn number(flag: &str, text: &str) -> Result<u64, UsageError> {
    let wrong = |_| UsageError(format!("{flag} takes a whole number, not {text:?}"));
    text.parse().map_err(wrong)
}

fn size(flag: &str, text: &str, range: RangeInclusive<usize>) -> Result<usize, UsageError> {
    let size = number(flag, text)?.try_into().unwrap_or(usize::MAX);
    if !range.contains(&size) {
        let (least, most) = range.into_inner();
        let message = format!("{flag} takes a number from {least} to {most}, not {text}");
        return Err(UsageError(message));
    }
    Ok(size)
}

fn twin(name: &str) -> Result<&'static Twin, UsageError> {
    let unknown = || {
        let names: Vec<_> = TWINS.iter().map(|twin| twin.name).collect();
        let names = names.join(", ");
        UsageError(format!(
            "no broken twin is called {name:?}, there are {names}"
        ))
    };
    TWINS
        .iter()
        .find(|twin| twin.name == name)
        .ok_or_else(unknown)
}
