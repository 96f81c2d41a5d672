//! The cap: how many connections of an address are live, in entries that come and go with the connections.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;

use quince::CountedMap;

use super::ledger::{EntryRecord, Ledger};

pub(crate) trait Limiter: Sync {
    /// A place among the connections of `ip`, for as long as it is held; `None` if all are taken.
    fn admit(&self, ip: IpAddr) -> Option<Place<'_>>;

    fn entries(&self) -> usize;

    /// What a limiter that tidies up lazily has to do now and then.
    fn sweep(&self) {}
}

/// Given up on drop.
pub(crate) type Place<'l> = Box<dyn Held + 'l>;

pub(crate) trait Held: Send {}

impl<T: Send> Held for T {}

/// Makes one limiter of a kind.
pub(crate) type MakeLimiter = for<'h> fn(Rules<'h>) -> Box<dyn Limiter + 'h>;

/// What all limiters are given: the cap, and how they are watched.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'h> {
    pub(crate) cap: usize,
    pub(crate) hook: Hook<'h>,
    pub(crate) ledger: &'h Ledger,
}

impl<'h> Rules<'h> {
    pub(crate) fn address(&self, ip: IpAddr) -> Address<'h> {
        Address {
            ip,
            hook: self.hook,
        }
    }

    pub(crate) fn new_entry(&self) -> EntryRecord<'h> {
        (self.hook)(Step::Linking);
        EntryRecord::new(self.ledger)
    }
}

/// What a limiter tells about where a thread stands, so that something can be made to happen there.
pub(crate) type Hook<'h> = &'h (dyn Fn(Step) + Sync);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The look-up found an entry, which is not counted up yet.
    Found,
    /// The look-up found no entry, the new one is not linked yet.
    Linking,
}

/// An [`IpAddr`], which is all that a program of its own needs as the key. This one tells when it was found: no
/// other code of ours runs between a look-up and what comes of it.
#[derive(Clone, Copy)]
pub(crate) struct Address<'h> {
    ip: IpAddr,
    hook: Hook<'h>,
}

impl Hash for Address<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ip.hash(state);
    }
}

impl PartialEq for Address<'_> {
    fn eq(&self, other: &Self) -> bool {
        let equal = self.ip == other.ip;
        if equal {
            (self.hook)(Step::Found);
        }
        equal
    }
}

impl Eq for Address<'_> {}

/// The limiter that is right.
pub(crate) struct PerAddress<'h, S = RandomState> {
    pub(crate) connections: CountedMap<Address<'h>, EntryRecord<'h>, S>,
    pub(crate) rules: Rules<'h>,
}

impl<'h, S: BuildHasher> PerAddress<'h, S> {
    pub(crate) fn new(rules: Rules<'h>, hasher: S) -> Self {
        Self {
            connections: CountedMap::with_hasher(hasher),
            rules,
        }
    }

    /// Entries stay when their last connection ends.
    pub(crate) fn keeping_idle(self) -> Self {
        Self {
            connections: self.connections.keeping_idle(),
            ..self
        }
    }
}

impl<S: BuildHasher + Send + Sync> Limiter for PerAddress<'_, S> {
    fn admit(&self, ip: IpAddr) -> Option<Place<'_>> {
        let Rules { cap, .. } = self.rules;
        let address = self.rules.address(ip);
        let member = (self.connections).try_join(address, cap, || self.rules.new_entry())?;
        Some(Box::new(member))
    }

    fn entries(&self) -> usize {
        self.connections.len()
    }
}

/// The same for addresses whose connections come and go all the time: their entries stay until the next sweep.
pub(crate) struct Swept<'h, S = RandomState>(PerAddress<'h, S>);

impl<'h, S: BuildHasher> Swept<'h, S> {
    pub(crate) fn new(rules: Rules<'h>, hasher: S) -> Self {
        Self(PerAddress::new(rules, hasher).keeping_idle())
    }
}

impl<S: BuildHasher + Send + Sync> Limiter for Swept<'_, S> {
    fn admit(&self, ip: IpAddr) -> Option<Place<'_>> {
        self.0.admit(ip)
    }

    fn entries(&self) -> usize {
        self.0.entries()
    }

    fn sweep(&self) {
        self.0.connections.sweep();
    }
}

pub(crate) fn eager(rules: Rules<'_>) -> Box<dyn Limiter + '_> {
    Box::new(PerAddress::new(rules, RandomState::new()))
}

pub(crate) fn lazy(rules: Rules<'_>) -> Box<dyn Limiter + '_> {
    Box::new(Swept::new(rules, RandomState::new()))
}
