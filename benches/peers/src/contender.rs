//! What every map under test is asked to do: one adapter per map.

mod alone;
mod dashmap;
mod flurry;
mod locked;
mod papaya;
mod quince;
mod scc_hash_index;
mod scc_hash_map;

pub use self::alone::Hashbrown;
pub use self::dashmap::DashMap;
pub use self::flurry::Flurry;
pub use self::locked::{MutexHashbrown, RwLockHashbrown};
pub use self::papaya::Papaya;
pub use self::quince::Quince;
pub use self::scc_hash_index::SccHashIndex;
pub use self::scc_hash_map::SccHashMap;

use crate::data::Data;

/// Every contender hashes with this: fast, and the same function in every run.
pub type Hasher = foldhash::fast::FixedState;

/// A map, by the calls that its own documentation offers for each job.
///
/// A session is what amortises the entry cost of the map: a pin, a guard, or nothing but a reference.
pub trait Contender<D: Data> {
    const NAME: &'static str;
    /// Whether several threads may use it at once.
    const CONCURRENT: bool = true;
    type Map: Sync + 'static;
    type Session<'m>;

    fn new() -> Self::Map;
    fn len(map: &Self::Map) -> usize;
    fn session(map: &Self::Map) -> Self::Session<'_>;

    fn get<R>(
        session: &Self::Session<'_>,
        key: &D::Key,
        read: impl FnOnce(&D::Value) -> R,
    ) -> Option<R>;

    /// The value itself, from a map that nobody holds a session on.
    fn get_owned(map: &Self::Map, key: &D::Key) -> Option<D::Value> {
        Self::get(&Self::session(map), key, D::Value::clone)
    }

    /// Reads the present value, or that of `make` if the key was absent: one atomic step.
    fn insert_or_get<R>(
        session: &Self::Session<'_>,
        key: D::Key,
        make: impl FnOnce() -> D::Value,
        read: impl FnOnce(&D::Value) -> R,
    ) -> R;

    /// Inserts or replaces; says whether the key was new.
    fn insert(session: &Self::Session<'_>, key: D::Key, value: D::Value) -> bool;

    /// Replaces a present value by what `change` makes of it, in one atomic step; says whether the key was present.
    fn update(
        session: &Self::Session<'_>,
        key: &D::Key,
        change: impl Fn(&D::Value) -> D::Value,
    ) -> bool;

    /// Says whether the key was present.
    fn remove(session: &Self::Session<'_>, key: &D::Key) -> bool;

    fn for_each(session: &Self::Session<'_>, visit: impl FnMut(&D::Key, &D::Value));
}
