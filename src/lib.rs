#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
mod compile_fail;
mod counted;
#[cfg(feature = "once")]
pub mod guide;
mod map;
#[cfg(feature = "once")]
mod once;
mod outcome;
mod raw;
#[cfg(feature = "serde")]
mod serde;
mod set;
mod sync;

#[cfg(quince_steps)]
#[doc(hidden)]
pub use sync::steps;

pub use counted::{CountedMap, Member};
pub use equivalent::Equivalent;
pub use map::{HashMap, Pinned, iter};
#[cfg(feature = "once")]
pub use once::{OnceMap, PinnedOnce};
pub use outcome::{Computed, OccupiedError, Operation};
pub use set::{HashSet, PinnedSet};

#[cfg(feature = "once")]
#[doc = include_str!("recipes.md")]
pub mod recipes {}
