//! Keys and values that keep books: every instance is entered when it is made and signed off when it is dropped.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

use quince::Equivalent;

/// What became of every key and value made from it. Declared before the map, it outlives it.
///
/// It is also where a test arms the user code that the map calls: see [`trip`](Ledger::trip).
#[derive(Default)]
pub(crate) struct Ledger {
    made: AtomicU32,
    dropped: AtomicU32,
    /// States by serial number; block `b` holds `2^b` of them.
    states: [OnceLock<Box<[AtomicU8]>>; 32],
    /// What went wrong. A panic alone would not do: a map contains those of destructors.
    faults: Mutex<Vec<String>>,
    verdict: Verdict,
    verdicts: AtomicU32,
    /// Per [`Event`], after how many more of them the next one panics; 0 is unarmed.
    fuses: [AtomicUsize; 5],
}

/// User code that a map runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Hash,
    Eq,
    Clone,
    Drop,
    Closure,
}

impl Event {
    pub(crate) const ALL: [Self; 5] =
        [Self::Hash, Self::Eq, Self::Clone, Self::Drop, Self::Closure];
}

/// How keys answer when they are compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Verdict {
    #[default]
    Honest,
    AlwaysEqual,
    NeverEqual,
    Random,
}

const UNMADE: u8 = 0;
const ALIVE: u8 = 1;
const DROPPED: u8 = 2;

/// The payload of the panics that [`Ledger::trip`] causes.
struct Blown;

impl Ledger {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A ledger whose keys lie when they are compared.
    pub(crate) fn with_verdict(verdict: Verdict) -> Self {
        Self {
            verdict,
            ..Self::default()
        }
    }

    pub(crate) fn key(&self, number: u32, label: u32) -> Key<'_> {
        Key {
            number,
            label,
            instance: Instance::new(Some(self)),
        }
    }

    pub(crate) fn value(&self, number: u32) -> Value<'_> {
        Value {
            number,
            instance: Instance::new(Some(self)),
        }
    }

    pub(crate) fn probe(&self, number: u32, label: u32) -> Probe<'_> {
        Probe {
            number,
            label,
            ledger: self,
        }
    }

    /// How many instances were made, clones included.
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Ordering::Acquire)
    }

    /// How many of them are alive.
    pub(crate) fn live(&self) -> u32 {
        let dropped = self.dropped.load(Ordering::Acquire);
        self.made() - dropped
    }

    /// No instance was used after its drop or dropped twice.
    pub(crate) fn assert_sound(&self) {
        let faults = self.faults.lock().unwrap_or_else(|lock| lock.into_inner());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// All that was made was dropped, once.
    pub(crate) fn assert_balanced(&self) {
        self.assert_sound();
        let leaked: Vec<_> = (0..self.made())
            .filter(|&serial| self.state(serial).load(Ordering::Acquire) != DROPPED)
            .collect();
        assert!(leaked.is_empty(), "leaked, by serial number: {leaked:?}");
    }

    /// Runs `body` with the `n`-th event of a kind panicking. Returns `body`'s result, if it was not that panic
    /// that ended it, and whether the panic was raised at all.
    pub(crate) fn trip<R>(
        &self,
        event: Event,
        n: usize,
        body: impl FnOnce() -> R,
    ) -> (Option<R>, bool) {
        let fuse = &self.fuses[event as usize];
        fuse.store(n, Ordering::Relaxed);
        let result = panic::catch_unwind(panic::AssertUnwindSafe(body));
        let blown = fuse.swap(0, Ordering::Relaxed) == 0;
        match result {
            Ok(result) => (Some(result), blown),
            Err(panic) if is_blown(&*panic) => (None, true),
            Err(panic) => panic::resume_unwind(panic),
        }
    }

    /// User code runs: the place where it may have been told to panic.
    pub(crate) fn tick(&self, event: Event) {
        let burn = |left: usize| left.checked_sub(1);
        let fuse = &self.fuses[event as usize];
        if fuse.fetch_update(Ordering::Relaxed, Ordering::Relaxed, burn) == Ok(1) {
            // Not `panic!`: the hook would print a message for each of the many panics that are meant.
            panic::resume_unwind(Box::new(Blown));
        }
    }

    fn state(&self, serial: u32) -> &AtomicU8 {
        let block = (serial + 1).ilog2();
        let make = || (0..1 << block).map(|_| AtomicU8::new(UNMADE)).collect();
        let states = self.states[block as usize].get_or_init(make);
        &states[(serial + 1 - (1 << block)) as usize]
    }

    fn fault(&self, what: &str, serial: u32) {
        let fault = format!("instance {serial}: {what}");
        let mut faults = self.faults.lock().unwrap_or_else(|lock| lock.into_inner());
        faults.push(fault.clone());
        drop(faults);
        if !thread::panicking() {
            panic!("{fault}");
        }
    }

    fn judge(&self, honest: bool) -> bool {
        match self.verdict {
            Verdict::Honest => honest,
            Verdict::AlwaysEqual => true,
            Verdict::NeverEqual => false,
            Verdict::Random => {
                let nth = self.verdicts.fetch_add(1, Ordering::Relaxed);
                nth.wrapping_mul(0x9e37_79b9) >> 31 == 0
            }
        }
    }
}

/// Whether a panic is one that [`Ledger::trip`] asked for.
pub(crate) fn is_blown(panic: &(dyn Any + Send)) -> bool {
    panic.is::<Blown>()
}

/// An entry in the ledger. None for values that `Default` made, which has no ledger at hand.
struct Instance<'l> {
    ledger: Option<&'l Ledger>,
    serial: u32,
}

impl<'l> Instance<'l> {
    fn new(ledger: Option<&'l Ledger>) -> Self {
        let enter = |ledger: &Ledger| {
            let serial = ledger.made.fetch_add(1, Ordering::AcqRel);
            ledger.state(serial).store(ALIVE, Ordering::Release);
            serial
        };
        Self {
            ledger,
            serial: ledger.map_or(0, enter),
        }
    }

    /// To be called at every use.
    fn check(&self) {
        if let Some(ledger) = self.ledger {
            if ledger.state(self.serial).load(Ordering::Acquire) != ALIVE {
                ledger.fault("used while not alive", self.serial);
            }
        }
    }

    fn tick(&self, event: Event) {
        if let Some(ledger) = self.ledger {
            ledger.tick(event);
        }
    }
}

impl Clone for Instance<'_> {
    fn clone(&self) -> Self {
        self.check();
        self.tick(Event::Clone);
        Self::new(self.ledger)
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        let Some(ledger) = self.ledger else { return };
        ledger.dropped.fetch_add(1, Ordering::AcqRel);
        if ledger.state(self.serial).swap(DROPPED, Ordering::AcqRel) != ALIVE {
            ledger.fault("dropped while not alive", self.serial);
        }
        ledger.tick(Event::Drop);
    }
}

/// A key equal to all of its number. The label tells which of the equal ones it is.
#[derive(Clone)]
pub(crate) struct Key<'l> {
    number: u32,
    label: u32,
    instance: Instance<'l>,
}

impl Key<'_> {
    pub(crate) fn number(&self) -> u32 {
        self.instance.check();
        self.number
    }

    pub(crate) fn label(&self) -> u32 {
        self.instance.check();
        self.label
    }

    fn equals(&self, number: u32) -> bool {
        self.instance.tick(Event::Eq);
        let honest = self.number() == number;
        self.instance
            .ledger
            .map_or(honest, |ledger| ledger.judge(honest))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other.number())
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.instance.tick(Event::Hash);
        self.number().hash(state);
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.number(), self.label())
    }
}

/// Looks a [`Key`] up without being one, may be told to panic, and becomes a key on demand. (A plain number looks
/// keys up too.)
#[derive(Clone, Copy)]
pub(crate) struct Probe<'l> {
    number: u32,
    label: u32,
    ledger: &'l Ledger,
}

impl Hash for Probe<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ledger.tick(Event::Hash);
        self.number.hash(state);
    }
}

impl Equivalent<Key<'_>> for Probe<'_> {
    fn equivalent(&self, key: &Key<'_>) -> bool {
        key.equals(self.number)
    }
}

impl Equivalent<Key<'_>> for u32 {
    fn equivalent(&self, key: &Key<'_>) -> bool {
        key.equals(*self)
    }
}

impl<'l> From<&Probe<'l>> for Key<'l> {
    fn from(probe: &Probe<'l>) -> Self {
        probe.ledger.key(probe.number, probe.label)
    }
}

/// A value; `Default` makes the number 0, outside of every ledger.
#[derive(Clone)]
pub(crate) struct Value<'l> {
    number: u32,
    instance: Instance<'l>,
}

impl Value<'_> {
    pub(crate) fn number(&self) -> u32 {
        self.instance.check();
        self.number
    }

    pub(crate) fn set(&mut self, number: u32) {
        self.instance.check();
        self.number = number;
    }
}

impl Default for Value<'_> {
    fn default() -> Self {
        Self {
            number: 0,
            instance: Instance::new(None),
        }
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.number() == other.number()
    }
}

impl Eq for Value<'_> {}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}
