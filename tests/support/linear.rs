//! Recorded histories, and whether they are linearizable: whether each call can be given an instant between its
//! invocation and its return such that, in the order of the instants, all of them are answered as they were.
//!
//! A history is checked key by key, which says the same as checking the whole. What concerns all keys (iteration,
//! `retain`, `clear`) promises nothing about two keys at once, but for each key it is a call like the others: it reads
//! or removes it at some instant.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;
use std::fmt;
use std::hint;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use quince::{Computed, Operation};

use super::Random;
use super::hashers::Hashes;
use super::ledger::{Event, Ledger, Value, is_blown};
use super::ops::{Decision, Map, Op, PinnedVerb, Verb, View, Whole};
use super::spin_barrier::SpinBarrier;

// ---- Histories and their check ---------------------------------------------------------------------------------

/// What a key holds: the number of its value. No two values have the same one, except the default ones: 0.
pub(crate) type State = Option<u32>;

/// What a call has told of the instant at which it took effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Effect {
    Change {
        from: State,
        to: State,
    },
    /// The same, unless it was so before.
    Ensure {
        from: State,
        to: State,
    },
    Set(State),
    Present,
    Not(State),
}

use Effect::{Change, Ensure, Not, Present, Set};

impl Effect {
    pub(crate) fn read(state: State) -> Self {
        Change {
            from: state,
            to: state,
        }
    }

    pub(crate) fn inserted(new: u32) -> Self {
        Change {
            from: None,
            to: Some(new),
        }
    }

    pub(crate) fn replaced(old: u32, new: u32) -> Self {
        Change {
            from: Some(old),
            to: Some(new),
        }
    }

    pub(crate) fn removed(old: State) -> Self {
        Change {
            from: old,
            to: None,
        }
    }

    pub(crate) fn found(found: bool) -> Self {
        if found { Present } else { Self::read(None) }
    }

    /// The state afterwards. `None` if it cannot take effect in this one.
    fn on(self, state: State) -> Option<State> {
        match self {
            Change { from, to } => (state == from).then_some(to),
            Ensure { from, to } => (state == from || state == to).then_some(to),
            Set(to) => Some(to),
            Present => state.is_some().then_some(state),
            Not(other) => (state != other).then_some(state),
        }
    }

    fn is_read(self) -> bool {
        match self {
            Change { from, to } => from == to,
            Present | Not(_) => true,
            Ensure { .. } | Set(_) => false,
        }
    }

    fn states(self) -> [State; 2] {
        match self {
            Change { from, to } | Ensure { from, to } => [from, to],
            Set(state) | Not(state) => [state; 2],
            Present => [None; 2],
        }
    }
}

/// What a call did to one key.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) thread: usize,
    pub(crate) op: Op,
    pub(crate) effect: Effect,
    pub(crate) invoked: u64,
    /// `None` if it has panicked: it may have taken effect, may still do so, or never.
    pub(crate) returned: Option<u64>,
}

impl Call {
    fn end(&self) -> u64 {
        self.returned.unwrap_or(u64::MAX)
    }
}

/// Whether the calls on one key, by invocation, have an order that explains them. Wing and Gong's search with Lowe's
/// memory: of two ways to the same set of calls and the same state, one is enough.
pub(crate) fn is_linearizable(calls: &[Call], initial: State) -> bool {
    let mut taken = Bits::new(calls.len());
    let mut certain = Bits::new(calls.len());
    for (n, call) in calls.iter().enumerate() {
        if call.returned.is_some() {
            certain.flip(n);
        }
    }
    let mut tried = HashSet::new();
    // The call taken last, the state after it, and what may be taken next.
    let mut path = vec![(None, initial, choices(calls, &taken, initial))];
    while let Some((last, state, next)) = path.last_mut() {
        if taken.contain(&certain) {
            return true;
        }
        let Some(n) = next.pop() else {
            if let Some(last) = *last {
                taken.flip(last);
            }
            path.pop();
            continue;
        };
        let after = calls[n].effect.on(*state).expect("a choice");
        taken.flip(n);
        if tried.insert((taken.clone(), after)) {
            path.push((Some(n), after, choices(calls, &taken, after)));
        } else {
            taken.flip(n);
        }
    }
    false
}

/// The calls that can be next, the most urgent last: those invoked before any other has to be over.
fn choices(calls: &[Call], taken: &Bits, state: State) -> Vec<usize> {
    let mut choices = Vec::new();
    let mut end = u64::MAX;
    for (n, call) in calls.iter().enumerate().skip(taken.full_prefix()) {
        if taken.get(n) {
            continue;
        }
        if call.invoked > end {
            break;
        }
        end = end.min(call.end());
        if call.effect.on(state).is_some() {
            // What changes nothing is best done while it can be: no order is lost.
            if call.effect.is_read() {
                return vec![n];
            }
            choices.push(n);
        }
    }
    choices.sort_by_key(|&n| u64::MAX - calls[n].end());
    choices
}

/// A set of small numbers.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn get(&self, n: usize) -> bool {
        self.0[n / 64] >> (n % 64) & 1 == 1
    }

    fn flip(&mut self, n: usize) {
        self.0[n / 64] ^= 1 << (n % 64);
    }

    fn contain(&self, others: &Self) -> bool {
        self.0
            .iter()
            .zip(&others.0)
            .all(|(bits, others)| bits & others == *others)
    }

    /// A number below which all are in.
    fn full_prefix(&self) -> usize {
        64 * self.0.iter().take_while(|&&bits| bits == u64::MAX).count()
    }
}

/// What several threads did to a map that was empty.
#[derive(Default)]
pub(crate) struct History {
    /// By key, and then by invocation.
    pub(crate) calls: Vec<Vec<Call>>,
    /// Those the map was seen to have.
    capacities: BTreeSet<usize>,
}

impl History {
    pub(crate) fn of_one_key(calls: Vec<Call>) -> Self {
        Self {
            calls: vec![calls],
            capacities: BTreeSet::new(),
        }
    }

    /// The calls on one key that no order explains, if there are any: as few as will show it.
    pub(crate) fn violation(&self) -> Option<Vec<Call>> {
        let calls = self
            .calls
            .iter()
            .find(|calls| !is_linearizable(calls, None))?;
        Some(without_beginning(shortest_prefix(calls)))
    }

    #[track_caller]
    pub(crate) fn assert_linearizable(&self, name: &dyn fmt::Debug) {
        if let Some(calls) = self.violation() {
            let lines: Vec<_> = calls.iter().map(ToString::to_string).collect();
            panic!("no order explains {name:?}:\n{}", lines.join("\n"));
        }
    }

    /// Whether the first table was replaced by another, if only by one of another size.
    pub(crate) fn has_migrations(&self) -> bool {
        self.capacities.iter().filter(|&&n| n > 0).count() > 1
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.iter().map(Vec::len).sum()
    }

    /// How many calls overlap one of another thread on the same key.
    pub(crate) fn overlaps(&self) -> usize {
        let overlaps = |calls: &Vec<Call>| {
            let mut overlapping = Bits::new(calls.len());
            for (n, call) in calls.iter().enumerate() {
                let later = (n + 1..calls.len()).take_while(|&m| calls[m].invoked < call.end());
                for m in later.filter(|&m| calls[m].thread != call.thread) {
                    for n in [n, m] {
                        if !overlapping.get(n) {
                            overlapping.flip(n);
                        }
                    }
                }
            }
            (0..calls.len()).filter(|&n| overlapping.get(n)).count()
        };
        self.calls.iter().map(overlaps).sum()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            thread,
            op,
            effect,
            invoked,
            ..
        } = self;
        let returned = self
            .returned
            .map_or("panicked".to_owned(), |at| at.to_string());
        write!(
            f,
            "{invoked:>6} - {returned:<8} thread {thread}: {op:?}: {effect:?}"
        )
    }
}

/// The history until the first return that no order explains.
fn shortest_prefix(calls: &[Call]) -> Vec<Call> {
    let until = |time: u64| -> Vec<Call> {
        let begun = calls.iter().filter(|call| call.invoked <= time);
        let open = |call: &Call| Call {
            returned: call.returned.filter(|&returned| returned <= time),
            ..call.clone()
        };
        begun.map(open).collect()
    };
    let mut ends: Vec<_> = calls.iter().filter_map(|call| call.returned).collect();
    ends.sort_unstable();
    let explained = ends.partition_point(|&time| is_linearizable(&until(time), None));
    until(ends[explained])
}

/// What follows the last instant without a running call after which, whatever the state was then, no order explains
/// the rest.
fn without_beginning(calls: Vec<Call>) -> Vec<Call> {
    let unexplained = |rest: &[Call]| {
        let states = rest.iter().flat_map(|call| call.effect.states());
        // One that is not mentioned stands for all of these.
        let states: HashSet<_> = states.chain([None, Some(u32::MAX)]).collect();
        states
            .into_iter()
            .all(|state| !is_linearizable(rest, state))
    };
    let from = |time: u64| -> Option<Vec<Call>> {
        let is_over = |call: &Call| call.returned.is_some_and(|returned| returned < time);
        let spans = |call: &Call| call.invoked < time && call.returned.is_some_and(|t| t > time);
        let rest = calls.iter().filter(|call| !is_over(call)).cloned();
        (!calls.iter().any(spans)).then(|| rest.collect())
    };
    let starts = calls.iter().rev().map(|call| call.invoked);
    let rest = starts.filter_map(from).find(|rest| unexplained(rest));
    rest.unwrap_or(calls)
}

// ---- Recording -------------------------------------------------------------------------------------------------

/// An operation on one of so many keys, by a source of numbers below a bound: the key is the first number that
/// [`Op::choose`] asks for.
pub(crate) fn choose(keys: u32, below: &mut impl FnMut(u32) -> u32) -> Op {
    let mut is_key = true;
    let mut below = |bound| {
        let number = below(bound);
        if mem::take(&mut is_key) {
            number % keys
        } else {
            number
        }
    };
    Op::choose(&mut below)
}

/// Where a thread stops for a while: between invocation and call, and inside of closures.
pub(crate) enum Pace<'b> {
    Random(RefCell<Random>),
    Turns(Turns<'b>),
}

impl Pace<'_> {
    pub(crate) fn random(seed: u64) -> Self {
        Self::Random(RefCell::new(Random::new(seed)))
    }

    fn pause(&self) {
        match self {
            Self::Random(random) => {
                let mut random = random.borrow_mut();
                match random.below(4) {
                    0 => thread::yield_now(),
                    1 => (0..random.below(200)).for_each(|_| hint::spin_loop()),
                    _ => {}
                }
            }
            Self::Turns(turns) => turns.pass_on(),
        }
    }
}

/// Lets one thread run at a time, by a schedule.
struct Baton<'s> {
    schedule: &'s [u8],
    state: Mutex<BatonState>,
    passed: Condvar,
}

struct BatonState {
    turn: usize,
    holder: usize,
    running: Vec<bool>,
}

/// A thread's share in a [`Baton`].
pub(crate) struct Turns<'b> {
    baton: &'b Baton<'b>,
    thread: usize,
}

impl<'s> Baton<'s> {
    fn new(schedule: &'s [u8], threads: usize) -> Self {
        Self {
            schedule,
            state: Mutex::new(BatonState {
                turn: 0,
                holder: 0,
                running: vec![true; threads],
            }),
            passed: Condvar::new(),
        }
    }

    fn take_up(&self, thread: usize) -> Turns<'_> {
        self.wait(self.lock(), thread);
        Turns {
            baton: self,
            thread,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BatonState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To the thread that is next in the schedule, or to the first after it that still runs.
    fn pass_on(&self, state: &mut BatonState) {
        let next = usize::from(self.schedule[state.turn % self.schedule.len()]);
        state.turn += 1;
        let threads = state.running.len();
        let mut threads = (next..next + threads).map(|thread| thread % threads);
        let holder = threads.find(|&thread| state.running[thread]);
        state.holder = holder.unwrap_or(state.holder);
        self.passed.notify_all();
    }

    fn wait(&self, state: MutexGuard<'_, BatonState>, thread: usize) {
        let others_turn = |state: &mut BatonState| state.holder != thread;
        drop(self.passed.wait_while(state, others_turn));
    }
}

impl Turns<'_> {
    fn pass_on(&self) {
        let mut state = self.baton.lock();
        self.baton.pass_on(&mut state);
        self.baton.wait(state, self.thread);
    }
}

impl Drop for Turns<'_> {
    fn drop(&mut self) {
        let mut state = self.baton.lock();
        state.running[self.thread] = false;
        self.baton.pass_on(&mut state);
    }
}

/// Makes calls on a map, and takes them down.
pub(crate) struct Recorder<'r, 'l> {
    pub(crate) map: &'r Map<'l>,
    ledger: &'l Ledger,
    clock: &'r AtomicU64,
    thread: usize,
    keys: u32,
    pace: Pace<'r>,
    /// The last number of a value.
    number: Cell<u32>,
    calls: Vec<(u32, Call)>,
    capacities: BTreeSet<usize>,
}

/// What so many threads do to the first `keys` keys of an empty map, each told its number, and what is there in the
/// end. Wants a watchdog.
pub(crate) fn record<'l, 'p>(
    map: &Map<'l>,
    ledger: &'l Ledger,
    keys: u32,
    threads: usize,
    pace: impl Fn(usize) -> Pace<'p> + Sync,
    body: impl Fn(usize, &mut Recorder<'_, 'l>) + Sync,
) -> History {
    let clock = AtomicU64::new(0);
    let recorder = |thread, pace| Recorder {
        map,
        ledger,
        clock: &clock,
        thread,
        keys,
        pace,
        number: Cell::new(thread as u32 * 1_000_000),
        calls: Vec::new(),
        capacities: BTreeSet::new(),
    };
    let start = SpinBarrier::new(threads);
    let run = |thread| {
        start.wait();
        let mut recorder = recorder(thread, pace(thread));
        body(thread, &mut recorder);
        (recorder.calls, recorder.capacities)
    };
    // No `race`: its watchdog may end later than the race, which leak detection among fuzz runs takes for a leak.
    let mut records: Vec<_> = thread::scope(|scope| {
        let run = &run;
        let running = (0..threads).map(|thread| scope.spawn(move || run(thread)));
        let running: Vec<_> = running.collect();
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .unwrap_or_else(|panic| panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect()
    });
    let mut last = recorder(threads, Pace::random(0));
    last.run(Op::Owned(Verb::Iter));
    records.push((last.calls, last.capacities));

    let mut history = History {
        calls: vec![Vec::new(); keys as usize],
        capacities: BTreeSet::new(),
    };
    for (calls, capacities) in records {
        history.capacities.extend(capacities);
        for (key, call) in calls {
            history.calls[key as usize].push(call);
        }
    }
    for calls in &mut history.calls {
        calls.sort_by_key(|call| call.invoked);
    }
    history
}

/// A call in progress.
pub(crate) struct Attempt<'r, 'l> {
    pub(crate) ledger: &'l Ledger,
    keys: u32,
    pace: &'r Pace<'r>,
    number: &'r Cell<u32>,
    /// What its closures were shown.
    seen: RefCell<Vec<(u32, State)>>,
    /// What it does next, unless it panics before.
    intended: RefCell<BTreeMap<u32, Effect>>,
}

impl<'l> Attempt<'_, 'l> {
    /// A closure is shown this: whatever was intended has failed.
    pub(crate) fn see(&self, key: u32, state: State) {
        self.seen.borrow_mut().push((key, state));
        self.intended.borrow_mut().remove(&key);
        self.pause();
        self.ledger.tick(Event::Closure);
    }

    pub(crate) fn pause(&self) {
        self.pace.pause();
    }

    fn intend(&self, key: u32, effect: Effect) {
        self.intended.borrow_mut().insert(key, effect);
    }

    fn intended(&self, key: u32) -> Option<Effect> {
        self.intended.borrow().get(&key).copied()
    }

    /// A new value, which is to have such an effect.
    pub(crate) fn value(&self, key: u32, effect: impl FnOnce(State) -> Effect) -> Value<'l> {
        self.number.set(self.number.get() + 1);
        let value = self.ledger.value(self.number.get());
        self.intend(key, effect(Some(self.number.get())));
        value
    }

    pub(crate) fn first_value(&self, key: u32) -> Value<'l> {
        self.value(key, |to| Change { from: None, to })
    }

    /// In the closure of an insert-or-get.
    fn make(&self, key: u32) -> Value<'l> {
        self.see(key, None);
        self.first_value(key)
    }

    /// In the closure of an update.
    fn remake(&self, key: u32, old: &Value<'_>) -> Value<'l> {
        let from = Some(old.number());
        self.see(key, from);
        self.value(key, |to| Change { from, to })
    }

    /// In the closure of a conditional removal, which says `removes`.
    fn judge(&self, key: u32, value: &Value<'_>, removes: bool) -> bool {
        let from = Some(value.number());
        self.see(key, from);
        if removes {
            self.intend(key, Ensure { from, to: None });
        }
        removes
    }

    /// An insert-or-get has returned this value: its own, or what was there.
    fn settled(&self, key: u32, current: u32) -> Effect {
        let current = Some(current);
        match self.intended(key) {
            Some(effect @ (Change { to, .. } | Ensure { to, .. })) if to == current => effect,
            _ => Effect::read(current),
        }
    }

    /// An update has returned this new value, if any.
    fn updated(&self, key: u32, new: State) -> Effect {
        let Some(new) = new else {
            return Effect::read(None);
        };
        let intended = self.intended(key).expect("the closure has run");
        let [_, to] = intended.states();
        assert_eq!(to, Some(new), "the value is that of the last run");
        intended
    }

    /// What a removal that did not come about has left there: what it saw and rejected at last.
    fn spared(&self, key: u32) -> State {
        let seen = self.seen.borrow();
        let last = seen.iter().rev().find(|(k, _)| *k == key);
        last.and_then(|(_, state)| *state)
            .filter(|_| self.intended(key).is_none())
    }

    fn every_key(&self, effect: impl Fn(u32) -> Effect) -> Vec<(u32, Effect)> {
        (0..self.keys).map(|key| (key, effect(key))).collect()
    }
}

/// Says a verb to a face, in a closure which returns what the answer tells of the keys. A macro, as the two faces share
/// their verbs but no trait.
macro_rules! say {
    ($verb:expr, $face:expr, $attempt:expr) => {{
        let (face, attempt) = ($face, $attempt);
        let key = |k| attempt.ledger.key(k, 0);
        let probe = |k| attempt.ledger.probe(k, 0);
        let (k, effect) = match $verb {
            Verb::Get(k) => (k, Effect::read(face.get(&probe(k)).map(|v| v.number()))),
            Verb::GetKeyValue(k) => {
                let entry = face.get_key_value(&probe(k));
                (k, Effect::read(entry.map(|(_, v)| v.number())))
            }
            Verb::ContainsKey(k) => (k, Effect::found(face.contains_key(&probe(k)))),
            Verb::Insert(k, _) => {
                let value = attempt.value(k, Set);
                let to = Some(value.number());
                let from = face.insert(key(k), value).map(|v| v.number());
                (k, Change { from, to })
            }
            Verb::TryInsert(k, _) => match face.try_insert(key(k), attempt.first_value(k)) {
                Ok(new) => (k, Effect::inserted(new.number())),
                Err(occupied) => (k, Effect::read(Some(occupied.current.number()))),
            },
            Verb::TryInsertWith(k, _) => match face.try_insert_with(key(k), || attempt.make(k)) {
                Ok(new) => (k, Effect::inserted(new.number())),
                Err(occupied) => (k, Effect::read(Some(occupied.current.number()))),
            },
            Verb::GetOrInsert(k, _) => {
                let current = face.get_or_insert(key(k), attempt.first_value(k));
                (k, attempt.settled(k, current.number()))
            }
            Verb::GetOrInsertWith(k, _) => {
                let current = face.get_or_insert_with(key(k), || attempt.make(k));
                (k, attempt.settled(k, current.number()))
            }
            Verb::GetOrInsertWithKey(k, _) => {
                let current = face.get_or_insert_with_key(key(k), |_| attempt.make(k));
                (k, attempt.settled(k, current.number()))
            }
            Verb::GetOrInsertRefWith(k, _) => {
                let current = face.get_or_insert_ref_with(&probe(k), || attempt.make(k));
                (k, attempt.settled(k, current.number()))
            }
            Verb::GetOrTryInsertWith(k, _) => {
                let make = || Ok::<_, Infallible>(attempt.make(k));
                let Ok(current) = face.get_or_try_insert_with(key(k), make);
                (k, attempt.settled(k, current.number()))
            }
            Verb::GetOrFail(k, _) => {
                let fail = || {
                    attempt.see(k, None);
                    Err(())
                };
                let current = face.get_or_try_insert_with(key(k), fail).ok();
                (k, Effect::read(current.map(|v| v.number())))
            }
            Verb::GetOrDefault(k, _) => {
                let (from, to) = (None, Some(0));
                attempt.intend(k, Ensure { from, to });
                let current = face.get_or_default(key(k));
                (k, attempt.settled(k, current.number()))
            }
            Verb::Update(k) => {
                let new = face.update(&probe(k), |old| attempt.remake(k, old));
                (k, attempt.updated(k, new.map(|v| v.number())))
            }
            Verb::GetAndUpdate(k) => {
                match face.get_and_update(&probe(k), |old| attempt.remake(k, old)) {
                    None => (k, Effect::read(None)),
                    Some((old, new)) => (k, Effect::replaced(old.number(), new.number())),
                }
            }
            Verb::Compute(k, _, decision) => {
                let computed = face.compute(key(k), |entry| {
                    let from = entry.map(|(_, v)| v.number());
                    attempt.see(k, from);
                    match (decision, from) {
                        (Decision::Abort, _) => Operation::Abort(from),
                        (Decision::Insert, _) | (Decision::Toggle, None) => {
                            Operation::Insert(attempt.value(k, |to| Change { from, to }))
                        }
                        (Decision::Remove | Decision::Toggle, _) => {
                            attempt.intend(k, Change { from, to: None });
                            Operation::Remove
                        }
                    }
                });
                let effect = match computed {
                    Computed::Inserted(new) => Effect::inserted(new.number()),
                    Computed::Replaced { old, new } => Effect::replaced(old.number(), new.number()),
                    Computed::Removed(old) => Effect::removed(Some(old.number())),
                    Computed::Absent => Effect::read(None),
                    Computed::Aborted(state) => Effect::read(state),
                };
                (k, effect)
            }
            Verb::Remove(k) => {
                attempt.intend(k, Set(None));
                let old = face.remove(&probe(k));
                (k, Effect::removed(old.map(|v| v.number())))
            }
            Verb::RemoveEntry(k) => {
                attempt.intend(k, Set(None));
                let old = face.remove_entry(&probe(k));
                (k, Effect::removed(old.map(|(_, v)| v.number())))
            }
            Verb::RemoveIf(k, divisor) => {
                let removes = |v: &Value<'_>| v.number() % divisor == 0;
                match face.remove_if(&probe(k), |_, v| attempt.judge(k, v, removes(v))) {
                    Some(old) => (k, Effect::removed(Some(old.number()))),
                    None => (k, Effect::read(attempt.spared(k))),
                }
            }
            Verb::Retain(divisor) => {
                face.retain(|key, v| {
                    let removes = (key.number() + v.number()) % divisor == 0;
                    !attempt.judge(key.number(), v, removes)
                });
                let effect = |k| attempt.intended(k);
                return attempt.every_key(|k| effect(k).unwrap_or(Effect::read(attempt.spared(k))));
            }
            Verb::Clear => {
                (0..attempt.keys).for_each(|k| attempt.intend(k, Set(None)));
                face.clear();
                return attempt.every_key(|_| Set(None));
            }
            Verb::Iter => {
                let entries = face.iter().map(|(k, v)| (k.number(), v.number()));
                let entries: BTreeMap<_, _> = entries.collect();
                return attempt.every_key(|k| Effect::read(entries.get(&k).copied()));
            }
            Verb::Keys => {
                let keys: BTreeSet<_> = face.keys().map(|k| k.number()).collect();
                return attempt.every_key(|k| Effect::found(keys.contains(&k)));
            }
            // They tell of no key.
            Verb::Values => {
                face.values().for_each(drop);
                return Vec::new();
            }
            Verb::Len => {
                _ = face.len();
                return Vec::new();
            }
        };
        vec![(k, effect)]
    }};
}

impl<'l> Recorder<'_, 'l> {
    /// Runs the operation, if it takes shared access. Values are given numbers that are nobody else's, whatever number
    /// the operation bears.
    pub(crate) fn run(&mut self, op: Op) {
        let (map, ledger) = (self.map, self.ledger);
        match op {
            Op::Owned(verb) => self.call(op, |attempt| say!(verb, map, attempt)),
            Op::Pinned(verb) => self.call(op, |attempt| say!(verb, &map.pin(), attempt)),
            Op::OnlyPinned(PinnedVerb::ReplaceIfSame { key, stale, .. }) => {
                self.with_current(op, key, stale, |pinned, attempt, current| {
                    let from = Some(current.number());
                    let value = attempt.value(key, |to| Change { from, to });
                    match pinned.replace_if_same(&ledger.probe(key, 0), current, value) {
                        Ok(new) => Effect::replaced(current.number(), new.number()),
                        Err(_) => Not(from),
                    }
                });
            }
            Op::OnlyPinned(PinnedVerb::RemoveIfSame { key, stale }) => {
                self.with_current(op, key, stale, |pinned, attempt, current| {
                    let effect = Effect::removed(Some(current.number()));
                    attempt.intend(key, effect);
                    match pinned.remove_if_same(&ledger.probe(key, 0), current) {
                        true => effect,
                        false => Not(Some(current.number())),
                    }
                });
            }
            // Keys that are not recorded come, and go with `retain` and `clear`.
            Op::Whole(Whole::ExtendShared { from, count }) => {
                let from = self.keys + from;
                let op = Op::Whole(Whole::ExtendShared { from, count });
                self.call(op, |_| run_unrecorded(op, map, ledger));
            }
            _ => self.call(op, |_| run_unrecorded(op, map, ledger)),
        }
        self.capacities.insert(map.capacity());
    }

    /// The same with the `nth` event of a kind panicking, should there be so many.
    pub(crate) fn run_and_trip(&mut self, op: Op, event: Event, nth: usize) {
        self.ledger.trip(event, nth, || self.run(op));
    }

    /// Gets the value under a pin, lets others replace it or does so, and makes a call that is about that very value.
    fn with_current(
        &mut self,
        op: Op,
        key: u32,
        stale: bool,
        act: impl FnOnce(&View<'_, 'l>, &Attempt<'_, 'l>, &Value<'l>) -> Effect,
    ) {
        let pinned = self.map.pin();
        let mut current = None;
        self.call(Op::Pinned(Verb::Get(key)), |attempt| {
            current = pinned.get(&attempt.ledger.probe(key, 0));
            vec![(key, Effect::read(current.map(Value::number)))]
        });
        if stale {
            self.run(Op::Pinned(Verb::Insert(key, 0)));
        }
        // The number of a default value does not say which one it is.
        if let Some(current) = current.filter(|current| current.number() != 0) {
            self.call(op, |attempt| vec![(key, act(&pinned, attempt, current))]);
        }
    }

    /// Makes a call, which returns what it tells of the keys.
    pub(crate) fn call(
        &mut self,
        op: Op,
        act: impl FnOnce(&Attempt<'_, 'l>) -> Vec<(u32, Effect)>,
    ) {
        let attempt = Attempt {
            ledger: self.ledger,
            keys: self.keys,
            pace: &self.pace,
            number: &self.number,
            seen: RefCell::default(),
            intended: RefCell::default(),
        };
        let invoked = self.clock.fetch_add(1, Ordering::SeqCst);
        attempt.pause();
        let told = panic::catch_unwind(AssertUnwindSafe(|| act(&attempt)));
        let returned = self.clock.fetch_add(1, Ordering::SeqCst);

        let Attempt { seen, intended, .. } = attempt;
        let (effects, end) = match told {
            Ok(effects) => (effects, Some(returned)),
            Err(panic) if is_blown(&*panic) => (intended.into_inner().into_iter().collect(), None),
            Err(panic) => panic::resume_unwind(panic),
        };
        // What closures were shown was there during the call, whatever became of it.
        let seen = seen.into_inner().into_iter();
        let seen = seen.map(|(key, state)| (key, Effect::read(state), Some(returned)));
        let effects = effects.into_iter().map(|(key, effect)| (key, effect, end));
        for (key, effect, returned) in seen.chain(effects).filter(|&(key, ..)| key < self.keys) {
            let call = Call {
                thread: self.thread,
                op,
                effect,
                invoked,
                returned,
            };
            self.calls.push((key, call));
        }
    }
}

fn run_unrecorded<'l>(op: Op, map: &Map<'l>, ledger: &'l Ledger) -> Vec<(u32, Effect)> {
    op.run_shared(map, ledger);
    Vec::new()
}

// ---- Scripts ---------------------------------------------------------------------------------------------------

/// What several threads do to a map that starts empty. By the schedule each gets its turns, which end between and
/// within calls; without a schedule they run as they may.
#[derive(Clone, Debug)]
pub(crate) struct Scripts {
    pub(crate) hashes: Hashes,
    pub(crate) keys: u32,
    pub(crate) threads: Vec<Vec<Op>>,
    pub(crate) schedule: Vec<u8>,
}

impl Scripts {
    /// The history is linearizable, the map is consistent afterwards, and every key and value is dropped once.
    pub(crate) fn check(&self) -> History {
        let ledger = Ledger::new();
        let map = Map::with_hasher(self.hashes);
        let threads = self.threads.len();
        let baton = Baton::new(&self.schedule, threads);
        let pace = |thread| {
            if self.schedule.is_empty() {
                Pace::random(thread as u64)
            } else {
                Pace::Turns(baton.take_up(thread))
            }
        };
        let history = record(
            &map,
            &ledger,
            self.keys,
            threads,
            pace,
            |thread, recorder| {
                self.threads[thread].iter().for_each(|&op| recorder.run(op));
            },
        );
        history.assert_linearizable(self);
        assert_eq!(map.len(), map.pin().iter().count(), "length when quiet");
        drop(map);
        ledger.assert_balanced();
        history
    }
}
