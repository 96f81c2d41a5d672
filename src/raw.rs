//! The engine.

mod array;
mod bucket;
mod iter;
mod migrate;
mod read;
mod reclaim;
mod root;
mod snapshot;
mod store;
mod stripe;
mod table;
mod tag;
mod teardown;
mod write;

pub(crate) use iter::{Iter, OwnedIter};
pub(crate) use root::{RawMap, Session};
pub(crate) use tag::Hash;
pub(crate) use teardown::{Drain, IntoIter, IterMut};
pub(crate) use write::Inserted;
