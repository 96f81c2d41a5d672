//! A few keys whose hashes collide, in tables that are mostly one full bucket: the answers are std's. If keys or hashes
//! lie, there are no right answers: then the map ends every call, counts what it holds, and drops everything once.
#![no_main]

mod input;

use input::support::hashers::Hashes;
use input::support::ledger::{Ledger, Verdict};
use input::support::ops::{Map, Op, PinnedVerb, Script, Whole};
use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;

#[derive(Debug)]
struct Collisions {
    verdict: Verdict,
    script: Script,
}

impl<'a> Arbitrary<'a> for Collisions {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let verdicts = [
            Verdict::Honest,
            Verdict::AlwaysEqual,
            Verdict::NeverEqual,
            Verdict::Random,
        ];
        let hashes = [
            Hashes::Constant,
            Hashes::EqualTopBits,
            Hashes::EqualLowBits,
            Hashes::Identity,
            Hashes::Random,
        ];
        let verdict = *bytes.choose(&verdicts)?;
        let hashes = *bytes.choose(&hashes)?;
        let keys = bytes.int_in_range(2..=8)?;
        let one_bucket = bytes.arbitrary()?;
        let mut ops = input::ops(bytes, keys);
        if one_bucket {
            ops.retain(|op| !asks_for_room(op));
        }
        Ok(Self {
            verdict,
            script: Script {
                hashes,
                capacity: 0,
                ops,
            },
        })
    }
}

fn asks_for_room(op: &Op) -> bool {
    matches!(
        op,
        Op::Whole(Whole::Reserve(_) | Whole::Extend { .. } | Whole::ExtendShared { .. })
            | Op::OnlyPinned(PinnedVerb::Reserve(_))
    )
}

impl Collisions {
    fn check(&self) {
        match self.verdict {
            Verdict::Honest if self.script.hashes != Hashes::Random => self.script.check(),
            _ => self.check_sound(),
        }
    }

    fn check_sound(&self) {
        let Script {
            hashes,
            capacity,
            ops,
        } = &self.script;
        let ledger = Ledger::with_verdict(self.verdict);
        let mut map = Map::with_capacity_and_hasher(*capacity, *hashes);
        for op in ops {
            op.run(&mut map, &ledger);
            assert_eq!(map.len(), map.pin().iter().count(), "length after {op:?}");
        }
        drop(map);
        ledger.assert_balanced();
    }
}

fuzz_target!(|collisions: Collisions| collisions.check());
