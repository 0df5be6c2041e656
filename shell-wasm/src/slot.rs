//! The one runtime of an instance, behind a lock.

use crate::fault;
use crate::runtime::Runtime;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use tinyrustlm_core::error::{Code, Error};

struct Slot {
    taken: AtomicBool,
    runtime: UnsafeCell<Runtime>,
}

// SAFETY: `enter` gives the runtime to one caller at a time, guarded by `taken`.
unsafe impl Sync for Slot {}

static SLOT: Slot = Slot { taken: AtomicBool::new(false), runtime: UnsafeCell::new(Runtime::new()) };

/// Work on the runtime with what a call brings: bytes of the host, and two numbers.
type Work = fn(&mut Runtime, bytes: &[u8], numbers: [u32; 2]) -> Result<(), Error>;

/// Runs `work` on the runtime and gives the number of its result.
pub fn call(numbers: [u32; 2], work: Work) -> u32 {
    call_with(NonNull::dangling().as_ptr(), 0, numbers, work)
}

/// The same with the `len` bytes at `ptr`: every call of the host comes through this door.
///
/// One that comes while another is under way gets `Busy`. A trap inside leaves the lock taken for good, so a runtime that
/// may be inconsistent is never entered again.
#[inline(never)]
pub fn call_with(ptr: *const u8, len: usize, numbers: [u32; 2], work: Work) -> u32 {
    let Some(runtime) = enter() else { return Code::Busy as u32 };
    let result = fault::check_bytes(ptr, len).and_then(|()| {
        // SAFETY: the host vouches for `len` initialised bytes at `ptr` for the length of the call.
        work(runtime, unsafe { core::slice::from_raw_parts(ptr, len) }, numbers)
    });
    SLOT.taken.store(false, Ordering::Release);
    fault::number(result)
}

/// Asks the runtime something that cannot fail; 0 while it is busy.
#[inline(never)]
pub fn ask(question: fn(&Runtime) -> usize) -> usize {
    let Some(runtime) = enter() else { return 0 };
    let answer = question(runtime);
    SLOT.taken.store(false, Ordering::Release);
    answer
}

// The caller gives the borrow up by storing false.
fn enter() -> Option<&'static mut Runtime> {
    if SLOT.taken.swap(true, Ordering::Acquire) {
        fault::record(Error::new(Code::Busy));
        return None;
    }
    // SAFETY: `taken` was false, so no other reference to the runtime lives.
    Some(unsafe { &mut *SLOT.runtime.get() })
}
