//! The last error, and the ceiling of one transfer: the two things that are looked at without the runtime's lock.

use crate::record::{NONE, Record};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tinyrustlm_core::error::{Code, Error};
use wasm_bindgen::prelude::wasm_bindgen;

/// Most bytes of one block until the host raises it: 128 MiB.
const DEFAULT_CEILING: u64 = 134_217_728;

static CEILING: AtomicU64 = AtomicU64::new(DEFAULT_CEILING);
static LAST: Record<6> = Record::new();

/// Most bytes one call of `alloc` or `load_model` may concern.
pub fn ceiling() -> u64 {
    CEILING.load(Relaxed)
}

/// Sets the ceiling of one transfer; 0 restores the default of 134,217,728 bytes.
#[wasm_bindgen]
pub fn set_max_model_bytes(bytes: u64) -> u32 {
    CEILING.store(if bytes == 0 { DEFAULT_CEILING } else { bytes }, Relaxed);
    0
}

/// Address of the record of the last error (24 bytes, constant).
#[wasm_bindgen]
pub fn error_ptr() -> *const u8 {
    LAST.ptr()
}

/// An error as the host reads it: number, class, index, 0, offset low, offset high. Without one, number and class are 0.
#[inline(never)]
pub fn words(error: Option<Error>) -> [u32; 6] {
    let index = error.and_then(|error| error.index()).unwrap_or(NONE);
    let offset = error.and_then(|error| error.offset()).unwrap_or(u64::MAX);
    let (number, class) = error.map_or((0, 0), |error| (error.number(), error.class() as u32));
    [number, class, index, 0, offset as u32, (offset >> 32) as u32]
}

/// Keeps an error for the host to read and gives its number.
pub fn record(error: Error) -> u32 {
    LAST.write(0, &words(Some(error)));
    error.number()
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
