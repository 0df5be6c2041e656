//! The one runtime of an instance, behind a lock.

use crate::fault;
use crate::runtime::Runtime;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use tinyrustlm_core::error::{Code, Error};

struct Slot {
    taken: AtomicBool,
    runtime: UnsafeCell<Runtime>,
}

// SAFETY: `with` gives the runtime to one caller at a time, guarded by `taken`.
unsafe impl Sync for Slot {}

static SLOT: Slot = Slot { taken: AtomicBool::new(false), runtime: UnsafeCell::new(Runtime::new()) };

/// Runs `work` on the runtime and gives the number of its result.
///
/// `work` is called once. It comes by reference, so that the lock is not repeated in each function of the ABI.
///
/// A call that comes while another is under way gets `Busy`. A trap inside `work` leaves the lock taken for good, so a
/// runtime that may be inconsistent is never entered again.
pub fn with(work: &mut dyn FnMut(&mut Runtime) -> Result<(), Error>) -> u32 {
    if SLOT.taken.swap(true, Ordering::Acquire) {
        return fault::record(Error::new(Code::Busy));
    }
    // SAFETY: `taken` was false, so no other reference to the runtime lives.
    let result = work(unsafe { &mut *SLOT.runtime.get() });
    SLOT.taken.store(false, Ordering::Release);
    fault::number(result)
}
