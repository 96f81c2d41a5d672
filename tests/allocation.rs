//! An allocator that fails: the process aborts at that very call, whichever it is; nothing crashes, hangs or goes on with
//! half a change. (Where a failure unwinds instead, as no stable compiler does, an entry that was being removed may stay
//! allocated until the map ends.)
#![cfg(all(unix, not(any(loom, shuttle, miri))))]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicIsize, Ordering};

use quince::HashMap;

use support::watchdog;

/// How many more calls it answers.
struct Failing(AtomicIsize);

#[global_allocator]
static HEAP: Failing = Failing(AtomicIsize::new(isize::MAX));

impl Failing {
    fn fails(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 0
    }
}

// SAFETY: what is not refused is the system allocator's.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.fails() {
            return ptr::null_mut();
        }
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if self.fails() {
            return ptr::null_mut();
        }
        // SAFETY: by the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if self.fails() {
            return ptr::null_mut();
        }
        // SAFETY: by the caller's contract.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Comes to every allocation that the map makes.
fn work() {
    let map: HashMap<u32, Box<u32>> = HashMap::new();
    for k in 0..400 {
        map.pin().insert(k, Box::new(k));
        map.pin().insert(k, Box::new(k + 1));
        map.pin().remove(&(k / 2));
    }
    assert_eq!((map.iter().count(), map.clone().len()), (200, 200));
    map.reserve(2_000);
    map.clear();
    map.flush();
    map.shrink_to_fit();
}

#[test]
fn the_process_aborts_where_an_allocation_fails() {
    const NTH: &str = "QUINCE_TEST_FAILURE";
    let _watchdog = watchdog::start();
    if let Ok(nth) = env::var(NTH) {
        HEAP.0
            .store(nth.parse().expect("a number"), Ordering::Relaxed);
        work();
        HEAP.0.store(isize::MAX, Ordering::Relaxed);
        return;
    }
    let mut failures = 0;
    // Growing steps: the first allocations are of the most different kinds.
    for nth in (0..40).chain((40..).step_by(97)) {
        let output = Command::new(env::current_exe().expect("it runs"))
            .args(["--exact", "the_process_aborts_where_an_allocation_fails"])
            .env(NTH, nth.to_string())
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("can be run again");
        if output.status.success() {
            break;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.signal(),
            Some(SIGABRT),
            "allocation {nth}: {said}"
        );
        assert!(
            said.contains("memory allocation of"),
            "allocation {nth}: {said}"
        );
        failures += 1;
    }
    assert!(failures > 40, "only {failures} allocations");
}

const SIGABRT: i32 = 6;
