//! Scripts over the whole API, run on a map and on std's at once.
//!
//! `tests/model.rs` has quickcheck make scripts, the fuzz target makes them from the fuzzer's bytes (it reaches this
//! tree through one `#[path]`), and the tests with hostile user code use single operations. A script that fails
//! prints itself as the expression to replay it with: `Script { .. }.check()`.

use std::collections::HashMap as Std;
use std::mem;

use quince::{Computed, HashMap, Operation, Pinned};

use super::hashers::Hashes;
use super::ledger::{Event, Key, Ledger, Value};
use super::{Random, race};

pub(crate) type Map<'l> = HashMap<Key<'l>, Value<'l>, Hashes>;

/// A pinned view of a [`Map`].
pub(crate) type View<'m, 'l> = Pinned<'m, Key<'l>, Value<'l>, Hashes>;

/// By key number: which of the equal keys is stored, and the value.
pub(crate) type Model = Std<u32, Stored>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stored {
    pub(crate) label: u32,
    pub(crate) value: u32,
}

/// Keys are few, so that operations meet. The first table has seven slots: a few keys already migrate.
const KEYS: u32 = 24;

/// What can be said of one key, or of all, on both faces. `(key number, number of the key's label and the value)`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Get(u32),
    GetKeyValue(u32),
    ContainsKey(u32),
    Insert(u32, u32),
    TryInsert(u32, u32),
    TryInsertWith(u32, u32),
    GetOrInsert(u32, u32),
    GetOrInsertWith(u32, u32),
    GetOrInsertWithKey(u32, u32),
    GetOrTryInsertWith(u32, u32),
    /// `get_or_try_insert_with` with a closure that fails.
    GetOrFail(u32, u32),
    GetOrDefault(u32, u32),
    GetOrInsertRefWith(u32, u32),
    Update(u32),
    GetAndUpdate(u32),
    Compute(u32, u32, Decision),
    Remove(u32),
    RemoveEntry(u32),
    /// The value must be a multiple.
    RemoveIf(u32, u32),
    /// All but the multiples.
    Retain(u32),
    Clear,
    Iter,
    Keys,
    Values,
    Len,
}

/// What the closure of `compute` decides.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    Insert,
    Remove,
    Abort,
    /// To insert where there is none, to remove what there is.
    Toggle,
}

/// What only a pinned view offers. `stale`: the reference given is that of an entry replaced since.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PinnedVerb {
    ReplaceIfSame { key: u32, value: u32, stale: bool },
    RemoveIfSame { key: u32, stale: bool },
    IsEmpty,
    Reserve(usize),
}

/// What concerns the whole map, most of it by exclusive access. `take`: how much of an iterator is used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whole {
    Reserve(usize),
    ShrinkToFit,
    Flush,
    /// Goes on with a clone.
    Clone,
    Extend {
        from: u32,
        count: u32,
    },
    ExtendShared {
        from: u32,
        count: u32,
    },
    GetMut(u32, u32),
    IterMut,
    ValuesMut,
    Drain {
        take: usize,
    },
    ClearMut,
    IntoIter {
        take: usize,
    },
    IntoKeys {
        take: usize,
    },
    IntoValues {
        take: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Owned(Verb),
    /// Neighbouring ones share a pin.
    Pinned(Verb),
    OnlyPinned(PinnedVerb),
    Repin,
    FlushPinned,
    Whole(Whole),
}

/// What an operation says. References and owned values are told by their numbers.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Done,
    Flag(bool),
    Count(usize),
    Value(Option<u32>),
    Stored(Option<Stored>),
    OldAndNew(Option<(u32, u32)>),
    /// With whether the closure ran.
    Lazy(u32, bool),
    Inserted(u32),
    Occupied {
        current: u32,
        label: u32,
        value: Option<u32>,
    },
    Aborted(u32),
    Failed(u32),
    /// In order of the numbers.
    Numbers(Vec<u32>),
    Entries(Vec<(u32, Stored)>),
}

impl Answer {
    fn numbers(numbers: impl IntoIterator<Item = u32>) -> Self {
        let mut numbers: Vec<_> = numbers.into_iter().collect();
        numbers.sort_unstable();
        Self::Numbers(numbers)
    }

    fn entries(entries: impl IntoIterator<Item = (u32, Stored)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_unstable();
        Self::Entries(entries)
    }
}

/// The numbers of an entry, owned or borrowed.
macro_rules! stored {
    ($key:expr, $value:expr) => {
        Stored {
            label: $key.label(),
            value: $value.number(),
        }
    };
}

/// Says a verb to a face. A macro, as the two faces share their verbs but no trait.
macro_rules! say {
    ($verb:expr, $face:expr, $ledger:expr) => {{
        let (face, ledger) = ($face, $ledger);
        let (key, value) = (|k, label| ledger.key(k, label), |v| ledger.value(v));
        let probe = |k| ledger.probe(k, 0);
        let tick = || ledger.tick(Event::Closure);
        let mut ran = false;
        let mut run = |v| {
            ran = true;
            tick();
            value(v)
        };
        match $verb {
            Verb::Get(k) => Answer::Value(face.get(&probe(k)).map(|v| v.number())),
            Verb::GetKeyValue(k) => {
                Answer::Stored(face.get_key_value(&probe(k)).map(|(k, v)| stored!(k, v)))
            }
            Verb::ContainsKey(k) => Answer::Flag(face.contains_key(&probe(k))),
            Verb::Insert(k, v) => {
                Answer::Value(face.insert(key(k, v), value(v)).map(|v| v.number()))
            }
            Verb::TryInsert(k, v) => match face.try_insert(key(k, v), value(v)) {
                Ok(value) => Answer::Inserted(value.number()),
                Err(occupied) => Answer::Occupied {
                    current: occupied.current.number(),
                    label: occupied.key.label(),
                    value: Some(occupied.value.number()),
                },
            },
            Verb::TryInsertWith(k, v) => match face.try_insert_with(key(k, v), || run(v)) {
                Ok(value) => Answer::Inserted(value.number()),
                Err(occupied) => Answer::Occupied {
                    current: occupied.current.number(),
                    label: occupied.key.label(),
                    value: occupied.value.map(|v| v.number()),
                },
            },
            Verb::GetOrInsert(k, v) => {
                Answer::Value(Some(face.get_or_insert(key(k, v), value(v)).number()))
            }
            Verb::GetOrInsertWith(k, v) => {
                let value = face.get_or_insert_with(key(k, v), || run(v));
                Answer::Lazy(value.number(), ran)
            }
            Verb::GetOrInsertWithKey(k, v) => {
                let value = face.get_or_insert_with_key(key(k, v), |key| run(key.label()));
                Answer::Lazy(value.number(), ran)
            }
            Verb::GetOrTryInsertWith(k, v) => {
                match face.get_or_try_insert_with(key(k, v), || Ok::<_, u32>(run(v))) {
                    Ok(value) => Answer::Lazy(value.number(), ran),
                    Err(error) => Answer::Failed(error),
                }
            }
            Verb::GetOrFail(k, v) => match face.get_or_try_insert_with(key(k, v), || Err(v)) {
                Ok(value) => Answer::Lazy(value.number(), ran),
                Err(error) => Answer::Failed(error),
            },
            Verb::GetOrDefault(k, label) => {
                Answer::Value(Some(face.get_or_default(key(k, label)).number()))
            }
            Verb::GetOrInsertRefWith(k, v) => {
                let value = face.get_or_insert_ref_with(&ledger.probe(k, v), || run(v));
                Answer::Lazy(value.number(), ran)
            }
            Verb::Update(k) => Answer::Value(
                face.update(&probe(k), |v| {
                    tick();
                    value(v.number() + 1)
                })
                .map(|v| v.number()),
            ),
            Verb::GetAndUpdate(k) => Answer::OldAndNew(
                face.get_and_update(&probe(k), |v| {
                    tick();
                    value(v.number() + 1)
                })
                .map(|(old, new)| (old.number(), new.number())),
            ),
            Verb::Compute(k, v, decision) => {
                let computed = face.compute(key(k, v), |entry| {
                    tick();
                    let present = entry.map(|(key, value)| stored!(key, value));
                    match decision.on(present) {
                        Decision::Insert => Operation::Insert(value(v)),
                        Decision::Remove => Operation::Remove,
                        _ => Operation::Abort(present.map_or(v, |stored| stored.value)),
                    }
                });
                match computed {
                    Computed::Inserted(value) => Answer::Inserted(value.number()),
                    Computed::Replaced { old, new } => {
                        Answer::OldAndNew(Some((old.number(), new.number())))
                    }
                    Computed::Removed(value) => Answer::Value(Some(value.number())),
                    Computed::Absent => Answer::Value(None),
                    Computed::Aborted(with) => Answer::Aborted(with),
                }
            }
            Verb::Remove(k) => Answer::Value(face.remove(&probe(k)).map(|v| v.number())),
            Verb::RemoveEntry(k) => {
                Answer::Stored(face.remove_entry(&probe(k)).map(|(k, v)| stored!(k, v)))
            }
            Verb::RemoveIf(k, divisor) => Answer::Value(
                face.remove_if(&probe(k), |_, v| {
                    tick();
                    v.number() % divisor == 0
                })
                .map(|v| v.number()),
            ),
            Verb::Retain(divisor) => {
                face.retain(|k, v| {
                    tick();
                    (k.number() + v.number()) % divisor != 0
                });
                Answer::Done
            }
            Verb::Clear => {
                face.clear();
                Answer::Done
            }
            Verb::Iter => Answer::entries(face.iter().map(|(k, v)| (k.number(), stored!(k, v)))),
            Verb::Keys => Answer::numbers(face.keys().map(|k| k.number())),
            Verb::Values => Answer::numbers(face.values().map(|v| v.number())),
            Verb::Len => Answer::Count(face.len()),
        }
    }};
}

impl Decision {
    /// The same with `Toggle` made out.
    fn on(self, present: Option<Stored>) -> Self {
        match (self, present) {
            (Self::Toggle, None) => Self::Insert,
            (Self::Toggle, Some(_)) => Self::Remove,
            (decided, _) => decided,
        }
    }
}

impl Stored {
    fn new(number: u32) -> Self {
        Self {
            label: number,
            value: number,
        }
    }
}

impl Verb {
    fn say_owned<'l>(self, map: &Map<'l>, ledger: &'l Ledger) -> Answer {
        say!(self, map, ledger)
    }

    fn say_pinned<'l>(self, pinned: &View<'_, 'l>, ledger: &'l Ledger) -> Answer {
        say!(self, pinned, ledger)
    }

    fn expected(self, model: &mut Model) -> Answer {
        let lazy = |model: &mut Model, k, v| {
            let ran = !model.contains_key(&k);
            let stored = model.entry(k).or_insert(Stored::new(v));
            Answer::Lazy(stored.value, ran)
        };
        let occupied = |model: &Model, k, v, value| Answer::Occupied {
            current: model[&k].value,
            label: v,
            value,
        };
        match self {
            Self::Get(k) => Answer::Value(model.get(&k).map(|stored| stored.value)),
            Self::GetKeyValue(k) => Answer::Stored(model.get(&k).copied()),
            Self::ContainsKey(k) => Answer::Flag(model.contains_key(&k)),
            Self::Insert(k, v) => {
                Answer::Value(model.insert(k, Stored::new(v)).map(|old| old.value))
            }
            Self::TryInsert(k, v) if model.contains_key(&k) => occupied(model, k, v, Some(v)),
            Self::TryInsertWith(k, v) if model.contains_key(&k) => occupied(model, k, v, None),
            Self::TryInsert(k, v) | Self::TryInsertWith(k, v) => {
                model.insert(k, Stored::new(v));
                Answer::Inserted(v)
            }
            Self::GetOrInsert(k, v) => {
                Answer::Value(Some(model.entry(k).or_insert(Stored::new(v)).value))
            }
            Self::GetOrFail(k, v) if !model.contains_key(&k) => Answer::Failed(v),
            Self::GetOrInsertWith(k, v)
            | Self::GetOrInsertWithKey(k, v)
            | Self::GetOrTryInsertWith(k, v)
            | Self::GetOrFail(k, v)
            | Self::GetOrInsertRefWith(k, v) => lazy(model, k, v),
            Self::GetOrDefault(k, label) => {
                let default = Stored { label, value: 0 };
                Answer::Value(Some(model.entry(k).or_insert(default).value))
            }
            Self::Update(k) => Answer::Value(model.get_mut(&k).map(|stored| {
                stored.value += 1;
                stored.value
            })),
            Self::GetAndUpdate(k) => Answer::OldAndNew(model.get_mut(&k).map(|stored| {
                stored.value += 1;
                (stored.value - 1, stored.value)
            })),
            Self::Compute(k, v, decision) => {
                let present = model.get(&k).copied();
                match (decision.on(present), present) {
                    (Decision::Insert, None) => {
                        model.insert(k, Stored::new(v));
                        Answer::Inserted(v)
                    }
                    (Decision::Insert, Some(old)) => {
                        model.insert(k, Stored::new(v));
                        Answer::OldAndNew(Some((old.value, v)))
                    }
                    (Decision::Remove, present) => {
                        model.remove(&k);
                        Answer::Value(present.map(|old| old.value))
                    }
                    (_, present) => Answer::Aborted(present.map_or(v, |stored| stored.value)),
                }
            }
            Self::Remove(k) => Answer::Value(model.remove(&k).map(|stored| stored.value)),
            Self::RemoveEntry(k) => Answer::Stored(model.remove(&k)),
            Self::RemoveIf(k, divisor) => {
                let multiple = model
                    .get(&k)
                    .is_some_and(|stored| stored.value % divisor == 0);
                let removed = multiple.then(|| model.remove(&k)).flatten();
                Answer::Value(removed.map(|stored| stored.value))
            }
            Self::Retain(divisor) => {
                model.retain(|k, stored| (k + stored.value) % divisor != 0);
                Answer::Done
            }
            Self::Clear => {
                model.clear();
                Answer::Done
            }
            Self::Iter => Answer::entries(model.iter().map(|(&k, &stored)| (k, stored))),
            Self::Keys => Answer::numbers(model.keys().copied()),
            Self::Values => Answer::numbers(model.values().map(|stored| stored.value)),
            Self::Len => Answer::Count(model.len()),
        }
    }

    /// Each of them for one key and number. Those that empty the map are in [`Op::emptying`].
    fn every(k: u32, v: u32) -> impl Iterator<Item = Self> {
        use Decision::{Abort, Insert, Remove, Toggle};
        [
            Self::Get(k),
            Self::GetKeyValue(k),
            Self::ContainsKey(k),
            Self::Insert(k, v),
            Self::TryInsert(k, v),
            Self::TryInsertWith(k, v),
            Self::GetOrInsert(k, v),
            Self::GetOrInsertWith(k, v),
            Self::GetOrInsertWithKey(k, v),
            Self::GetOrTryInsertWith(k, v),
            Self::GetOrFail(k, v),
            Self::GetOrDefault(k, v),
            Self::GetOrInsertRefWith(k, v),
            Self::Update(k),
            Self::GetAndUpdate(k),
            Self::Remove(k),
            Self::RemoveEntry(k),
            Self::RemoveIf(k, 1 + v % 3),
            Self::Iter,
            Self::Keys,
            Self::Values,
            Self::Len,
        ]
        .into_iter()
        .chain([Insert, Remove, Abort, Toggle].map(|decision| Self::Compute(k, v, decision)))
    }
}

impl PinnedVerb {
    fn say<'l>(self, pinned: &View<'_, 'l>, ledger: &'l Ledger) -> Answer {
        let probe = |k| ledger.probe(k, 0);
        let current = |key, stale| {
            let current = pinned.get(&probe(key));
            if current.is_some() && stale {
                pinned.insert(ledger.key(key, 0), ledger.value(0));
            }
            current
        };
        match self {
            Self::ReplaceIfSame { key, value, stale } => {
                let Some(current) = current(key, stale) else {
                    return Answer::Value(None);
                };
                match pinned.replace_if_same(&probe(key), current, ledger.value(value)) {
                    Ok(new) => Answer::Inserted(new.number()),
                    Err(back) => Answer::Failed(back.number()),
                }
            }
            Self::RemoveIfSame { key, stale } => {
                let remove = |current| pinned.remove_if_same(&probe(key), current);
                Answer::Flag(current(key, stale).is_some_and(remove))
            }
            Self::IsEmpty => Answer::Flag(pinned.is_empty() && pinned.map().is_empty()),
            Self::Reserve(additional) => {
                pinned.reserve(additional);
                Answer::Done
            }
        }
    }

    fn expected(self, model: &mut Model) -> Answer {
        match self {
            Self::ReplaceIfSame { key, value, stale } => match model.get_mut(&key) {
                None => Answer::Value(None),
                Some(stored) if stale => {
                    *stored = Stored::new(0);
                    Answer::Failed(value)
                }
                Some(stored) => {
                    stored.value = value;
                    Answer::Inserted(value)
                }
            },
            Self::RemoveIfSame { key, stale: true } => {
                model
                    .entry(key)
                    .and_modify(|stored| *stored = Stored::new(0));
                Answer::Flag(false)
            }
            Self::RemoveIfSame { key, stale: false } => Answer::Flag(model.remove(&key).is_some()),
            Self::IsEmpty => Answer::Flag(model.is_empty()),
            Self::Reserve(_) => Answer::Done,
        }
    }

    fn every(key: u32, value: u32) -> impl Iterator<Item = Self> {
        let identity = [false, true].map(|stale| {
            [
                Self::ReplaceIfSame { key, value, stale },
                Self::RemoveIfSame { key, stale },
            ]
        });
        let rest = [Self::IsEmpty, Self::Reserve(value as usize % 64)];
        identity.into_iter().flatten().chain(rest)
    }
}

/// What is taken of an iterator: how much, as the order is anybody's, or, if that is everything, all of it.
fn taken(take: usize, entries: impl Iterator<Item = (u32, Stored)>) -> Answer {
    let taken: Vec<_> = entries.take(take).collect();
    if taken.len() == take {
        Answer::Count(take)
    } else {
        Answer::entries(taken)
    }
}

impl Whole {
    fn run<'l>(self, map: &mut Map<'l>, ledger: &'l Ledger) -> Answer {
        let take_map = |map: &mut Map<'l>| {
            let empty = Map::with_hasher(*map.hasher());
            mem::replace(map, empty)
        };
        match self {
            Self::Clone => {
                let clone = map.clone();
                let same = clone == *map;
                *map = clone;
                Answer::Flag(same)
            }
            Self::Extend { from, count } => {
                map.extend(pairs(from, count, ledger));
                Answer::Done
            }
            Self::GetMut(k, v) => Answer::Value(map.get_mut(&ledger.probe(k, 0)).map(|value| {
                let old = value.number();
                value.set(v);
                old
            })),
            Self::IterMut => Answer::entries(map.iter_mut().map(|(k, v)| {
                v.set(v.number() + 1);
                (k.number(), stored!(k, v))
            })),
            Self::ValuesMut => Answer::numbers(map.values_mut().map(|v| {
                v.set(v.number() + 1);
                v.number()
            })),
            Self::Drain { take } => {
                let entry = |(k, v): (Key<'_>, Value<'_>)| (k.number(), stored!(k, v));
                taken(take, map.drain().map(entry))
            }
            Self::ClearMut => {
                map.clear_mut();
                Answer::Done
            }
            Self::IntoIter { take } => {
                let entry = |(k, v): (Key<'_>, Value<'_>)| (k.number(), stored!(k, v));
                taken(take, take_map(map).into_iter().map(entry))
            }
            Self::IntoKeys { take } => {
                let key = |k: Key<'_>| (k.number(), Stored::new(k.label()));
                taken(take, take_map(map).into_keys().map(key))
            }
            Self::IntoValues { take } => {
                let value = |v: Value<'_>| (0, Stored::new(v.number()));
                taken(take, take_map(map).into_values().map(value))
            }
            shared => shared.run_shared(map, ledger).expect("not exclusive"),
        }
    }

    fn run_shared<'l>(self, mut map: &Map<'l>, ledger: &'l Ledger) -> Option<Answer> {
        match self {
            Self::Reserve(additional) => map.reserve(additional),
            Self::ShrinkToFit => map.shrink_to_fit(),
            Self::Flush => map.flush(),
            Self::ExtendShared { from, count } => map.extend(pairs(from, count, ledger)),
            _ => return None,
        }
        Some(Answer::Done)
    }

    fn expected(self, model: &mut Model) -> Answer {
        match self {
            Self::Reserve(_) | Self::ShrinkToFit | Self::Flush => Answer::Done,
            Self::Clone => Answer::Flag(true),
            Self::Extend { from, count } | Self::ExtendShared { from, count } => {
                model.extend(neighbours(from, count));
                Answer::Done
            }
            Self::GetMut(k, v) => {
                let set = |stored: &mut Stored| mem::replace(&mut stored.value, v);
                Answer::Value(model.get_mut(&k).map(set))
            }
            Self::IterMut => Answer::entries(model.iter_mut().map(|(&k, stored)| {
                stored.value += 1;
                (k, *stored)
            })),
            Self::ValuesMut => Answer::numbers(model.values_mut().map(|stored| {
                stored.value += 1;
                stored.value
            })),
            Self::ClearMut => {
                model.clear();
                Answer::Done
            }
            Self::Drain { take } | Self::IntoIter { take } => taken(take, model.drain()),
            Self::IntoKeys { take } => {
                let key = |(k, stored): (u32, Stored)| (k, Stored::new(stored.label));
                taken(take, model.drain().map(key))
            }
            Self::IntoValues { take } => {
                let value = |(_, stored): (u32, Stored)| (0, Stored::new(stored.value));
                taken(take, model.drain().map(value))
            }
        }
    }

    fn every(k: u32, v: u32) -> impl Iterator<Item = Self> {
        let (from, count) = (k, v % 64);
        [
            Self::Reserve(v as usize % 256),
            Self::ShrinkToFit,
            Self::Flush,
            Self::Clone,
            Self::Extend { from, count },
            Self::ExtendShared { from, count },
            Self::GetMut(k, v),
            Self::IterMut,
            Self::ValuesMut,
        ]
        .into_iter()
    }
}

fn pairs(from: u32, count: u32, ledger: &Ledger) -> impl Iterator<Item = (Key<'_>, Value<'_>)> {
    neighbours(from, count)
        .map(|(k, stored)| (ledger.key(k, stored.label), ledger.value(stored.value)))
}

fn neighbours(from: u32, count: u32) -> impl Iterator<Item = (u32, Stored)> {
    (0..count).map(move |n| (from + n, Stored::new(n)))
}

impl Op {
    /// Every operation, for one key and number.
    pub(crate) fn every(k: u32, v: u32) -> impl Iterator<Item = Self> {
        Self::lasting(k, v).chain(Self::emptying(v))
    }

    fn lasting(k: u32, v: u32) -> impl Iterator<Item = Self> {
        Verb::every(k, v)
            .flat_map(|verb| [Self::Owned(verb), Self::Pinned(verb)])
            .chain(PinnedVerb::every(k, v).map(Self::OnlyPinned))
            .chain([Self::Repin, Self::FlushPinned])
            .chain(Whole::every(k, v).map(Self::Whole))
    }

    /// Those that leave little or nothing in the map.
    fn emptying(v: u32) -> impl Iterator<Item = Self> {
        let take = v as usize % 32;
        let verbs = [Verb::Clear, Verb::Retain(2 + v % 4)];
        let whole = [
            Whole::ClearMut,
            Whole::Drain { take },
            Whole::IntoIter { take },
            Whole::IntoKeys { take },
            Whole::IntoValues { take },
        ];
        verbs
            .into_iter()
            .flat_map(|verb| [Self::Owned(verb), Self::Pinned(verb)])
            .chain(whole.into_iter().map(Self::Whole))
    }

    /// One of them, by a source of numbers below a bound.
    pub(crate) fn choose(below: &mut impl FnMut(u32) -> u32) -> Self {
        let (k, v) = (below(KEYS), below(1_000));
        // Emptied seldom, or the map would never grow.
        let candidates: Vec<_> = if below(32) == 0 {
            Self::emptying(v).collect()
        } else {
            Self::lasting(k, v).collect()
        };
        candidates[below(candidates.len() as u32) as usize]
    }

    pub(crate) fn run<'l>(self, map: &mut Map<'l>, ledger: &'l Ledger) -> Answer {
        match self {
            Self::Whole(whole) => whole.run(map, ledger),
            shared => shared.run_shared(map, ledger).expect("not exclusive"),
        }
    }

    /// `None` if this takes exclusive access.
    pub(crate) fn run_shared<'l>(self, map: &Map<'l>, ledger: &'l Ledger) -> Option<Answer> {
        Some(match self {
            Self::Owned(verb) => verb.say_owned(map, ledger),
            Self::Pinned(verb) => verb.say_pinned(&map.pin(), ledger),
            Self::OnlyPinned(verb) => verb.say(&map.pin(), ledger),
            Self::Repin => {
                map.pin().repin();
                Answer::Done
            }
            Self::FlushPinned => {
                map.pin().flush();
                Answer::Done
            }
            Self::Whole(whole) => whole.run_shared(map, ledger)?,
        })
    }

    pub(crate) fn expected(self, model: &mut Model) -> Answer {
        match self {
            Self::Owned(verb) | Self::Pinned(verb) => verb.expected(model),
            Self::OnlyPinned(verb) => verb.expected(model),
            Self::Repin | Self::FlushPinned => Answer::Done,
            Self::Whole(whole) => whole.expected(model),
        }
    }

    /// Whether it may remove keys it does not name.
    pub(crate) fn empties(&self) -> bool {
        matches!(
            self,
            Self::Owned(Verb::Clear | Verb::Retain(_))
                | Self::Pinned(Verb::Clear | Verb::Retain(_))
        )
    }

    fn is_pinned(&self) -> bool {
        !matches!(self, Self::Owned(_) | Self::Whole(_))
    }

    /// No reference got before it is left.
    fn ends_borrows(&self) -> bool {
        matches!(self, Self::Repin | Self::FlushPinned)
    }
}

/// Operations on a map that starts empty.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) hashes: Hashes,
    pub(crate) capacity: usize,
    pub(crate) ops: Vec<Op>,
}

impl Script {
    /// The map answers as std's does, references stay what they were as long as the pin lasts, and every key and
    /// value is dropped once.
    pub(crate) fn check(&self) {
        let ledger = Ledger::new();
        let mut map = Map::with_capacity_and_hasher(self.capacity, self.hashes);
        let mut model = Model::new();
        for ops in self.ops.chunk_by(|a, b| a.is_pinned() && b.is_pinned()) {
            match ops {
                [op] if !op.is_pinned() => {
                    assert_eq!(op.run(&mut map, &ledger), op.expected(&mut model), "{op:?}");
                }
                _ => check_pinned(ops, &map, &mut model, &ledger),
            }
            assert_eq!(map.len(), model.len(), "length after {ops:?}");
            assert!(map.capacity() >= map.len(), "capacity after {ops:?}");
        }
        for (all, face) in [
            (Op::Owned(Verb::Iter), "owned"),
            (Op::Pinned(Verb::Iter), "pinned"),
        ] {
            assert_eq!(
                all.run(&mut map, &ledger),
                all.expected(&mut model),
                "{face} in the end"
            );
        }
        drop(map);
        ledger.assert_balanced();
    }
}

/// Any operations but the exclusive ones, by several threads: the map ends up consistent, and no answer was made of
/// a key or value that was dropped. Does not ask what the answers are.
pub(crate) fn chaos(ledger: &Ledger, hashes: Hashes, threads: usize, ops: usize) {
    let map = Map::with_hasher(hashes);
    race(threads, |thread| {
        let mut random = Random::new(thread as u64);
        for _ in 0..ops {
            let op = Op::choose(&mut |bound| random.below(bound));
            op.run_shared(&map, ledger);
        }
    });
    assert_eq!(map.len(), map.pin().iter().count(), "length when quiet");
    drop(map);
    ledger.assert_balanced();
}

fn check_pinned<'l>(ops: &[Op], map: &Map<'l>, model: &mut Model, ledger: &'l Ledger) {
    let mut pinned = map.pin();
    for ops in ops.split_inclusive(Op::ends_borrows) {
        let mut held = Vec::new();
        for &op in ops {
            let answer = match op {
                Op::Pinned(verb) => verb.say_pinned(&pinned, ledger),
                Op::OnlyPinned(verb) => verb.say(&pinned, ledger),
                _ => break,
            };
            assert_eq!(answer, op.expected(model), "{op:?}");
            if let (Op::Pinned(Verb::Get(k)), Answer::Value(Some(number))) = (op, answer) {
                held.extend(pinned.get(&ledger.probe(k, 0)).map(|value| (value, number)));
            }
        }
        for (value, number) in held {
            assert_eq!(value.number(), number, "a reference changed under {ops:?}");
        }
        match ops.last() {
            Some(Op::Repin) => pinned.repin(),
            Some(Op::FlushPinned) => pinned.flush(),
            _ => {}
        }
    }
}
