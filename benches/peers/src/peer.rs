//! The list of contenders.

use crate::contender::*;
use crate::data::{Counters, Data, Integers};
use crate::workload::{Case, Sample, Workload};

/// A contender chosen at run time.
pub struct Peer<D: Data> {
    pub name: &'static str,
    pub measure: fn(Workload, &Case<D::Key>) -> Sample,
}

impl<D: Data> Peer<D> {
    fn of<C: Contender<D> + Contender<Counters<D>>>() -> Self {
        Self {
            name: <C as Contender<D>>::NAME,
            measure: Workload::measure::<C, D>,
        }
    }
}

/// Every contender; the first one is what the others are compared with.
pub fn all<D: Data>() -> Vec<Peer<D>> {
    vec![
        Peer::of::<Quince>(),
        Peer::of::<Papaya>(),
        Peer::of::<DashMap>(),
        Peer::of::<SccHashMap>(),
        Peer::of::<SccHashIndex>(),
        Peer::of::<Flurry>(),
        Peer::of::<RwLockHashbrown>(),
        Peer::of::<MutexHashbrown>(),
    ]
}

pub fn names() -> Vec<&'static str> {
    all::<Integers>().iter().map(|peer| peer.name).collect()
}
