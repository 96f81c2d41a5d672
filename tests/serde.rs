//! Maps and sets that go through serde's formats: one that does without lengths (JSON), and one that begins with them
//! (postcard). Where the same task has a naive solution, it stands beside the test as a broken twin.
#![cfg(all(feature = "serde", not(any(loom, shuttle))))]

mod support;

use std::collections::{HashMap as Std, HashSet as StdSet};
use std::hash::RandomState;
use std::panic;

use quickcheck::quickcheck;
use quince::{HashMap, HashSet, Pinned};
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::{Deserialize, Serialize, Serializer};

use support::hashers::Hashes;
use support::{Stop, race, size, watchdog};

quickcheck! {
    fn what_was_written_is_read_again_in_either_format(entries: Std<String, u32>) -> bool {
        let map: HashMap<String, u32, Hashes> = entries.clone().into_iter().collect();
        let json = serde_json::to_string(&map).unwrap();
        let bytes = postcard::to_stdvec(&map.pin()).unwrap();
        serde_json::from_str::<HashMap<_, _, Hashes>>(&json).unwrap() == map
            && postcard::from_bytes::<HashMap<_, _, Hashes>>(&bytes).unwrap() == map
            && serde_json::from_str::<Std<_, _>>(&json).unwrap() == entries
            && postcard::from_bytes::<Std<_, _>>(&bytes).unwrap() == entries
    }

    fn a_set_that_was_written_is_read_again_in_either_format(values: StdSet<String>) -> bool {
        let set: HashSet<String, Hashes> = values.clone().into_iter().collect();
        let json = serde_json::to_string(&set).unwrap();
        let bytes = postcard::to_stdvec(&set.pin()).unwrap();
        serde_json::from_str::<HashSet<_, Hashes>>(&json).unwrap() == set
            && postcard::from_bytes::<HashSet<_, Hashes>>(&bytes).unwrap() == set
            && serde_json::from_str::<StdSet<_>>(&json).unwrap() == values
            && postcard::from_bytes::<StdSet<_>>(&bytes).unwrap() == values
    }

    fn of_equal_keys_the_last_one_is_read_as_by_std(entries: Vec<(u8, u32)>) -> bool {
        // A sequence of pairs is written as a map is.
        let bytes = postcard::to_stdvec(&entries).unwrap();
        let std: Std<u8, u32> = postcard::from_bytes(&bytes).unwrap();
        let map: HashMap<u8, u32> = postcard::from_bytes(&bytes).unwrap();
        map.iter().collect::<Std<_, _>>() == std && map.len() == std.len()
    }
}

#[test]
fn keys_may_be_borrowed_from_what_is_read() {
    let json = String::from(r#"{"a":["b"]}"#);
    let map: HashMap<&str, HashSet<&str>> = serde_json::from_str(&json).unwrap();
    assert!(map.pin().get("a").unwrap().contains("b"));
}

#[test]
fn what_is_no_map_and_no_set_is_refused() {
    let error = |json| serde_json::from_str::<HashMap<String, u32>>(json).unwrap_err();
    assert!(error("[1]").to_string().contains("expected a map"));
    assert!(error(r#"{"a":1,"b":"c"}"#).to_string().contains("u32"));
    let error = serde_json::from_str::<HashSet<u32>>("{}").unwrap_err();
    assert!(error.to_string().contains("expected a sequence"));
}

/// Yields a few entries, and claims to have a number of them.
struct Liar {
    left: u32,
    claim: usize,
}

impl Iterator for Liar {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some((self.left, self.left))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.claim, Some(self.claim))
    }
}

#[test]
fn a_length_is_not_believed() {
    const FEW: usize = 10_000;
    for claim in [0, 3, FEW, 1 << 30, usize::MAX] {
        let liar = || Liar { left: 3, claim };
        let entries = MapDeserializer::<_, Error>::new(liar());
        let map = HashMap::<u32, u32>::deserialize(entries).unwrap();
        assert_eq!(map.len(), 3);
        assert!(map.capacity() < FEW, "{} for {claim}", map.capacity());
        let values = SeqDeserializer::<_, Error>::new(liar().map(|(value, _)| value));
        let set = HashSet::<u32>::deserialize(values).unwrap();
        assert_eq!(set.len(), 3);
        assert!(set.capacity() < FEW, "{} for {claim}", set.capacity());
    }
    // Who believes it is lost.
    let believer = || HashMap::<u32, u32>::with_capacity(usize::MAX);
    assert!(panic::catch_unwind(believer).is_err());
    // The same in bytes: so many entries, of which there are two.
    let bytes: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1, 2, 2];
    assert!(postcard::from_bytes::<HashMap<u32, u32>>(bytes).is_err());
    assert!(postcard::from_bytes::<HashSet<u32>>(bytes).is_err());
}

const STAYING: u32 = 200;

/// Whether this can be read, to the last byte, and has every key that stays.
fn is_whole(bytes: &[u8]) -> bool {
    match postcard::take_from_bytes::<Std<u32, u32>>(bytes) {
        Ok((map, [])) => (0..STAYING).all(|key| map.get(&key) == Some(&key)),
        Ok(_) | Err(_) => false,
    }
}

/// Writes the map again and again while others change it. Whether what was written was always whole.
fn is_written_among_writers(write: fn(Pinned<'_, u32, u32>) -> Vec<u8>) -> bool {
    let map: HashMap<u32, u32> = (0..STAYING).map(|key| (key, key)).collect();
    let stop = Stop::default();
    let results = race(4, |thread| match thread {
        0 => {
            let _stop = stop.on_drop();
            (0..size(2_000)).all(|_| is_whole(&write(map.pin())))
        }
        _ => {
            for round in 0.. {
                if stop.is_set() {
                    break;
                }
                let key = STAYING + round % 1_000;
                map.insert(key, thread as u32);
                map.remove(&(STAYING + (round + 500) % 1_000));
            }
            true
        }
    });
    results.into_iter().all(|right| right)
}

#[test]
fn a_map_that_others_write_to_is_written_with_its_right_length() {
    assert!(is_written_among_writers(|map| {
        postcard::to_stdvec(&map).unwrap()
    }));

    struct Counted<'m>(Pinned<'m, u32, u32, RandomState>);
    impl Serialize for Counted<'_> {
        fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
            use serde::ser::SerializeMap;
            let mut map = serializer.serialize_map(Some(self.0.len()))?;
            for (key, value) in &self.0 {
                map.serialize_entry(key, value)?;
            }
            map.end()
        }
    }
    let _watchdog = watchdog::start();
    while is_written_among_writers(|map| postcard::to_stdvec(&Counted(map)).unwrap()) {}
}
