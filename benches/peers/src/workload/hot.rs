//! Workloads in which all threads want one entry.

use super::{Case, Sample, batched, filled};
use crate::contender::Contender;
use crate::data::{Counters, Data};
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

/// No update may be lost.
pub fn update<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    let map = filled::<C, D>(case.inputs);
    let hot = &case.inputs.present[0];
    let steps = vec![1; case.inputs.operations()];
    let (elapsed, _) = case.team.run(|member| {
        let steps = member.share(&steps);
        batched::<C, D, _>(&map, case.batch, steps, |session, step| {
            C::update(session, hot, |value| D::value(D::number(value) + step));
        });
    });
    let total = C::get(&C::session(&map), hot, D::number);
    assert_eq!(total, Some(steps.len() as u64));
    Sample::new(elapsed, steps.len(), &case.team)
}
