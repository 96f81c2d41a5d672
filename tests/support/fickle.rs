//! A key that goes bad.

use std::hash::{Hash, Hasher};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A key whose `Hash` panics from some moment on.
#[derive(Clone)]
pub(crate) struct Fickle {
    number: u32,
    broken: Arc<AtomicBool>,
}

impl Fickle {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            number,
            broken: Arc::default(),
        }
    }

    pub(crate) fn break_hash(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }
}

impl PartialEq for Fickle {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Fickle {}

impl Hash for Fickle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if self.broken.load(Ordering::Relaxed) {
            resume_unwind(Box::new("no hash"));
        }
        self.number.hash(state);
    }
}
