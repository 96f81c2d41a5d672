//! Insert-or-get that grows maps on the way.

use super::{Case, Sample, batched, filled};
use crate::contender::Contender;
use crate::data::Data;
use crate::inputs::Random;
use crate::team::Member;

/// Each thread inserts its own keys and must get its own values.
pub fn disjoint<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    fill::<C, D>(case, 1, |member| member.share(&case.inputs.present))
}

/// All threads insert all keys, and exactly one of them must win each.
pub fn same<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    fill::<C, D>(case, case.team.threads(), |_| &case.inputs.present)
}

fn fill<'a, C: Contender<D>, D: Data>(
    case: &Case<'a, D::Key>,
    visits_per_key: usize,
    keys_of: impl Fn(&Member) -> &'a [D::Key] + Sync,
) -> Sample {
    let size = case.inputs.size();
    let maps: Vec<C::Map> = (0..case.inputs.passes()).map(|_| C::new()).collect();
    let (elapsed, wins) = case.team.run(|member| {
        let me = member.index as u64;
        let mut wins = 0;
        for map in &maps {
            member.wait_for_all();
            batched::<C, D, _>(map, case.batch, keys_of(&member), |session, key| {
                let winner = C::insert_or_get(session, key.clone(), || D::value(me), D::number);
                wins += usize::from(winner == me);
            });
        }
        wins
    });
    assert_eq!(wins.iter().sum::<usize>(), size * maps.len());
    for map in &maps {
        assert_eq!(C::len(map), size);
        batched::<C, D, _>(map, case.batch, &case.inputs.present, |session, key| {
            assert!(C::get(session, key, |_| ()).is_some());
        });
    }
    Sample::new(elapsed, size * visits_per_key * maps.len(), &case.team)
}

/// Present keys must keep their values, and absent ones, each asked for once, must get the new one.
pub fn half_new<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    const NEW: u64 = u64::MAX;
    let size = case.inputs.size();
    let passes = case.inputs.operations().div_ceil(2 * size);
    let maps: Vec<C::Map> = (0..passes).map(|_| filled::<C, D>(case.inputs)).collect();
    let present: Vec<usize> = case.inputs.draw(size).take(size).collect();
    let mut numbers: Vec<usize> = present.iter().copied().chain(size..2 * size).collect();
    Random::new(case.inputs.seed).shuffle(&mut numbers);
    let key = |&number| case.inputs.key(number).clone();
    let keys: Vec<D::Key> = numbers.iter().map(key).collect();
    let (elapsed, counts) = case.team.run(|member| {
        let (mut new, mut sum) = (0, 0);
        for map in &maps {
            member.wait_for_all();
            batched::<C, D, _>(map, case.batch, member.share(&keys), |session, key| {
                match C::insert_or_get(session, key.clone(), || D::value(NEW), D::number) {
                    NEW => new += 1,
                    number => sum += number as usize,
                }
            });
        }
        (new, sum)
    });
    let new: usize = counts.iter().map(|&(new, _)| new).sum();
    let sum: usize = counts.iter().map(|&(_, sum)| sum).sum();
    assert_eq!(new, size * passes);
    assert_eq!(sum, present.iter().sum::<usize>() * passes);
    assert!(maps.iter().all(|map| C::len(map) == 2 * size));
    Sample::new(elapsed, keys.len() * passes, &case.team)
}
