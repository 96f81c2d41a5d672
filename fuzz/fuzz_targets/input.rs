//! Scripts out of the fuzzer's bytes.
#![allow(dead_code, reason = "no target uses all of it")]

/// The operations, the model and the ledger are those of the crate's tests: the one place where this crate reaches
/// into them.
#[path = "../../tests/support/mod.rs"]
pub(crate) mod support;

use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};

use support::hashers::Hashes;
use support::linear;
use support::ops::{Op, Script};

impl<'a> Arbitrary<'a> for Script {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self {
            hashes: *bytes.choose(&Hashes::HONEST)?,
            capacity: bytes.int_in_range(0..=64)?,
            ops: ops(bytes, u32::MAX),
        })
    }
}

/// Operations on so many keys, until the bytes have run out.
pub(crate) fn ops(bytes: &mut Unstructured<'_>, keys: u32) -> Vec<Op> {
    let mut ops = Vec::new();
    while !bytes.is_empty() {
        ops.push(op(bytes, keys));
    }
    ops
}

/// An operation on one of so many keys. Bytes that have run out stand for zeros.
pub(crate) fn op(bytes: &mut Unstructured<'_>, keys: u32) -> Op {
    let mut below = |bound| bytes.int_in_range(0..=bound - 1).unwrap_or(0);
    linear::choose(keys, &mut below)
}
