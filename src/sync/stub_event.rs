//! Stands in for event-listener, which is checked by its own authors: a generation that each notification ends.

#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(shuttle)]
use shuttle::sync::{Condvar, Mutex};
use std::sync::Arc;

pub(crate) struct Event(Arc<Generation>);

struct Generation {
    number: Mutex<usize>,
    ended: Condvar,
}

impl Generation {
    fn now(&self) -> usize {
        *self.number.lock().unwrap()
    }
}

impl Event {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Generation {
            number: Mutex::new(0),
            ended: Condvar::new(),
        }))
    }

    /// Wakes everybody, however many were asked for.
    pub(crate) fn notify(&self, _: usize) {
        *self.0.number.lock().unwrap() += 1;
        self.0.ended.notify_all();
    }

    pub(crate) fn listen(&self) -> EventListener {
        EventListener {
            registered: self.0.now(),
            generation: Arc::clone(&self.0),
        }
    }
}

pub(crate) struct EventListener {
    generation: Arc<Generation>,
    registered: usize,
}

pub(crate) trait Listener {
    fn wait(self);
}

impl Listener for EventListener {
    fn wait(self) {
        let mut number = self.generation.number.lock().unwrap();
        while *number == self.registered {
            number = self.generation.ended.wait(number).unwrap();
        }
    }
}
