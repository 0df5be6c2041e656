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
#[inline(always)]
pub fn with(work: impl FnOnce(&mut Runtime) -> Result<(), Error>) -> u32 {
    match enter() {
        Some(runtime) => leave(work(runtime)),
        None => Code::Busy as u32,
    }
}

/// Asks the runtime something that cannot fail; 0 while it is busy.
#[inline(always)]
pub fn ask(question: impl FnOnce(&Runtime) -> usize) -> usize {
    let Some(runtime) = enter() else { return 0 };
    let answer = question(runtime);
    leave(Ok(()));
    answer
}

// What every function of the ABI shares. The caller gives the borrow up with `leave`.
#[inline(never)]
fn enter() -> Option<&'static mut Runtime> {
    if SLOT.taken.swap(true, Ordering::Acquire) {
        fault::record(Error::new(Code::Busy));
        return None;
    }
    // SAFETY: `taken` was false, so no other reference to the runtime lives.
    Some(unsafe { &mut *SLOT.runtime.get() })
}

#[inline(never)]
fn leave(result: Result<(), Error>) -> u32 {
    SLOT.taken.store(false, Ordering::Release);
    fault::number(result)
}
