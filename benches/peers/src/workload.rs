//! What is measured. Every workload checks its own results: a wrong map panics rather than wins.

mod create;
mod fill;
mod hot;
mod mix;
mod read;
mod whole;

use crate::contender::Contender;
use crate::data::{Counters, Data};
use crate::inputs::Inputs;
use crate::peer::Job;
use crate::team::Team;
use clap::ValueEnum;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Workload {
    /// Look-ups of present keys
    GetHit,
    /// Look-ups of absent keys
    GetMiss,
    /// Look-ups of present keys that hand out the value, each on its own: one pin per operation
    GetOwned,
    /// Insert-or-get of present keys
    InsertOrGetPresent,
    /// Insert-or-get of absent keys, from an empty map: one thread
    InsertOrGetAbsent,
    /// Insert-or-get of absent keys, from an empty map: each thread has its own keys
    FillDisjoint,
    /// Insert-or-get from an empty map: all threads walk the same keys in the same order
    FillSame,
    /// Insert-or-get, half of it of present keys and half of absent ones, until the map has doubled
    HalfNew,
    /// Remove the oldest key, insert a new one: a window slides over the keys of each thread
    RemoveInsert,
    /// Remove the oldest key, insert one never seen before, until the map has been replaced five times or more
    Churn,
    /// 98 % get, 1 % insert, 1 % remove, over twice as many keys as are present
    Mixed,
    /// 10 % get, 40 % insert, 40 % remove, 10 % update, over twice as many keys as are present
    Exchange,
    /// Every thread visits every entry
    Iterate,
    /// Dropping full maps: one thread
    Drop,
    /// All threads count on one key's shared counter, made by whoever comes first
    HotCounter,
    /// All threads replace the value of one key by its successor
    UpdateHot,
    /// All threads replace the values of 16 keys by their successors
    #[value(name = "update_hot_16")]
    UpdateHot16,
    /// Making and dropping empty maps
    CreateDropEmpty,
    /// Making maps, inserting 16 entries, dropping them
    #[value(name = "create_drop_16")]
    CreateDrop16,
}

/// What a workload is run with.
pub struct Case<'a, K> {
    pub inputs: &'a Inputs<K>,
    pub team: Team,
    /// Operations per session.
    pub batch: usize,
}

/// What one measurement found.
pub struct Sample {
    elapsed: Duration,
    operations: usize,
    threads: usize,
    growth: Option<i64>,
}

impl Sample {
    fn new(elapsed: Duration, operations: usize, team: &Team) -> Self {
        Self {
            elapsed,
            operations,
            threads: team.threads(),
            growth: None,
        }
    }

    fn with_growth(self, growth: Option<i64>) -> Self {
        Self { growth, ..self }
    }

    /// Where it was measured: by how many bytes resident memory grew after the map had found its size.
    pub fn growth(&self) -> Option<i64> {
        self.growth
    }

    /// Nanoseconds that an operation takes in the eyes of the thread that does it.
    pub fn nanoseconds(&self) -> f64 {
        self.elapsed.as_nanos() as f64 * self.threads as f64 / self.operations as f64
    }
}

impl Workload {
    /// Whether it makes sense on one thread only.
    pub fn is_serial(self) -> bool {
        matches!(self, Self::InsertOrGetAbsent | Self::Drop)
    }

    /// Whether its keys are drawn, and a skew makes a difference.
    pub fn draws_keys(self) -> bool {
        use Workload::*;
        matches!(
            self,
            GetHit | GetMiss | GetOwned | InsertOrGetPresent | HalfNew | Mixed | Exchange
        )
    }

    /// Its number of entries, where there is no choice.
    pub fn fixed_size(self) -> Option<usize> {
        match self {
            Self::CreateDropEmpty => Some(0),
            Self::CreateDrop16 => Some(16),
            _ => None,
        }
    }

    fn measure<C, D>(self, case: &Case<D::Key>) -> Sample
    where
        C: Contender<D> + Contender<Counters<D>>,
        D: Data,
    {
        match self {
            Self::GetHit => read::get_hit::<C, D>(case),
            Self::GetMiss => read::get_miss::<C, D>(case),
            Self::GetOwned => read::get_owned::<C, D>(case),
            Self::InsertOrGetPresent => read::insert_or_get_present::<C, D>(case),
            Self::InsertOrGetAbsent | Self::FillDisjoint => fill::disjoint::<C, D>(case),
            Self::FillSame => fill::same::<C, D>(case),
            Self::HalfNew => fill::half_new::<C, D>(case),
            Self::RemoveInsert => mix::remove_insert::<C, D>(case),
            Self::Churn => mix::churn::<C, D>(case),
            Self::Mixed => mix::run::<C, D>(case, mix::MIXED),
            Self::Exchange => mix::run::<C, D>(case, mix::EXCHANGE),
            Self::Iterate => whole::iterate::<C, D>(case),
            Self::Drop => whole::drop_maps::<C, D>(case),
            Self::HotCounter => hot::counter::<C, D>(case),
            Self::UpdateHot => hot::update::<C, D>(case, 1),
            Self::UpdateHot16 => hot::update::<C, D>(case, 16),
            Self::CreateDropEmpty | Self::CreateDrop16 => create::create_drop::<C, D>(case),
        }
    }
}

/// Measures any workload.
pub struct Measure;

impl<D: Data> Job<D> for Measure {
    type Run = fn(Workload, &Case<D::Key>) -> Sample;

    fn on<C: Contender<D> + Contender<Counters<D>>>() -> Self::Run {
        Workload::measure::<C, D>
    }
}

/// A map of the present keys.
fn filled<C: Contender<D>, D: Data>(inputs: &Inputs<D::Key>) -> C::Map {
    let map = C::new();
    let mut numbers = 0..;
    batched::<C, D, _>(&map, 64, &inputs.present, |session, key| {
        let value = D::value(numbers.next().unwrap());
        assert!(C::insert(session, key.clone(), value));
    });
    assert_eq!(C::len(&map), inputs.size());
    map
}

/// Does `operation` on every item, with a new session for every `batch` of them.
pub fn batched<C: Contender<D>, D: Data, T>(
    map: &C::Map,
    batch: usize,
    items: &[T],
    mut operation: impl FnMut(&C::Session<'_>, &T),
) {
    for items in items.chunks(batch) {
        let session = C::session(map);
        for item in items {
            operation(&session, item);
        }
    }
}

/// Removes the oldest keys, one by one, and inserts a new one for each. Every removal must find its key and every insertion
/// must not.
pub fn slide<C: Contender<D>, D: Data>(
    map: &C::Map,
    batch: usize,
    oldest: &[D::Key],
    newest: &[D::Key],
) {
    let mut done = 0;
    for (oldest, newest) in oldest.chunks(batch).zip(newest.chunks(batch)) {
        let session = C::session(map);
        for (oldest, newest) in oldest.iter().zip(newest) {
            done += usize::from(C::remove(&session, oldest));
            done += usize::from(C::insert(&session, newest.clone(), D::value(0)));
        }
    }
    assert_eq!(done, oldest.len() + newest.len());
}
