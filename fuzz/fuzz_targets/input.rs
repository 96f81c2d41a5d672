//! Scripts out of the fuzzer's bytes.

/// The operations, the model and the ledger are those of the crate's tests: the one place where this crate reaches
/// into them.
#[path = "../../tests/support/mod.rs"]
pub(crate) mod support;

use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};

use support::hashers::Hashes;
use support::ops::{Op, Script};

impl<'a> Arbitrary<'a> for Script {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let hashes = *bytes.choose(&Hashes::HONEST)?;
        let capacity = bytes.int_in_range(0..=64)?;
        let mut ops = Vec::new();
        while !bytes.is_empty() {
            // Bytes that have run out stand for zeros.
            let mut below = |bound| bytes.int_in_range(0..=bound - 1).unwrap_or(0);
            ops.push(Op::choose(&mut below));
        }
        Ok(Self {
            hashes,
            capacity,
            ops,
        })
    }
}
