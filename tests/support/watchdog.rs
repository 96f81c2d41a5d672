//! A hang is a failure with a name, not a test run without an end.

use std::io::{self, Write};
use std::panic::Location;
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// Far more than any test needs, on a loaded machine and under a sanitizer too.
const LIMIT: Duration = Duration::from_secs(300);

/// Ends the process, naming the test, unless it is dropped within the limit.
#[must_use]
pub(crate) struct Watchdog {
    /// Hung up on drop; that is all the message there is.
    _alive: Sender<()>,
}

#[track_caller]
pub(crate) fn start() -> Watchdog {
    let (alive, dropped) = mpsc::channel();
    let test = thread::current().name().unwrap_or("unnamed").to_owned();
    let caller = Location::caller();
    let watch = move || {
        if dropped.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            // Not `eprintln`, which the test harness keeps for a report that never comes.
            _ = writeln!(io::stderr(), "test {test} hangs (watched from {caller})");
            process::abort();
        }
    };
    // Miri's clock counts steps, so that a limit in seconds says nothing there.
    if !cfg!(miri) {
        thread::spawn(watch);
    }
    Watchdog { _alive: alive }
}
