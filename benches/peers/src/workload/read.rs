//! Workloads that find what they look for, or do not, and change nothing.

use super::{Case, Sample, batched, filled};
use crate::contender::Contender;
use crate::data::Data;

pub fn get_hit<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    hits::<C, D>(case, |map, keys| {
        let mut sum = 0;
        batched::<C, D, _>(map, case.batch, keys, |session, key| {
            sum += C::get(session, key, D::number).unwrap();
        });
        sum
    })
}

pub fn get_owned<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    hits::<C, D>(case, |map, keys| {
        let values = keys.iter().map(|key| C::get_owned(map, key).unwrap());
        values.map(|value| D::number(&value)).sum()
    })
}

pub fn insert_or_get_present<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    hits::<C, D>(case, |map, keys| {
        let mut sum = 0;
        batched::<C, D, _>(map, case.batch, keys, |session, key| {
            let make = || D::value(u64::MAX);
            sum += C::insert_or_get(session, key.clone(), make, D::number);
        });
        sum
    })
}

/// `sum_of` looks its keys up and adds their numbers.
fn hits<C: Contender<D>, D: Data>(
    case: &Case<D::Key>,
    sum_of: impl Fn(&C::Map, &[D::Key]) -> u64 + Sync,
) -> Sample {
    let map = filled::<C, D>(case.inputs);
    let numbers: Vec<usize> = case.inputs.draw(case.inputs.size()).collect();
    let keys = keys_of(case, &numbers);
    let (elapsed, sums) = case.team.run(|member| sum_of(&map, member.share(&keys)));
    assert_eq!(
        sums.iter().sum::<u64>(),
        numbers.iter().map(|&number| number as u64).sum::<u64>()
    );
    Sample::new(elapsed, keys.len(), &case.team)
}

pub fn get_miss<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    let size = case.inputs.size();
    let map = filled::<C, D>(case.inputs);
    let numbers: Vec<usize> = case.inputs.draw(size).map(|number| size + number).collect();
    let keys = keys_of(case, &numbers);
    let (elapsed, found) = case.team.run(|member| {
        let mut found = 0;
        batched::<C, D, _>(&map, case.batch, member.share(&keys), |session, key| {
            found += usize::from(C::get(session, key, |_| ()).is_some());
        });
        found
    });
    assert_eq!(found.iter().sum::<usize>(), 0);
    Sample::new(elapsed, keys.len(), &case.team)
}

/// Own copies in the order of use, so that a look-up waits for the map's memory and not for that of its key.
fn keys_of<K: Clone>(case: &Case<K>, numbers: &[usize]) -> Vec<K> {
    let key = |&number| case.inputs.key(number).clone();
    numbers.iter().map(key).collect()
}
