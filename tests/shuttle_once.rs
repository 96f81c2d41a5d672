//! Asynchronous initialisers of `OnceMap` under many random schedules: callers who come, drive, give up and stop polling.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test --release --features async --test shuttle_once -- --nocapture
//! ```
#![cfg(all(shuttle, feature = "async"))]

mod support;

use quince::OnceMap;
use shuttle::{future::block_on, thread};
use std::{
    future::{Future, poll_fn},
    hash::BuildHasherDefault,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Poll,
};
use support::schedules::explore;

/// The same in every execution.
type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;
type Map = OnceMap<u32, usize, Hasher>;

/// What became of the initialisers of one key.
#[derive(Default)]
struct Book {
    begun: AtomicUsize,
    ended: AtomicUsize,
    dropped: AtomicUsize,
}

/// Signs off an initialiser.
struct Entry(Arc<Book>);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

/// An initialiser that has to be polled three times. It is woken while it is polled, and by another thread.
async fn initialise(book: Arc<Book>, value: usize) -> usize {
    book.begun.fetch_add(1, SeqCst);
    let entry = Entry(book);
    let mut polls = 0;
    poll_fn(|context| {
        polls += 1;
        let waker = context.waker().clone();
        match polls {
            1 => waker.wake(),
            2 => drop(thread::spawn(|| waker.wake())),
            _ => return Poll::Ready(()),
        }
        Poll::Pending
    })
    .await;
    entry.0.ended.fetch_add(1, SeqCst);
    value
}

/// Polls `future` so often at most: then `None`, and what it is worth to be dropped is decided by the caller.
async fn patient<F: Future>(mut future: Pin<&mut F>, mut polls: usize) -> Option<F::Output> {
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        polls -= 1;
        match polled {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Callers of one key, each with its patience. Returns the map, what they got, and the book.
fn call(patience: &'static [usize]) -> (Arc<Map>, Vec<Option<usize>>, Arc<Book>) {
    let (map, book) = (Arc::new(Map::default()), Arc::new(Book::default()));
    let spawn = |(number, &polls): (usize, &usize)| {
        let (map, book) = (Arc::clone(&map), Arc::clone(&book));
        thread::spawn(move || {
            let init = move || initialise(book, number);
            let future = pin!(map.get_or_init_async(7, init));
            block_on(patient(future, polls))
        })
    };
    let callers: Vec<_> = patience.iter().enumerate().map(spawn).collect();
    let got = callers
        .into_iter()
        .map(|caller| caller.join().unwrap())
        .collect();
    (map, got, book)
}

#[test]
fn one_initialiser_ends_however_many_callers_give_up() {
    explore(5_000, || {
        let (map, got, book) = call(&[1, 2, usize::MAX, usize::MAX]);
        // The two who have patience are told of one value, and so is whoever was quick.
        let value = map.get(&7).expect("made");
        assert_eq!(got[2..], [Some(value), Some(value)]);
        assert!(got.iter().flatten().all(|&of_caller| of_caller == value));
        assert_eq!(book.ended.load(SeqCst), 1);
        assert_eq!(map.len(), 1);
    });
}

#[test]
fn when_all_callers_give_up_the_key_is_absent_and_no_initialiser_is_left() {
    explore(5_000, || {
        let (map, got, book) = call(&[1, 1, 2]);
        let made = book.ended.load(SeqCst);
        assert!(made <= 1);
        assert_eq!(map.len(), made);
        assert_eq!(map.get(&7).is_some(), made == 1);
        assert!(made == 1 || got.iter().all(Option::is_none));
        assert_eq!(book.begun.load(SeqCst), book.dropped.load(SeqCst));
        // Who comes now makes it, unless it is made.
        let value = block_on(map.get_or_init_async(7, || async { 100 }));
        assert_eq!(value == 100, made == 0);
    });
}

#[test]
fn a_thread_that_waits_takes_over_when_the_last_task_gives_up() {
    explore(5_000, || {
        let map = Arc::new(Map::default());
        let book = Arc::new(Book::default());
        let task = {
            let (map, book) = (Arc::clone(&map), Arc::clone(&book));
            thread::spawn(move || {
                let future = pin!(map.get_or_init_async(7, move || initialise(book, 1)));
                block_on(patient(future, 1))
            })
        };
        let waiting = {
            let map = Arc::clone(&map);
            thread::spawn(move || map.get_or_init(7, || 2))
        };
        assert_eq!(waiting.join().unwrap(), map.get(&7).expect("made"));
        assert!(matches!(task.join().unwrap(), None | Some(2)));
        assert_eq!(map.get(&7), Some(2));
    });
}
