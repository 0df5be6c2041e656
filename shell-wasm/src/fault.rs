//! The last error, and the ceiling of one transfer: the two things that are looked at without the runtime's lock.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use tinyrustlm_core::error::{Code, Error};

/// Most bytes of one block until the host raises it: 128 MiB.
const DEFAULT_CEILING: u64 = 134_217_728;
/// Stands for "no offset" and "no index" in the record.
const NONE: u32 = u32::MAX;

static CEILING: AtomicU64 = AtomicU64::new(DEFAULT_CEILING);
/// The record of `error_ptr`: number, class, index, 0, offset low, offset high.
static LAST: [AtomicU32; 6] = [const { AtomicU32::new(0) }; 6];

/// Most bytes one call of `alloc` or `load_model` may concern.
pub fn ceiling() -> u64 {
    CEILING.load(Relaxed)
}

/// Sets the ceiling of one transfer; 0 restores the default of 134,217,728 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn set_max_model_bytes(bytes: u64) -> u32 {
    CEILING.store(if bytes == 0 { DEFAULT_CEILING } else { bytes }, Relaxed);
    0
}

/// Address of the record of the last error (24 bytes, constant).
#[unsafe(no_mangle)]
pub extern "C" fn error_ptr() -> *const u8 {
    LAST.as_ptr().cast()
}

/// Keeps an error for the host to read and gives its number.
pub fn record(error: Error) -> u32 {
    let offset = error.offset().unwrap_or(u64::MAX);
    let fields = [
        error.number(),
        error.code().class() as u32,
        error.index().unwrap_or(NONE),
        0,
        offset as u32,
        (offset >> 32) as u32,
    ];
    for (slot, field) in LAST.iter().zip(fields) {
        slot.store(field, Relaxed);
    }
    error.number()
}

/// Class of the last error.
#[cfg(target_arch = "wasm32")]
pub fn class() -> u32 {
    LAST[1].load(Relaxed)
}

/// The number of a call's result: 0 when it went well, and the record is left alone.
pub fn number(result: Result<(), Error>) -> u32 {
    result.err().map_or(0, record)
}

/// Whether what the host passed can be a slice.
///
/// # Errors
/// `NullPointer`, `InvalidLength` for an end beyond the address space.
#[inline(never)]
pub fn check_bytes(ptr: *const u8, len: usize) -> Result<(), Error> {
    if ptr.is_null() {
        return Err(Error::new(Code::NullPointer));
    }
    // On wasm32 every address is inside linear memory or traps; the end must not wrap round.
    if (ptr as usize).checked_add(len).is_none() || len > isize::MAX as usize {
        return Err(Error::new(Code::InvalidLength));
    }
    Ok(())
}
