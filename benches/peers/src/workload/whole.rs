//! Workloads on all entries at once; an operation is one entry.

use super::{Case, Sample, filled};
use crate::contender::Contender;
use crate::data::Data;

pub fn iterate<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    let size = case.inputs.size();
    let passes = case.inputs.passes();
    let map = filled::<C, D>(case.inputs);
    let (elapsed, sums) = case.team.run(|_| {
        let mut sum = 0;
        for _ in 0..passes {
            C::for_each(&C::session(&map), |_, value| sum += D::number(value));
        }
        sum
    });
    let size_sum = (0..size as u64).sum::<u64>();
    assert!(sums.iter().all(|&sum| sum == size_sum * passes as u64));
    Sample::new(elapsed, size * passes * sums.len(), &case.team)
}

pub fn drop_maps<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    let maps: Vec<C::Map> = (0..case.inputs.passes())
        .map(|_| filled::<C, D>(case.inputs))
        .collect();
    let entries = maps.len() * case.inputs.size();
    let start = std::time::Instant::now();
    drop(maps);
    Sample::new(start.elapsed(), entries, &case.team)
}
