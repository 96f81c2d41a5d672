//! Asynchronous initialisers: one future, driven by whoever waits for its value.
//!
//! The caller who claims a key leaves its initialiser, as a boxed future, in the entry; it and all others who want the value
//! have a [`Seat`]. Any of them may poll the future. So a caller who is cancelled, or is never polled again, stops nobody:
//! the others drive the future to its end, and it still runs once. When the last seat is given up, the future is dropped and
//! the key is absent again.
//!
//! ```text
//!  attempt   absent --start--> parked --take--> polled, absent --park--> parked      parked --last seat left--> absent
//!                                                     \__ended: the poller publishes or removes the entry__/
//! ```
//!
//! * The future's waker marks it as woken and tells **all** seats. The first who comes polls it: once for each time it was
//!   woken.
//! * Who comes while it is polled waits. If it is woken meanwhile, all are told when it is parked again: none of those who
//!   were turned away depends on the poller coming back.

use std::any::Any;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use equivalent::Equivalent;

use super::OnceMap;
use super::claim::{Claim, Entered};
use super::making::{Making, Running, Slot};

/// Yields the value, or nothing if the initialiser failed.
type Attempt<V> = Pin<Box<dyn Future<Output = Option<V>> + Send>>;

/// What the callers who wait for a value share.
pub(super) struct Ride<V>(Mutex<State<V>>);

struct State<V> {
    /// `None` while it is polled, when it is over, and if a thread makes the value.
    attempt: Option<Attempt<V>>,
    /// Whether it wants to be polled.
    woken: bool,
    seats: usize,
}

impl<V> Ride<V> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            attempt: None,
            woken: false,
            seats: 0,
        }))
    }

    // No user code runs while it is locked.
    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn board(&self) {
        self.state().seats += 1;
    }

    /// The last to leave has the attempt to drop.
    fn leave(&self) -> Option<Attempt<V>> {
        let state = &mut *self.state();
        state.seats -= 1;
        state.attempt.take_if(|_| state.seats == 0)
    }

    /// The attempt, if it is to be polled, and now by nobody but the caller.
    fn take(&self) -> Option<Attempt<V>> {
        let state = &mut *self.state();
        let attempt = state.attempt.take_if(|_| state.woken)?;
        state.woken = false;
        Some(attempt)
    }

    /// Whether somebody is to be told to poll it.
    fn park(&self, attempt: Attempt<V>) -> bool {
        let mut state = self.state();
        state.attempt = Some(attempt);
        state.woken
    }

    /// Whether somebody is to be told to poll it: not if all were told before, and nobody has come yet.
    fn wake(&self) -> bool {
        let state = &mut *self.state();
        let told = mem::replace(&mut state.woken, true);
        !told && state.attempt.is_some()
    }
}

impl<V> Making<V> {
    fn start(&self, attempt: Attempt<V>) {
        self.ride.wake();
        self.park(attempt);
    }

    fn park(&self, attempt: Attempt<V>) {
        if self.ride.park(attempt) {
            self.notify();
        }
    }
}

/// The waker of the attempt.
impl<V> Wake for Making<V> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.ride.wake() {
            self.notify();
        }
    }
}

/// What a caller's own initialiser came to.
type Report<V, E> = Arc<Mutex<Option<Result<Result<V, E>, Box<dyn Any + Send>>>>>;

/// Runs `init` to its end, and tells its caller what it comes to.
async fn attempt<V, E, F, Fut>(init: F, report: Report<V, E>) -> Option<V>
where
    V: Clone,
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<V, E>>,
{
    let mut made = Box::pin(async { init().await.map(|value| (value.clone(), value)) });
    let made = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| made.as_mut().poll(context)));
        polled.map_or_else(|panic| Poll::Ready(Err(panic)), |polled| polled.map(Ok))
    });
    let (outcome, value) = match made.await {
        Ok(Ok((copy, value))) => (Ok(Ok(copy)), Some(value)),
        Ok(Err(error)) => (Ok(Err(error)), None),
        Err(panic) => (Err(panic), None),
    };
    *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    value
}

/// The place of a caller who waits.
struct Seat<'s, K: Hash + Eq, V, S: BuildHasher> {
    once: &'s OnceMap<K, V, S>,
    key: &'s K,
    making: &'s Arc<Making<V>>,
}

impl<'s, K: Hash + Eq, V, S: BuildHasher> Seat<'s, K, V, S> {
    fn board(once: &'s OnceMap<K, V, S>, key: &'s K, making: &'s Arc<Making<V>>) -> Self {
        making.ride.board();
        Self { once, key, making }
    }

    fn claim(&self) -> Claim<'s, K, V, S> {
        Claim::new(self.once, self.key, self.making)
    }
}

impl<K: Hash + Eq + Clone, V: Send + 'static, S: BuildHasher> Seat<'_, K, V, S> {
    /// Waits until the making has ended, and drives it if it is a future.
    async fn ride(self) {
        let mut listener = self.making.listen();
        poll_fn(|context| {
            // Registered before it looks, and before it polls: it is told of whatever comes after.
            while Pin::new(&mut listener).poll(context).is_ready() {
                listener = self.making.listen();
            }
            if let Some(attempt) = self.making.ride.take() {
                self.poll(self.claim(), attempt);
            }
            if self.making.is_settled() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    // PANIC: the destructors of what was made and not wanted. The attempt is dropped first, then the claim.
    fn poll(&self, claim: Claim<'_, K, V, S>, mut attempt: Attempt<V>) {
        let waker = Waker::from(Arc::clone(self.making));
        let polled = {
            let _running = Running::enter(self.making);
            attempt.as_mut().poll(&mut Context::from_waker(&waker))
        };
        match polled {
            Poll::Pending => {
                mem::forget(claim);
                self.making.park(attempt);
            }
            Poll::Ready(Some(value)) => {
                claim.publish(&self.once.pin(), value);
            }
            Poll::Ready(None) => {}
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Drop for Seat<'_, K, V, S> {
    // PANIC: the initialiser's destructor; the claim clears the mark all the same.
    fn drop(&mut self) {
        if let Some(attempt) = self.making.ride.leave() {
            let _claim = self.claim();
            let _running = Running::enter(self.making);
            drop(attempt);
        }
    }
}

/// With the feature `async`. For every runtime; the futures are `Send` if `K`, `V` and `S` are `Send` and `Sync`.
///
/// The initialiser becomes a future of its own, driven by all callers who wait for it. So it must be `Send` and own what it
/// uses (`'static`), and **cancellation** is safe: a caller who is dropped, or not polled any more, leaves the initialiser
/// to the other callers, and only when all of them are gone it is dropped and the key is absent again.
///
/// Threads that wait, in [`get_or_init`](Self::get_or_init) and its kin, do not drive it: some task must.
impl<K, V, S> OnceMap<K, V, S>
where
    K: Hash + Eq + Clone,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher,
{
    /// As [`get_or_init`](Self::get_or_init), for an initialiser that is a future.
    ///
    /// # Panics
    /// As [`get_or_init`](Self::get_or_init). An initialiser that spawns a task which waits for its own key, and waits for
    /// that task, waits for ever.
    ///
    /// ```
    /// # futures_executor::block_on(async {
    /// let map = quince::OnceMap::new();
    /// assert_eq!(map.get_or_init_async("a", || async { 1 }).await, 1);
    /// assert_eq!(map.get_or_init_async("a", || async { unreachable!() }).await, 1);
    /// # });
    /// ```
    pub async fn get_or_init_async<F, Fut>(&self, key: K, init: F) -> V
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = V> + Send + 'static,
    {
        let init = || async { Ok::<_, Infallible>(init().await) };
        let Ok(value) = self.get_or_try_init_async(key, init).await;
        value
    }

    /// As [`get_or_try_init`](Self::get_or_try_init), for an initialiser that is a future.
    ///
    /// # Errors
    /// That of this call's own `init`. If its caller is gone by then, the error is dropped.
    ///
    /// # Panics
    /// As [`get_or_init_async`](Self::get_or_init_async).
    ///
    /// ```
    /// # futures_executor::block_on(async {
    /// let map = quince::OnceMap::new();
    /// let failed = map.get_or_try_init_async("a", || async { "x".parse::<i32>() }).await;
    /// assert!(failed.is_err());
    /// assert_eq!(map.get_or_try_init_async("a", || async { "1".parse() }).await, Ok(1));
    /// # });
    /// ```
    pub async fn get_or_try_init_async<F, Fut, E>(&self, key: K, init: F) -> Result<V, E>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<V, E>> + Send + 'static,
        E: Send + 'static,
    {
        let making = loop {
            let entered = self.pin().enter(&key).cloned();
            match entered {
                Entered::Ready(value) => return Ok(value),
                Entered::Making(making) => self.join(&key, &making).await,
                Entered::Claimed(making) => break making,
            }
        };
        let report = Report::default();
        let seat = Seat::board(self, &key, &making);
        making.start(Box::pin(attempt(init, Arc::clone(&report))));
        seat.ride().await;
        let outcome = report.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome
            .expect("the attempt has ended")
            .unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// As [`wait`](Self::wait), as a future.
    ///
    /// ```
    /// # futures_executor::block_on(async {
    /// let map = quince::OnceMap::from([("a", 1)]);
    /// assert_eq!((map.wait_async("a").await, map.wait_async("b").await), (Some(1), None));
    /// # });
    /// ```
    pub async fn wait_async<Q>(&self, key: &Q) -> Option<V>
    where
        Q: ?Sized + Hash + Equivalent<K>,
    {
        loop {
            let (key, making) = match self.slots.pin().get_key_value(key)? {
                (_, Slot::Ready(value)) => return Some(value.clone()),
                (key, Slot::Making(making)) => (key.clone(), Arc::clone(making)),
            };
            self.join(&key, &making).await;
        }
    }

    /// As `wait_for`.
    async fn join(&self, key: &K, making: &Arc<Making<V>>) {
        if making.is_settled() {
            self.pin().unlink(key, making);
        } else {
            Seat::board(self, key, making).ride().await;
        }
    }
}
