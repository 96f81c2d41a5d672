//! Workloads that keep a map at its size while its entries come and go.

use super::{Case, Sample, batched, filled, slide};
use crate::contender::Contender;
use crate::data::Data;
use crate::inputs::Random;
use crate::resident::resident_bytes;
use std::mem;

#[derive(Clone, Copy)]
enum Verb {
    Get,
    Insert,
    Remove,
    Update,
}

/// Per cent of each verb.
pub struct Mix([(Verb, usize); 4]);

pub const MIXED: Mix = Mix([
    (Verb::Get, 98),
    (Verb::Insert, 1),
    (Verb::Remove, 1),
    (Verb::Update, 0),
]);

pub const EXCHANGE: Mix = Mix([
    (Verb::Get, 10),
    (Verb::Insert, 40),
    (Verb::Remove, 40),
    (Verb::Update, 10),
]);

impl Mix {
    fn draw(&self, random: &mut Random) -> Verb {
        let mut percentile = random.below(100);
        for &(verb, share) in &self.0 {
            match percentile.checked_sub(share) {
                Some(rest) => percentile = rest,
                None => return verb,
            }
        }
        unreachable!("the shares add up to 100")
    }
}

/// The entries that a thread has added, less those that it has removed, must add up to the change of the map's length.
pub fn run<C: Contender<D>, D: Data>(case: &Case<D::Key>, mix: Mix) -> Sample {
    let size = case.inputs.size();
    let map = filled::<C, D>(case.inputs);
    let mut random = Random::new(case.inputs.seed);
    let steps: Vec<(Verb, D::Key)> = case
        .inputs
        .draw(2 * size)
        .map(|number| (mix.draw(&mut random), case.inputs.key(number).clone()))
        .collect();
    let (elapsed, gains) = case.team.run(|member| {
        let mut gain = 0;
        let mut found = 0;
        batched::<C, D, _>(&map, case.batch, member.share(&steps), |session, step| {
            let (verb, key) = step;
            match verb {
                Verb::Get => found ^= C::get(session, key, D::number).unwrap_or(0),
                Verb::Insert => gain += isize::from(C::insert(session, key.clone(), D::value(1))),
                Verb::Remove => gain -= isize::from(C::remove(session, key)),
                Verb::Update => {
                    C::update(session, key, |value| D::value(D::number(value) + 1));
                }
            }
        });
        std::hint::black_box(found);
        gain
    });
    assert_eq!(
        C::len(&map),
        size.checked_add_signed(gains.iter().sum()).unwrap()
    );
    Sample::new(elapsed, steps.len(), &case.team)
}

/// The same keys, round and round.
pub fn remove_insert<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    let size = case.inputs.size();
    let map = filled::<C, D>(case.inputs);
    let passes = case.inputs.passes().div_ceil(2);
    let (elapsed, _) = case.team.run(|member| {
        let mut oldest = member.share(&case.inputs.present);
        let mut newest = member.share(&case.inputs.absent);
        for _ in 0..passes {
            slide::<C, D>(&map, case.batch, oldest, newest);
            mem::swap(&mut oldest, &mut newest);
        }
    });
    assert_eq!(C::len(&map), size);
    Sample::new(elapsed, 2 * size * passes, &case.team)
}

/// Fresh keys all the time. Resident memory is looked at when the map has been replaced twice, and at the end.
pub fn churn<C: Contender<D>, D: Data>(case: &Case<D::Key>) -> Sample {
    let size = case.inputs.size();
    let map = filled::<C, D>(case.inputs);
    let passes = case.inputs.passes().div_ceil(2).max(5);
    let fresh = case.inputs.fresh::<D>(size * passes);
    // One window per thread, and what it slides over.
    let slides: Vec<(usize, Vec<D::Key>)> = (0..case.team.threads())
        .map(|index| {
            let window = case.team.share(index, &case.inputs.present);
            let fresh = case.team.share(index, &fresh);
            (window.len(), [window, fresh].concat())
        })
        .collect();
    let (elapsed, settled) = case.team.run(|member| {
        let (window, keys) = &slides[member.index];
        let (oldest, newest) = (&keys[..keys.len() - window], &keys[*window..]);
        let settled = (2 * window).min(newest.len());
        slide::<C, D>(&map, case.batch, &oldest[..settled], &newest[..settled]);
        let resident = resident_bytes();
        slide::<C, D>(&map, case.batch, &oldest[settled..], &newest[settled..]);
        resident
    });
    let growth = settled[0]
        .zip(resident_bytes())
        .map(|(settled, end)| end as i64 - settled as i64);
    assert_eq!(C::len(&map), size);
    Sample::new(elapsed, 2 * size * passes, &case.team).with_growth(growth)
}
