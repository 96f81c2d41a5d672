//! Buckets in one zeroed allocation whose pages are not touched before they are used.
//!
//! The allocator is asked for ordinary alignment and the array is aligned here: `alloc_zeroed` with a larger alignment
//! clears the memory by hand, and then the thread that grows the table pays for all of it at once. Cache-line alignment
//! only: huge pages were tried and made fills slower, since they need fresh mappings every time.

use super::bucket::Bucket;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ops::Deref,
    ptr::NonNull,
};

pub(super) struct Buckets {
    first: NonNull<Bucket>,
    len: usize,
    /// What the allocator returned.
    block: NonNull<u8>,
}

impl Buckets {
    /// `len` vacant buckets.
    ///
    /// # Panics
    /// With "capacity overflow" if that is more than an allocation can hold.
    pub(super) fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty, since `len` is not.
        let block = unsafe { alloc_zeroed(layout) };
        let Some(block) = NonNull::new(block) else {
            handle_alloc_error(layout)
        };
        let offset = block.as_ptr().align_offset(align_of::<Bucket>());
        // SAFETY: `layout` has room for the way to the next aligned address.
        let first = unsafe { block.add(offset) }.cast::<Bucket>();
        #[cfg(any(loom, shuttle))]
        for i in 0..len {
            // SAFETY: in bounds.
            let bucket = unsafe { first.add(i) };
            // SAFETY: as above, and aligned.
            unsafe { bucket.write(Bucket::new()) };
        }
        // Elsewhere all-zero bytes are a vacant bucket: its fields are atomic integers.
        Self { first, len, block }
    }

    fn layout(len: usize) -> Layout {
        assert!(len > 0);
        len.checked_mul(size_of::<Bucket>())
            .and_then(|size| size.checked_add(align_of::<Bucket>() - Self::ALIGN))
            .and_then(|size| Layout::from_size_align(size, Self::ALIGN).ok())
            .expect("capacity overflow")
    }

    /// What every allocator gives without extra work.
    const ALIGN: usize = align_of::<u64>() * 2;
}

impl Deref for Buckets {
    type Target = [Bucket];

    #[inline(always)]
    fn deref(&self) -> &[Bucket] {
        // SAFETY: `new` made `len` buckets there.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout; buckets need no drop.
        unsafe { dealloc(self.block.as_ptr(), Self::layout(self.len)) };
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_is_one_cache_line_and_vacant() {
        // Kept, so that the allocator has to give other addresses.
        let mut kept = Vec::new();
        for len in [1, 2, 4, 1 << 10, 1 << 16].repeat(8) {
            let buckets = Buckets::new(len);
            assert_eq!(buckets.len(), len);
            for bucket in &*buckets {
                assert_eq!((&raw const *bucket).addr() % 64, 0);
                assert!(bucket.load(1).is_vacant() && !bucket.is_full());
            }
            kept.push(buckets);
        }
        assert_eq!(size_of::<Bucket>(), 64);
    }

    #[test]
    #[should_panic(expected = "capacity overflow")]
    fn more_buckets_than_memory_can_hold_are_refused() {
        _ = Buckets::new(1 << (usize::BITS - 6));
    }
}
