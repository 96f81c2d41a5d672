//! A script in which some call of user code panics: whatever is in the map then is sound, and dropped once.
#![no_main]

mod input;

use input::support::ledger::{Event, Ledger};
use input::support::ops::{Map, Script};
use libfuzzer_sys::fuzz_target;

// The script comes last, as it takes all the bytes that are left.
fuzz_target!(|input: (u8, u16, Script)| {
    let (event, nth, script) = input;
    let event = Event::ALL[usize::from(event) % Event::ALL.len()];
    let ledger = Ledger::new();
    let mut map = Map::with_capacity_and_hasher(script.capacity, script.hashes);
    let run = || {
        for op in &script.ops {
            op.run(&mut map, &ledger);
        }
    };
    ledger.trip(event, usize::from(nth % 512) + 1, run);
    assert_eq!(map.len(), map.iter().count());
    drop(map);
    ledger.assert_balanced();
});
