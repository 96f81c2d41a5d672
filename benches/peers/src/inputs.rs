//! Everything random is drawn here, before any clock runs.

use crate::data::Data;
use crate::zipf::Zipf;

/// The fewest operations of one measurement, over all its threads: milliseconds rather than microseconds.
const MIN_OPERATIONS: usize = 1 << 19;

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 to 1, without 1.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Puts `items` in any order (Fisher, Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}

/// What all contenders are given for one size and kind of data.
///
/// Key number `i` is `present[i]`, then `absent[i - size]`; a filled map holds its number as the value.
pub struct Inputs<K> {
    pub seed: u64,
    /// Where the keys end, and fresh ones begin.
    random: Random,
    /// Exponent of the Zipf distribution of draws; 0 draws evenly.
    pub skew: f64,
    pub present: Vec<K>,
    pub absent: Vec<K>,
}

impl<K: Clone> Inputs<K> {
    pub fn new<D: Data<Key = K>>(size: usize, seed: u64, skew: f64) -> Self {
        let mut random = Random::new(seed);
        Self {
            seed,
            skew,
            present: keys::<D>(&mut random, size),
            absent: keys::<D>(&mut random, size),
            random,
        }
    }

    /// Keys that are neither present nor absent ones.
    pub fn fresh<D: Data<Key = K>>(&self, count: usize) -> Vec<K> {
        keys::<D>(&mut self.random.clone(), count)
    }

    pub fn size(&self) -> usize {
        self.present.len()
    }

    /// How many operations a measurement makes, over all its threads.
    pub fn operations(&self) -> usize {
        self.size().max(MIN_OPERATIONS)
    }

    /// How many times a measurement that handles every key goes through all of them.
    pub fn passes(&self) -> usize {
        self.operations().div_ceil(self.size())
    }

    /// Numbers of keys drawn from `0..bound`, as many as there are operations.
    pub fn draw(&self, bound: usize) -> impl Iterator<Item = usize> {
        let mut random = Random::new(!self.seed);
        let zipf = (self.skew > 0.0).then(|| Zipf::new(bound, self.skew));
        (0..self.operations()).map(move |_| match &zipf {
            Some(zipf) => zipf.draw(&mut random),
            None => random.below(bound),
        })
    }

    pub fn key(&self, number: usize) -> &K {
        match self.present.get(number) {
            Some(key) => key,
            None => &self.absent[number - self.size()],
        }
    }
}

/// One SplitMix64 sequence never repeats a number, so the keys are distinct.
fn keys<D: Data>(random: &mut Random, count: usize) -> Vec<D::Key> {
    (0..count).map(|_| D::key(random.bits())).collect()
}
