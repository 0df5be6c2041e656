//! The raw functions of `SPEC.md` section 10. Each turns what the host passed into slices and calls the runtime.

use crate::memory::Block;
use crate::runtime::Runtime;
use crate::slot;
use crate::{event, fault};
use alloc::vec::Vec;
use tinyrustlm_core::error::{Code, Error};

/// Restores the state of a fresh instance.
#[unsafe(no_mangle)]
pub extern "C" fn init_runtime() -> u32 {
    fault::set_max_model_bytes(0);
    slot::with(|runtime| {
        *runtime = Runtime::new();
        Ok(())
    })
}

/// Positions to plan at the next load; 0 is the default.
#[unsafe(no_mangle)]
pub extern "C" fn set_context(positions: u32) -> u32 {
    slot::with(|runtime| {
        runtime.context = positions;
        Ok(())
    })
}

/// Checks a model in a block of `alloc` and takes the block over; on failure the block stays the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn load_model(ptr: *mut u8, len: usize) -> u32 {
    // Before the lock: a transfer that is too large must not touch the runtime.
    if len as u64 > fault::ceiling() {
        return fault::record(Error::new(Code::TransferCeilingExceeded));
    }
    slot::with(|runtime| {
        // SAFETY: the host passes a block of `alloc` with its length, as the contract of the ABI says.
        let file = unsafe { Block::adopt(ptr, len) }?;
        runtime.load(file).map_err(|(file, error)| {
            file.leak();
            error
        })
    })
}

/// Address of the loaded file; null without one.
#[unsafe(no_mangle)]
pub extern "C" fn model_ptr() -> *const u8 {
    let mut ptr = core::ptr::null_mut();
    slot::with(|runtime| {
        ptr = runtime.loaded.as_ref().map_or(ptr, |loaded| loaded.file().ptr());
        Ok(())
    });
    ptr
}

/// Length of the loaded file; 0 without one.
#[unsafe(no_mangle)]
pub extern "C" fn model_len() -> usize {
    let mut len = 0;
    slot::with(|runtime| {
        len = runtime.loaded.as_ref().map_or(0, |loaded| loaded.file().len());
        Ok(())
    });
    len
}

/// The logits after a list of ids from position 0, as the last result.
#[unsafe(no_mangle)]
pub extern "C" fn logits(ptr: *const u8, len: usize) -> u32 {
    slot::with(|runtime| {
        let ids = ids(ptr, len)?;
        runtime.logits(&ids)
    })
}

/// Address of the last result.
#[unsafe(no_mangle)]
pub extern "C" fn last_result_ptr() -> *const u8 {
    let mut ptr = core::ptr::null();
    slot::with(|runtime| {
        ptr = runtime.result.as_ptr();
        Ok(())
    });
    ptr
}

/// Length of the last result.
#[unsafe(no_mangle)]
pub extern "C" fn last_result_len() -> usize {
    let mut len = 0;
    slot::with(|runtime| {
        len = runtime.result.len();
        Ok(())
    });
    len
}

/// Begins a generation.
#[unsafe(no_mangle)]
pub extern "C" fn start_generation(input: u32, ptr: *const u8, len: usize, max_new_tokens: u32) -> u32 {
    slot::with(|runtime| match input {
        2 => runtime.start(ids(ptr, len)?, max_new_tokens),
        _ => Err(Error::new(Code::InvalidLength)),
    })
}

/// The next batch of the prompt, or the next token.
#[unsafe(no_mangle)]
pub extern "C" fn generate_next_token() -> u32 {
    slot::with(|runtime| {
        let event = runtime.next()?;
        event::record(&event);
        Ok(())
    })
}

/// Forgets the conversation; model and memory stay.
#[unsafe(no_mangle)]
pub extern "C" fn reset_context() -> u32 {
    slot::with(|runtime| {
        runtime.loaded()?.session.reset();
        Ok(())
    })
}

/// Gives back the model's block and all its memory.
#[unsafe(no_mangle)]
pub extern "C" fn free_model() -> u32 {
    slot::with(|runtime| {
        runtime.loaded = None;
        runtime.result = Vec::new();
        Ok(())
    })
}

/// Ids from little-endian bytes, which need not be aligned.
fn ids(ptr: *const u8, len: usize) -> Result<Vec<u32>, Error> {
    let bytes = fault::bytes_of(ptr, len)?;
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Error::new(Code::InvalidLength));
    }
    Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
}
