//! quince: a lock-free concurrent hash map whose main job is safe insert-or-get.
mod map;
mod outcome;
mod raw;
mod sync;
pub use equivalent::Equivalent;
pub use map::{HashMap, Pinned, iter};
pub use outcome::{Computed, OccupiedError, Operation};
