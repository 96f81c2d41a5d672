//! What the table keeps of a hash: 29 bits, of which 7 make the tag that the control word shows.
#![forbid(unsafe_code)]

/// How many bits of the mixed hash a slot word holds.
pub(super) const HASH_BITS: u32 = 29;

/// The top [`HASH_BITS`] of a mixed hash. Its own top bits name the home bucket, its lowest seven make the tag, so that
/// doubling a table splits each bucket into two neighbours, and entries of one bucket still differ in their tags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Hash(u32);

impl Hash {
    /// One past the largest hash, as [`Hash::to_bits`] counts.
    pub(super) const END: u32 = 1 << HASH_BITS;

    /// Mixes a user's hash with the map's random odd `seed`: one folded multiplication, which spreads sequential
    /// integers, multiples of a power of two and hashes that differ in their top or low bits only.
    #[inline]
    pub(super) fn mix(user: u64, seed: u64) -> Self {
        let product = u128::from(user) * u128::from(seed);
        let folded = (product >> 64) as u64 ^ product as u64;
        Self((folded >> (u64::BITS - HASH_BITS)) as u32)
    }

    #[inline]
    pub(super) fn from_bits(bits: u32) -> Self {
        debug_assert!(bits < Self::END);
        Self(bits)
    }

    #[inline]
    pub(super) fn to_bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub(super) fn tag(self) -> Tag {
        Tag(self.0 as u8 | Tag::ANNOUNCED)
    }
}

/// A slot's mark in the control word: seven bits of the hash, and the top bit, which says that the slot is announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag(u8);

impl Tag {
    pub(super) const ANNOUNCED: u8 = 0x80;

    #[inline]
    pub(super) fn to_byte(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_says_that_its_slot_is_announced() {
        let tags = (0..1024).map(|bits| Hash::from_bits(bits).tag().to_byte());
        assert!(tags.into_iter().all(|tag| tag & Tag::ANNOUNCED != 0));
    }

    #[test]
    fn mixing_spreads_clustered_hashes_over_the_top_bits() {
        let seed = 0x9e37_79b9_7f4a_7c15;
        for shift in [0, 12, 20, 32, 48] {
            let mut homes = [0u32; 256];
            for i in 0..4096u64 {
                homes[Hash::mix(i << shift, seed).to_bits() as usize >> (HASH_BITS - 8)] += 1;
            }
            // 16 are expected in each; clustering would leave most of them empty.
            assert!(homes.iter().all(|&n| n <= 64), "shift {shift}: {homes:?}");
        }
    }
}
