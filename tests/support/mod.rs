//! What the integration tests and the fuzz targets share. Each of them compiles this tree and uses a part of it.
#![allow(dead_code, reason = "no binary uses all of it")]

pub(crate) mod command_line;
pub(crate) mod fickle;
pub(crate) mod hashers;
#[cfg(loom)]
pub(crate) mod interleavings;
pub(crate) mod ledger;
pub(crate) mod linear;
pub(crate) mod ops;
#[cfg(shuttle)]
pub(crate) mod schedules;
pub(crate) mod spin_barrier;
pub(crate) mod watchdog;

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use spin_barrier::SpinBarrier;

/// The one place that decides sizes: how much of a `full` count, meant for a release build, this build does.
///
/// `QUINCE_TEST_PERCENT` scales it further: below 100 for sanitizers, above for long runs.
pub(crate) fn size(full: usize) -> usize {
    let percent = std::env::var("QUINCE_TEST_PERCENT").map_or(100, |percent| {
        percent
            .parse()
            .expect("QUINCE_TEST_PERCENT is a whole number")
    });
    let divisor = match (cfg!(miri), cfg!(debug_assertions)) {
        (true, _) => 2_000,
        (false, true) => 8,
        (false, false) => 1,
    };
    (full * percent / 100 / divisor).max(full.min(8))
}

/// Runs `body` on so many threads, started together, under a watchdog; what they return comes in their order.
pub(crate) fn race<R: Send>(threads: usize, body: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let _watchdog = watchdog::start();
    let (start, body) = (SpinBarrier::new(threads), &body);
    thread::scope(|scope| {
        let spawn = |thread| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                body(thread)
            })
        };
        let running: Vec<_> = (0..threads).map(spawn).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, R>| {
            thread
                .join()
                .unwrap_or_else(|panic| panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect()
    })
}

/// Lets threads with endless work stop when those with a fixed amount of it are done, or have panicked.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Sets the mark when what is returned goes out of scope.
    pub(crate) fn on_drop(&self) -> impl Drop + '_ {
        struct Setter<'s>(&'s AtomicBool);
        impl Drop for Setter<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        Setter(&self.0)
    }
}

/// Reproducible numbers (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed >> 32) * u64::from(bound)) >> 32) as u32
    }
}
