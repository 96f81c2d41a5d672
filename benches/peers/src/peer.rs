//! The list of contenders.

use crate::contender::*;
use crate::data::{Counters, Data, Integers};
use clap::builder::PossibleValuesParser;

/// A contender chosen at run time, and what a program does with it.
pub struct Peer<R> {
    pub name: &'static str,
    pub concurrent: bool,
    pub run: R,
}

impl<R> Peer<R> {
    pub fn can_run_on(&self, threads: usize) -> bool {
        self.concurrent || threads == 1
    }
}

/// What a program does with a contender: a function, compiled for each of them.
pub trait Job<D: Data> {
    type Run;
    fn on<C: Contender<D> + Contender<Counters<D>>>() -> Self::Run;
}

/// Which peers to run.
#[derive(clap::Args)]
pub struct Choice {
    /// Peers to run beside quince, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(names()))]
    peer: Vec<String>,
}

impl Choice {
    /// The chosen contenders; the first one is what the others are compared with.
    pub fn choose<D: Data, J: Job<D>>(&self) -> Vec<Peer<J::Run>> {
        let mut peers = all::<D, J>();
        let baseline = peers[0].name;
        peers.retain(|peer| {
            let chosen = self.peer.iter().any(|name| name == peer.name);
            chosen || self.peer.is_empty() || peer.name == baseline
        });
        peers
    }
}

fn all<D: Data, J: Job<D>>() -> Vec<Peer<J::Run>> {
    vec![
        of::<Quince, D, J>(),
        of::<Papaya, D, J>(),
        of::<DashMap, D, J>(),
        of::<SccHashMap, D, J>(),
        of::<SccHashIndex, D, J>(),
        of::<Flurry, D, J>(),
        of::<RwLockHashbrown, D, J>(),
        of::<MutexHashbrown, D, J>(),
        of::<Hashbrown, D, J>(),
    ]
}

fn of<C, D, J>() -> Peer<J::Run>
where
    C: Contender<D> + Contender<Counters<D>>,
    D: Data,
    J: Job<D>,
{
    Peer {
        name: <C as Contender<D>>::NAME,
        concurrent: <C as Contender<D>>::CONCURRENT,
        run: J::on::<C>(),
    }
}

fn names() -> Vec<&'static str> {
    struct Nothing;

    impl Job<Integers> for Nothing {
        type Run = ();
        fn on<C: Contender<Integers> + Contender<Counters<Integers>>>() {}
    }

    let peers = all::<Integers, Nothing>();
    peers.iter().map(|peer| peer.name).collect()
}
