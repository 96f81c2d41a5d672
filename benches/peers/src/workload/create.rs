//! The life of a small map: made, given all its keys, dropped. An operation is one map.

use super::{Case, Sample, batched};
use crate::contender::Contender;
use crate::data::Data;
use std::hint::black_box;

pub fn create_drop<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    let lives = vec![(); case.inputs.operations() / 16];
    let (elapsed, _) = case.team.run(|member| {
        for () in member.share(&lives) {
            let map = C::new();
            batched::<C, D, _>(&map, case.batch, &case.inputs.present, |session, key| {
                assert!(C::insert(session, key.clone(), D::value(0)));
            });
            drop(black_box(map));
        }
    });
    Sample::new(elapsed, lives.len(), &case.team)
}
