//! What the threads of one life of the manager share, the board apart: the truth, the events, and the
//! meeting points at which things are made to happen in a certain order, or at once.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::board::Step;
use super::feed::{Event, Feed};
use super::plan::{Cohort, FINALIZERS_PER_POD, Plan, pod_name, pod_number};

/// What outlives the manager.
pub(crate) struct World<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) names: Vec<String>,
    /// How many there are in a life that is not cut short.
    pub(crate) events: usize,
    /// The truth: whether a snapshot is ready.
    ready: Vec<AtomicBool>,
    /// The finalizers that have ended.
    ended: Vec<AtomicBool>,
}

impl<'p> World<'p> {
    /// What nobody waits for is ready from the start.
    pub(crate) fn new(plan: &'p Plan) -> Self {
        let ready = |snapshot| AtomicBool::new(snapshot >= plan.waited);
        Self {
            plan,
            names: (0..plan.snapshots).map(pod_name).collect(),
            events: plan.events(),
            ready: (0..plan.snapshots).map(ready).collect(),
            ended: (0..plan.finalizers())
                .map(|_| AtomicBool::new(false))
                .collect(),
        }
    }

    /// Who waits registers and then looks here; who publishes sets this and then looks for a slot. One of the
    /// two must see the other, for which a load and a store, acquire and release, do not suffice. Both are
    /// read-modify-write operations here: they have an order, and the later one sees all that came before the
    /// earlier one. A lock around the truth does as well, or a sequentially consistent fence on both sides.
    pub(crate) fn is_ready(&self, snapshot: usize) -> bool {
        self.ready[snapshot].fetch_or(false, Ordering::AcqRel)
    }

    /// Tells whether it was not ready before.
    fn make_ready(&self, snapshot: usize) -> bool {
        !self.ready[snapshot].swap(true, Ordering::AcqRel)
    }
}

pub(crate) struct Stage<'w> {
    pub(crate) world: &'w World<'w>,
    pub(crate) feed: Feed,
    pub(crate) counts: Counts,
    /// Whether this is the life after the restart. The one before ends half-way.
    pub(crate) restarted: bool,
    /// Events not consumed yet, delivered or not, by snapshot.
    outstanding: Vec<AtomicUsize>,
    pods: Vec<Pod>,
    /// At the end, at a restart, at a stall and when a thread panics, everybody stops waiting.
    ending: AtomicBool,
}

/// The meeting points of one waited pod.
struct Pod {
    /// An earlier life has released its events: they are replayed, and nothing is staged any more.
    replayed: bool,
    begun: AtomicUsize,
    registered: AtomicUsize,
    together: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) consumed: AtomicUsize,
    pub(crate) orphans: AtomicUsize,
    pub(crate) ended: AtomicUsize,
    pub(crate) served: AtomicUsize,
    pub(crate) timeouts: AtomicUsize,
    pub(crate) finalizer_panics: AtomicUsize,
    pub(crate) worker_panics: AtomicUsize,
    pub(crate) events_at_close: AtomicUsize,
    found: AtomicUsize,
}

/// Counts one more; returns how many there were before.
pub(crate) fn count(counter: &AtomicUsize) -> usize {
    counter.fetch_add(1, Ordering::Relaxed)
}

impl<'w> Stage<'w> {
    /// At the start, the events of all that is ready arrive at once.
    pub(crate) fn new(world: &'w World<'w>, restarted: bool) -> Self {
        let plan = world.plan;
        let seed = plan.seed ^ u64::from(restarted);
        let copies = |snapshot| AtomicUsize::new(plan.copies(snapshot));
        let pod = |pod| Pod {
            replayed: world.is_ready(pod),
            begun: AtomicUsize::new(0),
            registered: AtomicUsize::new(0),
            together: AtomicUsize::new(0),
        };
        let stage = Self {
            world,
            feed: Feed::new(seed),
            counts: Counts::default(),
            restarted,
            outstanding: (0..plan.snapshots).map(copies).collect(),
            pods: (0..plan.waited).map(pod).collect(),
            ending: AtomicBool::new(false),
        };
        for snapshot in (0..plan.snapshots).filter(|&snapshot| world.is_ready(snapshot)) {
            stage
                .feed
                .deliver(Event::of(snapshot), plan.copies(snapshot));
        }
        stage
    }

    /// A finalizer has ended.
    pub(crate) fn ended(&self, pod: usize, finalizer: usize) {
        self.world.ended[pod * FINALIZERS_PER_POD + finalizer].store(true, Ordering::Relaxed);
        let ended = count(&self.counts.ended) + 1;
        self.restart_half_way(ended, self.world.plan.finalizers());
    }

    /// An event has been published.
    pub(crate) fn consumed(&self, event: Event) {
        self.outstanding[event.snapshot].fetch_sub(1, Ordering::AcqRel);
        let consumed = count(&self.counts.consumed) + 1;
        if self.world.plan.waited == 0 {
            self.restart_half_way(consumed, self.world.events);
        }
    }

    fn restart_half_way(&self, done: usize, all: usize) {
        if !self.restarted && 2 * done >= all {
            self.end();
        }
    }

    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.feed.close();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Whether all events of the snapshot were delivered and handled: from then on, waiting is in vain.
    pub(crate) fn is_over(&self, snapshot: usize) -> bool {
        self.outstanding[snapshot].load(Ordering::Acquire) == 0
    }

    pub(crate) fn has_ended(&self, pod: usize, finalizer: usize) -> bool {
        self.world.ended[pod * FINALIZERS_PER_POD + finalizer].load(Ordering::Relaxed)
    }

    /// The part of a finalizer that comes before it registers.
    pub(crate) fn before_registering(&self, pod: usize) {
        if self.pods[pod].replayed {
            return;
        }
        self.meet(&self.pods[pod].begun, FINALIZERS_PER_POD);
        match self.world.plan.cohort(pod) {
            Cohort::Early => {
                self.release(pod);
                self.wait_until(|| self.is_over(pod));
            }
            Cohort::Together => {
                self.release(pod);
                self.meet_worker(pod);
            }
            Cohort::Held | Cohort::HeldUntilClosed => {}
        }
    }

    /// A finalizer has registered and will wait: not one that is about to be killed, which comes back while
    /// the other one still waits.
    pub(crate) fn registered(&self, pod: usize) {
        let all = count(&self.pods[pod].registered) + 1 == FINALIZERS_PER_POD;
        if all && self.world.plan.cohort(pod) == Cohort::Held {
            self.release(pod);
        }
    }

    /// A finalizer that was killed comes back. If the event is held until the last waiter is gone, waiting
    /// before that would be waiting for oneself.
    pub(crate) fn before_coming_back(&self, pod: usize) {
        if self.world.plan.cohort(pod) == Cohort::HeldUntilClosed {
            self.wait_until(|| self.world.is_ready(pod));
        }
    }

    /// Where a worker with an event that [`meets`](Event::meets) joins the finalizers of the pod.
    pub(crate) fn meet_finalizers(&self, pod: usize) {
        self.meet_worker(pod);
        let further_copies = self.world.plan.copies(pod) - 1;
        self.feed.deliver(Event::of(pod), further_copies);
    }

    /// What happens where the threads pass the hooks of the board.
    pub(crate) fn reach(&self, step: Step, pod: &str) {
        /// So many publishers pass between two that panic.
        const PANIC_PERIOD: usize = 7;
        if self.world.plan.yields {
            thread::yield_now();
        }
        match step {
            Step::Linking => {}
            Step::Found => {
                if count(&self.counts.found) % PANIC_PERIOD == PANIC_PERIOD - 1 {
                    inject_panic();
                }
            }
            Step::Closed => self.before_unlinking(pod_number(pod)),
            Step::Blocked => {
                if self.is_ending() {
                    inject_panic();
                }
            }
        }
    }

    fn before_unlinking(&self, pod: usize) {
        let held = self.world.plan.cohort(pod) == Cohort::HeldUntilClosed;
        if held && self.release(pod) {
            self.wait_until(|| self.is_over(pod));
            count(&self.counts.events_at_close);
        }
    }

    /// Makes the snapshot ready, *then* delivers its events. The first call does it, and is told so.
    fn release(&self, pod: usize) -> bool {
        let first = self.world.make_ready(pod);
        if first {
            let meets = self.world.plan.cohort(pod) == Cohort::Together;
            let copies = if meets {
                1
            } else {
                self.world.plan.copies(pod)
            };
            let event = Event {
                snapshot: pod,
                meets,
            };
            self.feed.deliver(event, copies);
        }
        first
    }

    fn meet_worker(&self, pod: usize) {
        self.meet(&self.pods[pod].together, FINALIZERS_PER_POD + 1);
    }

    fn meet(&self, arrived: &AtomicUsize, parties: usize) {
        arrived.fetch_add(1, Ordering::AcqRel);
        self.wait_until(|| arrived.load(Ordering::Acquire) >= parties);
    }

    /// Watches rather than sleeps at first: threads that are woken one after the other race less.
    fn wait_until(&self, arrived: impl Fn() -> bool) {
        const LOOKS: u32 = 200;
        const NAP: Duration = Duration::from_micros(100);
        let mut looks = 0;
        while !arrived() && !self.is_ending() {
            if looks < LOOKS {
                looks += 1;
                thread::yield_now();
            } else {
                thread::sleep(NAP);
            }
        }
    }
}

/// The payload of injected panics.
pub(crate) struct Injected;

/// Not by `panic!`, which would print a message for each.
pub(crate) fn inject_panic() -> ! {
    panic::resume_unwind(Box::new(Injected))
}

/// Runs `body` and survives an injected panic, and no other.
pub(crate) fn survive<T>(body: impl FnOnce() -> T) -> Result<T, Injected> {
    panic::catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        match payload.downcast::<Injected>() {
            Ok(injected) => *injected,
            Err(genuine) => panic::resume_unwind(genuine),
        }
    })
}
