//! The seam between the engine and the machine: atomics, cells, thread-locals and the epoch.
//!
//! Everything below `raw` takes these names from here and from nowhere else, so that one flag puts the whole engine into
//! other hands:
//!
//! | `--cfg` | atomics | epoch | what for |
//! |---|---|---|---|
//! | none | std | crossbeam-epoch | use |
//! | `quince_steps` | std, with a hook after each access | crossbeam-epoch | to stop or delay a thread at any step |
//! | `quince_stub_epoch` | std | a stub | interpreters and leak checkers, which find fault with crossbeam-epoch |
//! | `loom` | loom | a stub | all interleavings of small models |
//! | `shuttle` | shuttle | a stub | many schedules of large models |

#[cfg(not(loom))]
mod cell;
#[cfg(any(loom, shuttle))]
mod model;
#[cfg(not(any(loom, shuttle)))]
mod real;
#[cfg(quince_steps)]
pub mod steps;
#[cfg(any(loom, shuttle, quince_stub_epoch))]
pub(crate) mod stub_epoch;
#[cfg(all(feature = "once", any(loom, shuttle)))]
mod stub_event;
mod watched;

#[cfg(any(loom, shuttle))]
pub(crate) use model::*;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use real::*;
pub(crate) use watched::Watched;

/// Whether a model checker runs: then sizes are so small that few operations come to every boundary.
pub(crate) const MODEL: bool = cfg!(any(loom, shuttle));
