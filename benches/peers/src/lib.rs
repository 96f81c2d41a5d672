//! What the programs of this package share: contenders, workloads, and the way to compare them.

pub mod contender;
pub mod data;
pub mod inputs;
pub mod peer;
mod resident;
pub mod rounds;
pub mod team;
pub mod workload;
mod zipf;
