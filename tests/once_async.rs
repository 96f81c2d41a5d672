//! What tasks may rely on in an `OnceMap`: the asynchronous methods, among each other and beside the blocking ones.
#![cfg(all(feature = "async", not(loom)))]

mod support;

use std::future::{self, Future, poll_fn};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures_executor::block_on;
use quince::OnceMap;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use support::fickle::Fickle;
use support::hashers::Hashes;
use support::{Random, race, size, watchdog};

type Map = OnceMap<u32, u32, Hashes>;

fn shared(hashes: Hashes) -> Arc<Map> {
    Arc::new(Map::with_hasher(hashes))
}

/// The runtimes that all must hold on: one thread, and several.
fn runtimes() -> [Runtime; 2] {
    let one = Builder::new_current_thread().enable_time().build();
    let four = Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build();
    [one, four].map(|runtime| runtime.expect("a runtime"))
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Counts how often a task was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Wakes {
    fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::<Self>::default();
        (Arc::clone(&wakes), wakes.into())
    }

    fn take(&self) -> usize {
        self.0.swap(0, Ordering::AcqRel)
    }
}

/// What an initialiser waits for: it is given once.
#[derive(Clone, Default)]
struct Signal(Arc<Mutex<(bool, Option<Waker>)>>);

impl Signal {
    fn give(&self) {
        let mut signal = self.0.lock().unwrap();
        signal.0 = true;
        let waker = signal.1.take();
        drop(signal);
        waker.into_iter().for_each(Waker::wake);
    }

    async fn wait(&self) {
        poll_fn(|context| {
            let mut signal = self.0.lock().unwrap();
            if signal.0 {
                return Poll::Ready(());
            }
            signal.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// An initialiser that waits for a signal.
fn waits_for(
    signal: &Signal,
    value: u32,
) -> impl FnOnce() -> Pin<Box<dyn Future<Output = u32> + Send>> + Send + use<> {
    let signal = signal.clone();
    move || {
        Box::pin(async move {
            signal.wait().await;
            value
        })
    }
}

/// Counts itself out when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The message of a panic.
fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

// ---- Once ------------------------------------------------------------------------------------------------------

#[test]
fn a_thousand_tasks_share_one_initialiser() {
    let _watchdog = watchdog::start();
    for runtime in runtimes() {
        for hashes in [Hashes::Good, Hashes::Constant] {
            let (map, runs) = (shared(hashes), Arc::new(AtomicU32::new(0)));
            runtime.block_on(async {
                let ask = |_| {
                    let (map, runs) = (Arc::clone(&map), Arc::clone(&runs));
                    tokio::spawn(async move {
                        let init = move || async move {
                            yield_now().await;
                            tokio::time::sleep(Duration::from_millis(1)).await;
                            runs.fetch_add(1, Ordering::Relaxed) + 7
                        };
                        map.get_or_init_async(1, init).await
                    })
                };
                for task in (0..1_000).map(ask).collect::<Vec<_>>() {
                    assert_eq!(task.await.unwrap(), 7);
                }
            });
            assert_eq!((runs.load(Ordering::Relaxed), map.len()), (1, 1));
        }
    }
}

#[test]
fn sixty_four_threads_and_executors_share_one_initialiser() {
    for hashes in [Hashes::Good, Hashes::Constant] {
        let (map, runs, signal) = (
            shared(hashes),
            Arc::new(AtomicU32::new(0)),
            Signal::default(),
        );
        let begun = AtomicU32::new(0);
        race(65, |thread| {
            if thread == 64 {
                while begun.load(Ordering::Acquire) < 64 {
                    thread::yield_now();
                }
                return signal.give();
            }
            begun.fetch_add(1, Ordering::AcqRel);
            let (runs, signal) = (Arc::clone(&runs), signal.clone());
            let value = block_on(map.get_or_init_async(1, || async move {
                signal.wait().await;
                runs.fetch_add(1, Ordering::Relaxed) + 7
            }));
            assert_eq!(value, 7);
        });
        assert_eq!((runs.load(Ordering::Relaxed), map.len()), (1, 1));
    }
}

/// A caller arrives while another one finishes; every second initialiser waits once, every third one fails.
#[test]
fn callers_that_come_and_go_at_any_moment_make_each_value_once() {
    for (hashes, keys) in [
        (Hashes::Good, size(200_000)),
        (Hashes::Constant, size(1_000)),
    ] {
        let keys = keys as u32;
        let map = shared(hashes);
        let runs: Arc<[AtomicU32]> = (0..keys).map(|_| AtomicU32::new(0)).collect();
        let failures = race(4, |thread| {
            let mut failures = 0;
            for key in 0..keys {
                let own = Arc::clone(&runs);
                let init = move || async move {
                    if key % 2 == 0 {
                        yield_once().await;
                    }
                    let run = own[key as usize].fetch_add(1, Ordering::Relaxed);
                    if key % 3 == 0 && run == 0 {
                        Err(thread)
                    } else {
                        Ok(run)
                    }
                };
                let made = if (key as usize + thread) % 5 == 0 {
                    // Blocks the thread instead, and runs the initialiser there.
                    map.get_or_try_init(key, || block_on(init()))
                } else {
                    block_on(map.get_or_try_init_async(key, init))
                };
                match made {
                    Ok(run) => assert_eq!(run, u32::from(key % 3 == 0)),
                    Err(failed) => {
                        assert_eq!(failed, thread, "another caller's error");
                        failures += 1;
                    }
                }
            }
            failures
        });
        assert_eq!(failures.into_iter().sum::<u32>(), keys.div_ceil(3));
        let expected = |key| if key % 3 == 0 { 2 } else { 1 };
        assert!(
            (0..)
                .zip(&*runs)
                .all(|(key, runs)| runs.load(Ordering::Relaxed) == expected(key))
        );
        assert_eq!(
            (map.len(), map.iter().count()),
            (keys as usize, keys as usize)
        );
    }
}

async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn an_initialiser_that_does_not_end_delays_nothing_but_its_key() {
    let _watchdog = watchdog::start();
    for runtime in runtimes() {
        let (map, signal) = (shared(Hashes::Constant), Signal::default());
        runtime.block_on(async {
            let mut slow = Box::pin(map.get_or_init_async(0, waits_for(&signal, 7)));
            assert!(poll(&mut slow).is_pending());
            for key in 1..100 {
                assert_eq!(
                    map.get_or_init_async(key, move || future::ready(key)).await,
                    key
                );
                assert_eq!(map.get_or_init(1_000 + key, || key), key);
                assert_eq!(map.wait_async(&key).await, Some(key));
            }
            assert_eq!(
                (map.get(&0), map.remove(&0), map.contains_key(&0)),
                (None, None, false)
            );
            assert!(map.iter().all(|(key, _)| key != 0));
            map.clear();
            assert!(map.is_empty());
            signal.give();
            assert_eq!(slow.await, 7);
            assert_eq!(map.iter().collect::<Vec<_>>(), [(0, 7)]);
        });
    }
}

// ---- Who drives ------------------------------------------------------------------------------------------------

#[test]
fn an_initialiser_is_polled_once_each_time_it_is_woken_however_many_wait() {
    let (map, signal, polls) = (
        shared(Hashes::Good),
        Signal::default(),
        Arc::new(AtomicUsize::new(0)),
    );
    let (wakes, waker) = Wakes::new();
    let wait = |_| {
        let (signal, polls) = (signal.clone(), Arc::clone(&polls));
        let counted = move || async move {
            let mut waiting = pin!(signal.wait());
            poll_fn(|context| {
                polls.fetch_add(1, Ordering::Relaxed);
                waiting.as_mut().poll(context)
            })
            .await;
            7
        };
        Box::pin(map.get_or_init_async(1, counted))
    };
    let mut callers: Vec<_> = (0..10).map(wait).collect();
    for _ in 0..3 {
        assert!(
            callers
                .iter_mut()
                .all(|caller| poll_with(caller, &waker).is_pending())
        );
        assert_eq!((polls.load(Ordering::Relaxed), wakes.take()), (1, 0));
    }
    signal.give();
    assert_eq!(wakes.take(), 10, "each of them can drive it on");
    // The maker comes last.
    assert!(
        callers
            .iter_mut()
            .rev()
            .all(|caller| poll_with(caller, &waker) == Poll::Ready(7))
    );
    assert_eq!(polls.load(Ordering::Relaxed), 2);
}

/// Or its caller would starve the other tasks of its thread.
#[test]
fn an_initialiser_that_wakes_itself_is_polled_once_a_turn() {
    let (map, polls) = (shared(Hashes::Good), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&polls);
    let init = || {
        poll_fn(move |context| {
            if counted.fetch_add(1, Ordering::Relaxed) == 4 {
                return Poll::Ready(7);
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    };
    let ((wakes, waker), (other_wakes, other_waker)) = (Wakes::new(), Wakes::new());
    let mut maker = Box::pin(map.get_or_init_async(1, init));
    let mut other = Box::pin(map.get_or_init_async(1, future::pending));
    assert!(poll_with(&mut maker, &waker).is_pending());
    assert_eq!((polls.load(Ordering::Relaxed), wakes.take()), (1, 1));
    assert!(poll_with(&mut other, &other_waker).is_pending());
    assert_eq!((polls.load(Ordering::Relaxed), other_wakes.take()), (2, 1));
    assert!(poll_with(&mut maker, &waker).is_pending());
    assert!(poll_with(&mut maker, &waker).is_pending());
    assert_eq!(polls.load(Ordering::Relaxed), 4);
    assert_eq!(poll_with(&mut other, &other_waker), Poll::Ready(7));
    assert!(wakes.take() > 0);
    assert_eq!(poll_with(&mut maker, &waker), Poll::Ready(7));
    assert_eq!(polls.load(Ordering::Relaxed), 5);
}

type Asked = Pin<Box<dyn Future<Output = u32> + Send>>;

/// What may become of a caller's future that will not be polled again. What it returns is dropped by the test.
type Abandon = fn(Asked) -> Option<Asked>;

const ABANDONED: [Abandon; 3] = [
    Some,
    |future| {
        mem::forget(future);
        None
    },
    |future| {
        drop(future);
        None
    },
];

#[test]
fn a_caller_who_is_never_polled_again_stops_nobody() {
    let _watchdog = watchdog::start();
    for abandon in ABANDONED {
        let (map, signal, runs) = (
            shared(Hashes::Good),
            Signal::default(),
            Arc::new(AtomicU32::new(0)),
        );
        let init = |result: u32| {
            let (runs, signal) = (Arc::clone(&runs), signal.clone());
            move || async move {
                runs.fetch_add(1, Ordering::Relaxed);
                signal.wait().await;
                result
            }
        };
        let mut maker: Asked = Box::pin({
            let (map, init) = (Arc::clone(&map), init(7));
            async move { map.get_or_init_async(1, init).await }
        });
        assert!(poll(&mut maker).is_pending());
        let mut second = Box::pin(map.get_or_init_async(1, init(8)));
        let (wakes, waker) = Wakes::new();
        assert!(poll_with(&mut second, &waker).is_pending());
        let _kept = abandon(maker);
        assert!(poll_with(&mut second, &waker).is_pending());
        signal.give();
        assert!(wakes.take() > 0, "the second is not told");
        assert_eq!(poll_with(&mut second, &waker), Poll::Ready(7));
        assert_eq!(block_on(map.get_or_init_async(1, init(9))), 7);
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }
}

/// Nor those who come when nobody but it is left.
#[test]
fn who_comes_after_an_abandoned_caller_drives_its_initialiser() {
    let _watchdog = watchdog::start();
    let (map, signal) = (shared(Hashes::Good), Signal::default());
    let mut maker = Box::pin(map.get_or_init_async(1, waits_for(&signal, 7)));
    assert!(poll(&mut maker).is_pending());
    mem::forget(maker);
    signal.give();
    assert_eq!(block_on(map.get_or_init_async(1, || async { 8 })), 7);
}

/// Threads that block in the middle of a poll, one at a time.
struct Held(Mutex<(Sender<()>, mpsc::Receiver<()>)>);

/// The caller who polls the initialiser is never polled again. While it polls, the initialiser is woken, and another caller
/// who is told of it finds it being polled: that one must be told once more.
#[test]
fn who_was_turned_away_by_a_caller_who_polls_does_not_depend_on_it() {
    let _watchdog = watchdog::start();
    for abandon in ABANDONED {
        let map = shared(Hashes::Good);
        let ((polled, is_polled), (release, released)) = (mpsc::channel(), mpsc::channel());
        let held = Held(Mutex::new((polled, released)));
        let (ready, stored) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Mutex::new(None::<Waker>)),
        );
        let init = {
            let (ready, stored) = (Arc::clone(&ready), Arc::clone(&stored));
            move || {
                let mut first = true;
                poll_fn(move |context| {
                    if mem::take(&mut first) {
                        *stored.lock().unwrap() = Some(context.waker().clone());
                        let held = held.0.lock().unwrap();
                        held.0.send(()).unwrap();
                        held.1.recv().unwrap();
                        return Poll::Pending;
                    }
                    assert!(ready.load(Ordering::Acquire));
                    Poll::Ready(7)
                })
            }
        };
        let maker: Asked = Box::pin({
            let map = Arc::clone(&map);
            async move { map.get_or_init_async(1, init).await }
        });
        let mut second = Box::pin(map.get_or_init_async(1, || async { 8 }));
        let (wakes, waker) = Wakes::new();
        thread::scope(|scope| {
            let polling = scope.spawn(move || {
                let mut maker = maker;
                assert!(poll(&mut maker).is_pending());
                maker
            });
            is_polled.recv().unwrap();
            assert!(poll_with(&mut second, &waker).is_pending());
            ready.store(true, Ordering::Release);
            stored.lock().unwrap().take().unwrap().wake();
            if wakes.take() > 0 {
                assert!(poll_with(&mut second, &waker).is_pending());
            }
            release.send(()).unwrap();
            let _kept = abandon(polling.join().unwrap());
            assert!(wakes.take() > 0, "the second is not told");
            assert_eq!(poll_with(&mut second, &waker), Poll::Ready(7));
        });
    }
}

// ---- Cancellation ----------------------------------------------------------------------------------------------

#[test]
fn the_initialiser_goes_when_its_last_caller_goes() {
    let (map, live) = (shared(Hashes::Good), Arc::new(AtomicUsize::new(0)));
    let caller = || {
        let counted = Counted::new(&live);
        Box::pin(map.get_or_init_async(1, || async move {
            let _counted = counted;
            future::pending().await
        }))
    };
    let mut callers: Vec<_> = (0..4).map(|_| caller()).collect();
    assert!(callers.iter_mut().all(|caller| poll(caller).is_pending()));
    for left in (1..4).rev() {
        drop(callers.remove(0));
        // One of the maker's, and one each of the others, whose own have not begun.
        assert_eq!(live.load(Ordering::Relaxed), left + 1);
        assert!(callers.iter_mut().all(|caller| poll(caller).is_pending()));
        assert!(map.is_empty() && map.iter().next().is_none());
    }
    drop(callers);
    assert_eq!((live.load(Ordering::Relaxed), map.len()), (0, 0));
    assert_eq!(map.wait(&1), None, "the key is absent again");
    assert_eq!(map.get_or_init(1, || 7), 7);
}

#[test]
fn a_hundred_thousand_cancelled_keys_leave_an_empty_map() {
    for runtime in runtimes() {
        let (map, live) = (shared(Hashes::Good), Arc::new(AtomicUsize::new(0)));
        let _watchdog = watchdog::start();
        runtime.block_on(async {
            let cancel = |task: u32| {
                let (map, live) = (Arc::clone(&map), Arc::clone(&live));
                tokio::spawn(async move {
                    for key in 0..size(100_000) as u32 / 4 {
                        let counted = Counted::new(&live);
                        let init = || async move {
                            let _counted = counted;
                            future::pending().await
                        };
                        let mut caller = Box::pin(map.get_or_init_async(key * 4 + task, init));
                        assert!(poll(&mut caller).is_pending());
                    }
                })
            };
            for task in (0..4).map(cancel).collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
        assert_eq!(
            (live.load(Ordering::Relaxed), map.len(), map.iter().count()),
            (0, 0, 0)
        );
        assert!(map.is_empty());
    }
}

/// Tasks are dropped after any number of polls, threads come in between. At any time one initialiser of a key is there at
/// most, who stays to the end gets the one value, and nothing is left of those who went.
#[test]
fn callers_that_are_cancelled_at_random_harm_nobody() {
    const KEYS: u32 = 4;
    let map = shared(Hashes::Good);
    let (live, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU32::new(0)));
    let inside: Arc<[Arc<AtomicUsize>]> = (0..KEYS).map(|_| Arc::default()).collect();
    let removed = race(4, |thread| {
        let mut random = Random::new(thread as u64);
        let mut removed = 0;
        for _ in 0..size(200_000) {
            let (key, turns, polls) = (random.below(KEYS), random.below(4), random.below(5));
            let (inside, made, counted) = (
                Arc::clone(&inside[key as usize]),
                Arc::clone(&made),
                Counted::new(&live),
            );
            let init = move || async move {
                let _counted = counted;
                assert_eq!(inside.load(Ordering::Acquire), 0, "two at a time");
                let _inside = Counted::new(&inside);
                for _ in 0..turns {
                    yield_once().await;
                }
                made.fetch_add(1, Ordering::Relaxed)
            };
            match random.below(8) {
                0 => removed += u32::from(map.remove(&key).is_some()),
                1 => _ = block_on(map.get_or_init_async(key, init)),
                2 => _ = block_on(map.wait_async(&key)),
                _ => {
                    let mut caller = Box::pin(map.get_or_init_async(key, init));
                    for _ in 0..polls {
                        if poll(&mut caller).is_ready() {
                            break;
                        }
                    }
                }
            }
        }
        removed
    });
    assert_eq!(map.len(), map.iter().count());
    assert_eq!(live.load(Ordering::Relaxed), 0, "an initialiser is left");
    let removed = removed.into_iter().sum::<u32>();
    assert_eq!(
        made.load(Ordering::Relaxed),
        removed + map.len() as u32,
        "a value got lost"
    );
}

// ---- Failure ---------------------------------------------------------------------------------------------------

#[test]
fn an_error_is_its_callers_own_whoever_drives_and_one_after_the_other_tries() {
    let (map, signal) = (shared(Hashes::Good), Signal::default());
    let (wakes, waker) = Wakes::new();
    let caller = |number: u32| {
        let signal = signal.clone();
        let init = move || async move {
            signal.wait().await;
            if number < 5 { Err(number) } else { Ok(number) }
        };
        Box::pin(map.get_or_try_init_async(1, init))
    };
    let mut callers: Vec<_> = (0..8).map(caller).collect();
    assert!(
        callers
            .iter_mut()
            .all(|caller| poll_with(caller, &waker).is_pending())
    );
    signal.give();
    let mut told = [None; 8];
    // The last ones drive the first one's.
    while wakes.take() > 0 {
        for (caller, told) in callers
            .iter_mut()
            .zip(&mut told)
            .rev()
            .filter(|(_, told)| told.is_none())
        {
            if let Poll::Ready(outcome) = poll_with(caller, &waker) {
                *told = Some(outcome);
            }
        }
    }
    let value = map.get(&1).expect("one of them made it");
    assert!(value >= 5);
    for (number, told) in (0..).zip(told) {
        let told = told.expect("nobody is left waiting");
        assert!(
            told == Ok(value) || told == Err(number),
            "{number} is told {told:?}"
        );
    }
}

#[test]
fn a_panic_is_its_callers_own_whoever_drives() {
    for cancelled in [false, true] {
        let (map, signal) = (shared(Hashes::Good), Signal::default());
        let given = signal.clone();
        let mut maker = Box::pin(map.get_or_init_async(1, || async move {
            given.wait().await;
            resume_unwind(Box::new("the maker's"))
        }));
        assert!(poll(&mut maker).is_pending());
        let mut other = Box::pin(map.get_or_init_async(1, || async { 8 }));
        assert!(poll(&mut other).is_pending());
        signal.give();
        if cancelled {
            drop(maker);
            assert_eq!(poll(&mut other), Poll::Ready(8));
        } else {
            assert_eq!(poll(&mut other), Poll::Ready(8));
            let panic = catch_unwind(AssertUnwindSafe(|| poll(&mut maker))).expect_err("no panic");
            assert_eq!(message(panic), "the maker's");
        }
        assert_eq!((map.get(&1), map.len()), (Some(8), 1));
    }
}

/// Of a value or an error that no caller wants any more, or of what the initialiser holds when it is given up.
#[test]
fn a_panicking_destructor_leaves_nobody_waiting() {
    #[derive(Clone)]
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if mem::take(&mut self.0) {
                resume_unwind(Box::new("dropped"));
            }
        }
    }
    let _watchdog = watchdog::start();
    let (map, signal) = (shared(Hashes::Good), Signal::default());
    let given = signal.clone();
    let mut maker = Box::pin(map.get_or_try_init_async(1, || async move {
        given.wait().await;
        Err(Bomb(true))
    }));
    assert!(poll(&mut maker).is_pending());
    let mut other = Box::pin(map.get_or_init_async(1, || async { 8 }));
    assert!(poll(&mut other).is_pending());
    let mut third = Box::pin(map.get_or_init_async(1, || async { 9 }));
    assert!(poll(&mut third).is_pending());
    drop(maker);
    signal.give();
    let panic = catch_unwind(AssertUnwindSafe(|| poll(&mut other))).expect_err("no panic");
    assert_eq!(message(panic), "dropped");
    assert_eq!(poll(&mut third), Poll::Ready(9));

    let bomb = Bomb(true);
    let mut maker = Box::pin(map.get_or_init_async(2, || async move {
        let _bomb = bomb;
        future::pending().await
    }));
    assert!(poll(&mut maker).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(maker))).is_err());
    assert_eq!(block_on(map.get_or_init_async(2, || async { 7 })), 7);
    assert_eq!(map.len(), 2);
}

#[test]
fn a_value_whose_clone_panics_is_not_made() {
    #[derive(Debug)]
    struct Stubborn(bool);
    impl Clone for Stubborn {
        fn clone(&self) -> Self {
            if self.0 {
                resume_unwind(Box::new("no clone"));
            }
            Self(false)
        }
    }
    let map = OnceMap::new();
    let mut maker = Box::pin(map.get_or_init_async("key", || async {
        yield_once().await;
        Stubborn(true)
    }));
    assert!(poll(&mut maker).is_pending());
    let mut other = Box::pin(map.get_or_init_async("key", || async { Stubborn(false) }));
    assert!(poll(&mut other).is_ready());
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut maker))).is_err());
    assert_eq!(map.len(), 1);
}

#[test]
fn a_key_that_cannot_be_hashed_any_more_keeps_nobody_waiting() {
    let _watchdog = watchdog::start();
    for cancelled in [false, true] {
        let (map, key, signal) = (OnceMap::new(), Fickle::new(1), Signal::default());
        let mut maker = Box::pin(map.get_or_init_async(key.clone(), waits_for(&signal, 7)));
        assert!(poll(&mut maker).is_pending());
        let mut other = Box::pin(map.get_or_init_async(Fickle::new(1), || async { 8 }));
        let mut third = Box::pin(map.get_or_init_async(Fickle::new(1), || async { 9 }));
        let (wakes, waker) = Wakes::new();
        if !cancelled {
            assert!(poll_with(&mut other, &waker).is_pending());
            assert!(poll_with(&mut third, &waker).is_pending());
        }
        key.break_hash();
        if cancelled {
            drop(maker);
        } else {
            signal.give();
            // The value is made, and cannot be published.
            let polled = catch_unwind(AssertUnwindSafe(|| poll(&mut maker)));
            assert!(polled.is_err());
            assert!(wakes.take() > 0);
        }
        assert_eq!(map.len(), 0);
        assert_eq!(block_on(other), 8);
        assert_eq!(block_on(third), 8);
        assert_eq!((map.len(), map.iter().count()), (1, 1));
    }
}

// ---- Threads and tasks -----------------------------------------------------------------------------------------

#[test]
fn a_thread_takes_over_from_a_cancelled_task_and_a_task_from_a_failed_thread() {
    let map = shared(Hashes::Good);
    for (outcome, key) in [(None, 1), (Some(7), 2)] {
        let signal = Signal::default();
        let mut maker = Box::pin(map.get_or_init_async(key, waits_for(&signal, 7)));
        assert!(poll(&mut maker).is_pending());
        let asking = AtomicBool::new(false);
        thread::scope(|scope| {
            let ask = scope.spawn(|| {
                asking.store(true, Ordering::Release);
                map.get_or_init(key, || 8)
            });
            let wait = scope.spawn(|| map.wait(&key));
            while !asking.load(Ordering::Acquire) {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(5));
            match outcome {
                None => drop(maker),
                Some(_) => {
                    signal.give();
                    assert_eq!(block_on(maker), 7);
                }
            }
            assert_eq!(ask.join().unwrap(), outcome.unwrap_or(8));
            let waited = wait.join().unwrap();
            assert!(waited == outcome || waited == Some(8));
        });
    }

    let _watchdog = watchdog::start();
    let (wakes, waker) = Wakes::new();
    let mut task = Box::pin(map.get_or_init_async(3, || async { 9 }));
    let mut waiting = Box::pin(map.wait_async(&3));
    let failed = map.get_or_try_init(3, || {
        // Their polls are not those of the initialiser's thread.
        thread::scope(|scope| {
            scope.spawn(|| assert!(poll_with(&mut task, &waker).is_pending()));
            scope.spawn(|| assert!(poll_with(&mut waiting, &waker).is_pending()));
        });
        Err("failed")
    });
    assert_eq!(failed, Err("failed"));
    assert_eq!(wakes.take(), 2);
    assert_eq!(poll(&mut waiting), Poll::Ready(None));
    assert_eq!(poll(&mut task), Poll::Ready(9));
}

#[test]
fn waiting_makes_nothing() {
    let (map, signal) = (shared(Hashes::Good), Signal::default());
    assert_eq!(block_on(map.wait_async(&1)), None);
    let mut maker = Box::pin(map.get_or_init_async(1, waits_for(&signal, 7)));
    assert!(poll(&mut maker).is_pending());
    let mut waiting = Box::pin(map.wait_async(&1));
    assert!(poll(&mut waiting).is_pending());
    // But it drives.
    mem::forget(maker);
    signal.give();
    assert_eq!(poll(&mut waiting), Poll::Ready(Some(7)));

    let mut maker = Box::pin(map.get_or_init_async(2, future::pending));
    assert!(poll(&mut maker).is_pending());
    let mut waiting = Box::pin(map.wait_async(&2));
    assert!(poll(&mut waiting).is_pending());
    drop(maker);
    assert!(poll(&mut waiting).is_pending(), "it keeps the initialiser");
    drop(waiting);
    assert_eq!((map.get(&2), map.len()), (None, 1));
}

// ---- Re-entry --------------------------------------------------------------------------------------------------

const RECURSION: &str = "the initialiser of a key waits for the value of the same key";

#[test]
fn an_initialiser_that_asks_for_its_own_key_panics() {
    type AskAgain = fn(Arc<Map>) -> Pin<Box<dyn Future<Output = u32> + Send>>;
    let ways: [AskAgain; 4] = [
        |map| Box::pin(async move { map.get_or_init_async(1, || async { 8 }).await }),
        |map| Box::pin(async move { map.wait_async(&1).await.unwrap_or(0) }),
        |map| Box::pin(async move { map.get_or_init(1, || 8) }),
        |map| {
            let inner = Arc::clone(&map);
            let other = || async move { inner.get_or_init_async(1, || async { 8 }).await };
            Box::pin(async move { map.get_or_init_async(2, other).await })
        },
    ];
    let _watchdog = watchdog::start();
    for ask_again in ways {
        let map = shared(Hashes::Good);
        let inner = Arc::clone(&map);
        let recurse = map.get_or_init_async(1, move || async move {
            yield_once().await;
            ask_again(inner).await
        });
        let panic = catch_unwind(AssertUnwindSafe(|| block_on(recurse))).expect_err("no panic");
        assert_eq!(message(panic), RECURSION);
        assert!(map.is_empty());
        assert_eq!(block_on(map.get_or_init_async(1, || async { 9 })), 9);
        assert_eq!(block_on(map.get_or_init_async(2, || async { 9 })), 9);
    }
}

#[test]
fn an_initialiser_may_ask_for_other_keys_a_hundred_deep() {
    fn descend(map: Arc<Map>, key: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
        Box::pin(async move {
            let inner = Arc::clone(&map);
            let init = move || async move {
                yield_once().await;
                if key == 0 {
                    0
                } else {
                    descend(inner, key - 1).await + 1
                }
            };
            map.get_or_init_async(key, init).await
        })
    }
    let _watchdog = watchdog::start();
    for runtime in runtimes() {
        let map = shared(Hashes::Good);
        runtime.block_on(async {
            let deep = |task: u32| tokio::spawn(descend(Arc::clone(&map), 100 + task));
            for (task, deep) in (0..8).zip((0..8).map(deep).collect::<Vec<_>>()) {
                assert_eq!(deep.await.unwrap(), 100 + task);
            }
        });
        assert_eq!(map.len(), 108);
    }
}

// ---- Runtimes --------------------------------------------------------------------------------------------------

#[test]
fn the_futures_move_between_threads() {
    fn send<T: Send>(future: T) -> T {
        future
    }
    let map = OnceMap::<String, Vec<u8>>::new();
    let init = || async { Ok::<_, Box<dyn std::error::Error + Send>>(Vec::new()) };
    drop(send(
        map.get_or_init_async(String::new(), || async { Vec::new() }),
    ));
    drop(send(map.get_or_try_init_async(String::new(), init)));
    drop(send(map.wait_async("")));
}

#[test]
fn a_caller_that_times_out_or_loses_a_selection_leaves_the_initialiser_to_the_others() {
    let _watchdog = watchdog::start();
    for runtime in runtimes() {
        let (map, signal, runs) = (
            shared(Hashes::Good),
            Signal::default(),
            Arc::new(AtomicU32::new(0)),
        );
        let ask = || {
            let (map, signal, runs) = (Arc::clone(&map), signal.clone(), Arc::clone(&runs));
            async move {
                let init = || async move {
                    runs.fetch_add(1, Ordering::Relaxed);
                    signal.wait().await;
                    7
                };
                map.get_or_init_async(1, init).await
            }
        };
        runtime.block_on(async {
            let impatient = tokio::time::timeout(Duration::from_millis(5), ask());
            let patient = tokio::spawn(ask());
            assert!(impatient.await.is_err());
            tokio::select! {
                biased;
                _ = ask() => panic!("nobody gave the signal"),
                () = yield_now() => {}
            }
            let aborted = tokio::spawn(ask());
            yield_now().await;
            aborted.abort();
            assert!(aborted.await.is_err_and(|error| error.is_cancelled()));
            signal.give();
            assert_eq!(patient.await.unwrap(), 7);
        });
        assert_eq!((runs.load(Ordering::Relaxed), map.get(&1)), (1, Some(7)));
    }
}

/// A runtime goes down with all its tasks: who asks afterwards makes the value anew.
#[test]
fn a_runtime_that_shuts_down_takes_its_initialisers_along() {
    let _watchdog = watchdog::start();
    for runtime in runtimes() {
        let (map, live) = (shared(Hashes::Good), Arc::new(AtomicUsize::new(0)));
        runtime.block_on(async {
            for _ in 0..10 {
                let (map, counted) = (Arc::clone(&map), Counted::new(&live));
                tokio::spawn(async move {
                    let init = || async move {
                        let _counted = counted;
                        tokio::time::sleep(Duration::from_secs(1_000)).await;
                        7
                    };
                    map.get_or_init_async(1, init).await
                });
            }
            yield_now().await;
        });
        drop(runtime);
        assert_eq!((live.load(Ordering::Relaxed), map.len()), (0, 0));
        assert_eq!(block_on(map.get_or_init_async(1, || async { 8 })), 8);
    }
}
