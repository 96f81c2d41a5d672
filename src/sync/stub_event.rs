//! Stands in for event-listener, which is checked by its own authors: a generation that each notification ends.

#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(shuttle)]
use shuttle::sync::{Condvar, Mutex};
use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

pub(crate) struct Event(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    generation: usize,
    /// Of the futures that wait for its end.
    wakers: Vec<Waker>,
}

impl Event {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                generation: 0,
                wakers: Vec::new(),
            }),
            ended: Condvar::new(),
        }))
    }

    /// Wakes everybody, however many were asked for.
    pub(crate) fn notify(&self, _: usize) {
        let wakers = {
            let mut state = self.0.state.lock().unwrap();
            state.generation += 1;
            mem::take(&mut state.wakers)
        };
        self.0.ended.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn listen(&self) -> EventListener {
        EventListener {
            registered: self.0.state.lock().unwrap().generation,
            event: Arc::clone(&self.0),
        }
    }
}

pub(crate) struct EventListener {
    event: Arc<Shared>,
    registered: usize,
}

pub(crate) trait Listener {
    fn wait(self);
}

impl Listener for EventListener {
    fn wait(self) {
        let mut state = self.event.state.lock().unwrap();
        while state.generation == self.registered {
            state = self.event.ended.wait(state).unwrap();
        }
    }
}

impl Future for EventListener {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.event.state.lock().unwrap();
        if state.generation != self.registered {
            return Poll::Ready(());
        }
        state.wakers.push(context.waker().clone());
        Poll::Pending
    }
}
