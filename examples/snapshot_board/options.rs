//! The command line.

use super::command_line::{UsageError, each_flag, number, size, twin};
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

impl Options {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, UsageError> {
        let mut options = Self::default();
        each_flag(arguments, |flag, value| {
            match flag {
                "-h" | "--help" => options.help = true,
                "--snapshots" => options.snapshots = Some(size(flag, &value()?, 1..=10_000_000)?),
                "--herd" => options.herd = size(flag, &value()?, 1..=10_000_000)?,
                "--workers" => options.workers = size(flag, &value()?, 1..=1_000)?,
                "--seed" => options.seed = number(flag, &value()?)?,
                "--broken" => options.broken = Some(twin(&value()?, &TWINS, |twin| twin.name)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(options)
    }
}
