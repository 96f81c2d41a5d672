//! How a process that uses the map ends, forks and differs from others: seen from outside. Each test runs itself again,
//! alone in a process of its own.
#![cfg(all(unix, not(any(loom, shuttle, miri))))]

mod support;

use std::cell::RefCell;
use std::collections::HashMap as Std;
use std::env;
use std::panic;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, LazyLock};
use std::thread;

use quince::HashMap;

use support::hashers::Hashes;
use support::ledger::Ledger;
use support::ops::Map;
use support::spin_barrier::SpinBarrier;
use support::{size, watchdog};

/// The variable that tells a process that it is the one to play the part.
const PART: &str = "QUINCE_TEST_PART";

/// Runs `part` in a process of its own, on its main thread, and returns how that went; `None` in that process.
fn alone(part: fn()) -> Option<Output> {
    let _watchdog = watchdog::start();
    if env::var_os(PART).is_some() {
        part();
        return None;
    }
    let test = thread::current()
        .name()
        .expect("named after the test")
        .to_owned();
    let program = env::current_exe().expect("it runs");
    let output = Command::new(program)
        .args(["--exact", &test, "--nocapture", "--test-threads=1"])
        .env(PART, "")
        .output();
    Some(output.expect("can be run again"))
}

/// The same for a part that is to end well: what it has printed.
fn printed(part: fn()) -> Option<String> {
    let output = alone(part)?;
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    assert!(out.contains("1 passed"), "{out}");
    Some(out + &err)
}

unsafe extern "C" {
    safe fn atexit(run: extern "C" fn()) -> i32;
    safe fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    safe fn _exit(status: i32) -> !;
}

#[test]
fn a_process_may_end_with_garbage_and_with_threads_that_are_pinned() {
    static MAP: LazyLock<HashMap<u32, String>> = LazyLock::new(HashMap::new);
    printed(|| {
        let pinned = SpinBarrier::new(4);
        let pinned: &'static SpinBarrier = Box::leak(Box::new(pinned));
        for thread in 1..4 {
            thread::spawn(move || {
                let view = MAP.pin();
                for k in 0..1_000 {
                    view.insert(k, thread.to_string());
                    view.remove(&(k / 2));
                }
                pinned.wait();
                // And one of them is writing when the process ends.
                if thread == 1 {
                    loop {
                        view.insert(1, String::new());
                    }
                }
                thread::park();
            });
        }
        pinned.wait();
        MAP.remove(&999);
    });
}

/// What the main thread does after `main`: its thread-local variables end, then come the handlers of `atexit`.
#[test]
fn the_main_thread_may_use_the_map_while_the_process_ends() {
    static MAP: LazyLock<HashMap<u32, &str>> = LazyLock::new(HashMap::new);
    struct Last(u32);
    impl Drop for Last {
        fn drop(&mut self) {
            MAP.insert(self.0, "in a destructor");
            MAP.remove(&(self.0 + 1));
            MAP.flush();
            eprintln!("destructor {} found {:?}", self.0, MAP.get(&self.0));
        }
    }
    thread_local! {
        static BEFORE: RefCell<Option<Last>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    extern "C" fn at_exit() {
        let entries: Vec<_> = MAP.pin().iter().map(|(k, _)| *k).collect();
        MAP.insert(30, "at exit");
        MAP.remove(&10);
        MAP.clear();
        MAP.flush();
        eprintln!("at exit: {} entries, then {}", entries.len(), MAP.len());
    }
    let text = printed(|| {
        // Some test harnesses run a single test on the main thread, and some do not.
        let main = thread::current().name() == Some("main");
        BEFORE.set(Some(Last(10)));
        MAP.insert(11, "in main");
        MAP.insert(21, "in main");
        AFTER.set(Some(Last(20)));
        assert_eq!(atexit(at_exit), 0);
        println!("on the main thread: {main}");
    });
    if let Some(text) = text {
        for k in [10, 20] {
            let found = format!("destructor {k} found Some(\"in a destructor\")");
            assert!(text.contains(&found), "{text}");
        }
        assert!(text.contains("at exit: 2 entries, then 0"), "{text}");
    }
}

/// Destructors run in calls on their map alone: a thread that ends collects for all, and must not meet them.
#[test]
fn a_destructor_that_panics_does_not_meet_a_thread_that_ends() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("expected by the test");
        }
    }
    static MAP: LazyLock<HashMap<u32, Bomb>> = LazyLock::new(HashMap::new);
    static UNRELATED: LazyLock<HashMap<u32, u32>> = LazyLock::new(HashMap::new);
    printed(|| {
        panic::set_hook(Box::new(|_| {}));
        for round in 0..size(200) as u32 {
            for k in 0..100 {
                assert!(MAP.pin().insert(k, Bomb).is_none());
                assert!(MAP.pin().remove(&k).is_some());
            }
            let unrelated = move || {
                UNRELATED.insert(round, round);
                UNRELATED.remove(&round);
                (0..100).for_each(|_| crossbeam_epoch::pin().flush());
            };
            thread::spawn(unrelated)
                .join()
                .expect("it has nothing to do with it");
            MAP.flush();
        }
        assert!(MAP.is_empty());
        _ = panic::take_hook();
    });
}

/// The child has one thread, and what the others were doing is never done: one was pinned, one was writing. The pins are
/// not lifted any more, so nothing that is removed in the child is freed before the map ends.
#[test]
fn a_forked_process_goes_on_whatever_the_other_threads_were_doing() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static LEDGER: LazyLock<Ledger> = LazyLock::new(Ledger::new);
    static MAP: LazyLock<Map<'static>> = LazyLock::new(Map::default);

    fn write(keys: u32, seed: u32) {
        for n in 0..keys {
            let k = seed + n % 3_000;
            MAP.insert(LEDGER.key(k, 0), LEDGER.value(n));
            if n % 3 > 0 {
                MAP.remove(&(k / 2 * 2));
            }
        }
    }

    fn child() {
        let mut std = Std::new();
        let live = LEDGER.live();
        for n in 0..10_000 {
            let k = 1_000_000 + n * 7 % 3_000;
            let inserted = MAP
                .pin()
                .insert(LEDGER.key(k, 0), LEDGER.value(n))
                .map(|v| v.number());
            assert_eq!(inserted, std.insert(k, n));
            let gone = k / 3 * 3;
            assert_eq!(MAP.remove(&gone).map(|v| v.number()), std.remove(&gone));
        }
        let mine = MAP
            .pin()
            .keys()
            .filter(|key| key.number() >= 1_000_000)
            .count();
        assert_eq!(mine, std.len());
        MAP.flush();
        assert!(
            LEDGER.live() >= live + 20_000,
            "freed although a thread is pinned"
        );
        LEDGER.assert_sound();
    }

    printed(|| {
        static PINNED: Barrier = Barrier::new(2);
        let pinned = thread::spawn(|| {
            let _view = MAP.pin();
            PINNED.wait();
            while !STOP.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        });
        // What is removed from now on cannot be freed.
        PINNED.wait();
        let writers = [0, 500_000].map(|seed| {
            thread::spawn(move || {
                while !STOP.load(Ordering::Relaxed) {
                    write(10_000, seed);
                }
            })
        });
        for round in 0..8 {
            thread::yield_now();
            let process = fork();
            assert!(process >= 0);
            if process == 0 {
                let ended = panic::catch_unwind(child);
                _exit(i32::from(ended.is_err()));
            }
            let mut status = 0;
            // SAFETY: `status` may be written.
            let waited = unsafe { waitpid(process, &raw mut status, 0) };
            assert_eq!((waited, status), (process, 0), "in fork {round}");
        }
        STOP.store(true, Ordering::Relaxed);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        pinned.join().unwrap();
    });
}

/// Neither the default hash function nor the place of a hash in the table can be foretold.
#[test]
fn two_processes_order_the_same_keys_differently() {
    let order = || {
        printed(|| {
            let hashed: HashMap<u32, ()> = (0..32).map(|k| (k, ())).collect();
            let placed = HashMap::with_hasher(Hashes::Identity);
            (0..32u32).for_each(|k| _ = placed.insert(k, ()));
            let hash = std::hash::BuildHasher::hash_one(hashed.hasher(), 1);
            let placed: Vec<_> = placed.keys().collect();
            println!("orders: {hash:x} {placed:?}");
        })
    };
    let parts = |text: String| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("orders: ").map(str::to_owned));
        let line = line.expect("printed");
        line.split_once(' ')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap()
    };
    if let (Some(one), Some(other)) = (order(), order()) {
        let (one, other) = (parts(one), parts(other));
        assert!(one.0 != other.0 && one.1 != other.1, "{one:?}");
    }
}
