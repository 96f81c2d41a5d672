//! The command line.

use super::command_line::{UsageError, each_flag, number, size, twin};
use super::twins::{TWINS, Twin};

pub(crate) const HELP: &str = "\
A server on loopback limits the live connections of each client address, clients come from many of them.

Usage: per_ip_cap [OPTIONS]

      --addresses N     addresses to connect from, 127.0.0.2 and those that follow [default: 50]
      --connections N   connections of a run [default: 10000]
      --cap N           one run with a cap of N instead of one with 1 and one with 4
      --threads N       clients at once [default: 32]
      --seed N          what is drawn at random follows from it [default: 1]
      --lazy            keep the entries of idle addresses for a sweep now and then
      --broken TWIN     run a limiter with a known fault instead, and show that it is caught
  -h, --help            print this

Twins:
      remove-if-zero    removes the entry if its count is zero, which somebody may be about to count up
      remove-by-key     removes the entry whoever else counts in it
      check-then-join   compares with the cap, then joins
      never-removed     leaves the entries of addresses without connections
      counted-by-hand   counts down after the connection, unless its worker panics
      one-lock          holds one lock for all addresses while an entry is made

Exit status: 0 all invariants hold (with --broken: the fault was caught), 1 otherwise, 2 wrong usage.";

pub(crate) struct Options {
    pub(crate) addresses: usize,
    pub(crate) connections: usize,
    pub(crate) cap: Option<usize>,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    pub(crate) lazy: bool,
    pub(crate) broken: Option<&'static Twin>,
    pub(crate) help: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addresses: 50,
            connections: 10_000,
            cap: None,
            threads: 32,
            seed: 1,
            lazy: false,
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
                "--addresses" => options.addresses = size(flag, &value()?, 1..=1_000_000)?,
                "--connections" => options.connections = size(flag, &value()?, 1..=10_000_000)?,
                "--cap" => options.cap = Some(size(flag, &value()?, 1..=1_000)?),
                "--threads" => options.threads = size(flag, &value()?, 1..=400)?,
                "--seed" => options.seed = number(flag, &value()?)?,
                "--lazy" => options.lazy = true,
                "--broken" => options.broken = Some(twin(&value()?, &TWINS, |twin| twin.name)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if options.lazy && options.broken.is_some() {
            let message =
                "--lazy and --broken exclude each other: a twin tidies up as it is wont to";
            return Err(UsageError(message.to_owned()));
        }
        Ok(options)
    }
}
