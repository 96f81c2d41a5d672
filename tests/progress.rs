//! Lock-freedom, taken at its word: a thread is stopped for good after the first step of an operation, after the
//! second, after the third and so on, and each time all others do all their work, in as many steps as ever.
//!
//! A step is one access to an atomic of the engine, see `quince::steps`. What a stopped thread may cost the others:
//!
//! * Memory. It is pinned, so nothing that is retired from then on is freed, and `flush` gives up, after a fixed number
//!   of rounds.
//! * The stripe it has leased, with the count, the free nodes and the garbage in it; another one is made.
//! * A chunk of buckets it has claimed: they are moved by the others.
//!
//! Nobody spins: what an operation of the others takes is some times what it takes at most when the thread is pinned and
//! has not begun. Not seen are the steps of `crossbeam_epoch`, of the allocator and of the standard library.
#![cfg(quince_steps)]

mod support;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::iter;
use std::panic::Location;
use std::process;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use quince::steps;

use support::hashers::Hashes;
use support::ledger::Ledger;
use support::ops::{Answer, Decision, Map, Model, Op, PinnedVerb, Verb, Whole};
use support::{Random, race, size, watchdog};

type Label = &'static Location<'static>;

/// File and line in `raw`.
type Line = (&'static str, u32);

fn line(label: Label) -> Line {
    let file = label.file().rsplit(['/', '\\']).next();
    (file.expect("split yields something"), label.line())
}

// ---- Threads whose steps are counted ---------------------------------------------------------------------------

/// What the hook of one thread has seen.
#[derive(Default)]
struct Steps {
    labels: RefCell<Vec<Label>>,
    /// Of the current operation.
    taken: Cell<usize>,
}

impl Steps {
    fn note(&self, label: Label) {
        self.taken.set(self.taken.get() + 1);
        let mut labels = self.labels.borrow_mut();
        if !labels.iter().any(|&known| std::ptr::eq(known, label)) {
            labels.push(label);
        }
    }

    fn lines(&self) -> BTreeSet<Line> {
        self.labels.borrow().iter().copied().map(line).collect()
    }
}

/// Kinds of operations, by what they cost.
#[derive(Clone, Copy)]
enum Kind {
    OneKey,
    Iterate,
    Resize,
    Flush,
}

impl Kind {
    const COUNT: usize = 4;

    fn of(op: Op) -> Self {
        match op {
            Op::Pinned(Verb::Keys) => Self::Iterate,
            Op::Whole(Whole::Reserve(_) | Whole::ShrinkToFit) => Self::Resize,
            Op::Whole(Whole::Flush) => Self::Flush,
            _ => Self::OneKey,
        }
    }
}

/// The most steps that an operation of each kind took; or may take.
#[derive(Clone, Copy, Debug, Default)]
struct Costs([usize; Kind::COUNT]);

impl Costs {
    const UNLIMITED: Self = Self([usize::MAX; Kind::COUNT]);

    fn add(&mut self, kind: Kind, steps: usize) {
        let most = &mut self.0[kind as usize];
        *most = steps.max(*most);
    }

    fn merge(&mut self, other: Self) {
        for (most, steps) in self.0.iter_mut().zip(other.0) {
            *most = steps.max(*most);
        }
    }
}

// ---- The thread that is stopped --------------------------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
enum Stop {
    /// Pinned, before it begins.
    Before,
    /// After so many steps, counted from one.
    After(usize),
    /// The entry is in the table, and not counted.
    Counting,
}

#[derive(Clone, Copy, Debug)]
struct Victim {
    op: Op,
    stop: Stop,
}

impl Victim {
    /// Runs the operation, says through `stopped` where it is stopped, or hangs up if it is not, and stays there until
    /// the other end of `go_on` is dropped. Returns the answer and where its steps were.
    fn run<'l>(
        self,
        map: &Map<'l>,
        ledger: &'l Ledger,
        stopped: Sender<Option<Label>>,
        go_on: Receiver<()>,
    ) -> (Answer, BTreeSet<Line>) {
        let taken = Rc::new(Steps::default());
        let wait = move |label| {
            stopped.send(label).expect("somebody listens");
            let _ = go_on.recv();
        };
        if let Stop::Before = self.stop {
            let _pinned = map.pin();
            wait(None);
        } else {
            let wait = Cell::new(Some(wait));
            let in_table = Cell::new(false);
            let steps = taken.clone();
            steps::after_each(move |label| {
                steps.note(label);
                let is_here = match self.stop {
                    Stop::Before => false,
                    Stop::After(n) => steps.taken.get() >= n,
                    Stop::Counting => match line(label) {
                        ("bucket.rs", _) => {
                            in_table.set(true);
                            false
                        }
                        (file, _) => in_table.get() && file == "stripe.rs",
                    },
                };
                if let Some(wait) = is_here.then(|| wait.take()).flatten() {
                    wait(Some(label));
                }
            });
        }
        let answer = self.op.run_shared(map, ledger).expect("a shared operation");
        steps::forget_hook();
        (answer, taken.lines())
    }
}

/// The key that an operation is about; `None` if that is every key, or none.
fn key_of(op: Op) -> Option<u32> {
    match op {
        Op::Owned(verb) | Op::Pinned(verb) => match verb {
            Verb::Get(k)
            | Verb::Insert(k, _)
            | Verb::TryInsert(k, _)
            | Verb::GetOrInsert(k, _)
            | Verb::Update(k)
            | Verb::GetAndUpdate(k)
            | Verb::Compute(k, _, _)
            | Verb::Remove(k)
            | Verb::RemoveIf(k, _) => Some(k),
            _ => None,
        },
        Op::OnlyPinned(
            PinnedVerb::ReplaceIfSame { key, .. } | PinnedVerb::RemoveIfSame { key, .. },
        ) => Some(key),
        _ => None,
    }
}

/// Whether an operation with that answer tells of `key` at one instant, or has changed it.
fn concerns((op, answer): &(Op, Answer), key: u32) -> bool {
    let tells = match op {
        Op::Owned(Verb::Len) | Op::OnlyPinned(PinnedVerb::IsEmpty) => false,
        // Between their look-up and their change somebody else changed the key.
        Op::OnlyPinned(_) => !matches!(answer, Answer::Failed(_) | Answer::Flag(false)),
        _ => true,
    };
    tells && key_of(*op).is_none_or(|its_key| its_key == key)
}

// ---- The others ------------------------------------------------------------------------------------------------

const OTHERS: usize = 3;

/// Keys that all others try to insert.
const RACED: u32 = 10_000_000;
const RACES: u32 = 4;

/// What was answered, of the key it is about.
struct Event {
    key: u32,
    op: Op,
    answer: Answer,
}

/// One of the others: it alone changes some of the keys, and does all that can be done with them.
struct Worker<'s, 'l> {
    thread: u32,
    map: &'s Map<'l>,
    ledger: &'l Ledger,
    limits: Costs,
    costs: Costs,
    taken: Rc<Steps>,
    current: Rc<Cell<(Option<Op>, usize)>>,
    events: Vec<Event>,
}

impl<'s, 'l> Worker<'s, 'l> {
    fn new(thread: u32, map: &'s Map<'l>, ledger: &'l Ledger, limits: Costs) -> Self {
        let taken = Rc::new(Steps::default());
        let current = Rc::new(Cell::new((None::<Op>, usize::MAX)));
        let (steps, now) = (taken.clone(), current.clone());
        steps::after_each(move |label| {
            steps.note(label);
            let (op, limit) = now.get();
            if steps.taken.get() > limit {
                // Unwinding out of the middle of the engine would be another test. Not `eprintln`, which is captured.
                let _ = writeln!(
                    io::stderr(),
                    "{op:?} takes more than {limit} steps, now at {label}"
                );
                process::abort();
            }
        });
        Self {
            thread,
            map,
            ledger,
            limits,
            costs: Costs::default(),
            taken,
            current,
            events: Vec::new(),
        }
    }

    /// A number that no other event has.
    fn fresh(&self) -> u32 {
        self.events.len() as u32 * OTHERS as u32 + self.thread
    }

    fn run(&mut self, op: Op) -> Answer {
        let kind = Kind::of(op);
        self.taken.taken.set(0);
        self.current.set((Some(op), self.limits.0[kind as usize]));
        let answer = op
            .run_shared(self.map, self.ledger)
            .expect("a shared operation");
        self.costs.add(kind, self.taken.taken.get());
        answer
    }

    fn act(&mut self, key: u32, verb: impl Fn(u32, u32) -> Verb) {
        let verb = verb(key, self.fresh());
        let op = if self.fresh() % 2 == 0 {
            Op::Owned(verb)
        } else {
            Op::Pinned(verb)
        };
        let answer = self.run(op);
        self.events.push(Event { key, op, answer });
    }

    /// Sees each of its keys as a look-up would.
    fn iterate(&mut self, keys: &[u32]) {
        let Answer::Numbers(seen) = self.run(Op::Pinned(Verb::Keys)) else {
            unreachable!("keys are numbers")
        };
        assert!(seen.is_sorted_by(|a, b| a < b), "a key is seen twice");
        for &key in keys {
            let answer = Answer::Flag(seen.binary_search(&key).is_ok());
            let op = Op::Pinned(Verb::ContainsKey(key));
            self.events.push(Event { key, op, answer });
        }
    }

    /// Grows the map through several sizes, changes everything, empties it again.
    fn work(&mut self, old: &[u32], contested: &[u32]) {
        let new: Vec<_> = (1_000_000 * (self.thread + 1)..).take(72).collect();
        let mut all = [old, &new].concat();
        for key in RACED..RACED + RACES {
            self.act(key, Verb::TryInsert);
        }
        self.probe(contested);
        for &key in &new {
            match key % 4 {
                0 => self.act(key, Verb::Insert),
                1 => self.act(key, Verb::TryInsert),
                2 => self.act(key, Verb::GetOrInsertWith),
                _ => self.act(key, |k, v| Verb::Compute(k, v, Decision::Toggle)),
            }
        }
        self.iterate(&all);
        for &key in &all {
            match key % 5 {
                0 => self.act(key, Verb::Insert),
                1 => self.act(key, |k, _| Verb::GetAndUpdate(k)),
                2 => self.act(key, |k, v| Verb::Compute(k, v, Decision::Insert)),
                3 => self.act(key, |k, _| Verb::Update(k)),
                _ => self.act(key, |k, _| Verb::Get(k)),
            }
        }
        self.probe(contested);
        let stay = all.split_off(all.len() - all.len() / 8);
        for &key in &all {
            match key % 3 {
                0 => self.act(key, |k, _| Verb::Remove(k)),
                1 => self.act(key, |k, v| Verb::Compute(k, v, Decision::Remove)),
                _ => self.act(key, |k, _| Verb::RemoveIf(k, 1)),
            }
        }
        let _ = match self.thread {
            0 => self.run(Op::Whole(Whole::ShrinkToFit)),
            1 => self.run(Op::Whole(Whole::Reserve(300))),
            _ => self.run(Op::Whole(Whole::Flush)),
        };
        self.probe(contested);
        for _ in 0..2 {
            for &key in &new[..32] {
                self.act(key, Verb::GetOrInsert);
                self.act(key, |k, _| Verb::Remove(k));
            }
        }
        self.iterate(&stay);
        for key in stay.into_iter().chain(RACED..RACED + RACES) {
            self.act(key, |k, _| Verb::GetKeyValue(k));
        }
        self.probe(contested);
    }

    /// The keys which a victim is at.
    fn probe(&mut self, keys: &[u32]) {
        for &key in keys {
            self.act(key, |k, _| Verb::GetKeyValue(k));
            self.act(key, Verb::TryInsert);
            self.act(key, |k, _| Verb::Update(k));
            self.act(key, |k, v| Verb::Compute(k, v, Decision::Toggle));
            self.act(key, |k, _| Verb::ContainsKey(k));
            self.act(key, Verb::Insert);
        }
    }
}

// ---- One trial -------------------------------------------------------------------------------------------------

/// Where a map is, and what some are about to do.
#[derive(Clone)]
struct Scene {
    name: &'static str,
    hashes: Hashes,
    prepared: Vec<Op>,
    /// Stopped before those whose steps are tried.
    stalled: Vec<Victim>,
    op: Op,
}

/// What came of a trial.
#[derive(Default)]
struct Trial {
    /// Where the victims were stopped, if they were.
    stopped: Vec<Option<Label>>,
    seen: BTreeSet<Line>,
    costs: Costs,
}

impl Scene {
    /// Stops all `victims` in a fresh map, lets the others work, and the victims go on.
    fn trial(&self, victims: &[Victim], limits: Costs) -> Trial {
        // Without a hook this thread would yield now and then.
        steps::after_each(|_| {});
        let ledger = Ledger::new();
        let map = Map::with_hasher(self.hashes);
        let mut initial = Model::new();
        for op in &self.prepared {
            let answer = op.run_shared(&map, &ledger);
            assert_eq!(answer, Some(op.expected(&mut initial)), "{op:?}");
        }
        ripen();

        let all = [&self.stalled, victims].concat();
        let contested = all.iter().filter_map(|victim| key_of(victim.op));
        let contested: BTreeSet<_> = contested.filter(|&key| key < RACED).collect();
        let keys: BTreeSet<_> = initial.keys().chain(&contested).copied().collect();
        let mut trial = Trial::default();
        let (mut events, mut late) = (Vec::new(), Vec::new());
        thread::scope(|scope| {
            let (map, ledger) = (&map, &ledger);
            let mut suspended = Vec::new();
            for victim in &all {
                let (stopped, stops) = mpsc::channel();
                let (go_on, waits) = mpsc::channel();
                let running = scope.spawn(|| victim.run(map, ledger, stopped, waits));
                trial.stopped.push(stops.recv().ok().flatten());
                suspended.push((running, go_on));
            }
            trial.stopped.drain(..self.stalled.len());
            let work = |thread: usize| {
                let is_mine = |key: &u32| *key as usize % OTHERS == thread;
                let mine = |keys: &BTreeSet<u32>| -> Vec<_> {
                    keys.iter().copied().filter(is_mine).collect()
                };
                let mut worker = Worker::new(thread as u32, map, ledger, limits);
                worker.work(&mine(&keys), &mine(&contested));
                (worker.events, worker.costs, worker.taken.lines())
            };
            for (by_one, costs, lines) in race(OTHERS, work) {
                events.extend(by_one);
                trial.costs.merge(costs);
                trial.seen.extend(lines);
            }
            for ((running, go_on), victim) in suspended.into_iter().zip(&all) {
                drop(go_on);
                let (answer, lines) = running.join().unwrap();
                trial.seen.extend(lines);
                late.push((victim.op, answer));
            }
        });
        self.check(&map, &ledger, &initial, events, &late);
        drop(map);
        ledger.assert_balanced();
        trial
    }

    /// Every answer is explained by the operations of the stopped threads having happened at some instant.
    fn check<'l>(
        &self,
        map: &Map<'l>,
        ledger: &'l Ledger,
        initial: &Model,
        events: Vec<Event>,
        late: &[(Op, Answer)],
    ) {
        let mut histories = BTreeMap::<u32, Vec<(Op, Answer)>>::new();
        for Event { key, op, answer } in events {
            histories.entry(key).or_default().push((op, answer));
        }
        let raced = histories.split_off(&RACED);
        for (key, mut history) in histories {
            let last = Op::Pinned(Verb::GetKeyValue(key));
            let found = last.run_shared(map, ledger).expect("a shared operation");
            history.push((last, found));
            let stored = initial.get(&key).map(|&stored| (key, stored));
            let late: Vec<_> = late.iter().filter(|late| concerns(late, key)).collect();
            assert!(
                explains(&stored.into_iter().collect(), key, &history, &late),
                "{}: no order of {history:?} from {stored:?} with {late:?}",
                self.name
            );
        }
        for (key, history) in &raced {
            let late = late.iter().filter(|(op, _)| key_of(*op) == Some(*key));
            self.check_raced(history.iter().chain(late));
        }
        let keys: BTreeSet<_> = map.keys().map(|key| key.number()).collect();
        assert_eq!((map.len(), map.iter().count()), (keys.len(), keys.len()));
    }

    /// One winner, and all others were told of it.
    fn check_raced<'a>(&self, answers: impl Iterator<Item = &'a (Op, Answer)>) {
        let (won, told): (Vec<_>, Vec<_>) = answers
            .map(|(_, answer)| answer)
            .partition(|answer| matches!(answer, Answer::Inserted(_)));
        let [Answer::Inserted(winner)] = won[..] else {
            panic!("{}: {won:?} have won", self.name)
        };
        for answer in told {
            match answer {
                Answer::Occupied { current, .. } => assert_eq!(current, winner),
                Answer::Stored(stored) => {
                    assert_eq!(stored.map(|stored| stored.value), Some(*winner));
                }
                other => panic!("{}: {other:?}", self.name),
            }
        }
    }
}

/// Waits until all that was retired so far may be freed; threads that have ended may still be pinned for a moment.
fn ripen() {
    let ripe = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&ripe);
    crossbeam_epoch::pin().defer(move || now.store(true, Ordering::Release));
    while !ripe.load(Ordering::Acquire) {
        crossbeam_epoch::pin().flush();
        thread::yield_now();
    }
}

/// Whether the `history` of one key, which is in order, is explained by `late` operations that happened at any time in
/// it.
fn explains(model: &Model, key: u32, history: &[(Op, Answer)], late: &[&(Op, Answer)]) -> bool {
    let after = |(op, answer): &(Op, Answer)| {
        let mut model = model.clone();
        let expected = op.expected(&mut model);
        let agrees = match (&expected, answer) {
            // Of every key; the others have histories of their own.
            (Answer::Numbers(one), Answer::Numbers(all)) => {
                all.iter().filter(|&&number| number == key).eq(one)
            }
            (Answer::Entries(one), Answer::Entries(all)) => {
                all.iter().filter(|(number, _)| *number == key).eq(one)
            }
            (expected, answer) => expected == answer,
        };
        agrees.then_some(model)
    };
    let next_is_late = |(i, &next): (usize, &&(Op, Answer))| {
        let rest = [&late[..i], &late[i + 1..]].concat();
        after(next).is_some_and(|model| explains(&model, key, history, &rest))
    };
    let next_is_not = |(next, rest): (&(Op, Answer), &[(Op, Answer)])| {
        after(next).is_some_and(|model| explains(&model, key, rest, late))
    };
    history.is_empty() && late.is_empty()
        || history.split_first().is_some_and(next_is_not)
        || late.iter().enumerate().any(next_is_late)
}

// ---- Scenes ----------------------------------------------------------------------------------------------------

/// A key that is present in all scenes but the empty ones, and one that is not.
const PRESENT: u32 = 0;
const ABSENT: u32 = 100_000;

fn fill(keys: u32) -> Vec<Op> {
    (0..keys).map(|k| Op::Owned(Verb::Insert(k, k))).collect()
}

/// The capacity, and how many keys and values are alive.
type Extent = (usize, u32);

/// How many operations come before the first one, not among the first `from`, that `tips` the map, by one thread.
fn before(ops: &[Op], from: usize, tips: impl Fn(Extent, Extent) -> bool) -> usize {
    let ledger = Ledger::new();
    let map = Map::default();
    let extent = || (map.capacity(), ledger.live());
    let tipped = |op: &Op| {
        ripen();
        let before = extent();
        op.run_shared(&map, &ledger);
        tips(before, extent())
    };
    let tipped: Vec<_> = ops.iter().map(tipped).collect();
    let found = tipped[from..].iter().position(|&tipped| tipped);
    from + found.expect("one of them")
}

fn scenes() -> Vec<Scene> {
    use Op::{OnlyPinned, Owned, Pinned};
    let scene = |name, prepared: Vec<Op>, op| Scene {
        name,
        hashes: Hashes::Good,
        prepared,
        stalled: Vec::new(),
        op,
    };
    let insertion = Owned(Verb::TryInsert(ABSENT, 1));
    let resized = |(before, _): Extent, (after, _): Extent| before != after;
    let growth = |from| {
        let mut ops = fill(1_000);
        ops.truncate(before(&ops, from, resized));
        ops
    };
    // A table of 64 buckets, moved in four parts.
    let full = growth(300);
    let moving =
        |helped: usize| [full.clone(), fill(1_000)[full.len()..][..helped].to_vec()].concat();
    // Most of a larger one is tombstones.
    let mut deserted = {
        let reserve = Op::Whole(Whole::Reserve(600));
        let keys = 200;
        let remove = (1..keys).map(|k| Owned(Verb::Remove(k)));
        let mut ops: Vec<_> = iter::once(reserve)
            .chain(fill(keys))
            .chain(remove)
            .collect();
        ops.truncate(before(&ops, keys as usize + 1, resized) + 1);
        ops
    };
    let leaving = deserted.pop().expect("the last removal");
    let replaced = |times: u32| {
        let again = (0..times).map(|v| Owned(Verb::Insert(PRESENT, v)));
        fill(2).into_iter().chain(again).collect::<Vec<_>>()
    };
    let emptied = |keys: u32| {
        let remove = (1..keys).map(|k| Owned(Verb::Remove(k)));
        fill(keys).into_iter().chain(remove).collect::<Vec<_>>()
    };
    let bag = 128;
    // Whoever needs a node next frees the bag which was filled before.
    let needy = {
        let mut ops = replaced(2 * bag);
        let freed = |(_, before): Extent, (_, after): Extent| after < before;
        ops.truncate(before(&ops, 0, freed));
        ops
    };
    let toggle = |key| Pinned(Verb::Compute(key, 5, Decision::Toggle));
    let whole = Op::Whole;
    let mut scenes = vec![
        scene("the first insertion", vec![], insertion),
        scene("the first reservation", vec![], whole(Whole::Reserve(100))),
        scene(
            "an insertion for which all are racing",
            vec![],
            Pinned(Verb::TryInsert(RACED, 2)),
        ),
        scene("an insertion", fill(3), insertion),
        scene(
            "insert-or-get of an absent key",
            fill(3),
            Pinned(Verb::GetOrInsert(ABSENT, 1)),
        ),
        scene(
            "insert-or-get of a present key",
            fill(3),
            Pinned(Verb::GetOrInsert(PRESENT, 1)),
        ),
        scene("a look-up", fill(3), Owned(Verb::Get(PRESENT))),
        scene(
            "an insertion that moves a small table",
            growth(0),
            insertion,
        ),
        scene("an insertion that moves a table", growth(6), insertion),
        scene("an insertion that makes a chunk", fill(16), insertion),
        scene("an insertion that begins a migration", moving(0), insertion),
        scene("an insertion that helps with one", moving(1), insertion),
        scene("an insertion that helps to end one", moving(2), insertion),
        scene(
            "a look-up while the table moves",
            moving(1),
            Owned(Verb::Get(PRESENT)),
        ),
        scene(
            "an update while the table moves",
            moving(1),
            Pinned(Verb::Update(PRESENT)),
        ),
        scene(
            "a removal while the table moves",
            moving(2),
            Owned(Verb::Remove(PRESENT)),
        ),
        scene(
            "an iteration while the table moves",
            moving(2),
            Pinned(Verb::Keys),
        ),
        scene("a replacement", fill(3), Owned(Verb::Insert(PRESENT, 1))),
        scene("an update", fill(3), Pinned(Verb::GetAndUpdate(PRESENT))),
        scene("a removal", fill(3), Owned(Verb::Remove(PRESENT))),
        scene(
            "a removal by condition",
            fill(3),
            Owned(Verb::RemoveIf(PRESENT, 1)),
        ),
        scene("compute that inserts", fill(3), toggle(ABSENT)),
        scene("compute that removes", fill(3), toggle(PRESENT)),
        scene(
            "compute that replaces",
            fill(3),
            Owned(Verb::Compute(PRESENT, 1, Decision::Insert)),
        ),
        scene(
            "a replacement by identity",
            fill(3),
            OnlyPinned(PinnedVerb::ReplaceIfSame {
                key: PRESENT,
                value: 1,
                stale: false,
            }),
        ),
        scene(
            "a removal by identity",
            fill(3),
            OnlyPinned(PinnedVerb::RemoveIfSame {
                key: PRESENT,
                stale: false,
            }),
        ),
        scene(
            "a replacement that fills a bag",
            replaced(bag - 1),
            Owned(Verb::Insert(PRESENT, 1)),
        ),
        scene(
            "a removal that fills a bag",
            replaced(bag - 1),
            Owned(Verb::Remove(PRESENT)),
        ),
        scene(
            "a replacement that empties a bag",
            needy,
            Owned(Verb::Insert(PRESENT, 1)),
        ),
        scene("a removal that leaves a deserted table", deserted, leaving),
        scene("a reservation", fill(30), whole(Whole::Reserve(300))),
        scene("shrinking", emptied(60), whole(Whole::ShrinkToFit)),
        scene("flushing", emptied(60), whole(Whole::Flush)),
        scene(
            "flushing and giving memory back",
            [emptied(300), vec![whole(Whole::ShrinkToFit)]].concat(),
            whole(Whole::Flush),
        ),
        scene("removing by a predicate", fill(12), Owned(Verb::Retain(3))),
        scene("clearing", fill(12), Owned(Verb::Clear)),
        scene("an iteration", fill(12), Owned(Verb::Iter)),
        scene("counting", fill(12), Owned(Verb::Len)),
        scene(
            "asking whether it is empty",
            fill(3),
            OnlyPinned(PinnedVerb::IsEmpty),
        ),
    ];
    for (name, op) in [
        ("an insertion past many equal hashes", insertion),
        ("a removal among equal hashes", Owned(Verb::Remove(PRESENT))),
        ("an iteration over equal hashes", Pinned(Verb::Keys)),
    ] {
        scenes.push(Scene {
            hashes: Hashes::Constant,
            ..scene(name, fill(20), op)
        });
    }
    let uncounted = |n| {
        let insert = |n| Victim {
            op: Owned(Verb::Insert(ABSENT + n, n)),
            stop: Stop::Counting,
        };
        (1..=n).map(insert).collect::<Vec<_>>()
    };
    // Seven slots, and nobody has noticed that they are full.
    for (name, stalled) in [
        ("an insertion that needs a stripe", uncounted(1)),
        ("an insertion into a full table", uncounted(3)),
    ] {
        scenes.push(Scene {
            stalled,
            ..scene(name, fill(4), insertion)
        });
    }
    scenes
}

// ---- Tests -----------------------------------------------------------------------------------------------------

/// One at a time: whoever is stopped in one would keep the memory of the others.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Costs {
    /// What an operation may cost when these are the most that one cost while a thread was pinned that had not begun.
    ///
    /// The costliest change of a key moves a whole table, as those do that resize or iterate; which of the others comes
    /// to do that is chance. So one limit is for all of them.
    fn limits(self) -> Self {
        const SLACK: usize = 4;
        /// Rounds after which `flush` gives up, and steps of a round: a few for each stripe, of which there are no more
        /// than threads.
        const FLUSH: usize = 4_096 * 32;
        let [changes @ .., _] = self.0;
        let most = changes.into_iter().max().expect("some kinds");
        let mut limits = [SLACK * most; Kind::COUNT];
        limits[Kind::Flush as usize] = SLACK * FLUSH;
        Self(limits)
    }
}

impl Scene {
    /// What the operations of the others may cost: measured in a few runs in which nobody is stopped half-way.
    fn limits(&self) -> Costs {
        let scene = Scene {
            stalled: Vec::new(),
            ..self.clone()
        };
        let victim = Victim {
            op: self.op,
            stop: Stop::Before,
        };
        let mut costs = Costs::default();
        for _ in 0..3 {
            costs.merge(scene.trial(&[victim], Costs::UNLIMITED).costs);
        }
        costs.limits()
    }
}

#[test]
fn a_thread_that_stops_at_any_step_holds_nobody_up() {
    let _turn = alone();
    let rounds = (size(1_000) / 1_000).max(1);
    // Every step is tried, or every n-th.
    let stride = (1_000 * rounds / size(1_000)).max(1);
    let mut stops = BTreeMap::<Line, usize>::new();
    let (mut seen, mut steps) = (BTreeSet::new(), 0);
    println!("steps of the others: one key, iteration, resizing, flush");
    for scene in scenes() {
        let limits = scene.limits();
        let (mut costs, mut length) = (Costs::default(), 0);
        for _ in 0..rounds {
            let _watchdog = watchdog::start();
            let mut ended = 0;
            for n in (1..).step_by(stride) {
                let stop = Stop::After(n);
                let trial = scene.trial(&[Victim { op: scene.op, stop }], limits);
                costs.merge(trial.costs);
                seen.extend(trial.seen);
                if let Some(label) = trial.stopped[0] {
                    *stops.entry(line(label)).or_default() += 1;
                    length = n.max(length);
                } else {
                    // With the place of the entries the number of steps varies a little.
                    ended += 1;
                    if ended == 3 {
                        break;
                    }
                }
            }
        }
        steps += length;
        println!(
            "{:50} stopped after 1..={length} steps; the others took {:?}, may take {:?}",
            scene.name, costs.0, limits.0
        );
    }
    let all: usize = stops.values().sum();
    println!("stopped {all} times, in operations of {steps} steps, at {stops:?}");
    let missed: Vec<_> = seen
        .iter()
        .filter(|&line| !stops.contains_key(line))
        .collect();
    assert!(
        stride > 1 || missed.is_empty(),
        "nobody was stopped at {missed:?}"
    );
}

#[test]
fn two_threads_that_stop_at_any_step_hold_nobody_up() {
    let _turn = alone();
    let limited = |scene: Scene| (scene.limits(), scene);
    let scenes: Vec<_> = scenes().into_iter().map(limited).collect();
    let mut random = Random::new(1);
    let mut stopped = [0; 3];
    for _ in 0..size(400) {
        let _watchdog = watchdog::start();
        let mut choose = || {
            let (limits, scene) = &scenes[random.below(scenes.len() as u32) as usize];
            // Most operations are short.
            let most = 1 << random.below(10);
            let stop = Stop::After(1 + random.below(most) as usize);
            let victim = Victim { op: scene.op, stop };
            (scene, limits, victim)
        };
        let (scene, limits, first) = choose();
        let (_, _, second) = choose();
        let trial = scene.trial(&[first, second], *limits);
        stopped[trial.stopped.iter().flatten().count()] += 1;
    }
    println!("trials with none, one and two stopped half-way: {stopped:?}");
}
