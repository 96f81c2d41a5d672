//! How models are run by loom.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;

/// Hashes an integer to itself; with the models' fixed seed, small ones share a home bucket.
#[derive(Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only integers are hashed")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

pub(crate) type Hash = BuildHasherDefault<Identity>;

/// Runs `threads` at the same time, then `check` alone; says how many executions there were.
pub(crate) fn model<M: Send + Sync + 'static>(
    name: &str,
    preemptions: usize,
    prepare: impl Fn() -> M + Sync + Send + 'static,
    threads: &'static [fn(&M) -> u64],
    check: impl Fn(&M, Vec<u64>) + Sync + Send + 'static,
) {
    let executions = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        let map = loom::sync::Arc::new(prepare());
        let (first, others) = threads.split_first().unwrap();
        let spawned: Vec<_> = others
            .iter()
            .map(|run| {
                let map = map.clone();
                thread::spawn(move || run(&map))
            })
            .collect();
        let mut results = vec![first(&map)];
        results.extend(spawned.into_iter().map(|thread| thread.join().unwrap()));
        check(&map, results);
    });
    println!("{name}: {} executions", executions.load(Ordering::Relaxed));
}
