//! Maps and sets as data of serde's, by the feature `serde`.
#![forbid(unsafe_code)]

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::{HashMap, HashSet, Pinned, PinnedSet};

/// As [`Pinned`]'s: the calling thread is pinned until the serializer is done, so let it write to memory and not to a
/// slow peer.
///
/// ```
/// let map = quince::HashMap::from([("answer", 42)]);
/// assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"answer":42}"#);
/// ```
impl<K: Serialize, V: Serialize, S> Serialize for HashMap<K, V, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        self.pin().serialize(serializer)
    }
}

/// What an [iteration](Pinned::iter) sees, as a map whose length is known, for every format. No snapshot; O(capacity), and
/// two pointers of memory for each entry.
// Some formats need the length before the first entry. `len` is that of another moment, and an iteration among writers
// does not know how long it gets, so it is done first.
impl<K: Serialize, V: Serialize, S> Serialize for Pinned<'_, K, V, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_map(self.iter().collect::<Vec<_>>())
    }
}

/// As the map's.
///
/// ```
/// let set = quince::HashSet::from(["quince"]);
/// assert_eq!(serde_json::to_string(&set).unwrap(), r#"["quince"]"#);
/// ```
impl<T: Serialize, S> Serialize for HashSet<T, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        self.pin().serialize(serializer)
    }
}

/// As [`Pinned`]'s, as a sequence.
impl<T: Serialize, S> Serialize for PinnedSet<'_, T, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_seq(self.iter().collect::<Vec<_>>())
    }
}

/// Of entries with equal keys the last one stays. What a length in the data claims is not believed: memory is taken as
/// entries arrive.
///
/// ```
/// let map: quince::HashMap<String, u32> = serde_json::from_str(r#"{"answer":41,"answer":42}"#).unwrap();
/// assert_eq!(map.get("answer"), Some(42));
/// ```
impl<'de, K, V, S> Deserialize<'de> for HashMap<K, V, S>
where
    K: Deserialize<'de> + Hash + Eq,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Collect::<Self>(PhantomData))
    }
}

/// Of equal values the first one stays. Lengths are not believed, as for maps.
///
/// ```
/// let set: quince::HashSet<String> = serde_json::from_str(r#"["quince"]"#).unwrap();
/// assert!(set.contains("quince"));
/// ```
impl<'de, T, S> Deserialize<'de> for HashSet<T, S>
where
    T: Deserialize<'de> + Hash + Eq,
    S: BuildHasher + Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Collect::<Self>(PhantomData))
    }
}

/// Makes a `C` of the entries or values that arrive. Each is inserted with a pin of its own, because the next one may be
/// waited for.
struct Collect<C>(PhantomData<C>);

/// How many entries to make room for at once: as many as are claimed, if they are few. The rest come or do not, and growing
/// for them costs O(1) each.
fn room(claimed: Option<usize>) -> usize {
    claimed.map_or(0, |claimed| claimed.min(4096))
}

impl<'de, K, V, S> Visitor<'de> for Collect<HashMap<K, V, S>>
where
    K: Deserialize<'de> + Hash + Eq,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    type Value = HashMap<K, V, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let map = HashMap::with_capacity_and_hasher(room(entries.size_hint()), S::default());
        while let Some((key, value)) = entries.next_entry()? {
            map.pin().insert(key, value);
        }
        Ok(map)
    }
}

impl<'de, T, S> Visitor<'de> for Collect<HashSet<T, S>>
where
    T: Deserialize<'de> + Hash + Eq,
    S: BuildHasher + Default,
{
    type Value = HashSet<T, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let set = HashSet::with_capacity_and_hasher(room(values.size_hint()), S::default());
        while let Some(value) = values.next_element()? {
            set.insert(value);
        }
        Ok(set)
    }
}
