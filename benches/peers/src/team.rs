//! Threads that start together.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire};
use std::thread;
use std::time::{Duration, Instant};

/// A number of threads to run one piece of work on.
pub struct Team {
    threads: usize,
    arrivals: AtomicUsize,
}

/// One thread's place in its team.
pub struct Member<'t> {
    pub index: usize,
    team: &'t Team,
}

impl Team {
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            arrivals: AtomicUsize::new(0),
        }
    }

    pub fn threads(&self) -> usize {
        self.threads
    }

    /// A member's part of `items`; the parts are disjoint and differ by one in length at most.
    pub fn share<'a, T>(&self, index: usize, items: &'a [T]) -> &'a [T] {
        let cut = |index: usize| items.len() * index / self.threads;
        &items[cut(index)..cut(index + 1)]
    }

    /// Runs `work` on every thread at once: the time from the first start to the last end, and every result.
    pub fn run<R: Send>(&self, work: impl Fn(Member) -> R + Sync) -> (Duration, Vec<R>) {
        let timed = |index| {
            let member = Member { index, team: self };
            member.wait_for_all();
            let start = Instant::now();
            let result = work(member);
            (start, Instant::now(), result)
        };
        let runs: Vec<_> = thread::scope(|scope| {
            let members: Vec<_> = (0..self.threads)
                .map(|index| scope.spawn(move || timed(index)))
                .collect();
            members
                .into_iter()
                .map(|member| member.join().unwrap())
                .collect()
        });
        let start = runs.iter().map(|run| run.0).min().unwrap();
        let end = runs.iter().map(|run| run.1).max().unwrap();
        (
            end - start,
            runs.into_iter().map(|(.., result)| result).collect(),
        )
    }
}

impl Member<'_> {
    /// Returns when every member has called it as often as this one. It spins: a sleeping thread would start late.
    pub fn wait_for_all(&self) {
        let threads = self.team.threads;
        let ticket = self.team.arrivals.fetch_add(1, AcqRel);
        let full = ticket - ticket % threads + threads;
        let mut spins = 0;
        while self.team.arrivals.load(Acquire) < full {
            spins += 1;
            if spins % 128 == 0 {
                thread::yield_now();
            } else {
                hint::spin_loop();
            }
        }
    }

    /// This member's part of `items`.
    pub fn share<'a, T>(&self, items: &'a [T]) -> &'a [T] {
        self.team.share(self.index, items)
    }
}
