//! Insert-or-get from empty maps, growing on the way.

use super::{Case, Sample, batched};
use crate::contender::Contender;
use crate::data::Data;
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
