//! Numbers that follow from a seed: the splitmix64 generator (Steele, Lea, Flood 2014).
#![allow(dead_code, reason = "no example uses all of it")]

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(STEP);
        (finish(self.0) % bound as u64) as usize
    }
}

/// The first number that follows from `seed`.
pub(crate) fn mix(seed: u64) -> u64 {
    nth(seed, 0)
}

/// The number after `n` others.
pub(crate) fn nth(seed: u64, n: u64) -> u64 {
    finish(seed.wrapping_add(n.wrapping_add(1).wrapping_mul(STEP)))
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator's last step: scatters numbers that differ little.
pub(crate) fn finish(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
