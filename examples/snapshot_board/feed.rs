//! The events on their way to the workers.

use std::sync::{Condvar, Mutex, MutexGuard};

use super::random::Random;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) snapshot: usize,
    /// Its worker and the finalizers of its pod are released by one barrier.
    pub(crate) meets: bool,
}

impl Event {
    pub(crate) fn of(snapshot: usize) -> Self {
        Self {
            snapshot,
            meets: false,
        }
    }
}

/// A bag rather than a queue: what comes out next is drawn at random, so that no order can be relied upon.
pub(crate) struct Feed {
    bag: Mutex<Bag>,
    changed: Condvar,
}

struct Bag {
    events: Vec<Event>,
    delivered: usize,
    random: Random,
    closed: bool,
}

impl Feed {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            bag: Mutex::new(Bag {
                events: Vec::new(),
                delivered: 0,
                random: Random::new(seed),
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn deliver(&self, event: Event, copies: usize) {
        let mut bag = self.lock();
        bag.events.extend((0..copies).map(|_| event));
        bag.delivered += copies;
        self.changed.notify_all();
    }

    /// Takes back an event whose worker failed.
    pub(crate) fn redeliver(&self, event: Event) {
        self.lock().events.push(event);
        self.changed.notify_one();
    }

    pub(crate) fn delivered(&self) -> usize {
        self.lock().delivered
    }

    /// Waits for an event; `None` once the feed is closed.
    pub(crate) fn take(&self) -> Option<Event> {
        let idle = |bag: &mut Bag| !bag.closed && bag.events.is_empty();
        let mut bag = self.changed.wait_while(self.lock(), idle).unwrap();
        if bag.closed {
            return None;
        }
        let Bag { events, random, .. } = &mut *bag;
        let drawn = random.below(events.len());
        Some(events.swap_remove(drawn))
    }

    /// Whatever is still in the bag is lost.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Bag> {
        self.bag.lock().unwrap()
    }
}
