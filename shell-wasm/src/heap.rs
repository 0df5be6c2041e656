//! The one heap: dlmalloc, of which nothing is linked but taking and giving back.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use dlmalloc::Dlmalloc;

struct Heap(UnsafeCell<Dlmalloc>);

// SAFETY: linear memory is not shared, so there is one thread; and no call of the heap calls it again.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(Dlmalloc::new()));

/// Takes `size` bytes at a multiple of two words; null when the host gives no more.
pub fn take(size: usize) -> *mut u8 {
    // SAFETY: nothing else holds the heap, see above.
    unsafe { (*HEAP.0.get()).c_malloc(size) }
}

/// Gives back what [`take`] gave.
///
/// # Safety
/// `ptr` came from `take` and was not given back.
pub unsafe fn give(ptr: *mut u8) {
    // SAFETY: as above.
    unsafe { (*HEAP.0.get()).c_free(ptr) }
}

// Nothing uses Rust's own allocation, but the crates linked ask for it to be there.
// SAFETY: every call is dlmalloc's own.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout is as this trait demands.
        unsafe { (*self.0.get()).c_memalign(layout.align(), layout.size()) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, _: Layout) {
        // SAFETY: the block is one of `alloc`.
        unsafe { give(ptr) }
    }
}
