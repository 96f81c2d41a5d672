//! Workloads in which all threads want the same few entries.

use super::{Case, Sample, batched, filled};
use crate::contender::Contender;
use crate::data::{Counters, Data};
use crate::inputs::Random;
use std::sync::atomic::Ordering::Relaxed;

/// A user who counts looks first, since nearly always the counter is there. No count may be lost.
pub fn counter<C: Contender<Counters<D>>, D: Data>(case: &Case<D::Key>) -> Sample {
    let map = filled::<C, Counters<D>>(case.inputs);
    let hot = &case.inputs.absent[0];
    let counts = vec![1; case.inputs.operations()];
    let (elapsed, _) = case.team.run(|member| {
        let counts = member.share(&counts);
        batched::<C, Counters<D>, _>(&map, case.batch, counts, |session, &count| {
            let add = |counter: &<Counters<D> as Data>::Value| {
                counter.fetch_add(count, Relaxed);
            };
            let make = || Counters::<D>::value(0);
            C::get(session, hot, add)
                .unwrap_or_else(|| C::insert_or_get(session, hot.clone(), make, add));
        });
    });
    let total = C::get(&C::session(&map), hot, Counters::<D>::number);
    assert_eq!(total, Some(counts.len() as u64));
    Sample::new(elapsed, counts.len(), &case.team)
}

/// The first `hot` keys, evenly. No update may be lost.
pub fn update<C: Contender<D>, D: Data>(case: &Case<D::Key>, hot: usize) -> Sample {
    let map = filled::<C, D>(case.inputs);
    let hot = &case.inputs.present[..hot.min(case.inputs.size())];
    let mut random = Random::new(!case.inputs.seed);
    let steps: Vec<D::Key> = (0..case.inputs.operations())
        .map(|_| hot[random.below(hot.len())].clone())
        .collect();
    let (elapsed, _) = case.team.run(|member| {
        let steps = member.share(&steps);
        batched::<C, D, _>(&map, case.batch, steps, |session, key| {
            C::update(session, key, |value| D::value(D::number(value) + 1));
        });
    });
    let session = C::session(&map);
    let total: u64 = hot
        .iter()
        .map(|key| C::get(&session, key, D::number).unwrap())
        .sum();
    let initial = (0..hot.len() as u64).sum::<u64>();
    assert_eq!(total, initial + steps.len() as u64);
    Sample::new(elapsed, steps.len(), &case.team)
}
