//! Good, bad and hostile hash functions, of one type so that one instance of each test covers them all.

use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// How hashes are made from what is hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Hashes {
    #[default]
    Good,
    Constant,
    /// The integer that was hashed, as it is.
    Identity,
    /// All differences in the low 16 bits.
    EqualTopBits,
    /// All differences in the top 16 bits.
    EqualLowBits,
    /// Another answer at every call: a broken `Hash`.
    Random,
}

impl Hashes {
    /// Those that keep the contract of `Hash`.
    pub(crate) const HONEST: [Self; 5] = [
        Self::Good,
        Self::Constant,
        Self::Identity,
        Self::EqualTopBits,
        Self::EqualLowBits,
    ];
}

impl BuildHasher for Hashes {
    type Hasher = Bent;

    fn build_hasher(&self) -> Bent {
        Bent {
            hashes: *self,
            good: DefaultHasher::new(),
            last: 0,
        }
    }
}

/// A good hash and the last integer, of which [`Hashes`] makes the answer.
pub(crate) struct Bent {
    hashes: Hashes,
    good: DefaultHasher,
    last: u64,
}

impl Hasher for Bent {
    fn write(&mut self, bytes: &[u8]) {
        self.good.write(bytes);
    }

    fn write_u32(&mut self, number: u32) {
        self.last = number.into();
        self.good.write_u32(number);
    }

    fn write_u64(&mut self, number: u64) {
        self.last = number;
        self.good.write_u64(number);
    }

    fn finish(&self) -> u64 {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        match self.hashes {
            Hashes::Good => self.good.finish(),
            Hashes::Constant => 7,
            Hashes::Identity => self.last,
            Hashes::EqualTopBits => self.good.finish() & 0xffff,
            Hashes::EqualLowBits => self.good.finish() << 48,
            Hashes::Random => {
                let call = CALLS.fetch_add(1, Ordering::Relaxed);
                call.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            }
        }
    }
}
