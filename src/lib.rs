#![doc = include_str!("../README.md")]

#[cfg(doctest)]
mod compile_fail;
mod map;
mod outcome;
mod raw;
mod sync;

#[cfg(quince_steps)]
#[doc(hidden)]
pub use sync::steps;

pub use equivalent::Equivalent;
pub use map::{HashMap, Pinned, iter};
pub use outcome::{Computed, OccupiedError, Operation};
