//! The key and value types a comparison runs with.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A kind of keys and values, made from numbers so that results can be checked.
pub trait Data: 'static {
    const LABEL: &'static str;
    type Key: Clone + Debug + Hash + Ord + Send + Sync + 'static;
    type Value: Clone + Send + Sync + 'static;

    /// Distinct keys for distinct bits.
    fn key(bits: u64) -> Self::Key;
    fn value(number: u64) -> Self::Value;
    /// The number that `value` was made from.
    fn number(value: &Self::Value) -> u64;
}

// What is called while a clock runs is `#[inline]`: the programs are other crates.

/// `u64 -> u64`.
pub struct Integers;

impl Data for Integers {
    const LABEL: &'static str = "u64 -> u64";
    type Key = u64;
    type Value = u64;

    fn key(bits: u64) -> u64 {
        bits
    }

    #[inline]
    fn value(number: u64) -> u64 {
        number
    }

    #[inline]
    fn number(value: &u64) -> u64 {
        *value
    }
}

/// `String -> Arc<u64>`, keys of 24 bytes.
pub struct Text;

impl Data for Text {
    const LABEL: &'static str = "String -> Arc<u64>";
    type Key = String;
    type Value = Arc<u64>;

    fn key(bits: u64) -> String {
        format!("{bits:024x}")
    }

    #[inline]
    fn value(number: u64) -> Arc<u64> {
        Arc::new(number)
    }

    #[inline]
    fn number(value: &Arc<u64>) -> u64 {
        **value
    }
}

/// The keys of `D` with shared counters as values.
pub struct Counters<D>(PhantomData<D>);

impl<D: Data> Data for Counters<D> {
    const LABEL: &'static str = "key -> Arc<AtomicU64>";
    type Key = D::Key;
    type Value = Arc<AtomicU64>;

    fn key(bits: u64) -> D::Key {
        D::key(bits)
    }

    fn value(number: u64) -> Self::Value {
        Arc::new(AtomicU64::new(number))
    }

    fn number(value: &Self::Value) -> u64 {
        value.load(Relaxed)
    }
}
