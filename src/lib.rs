#![doc = include_str!("../README.md")]

mod map;
mod outcome;
mod raw;
mod sync;

pub use equivalent::Equivalent;
pub use map::{HashMap, Pinned, iter};
pub use outcome::{Computed, OccupiedError, Operation};
