//! Two or three threads, whose turns end between and within calls: the history is linearizable, and every key and value
//! is dropped once.
#![no_main]

mod input;

use input::support::hashers::Hashes;
use input::support::linear::Scripts;
use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;

impl<'a> Arbitrary<'a> for Scripts {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let hashes = *bytes.choose(&Hashes::HONEST)?;
        let keys = bytes.int_in_range(1..=4)?;
        let mut threads = vec![Vec::new(); bytes.int_in_range(2..=3)?];
        let mut schedule = Vec::new();
        // Dealt in turn, so that a longer input means longer scripts, all of them, and a longer schedule.
        'all: loop {
            for script in &mut threads {
                if bytes.is_empty() {
                    break 'all;
                }
                script.push(input::op(bytes, keys));
                schedule.push(bytes.arbitrary().unwrap_or(0));
            }
        }
        // Now and then as they may: then they run at once.
        if schedule.first().is_some_and(|first| first % 8 == 7) {
            schedule.clear();
        }
        Ok(Self {
            hashes,
            keys,
            threads,
            schedule,
        })
    }
}

fuzz_target!(|scripts: Scripts| {
    scripts.check();
});
