//! Many threads for a given time on maps that grow, shrink and churn: everything that may go on at once goes on, and
//! nothing is lost.
//!
//! A run consists of lives, one map each, with good and bad hash functions in turn; a life consists of rounds, after
//! each of which the threads rest and the whole map is compared with what must be there. Keys are a fixed number, so
//! a run takes as much memory after an hour as after a minute; what the ledger may take ends a life.
//!
//! `QUINCE_SOAK_SECONDS` and `QUINCE_SOAK_THREADS` say how long and how many for
//! `cargo test --release --test soak -- --ignored --nocapture`.
#![cfg(not(any(loom, miri)))] // in real time

mod support;

use std::env;
use std::fmt;
use std::iter;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use support::hashers::Hashes;
use support::ledger::{self, Event, Ledger};
use support::ops::{Map, Model, Op, PinnedVerb, Stored, Verb};
use support::{Random, race};

#[test]
fn a_few_seconds_of_everything_lose_nothing() {
    soak(Duration::from_secs(4), 32);
}

#[test]
#[ignore = "as long as QUINCE_SOAK_SECONDS says"]
fn a_long_time_of_everything_loses_nothing() {
    let number = |name, default| {
        env::var(name).map_or(default, |number| number.parse().expect("a whole number"))
    };
    let seconds = number("QUINCE_SOAK_SECONDS", 60);
    soak(
        Duration::from_secs(seconds),
        number("QUINCE_SOAK_THREADS", 32) as u32,
    );
}

fn soak(duration: Duration, threads: u32) {
    // Flushing frees all only if nobody else in the process is pinned.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let start = Instant::now();
    let tally = Tally::default();
    let life = (duration / 10).clamp(Duration::from_millis(500), Duration::from_secs(180));
    for (number, &hashes) in (0..).zip(Hashes::HONEST.iter().cycle()) {
        if start.elapsed() >= duration {
            break;
        }
        live(number, hashes, threads, life, &tally);
        println!("{:>6.0?} {tally}", start.elapsed());
    }
    println!(
        "{threads} threads, {:.1?}: {tally}; nothing lost",
        start.elapsed()
    );
}

/// What happened, over all lives.
#[derive(Default)]
struct Tally {
    turns: AtomicU64,
    lives: AtomicU64,
    rounds: AtomicU64,
    resizes: AtomicU64,
    armed: AtomicU64,
    survived: AtomicU64,
    instances: AtomicU64,
    /// The most that there were after a round.
    entries: AtomicU64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        write!(
            f,
            "{} turns, {} lives, {} rounds, up to {} entries, {} changes of the capacity seen, \
             {} faults armed, {} panics survived, {} keys and values made and dropped",
            of(&self.turns),
            of(&self.lives),
            of(&self.rounds),
            of(&self.entries),
            of(&self.resizes),
            of(&self.armed),
            of(&self.survived),
            of(&self.instances),
        )
    }
}

/// The number of instances after which a life ends: the ledger takes a byte for each.
const MAX_INSTANCES: u32 = 1 << 28;

/// One map from its making to its drop.
fn live(number: u32, hashes: Hashes, threads: u32, life: Duration, tally: &Tally) {
    let end = Instant::now() + life;
    let round = (life / 2).min(Duration::from_secs(2));
    let ledger = Ledger::new();
    let mut map = Map::with_hasher(hashes);
    let hot = Hot::new(threads);
    // With a constant hash every operation walks past all entries.
    let keys = if hashes == Hashes::Constant { 8 } else { 2_000 };
    let partition = |owner| Mutex::new(Partition::new(owner, keys, number));
    let mut partitions: Vec<_> = (0..threads).map(partition).collect();
    for number in 0.. {
        if Instant::now() >= end || ledger.made() >= MAX_INSTANCES {
            break;
        }
        let scene = Scene {
            map: &map,
            ledger: &ledger,
            hot: &hot,
            tally,
            capacity: AtomicUsize::new(map.capacity()),
            start: Instant::now(),
            length: round,
        };
        hot.begin(&scene);
        race(threads as usize, |thread| {
            let mut partition = partitions[thread].lock().unwrap();
            // Sometimes one reader stays pinned the whole round.
            if thread == 0 && number % 8 == 7 {
                partition.hold(&scene, round);
            } else {
                partition.play(&scene);
            }
        });
        compare(&mut map, &mut partitions, &hot, &ledger, tally);
        tally.rounds.fetch_add(1, Ordering::Relaxed);
    }
    race(threads as usize, |thread| match thread % 3 {
        0 => map.clear(),
        1 => map.retain(|_, _| false),
        _ => map.keys().for_each(|key| drop(map.remove(&key))),
    });
    map.flush();
    assert_eq!((map.len(), map.iter().count()), (0, 0));
    assert!(map.is_empty());
    assert_eq!(ledger.live(), 0, "in an empty map");
    map.shrink_to_fit();
    assert!(map.capacity() < 8, "of an empty map");
    tally
        .instances
        .fetch_add(ledger.made().into(), Ordering::Relaxed);
    tally.lives.fetch_add(1, Ordering::Relaxed);
    drop(map);
    ledger.assert_balanced();
}

/// While all rest: the map holds what its users know of, and nothing else is alive.
fn compare<'l>(
    map: &mut Map<'l>,
    partitions: &mut [Mutex<Partition>],
    hot: &Hot,
    ledger: &'l Ledger,
    tally: &Tally,
) {
    let owned = |partition: &mut Mutex<Partition>| partition.get_mut().unwrap().model.clone();
    let mut model: Model = partitions.iter_mut().flat_map(owned).collect();
    let seen = partitions
        .iter_mut()
        .map(|partition| mem::take(&mut partition.get_mut().unwrap().raised));
    hot.compare(map, seen, &mut model);
    let all = Op::Pinned(Verb::Iter);
    assert_eq!(
        all.run(map, ledger),
        all.expected(&mut model),
        "after a round"
    );
    assert_eq!(map.len(), model.len(), "after a round");
    map.flush();
    let (live, entries) = (ledger.live() as usize, map.len());
    // A value made by `Default` is in no ledger.
    assert!((entries..=2 * entries).contains(&live), "{live} alive");
    let keys: usize = partitions
        .iter_mut()
        .map(|partition| partition.get_mut().unwrap().keys as usize)
        .sum();
    assert!(
        map.capacity() <= 8 * (keys + Hot::KEYS),
        "capacity {} for {keys} keys",
        map.capacity()
    );
    tally.entries.fetch_max(entries as u64, Ordering::Relaxed);
    // What takes exclusive access, on a copy, as some of it empties the map.
    let mut copy = map.clone();
    assert_eq!(copy, *map);
    for op in Op::every(0, 1).filter(|op| matches!(op, Op::Whole(_))) {
        assert_eq!(op.run(&mut copy, ledger), op.expected(&mut model), "{op:?}");
    }
}

/// What the threads of a round have before them.
struct Scene<'s, 'l> {
    map: &'s Map<'l>,
    ledger: &'l Ledger,
    hot: &'s Hot,
    tally: &'s Tally,
    /// When somebody looked last.
    capacity: AtomicUsize,
    start: Instant,
    length: Duration,
}

impl Scene<'_, '_> {
    fn is_over(&self) -> bool {
        self.start.elapsed() >= self.length
    }

    /// The map fills and empties in turn.
    fn is_filling(&self) -> bool {
        const WAVES: u32 = 3;
        let half_wave = self.length.as_micros() / u128::from(2 * WAVES);
        self.start.elapsed().as_micros() / half_wave % 2 == 0
    }

    /// `None` if user code was told to panic meanwhile, and did.
    fn survive<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        match panic::catch_unwind(AssertUnwindSafe(body)) {
            Ok(result) => Some(result),
            Err(panic) if ledger::is_blown(&*panic) => {
                self.tally.survived.fetch_add(1, Ordering::Relaxed);
                None
            }
            Err(panic) => panic::resume_unwind(panic),
        }
    }

    fn insist<R>(&self, mut body: impl FnMut() -> R) -> R {
        iter::repeat_with(|| self.survive(&mut body))
            .find_map(|result| result)
            .expect("endless")
    }

    fn look_up(&self, k: u32) -> Option<Stored> {
        self.insist(|| {
            let pinned = self.map.pin();
            let (key, value) = pinned.get_key_value(&self.ledger.probe(k, 0))?;
            Some(Stored {
                label: key.label(),
                value: value.number(),
            })
        })
    }
}

/// The keys that one thread alone changes, and what must be under them.
struct Partition {
    owner: u32,
    keys: u32,
    model: Model,
    random: Random,
    raised: Raised,
}

impl Partition {
    fn new(owner: u32, keys: u32, life: u32) -> Self {
        Self {
            owner,
            keys,
            model: Model::new(),
            random: Random::new(u64::from(life) << 32 | u64::from(owner)),
            raised: Raised::default(),
        }
    }

    fn play(&mut self, scene: &Scene<'_, '_>) {
        let mut turns = 0;
        while !scene.is_over() {
            (0..16).for_each(|_| self.turn(scene));
            turns += 16;
            let capacity = scene.map.capacity();
            if scene.capacity.swap(capacity, Ordering::Relaxed) != capacity {
                scene.tally.resizes.fetch_add(1, Ordering::Relaxed);
            }
        }
        scene.tally.turns.fetch_add(turns, Ordering::Relaxed);
    }

    fn turn(&mut self, scene: &Scene<'_, '_>) {
        match self.random.below(8_000) {
            0 => self.iterate(scene),
            1 => self.retain(scene),
            2 => self.keep_house(scene),
            3 => {
                let millis = self.random.below(20).into();
                self.hold(scene, Duration::from_millis(millis));
            }
            4..40 => self.be_interrupted(scene),
            40..1_000 => scene.hot.turn(scene, self),
            _ => self.change_one(scene),
        }
    }

    fn key(&mut self) -> u32 {
        self.owner * self.keys + self.random.below(self.keys)
    }

    fn owns(&self, k: u32) -> bool {
        k / self.keys == self.owner
    }

    /// An operation on one key, by either face: the answer is known.
    fn change_one(&mut self, scene: &Scene<'_, '_>) {
        let (k, v) = (self.key(), self.random.below(1_000));
        let op = match (self.random.below(2), scene.is_filling()) {
            (0, true) => Op::Pinned(Verb::Insert(k, v)),
            (0, false) => Op::Pinned(Verb::Remove(k)),
            _ => any_of_one_key(k, v, &mut self.random),
        };
        let before = self.model.get(&k).copied();
        let expected = op.expected(&mut self.model);
        match scene.survive(|| op.run_shared(scene.map, scene.ledger)) {
            Some(answer) => assert_eq!(answer, Some(expected), "{op:?}"),
            None => self.settle(scene, k, before),
        }
    }

    /// An operation which was interrupted by a panic was carried out or was not.
    fn settle(&mut self, scene: &Scene<'_, '_>, k: u32, before: Option<Stored>) {
        let (after, now) = (self.model.get(&k).copied(), scene.look_up(k));
        assert!(
            now == before || now == after,
            "{k} is {now:?}, not {before:?} or {after:?}"
        );
        match now {
            Some(stored) => self.model.insert(k, stored),
            None => self.model.remove(&k),
        };
    }

    /// User code panics, this thread's or another one's.
    fn be_interrupted(&mut self, scene: &Scene<'_, '_>) {
        // Not destructors: in one that runs while its thread unwinds already, that would be the end.
        let events = [Event::Closure, Event::Clone, Event::Eq, Event::Hash];
        let event = events[self.random.below(4) as usize];
        let n = 1 + self.random.below(4) as usize;
        scene.tally.armed.fetch_add(1, Ordering::Relaxed);
        // No panic comes out of there, so that `trip` cannot count them.
        scene.ledger.trip(event, n, || self.change_one(scene));
    }

    /// Sees no key twice, and this thread's keys as they are.
    fn iterate(&mut self, scene: &Scene<'_, '_>) {
        let owned = self.random.below(2) == 0;
        let mut seen: Vec<_> = scene.insist(|| match owned {
            true => scene.map.keys().map(|key| key.number()).collect(),
            false => scene.map.pin().keys().map(|key| key.number()).collect(),
        });
        seen.sort_unstable();
        assert!(seen.is_sorted_by(|a, b| a < b), "a key is seen twice");
        let mut known: Vec<_> = self.model.keys().copied().collect();
        known.sort_unstable();
        assert!(seen.into_iter().filter(|&k| self.owns(k)).eq(known));
    }

    fn retain(&mut self, scene: &Scene<'_, '_>) {
        let rest = self.random.below(3);
        let keeps = |value: u32| value % 3 != rest;
        let before = self.model.clone();
        self.model.retain(|_, stored| keeps(stored.value));
        let retained = scene.survive(|| {
            scene
                .map
                .retain(|key, value| !self.owns(key.number()) || keeps(value.number()));
        });
        if retained.is_none() {
            for (k, stored) in before {
                self.settle(scene, k, Some(stored));
            }
        }
    }

    fn keep_house(&mut self, scene: &Scene<'_, '_>) {
        match self.random.below(4) {
            0 => scene.map.shrink_to_fit(),
            1 => scene.map.reserve(self.random.below(4 * self.keys) as usize),
            2 => scene.map.flush(),
            _ => scene.map.pin().repin(),
        }
    }

    /// Keeps references while it waits and changes what they came from.
    fn hold(&mut self, scene: &Scene<'_, '_>, pause: Duration) {
        let pinned = scene.map.pin();
        let keys: Vec<_> = self.model.keys().copied().take(32).collect();
        let held: Vec<_> = keys
            .into_iter()
            .filter_map(|k| {
                let value = scene.insist(|| pinned.get(&scene.ledger.probe(k, 0)));
                Some((value?, self.model[&k].value))
            })
            .collect();
        (0..64).for_each(|_| self.change_one(scene));
        thread::sleep(pause);
        for (value, number) in held {
            assert_eq!(value.number(), number, "a reference changed");
        }
    }
}

/// One of all operations that concern the key `k` alone.
fn any_of_one_key(k: u32, v: u32, random: &mut Random) -> Op {
    let concerns_one = |op: &Op| match op {
        Op::Owned(verb) | Op::Pinned(verb) => !matches!(
            verb,
            Verb::Retain(_) | Verb::Clear | Verb::Iter | Verb::Keys | Verb::Values | Verb::Len
        ),
        Op::OnlyPinned(verb) => !matches!(verb, PinnedVerb::IsEmpty | PinnedVerb::Reserve(_)),
        Op::Repin | Op::FlushPinned | Op::Whole(_) => false,
    };
    let ops = || Op::every(k, v).filter(concerns_one);
    let chosen = random.below(ops().count() as u32);
    ops().nth(chosen as usize).expect("one of them")
}

/// Keys that all threads change.
struct Hot {
    /// Per counter and value that was put there by one of the threads: how often it was the settled one.
    settled: Vec<Vec<AtomicUsize>>,
    /// Who has won a prize and not given it back, from 1.
    holders: Vec<AtomicU32>,
}

/// What one thread knows of the keys that are only raised.
#[derive(Default)]
struct Raised {
    last_seen: [u32; Hot::EACH],
    by_me: [u32; Hot::EACH],
}

impl Hot {
    const EACH: usize = 8;
    const KEYS: usize = 3 * Self::EACH;
    const COUNTERS: u32 = 1 << 30;
    const RAISED: u32 = Self::COUNTERS + Self::EACH as u32;
    const PRIZES: u32 = Self::RAISED + Self::EACH as u32;

    fn new(threads: u32) -> Self {
        let counts = |_| (0..threads).map(|_| AtomicUsize::new(0)).collect();
        Self {
            settled: (0..Self::EACH).map(counts).collect(),
            holders: (0..Self::EACH).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn begin(&self, Scene { map, ledger, .. }: &Scene<'_, '_>) {
        for n in 0..Self::EACH as u32 {
            map.remove(&(Self::COUNTERS + n));
            map.insert(ledger.key(Self::RAISED + n, 0), ledger.value(0));
        }
    }

    fn turn(&self, scene: &Scene<'_, '_>, thread: &mut Partition) {
        let n = thread.random.below(Self::EACH as u32) as usize;
        match thread.random.below(3) {
            0 => self.count(scene, n, thread.owner),
            1 => Self::raise(scene, n, &mut thread.raised),
            _ => self.win(scene, n, thread.owner),
        }
    }

    /// All are given the value of the one that inserted, and count there.
    fn count(&self, scene: &Scene<'_, '_>, n: usize, thread: u32) {
        let Scene { map, ledger, .. } = scene;
        let key = || ledger.key(Self::COUNTERS + n as u32, 0);
        let settled = scene.insist(|| {
            let pinned = map.pin();
            pinned.get_or_insert(key(), ledger.value(thread)).number()
        });
        self.settled[n][settled as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Each successful update adds one, so that nobody sees a value go down.
    fn raise(scene: &Scene<'_, '_>, n: usize, raised: &mut Raised) {
        let Scene { map, ledger, .. } = scene;
        let probe = ledger.probe(Self::RAISED + n as u32, 0);
        let pinned = map.pin();
        let (old, new) = scene.insist(|| {
            let updated = pinned.get_and_update(&probe, |value| {
                ledger.tick(Event::Closure);
                ledger.value(value.number() + 1)
            });
            let (old, new) = updated.expect("never removed");
            (old.number(), new.number())
        });
        assert!(new == old + 1 && old >= raised.last_seen[n], "a value fell");
        raised.last_seen[n] = new;
        raised.by_me[n] += 1;
        let now = scene.insist(|| pinned.get(&probe).map(|value| value.number()));
        assert!(now >= Some(new), "a value fell");
    }

    /// Whoever inserts has the key alone until it removes it.
    fn win(&self, scene: &Scene<'_, '_>, n: usize, thread: u32) {
        let Scene { map, ledger, .. } = scene;
        let k = Self::PRIZES + n as u32;
        let pinned = map.pin();
        // A view's `try_insert` runs no user code once it has inserted.
        let won = scene.insist(|| {
            let inserted = pinned.try_insert(ledger.key(k, 0), ledger.value(thread));
            inserted.map(|value| value.number()).ok()
        });
        if won.is_some() {
            let before = self.holders[n].swap(thread + 1, Ordering::AcqRel);
            assert_eq!(before, 0, "two winners");
            thread::yield_now();
            assert_eq!(self.holders[n].swap(0, Ordering::AcqRel), thread + 1);
            let removed = scene.insist(|| pinned.remove(&ledger.probe(k, 0)).map(|v| v.number()));
            assert_eq!(removed, won, "somebody else's prize");
        }
    }

    /// Compares what is left of a round with what the threads have seen; adds it to `model`.
    fn compare(&self, map: &Map<'_>, threads: impl Iterator<Item = Raised>, model: &mut Model) {
        let now = |k: u32| map.get(&k).map(|value| value.number());
        for (k, settled) in (Self::COUNTERS..).zip(&self.settled) {
            let counted = |(value, count): (u32, &AtomicUsize)| {
                (count.swap(0, Ordering::Relaxed) > 0).then_some(value)
            };
            let winners: Vec<_> = (0..).zip(settled).filter_map(counted).collect();
            let stored = now(k);
            assert_eq!(winners, Vec::from_iter(stored), "who settled {k}");
            model.extend(stored.map(|value| (k, Stored { label: 0, value })));
        }
        let mut sums = [0; Self::EACH];
        for thread in threads {
            sums.iter_mut()
                .zip(thread.by_me)
                .for_each(|(sum, n)| *sum += n);
        }
        for (k, value) in (Self::RAISED..).zip(sums) {
            assert_eq!(now(k), Some(value), "updates of {k}");
            model.insert(k, Stored { label: 0, value });
        }
    }
}
