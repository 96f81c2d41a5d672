//! Any script is answered as by std's `HashMap`, and every key and value is dropped once.
#![no_main]

mod input;

use input::support::ops::Script;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: Script| script.check());
