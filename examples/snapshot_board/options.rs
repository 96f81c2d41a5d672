//! The command line.

use std::fmt;
use std::ops::RangeInclusive;

use super::plan::WORKERS;
use super::twins::{TWINS, Twin};

pub(crate) const HELP: &str = "\
Finalizers wait on a concurrent board for the snapshots of their pods, workers publish what is ready.

Usage: snapshot_board [OPTIONS]

      --snapshots N   one run with N snapshots instead of one with 3000 and one with 20000
      --herd N        snapshots that are all ready at a restart while nobody waits [default: 100000]
      --workers N     threads that publish [default: 100]
      --seed N        what is drawn at random follows from it [default: 1]
      --broken TWIN   run a board with a known fault instead, and show that it is caught
  -h, --help          print this

Twins:
      check-then-insert      looks the slot up, and inserts one if there is none
      no-second-look         registers, and waits without looking at the truth again
      every-leaver-unlinks   removes the slot whoever else waits in it
      never-unlink           leaves closed slots in the map
      remove-by-key          removes whatever slot is there by now
      unbuffered-publish     waits until somebody takes what it publishes

Exit status: 0 all invariants hold (with --broken: the fault was caught), 1 otherwise, 2 wrong usage.";

pub(crate) struct Options {
    pub(crate) snapshots: Option<usize>,
    pub(crate) herd: usize,
    pub(crate) workers: usize,
    pub(crate) seed: u64,
    pub(crate) broken: Option<&'static Twin>,
    pub(crate) help: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            snapshots: None,
            herd: 100_000,
            workers: WORKERS,
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
                "--snapshots" => options.snapshots = Some(size(&flag, &value()?, 1..=10_000_000)?),
                "--herd" => options.herd = size(&flag, &value()?, 1..=10_000_000)?,
                "--workers" => options.workers = size(&flag, &value()?, 1..=1_000)?,
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
