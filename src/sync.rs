//! The seam between the engine and the machine: atomics, cells, thread-locals and the epoch.
//!
//! Everything below `raw` takes these names from here and from nowhere else, so that one flag puts the whole engine into
//! other hands:
//!
//! | `--cfg` | atomics | epoch | what for |
//! |---|---|---|---|
//! | none | std | crossbeam-epoch | use |
//! | `quince_steps` | std, with a hook after each access | crossbeam-epoch | to stop or delay a thread at any step |
//! | `loom` | loom | a stub | all interleavings of small models |
//! | `shuttle` | shuttle | a stub | many schedules of large models |

#[cfg(any(loom, shuttle))]
mod model;
#[cfg(not(any(loom, shuttle)))]
mod real;
#[cfg(quince_steps)]
pub mod steps;

#[cfg(any(loom, shuttle))]
pub(crate) use model::*;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use real::*;
