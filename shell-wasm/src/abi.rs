//! The functions of `SPEC.md` section 10. Each turns what the host passed into slices and calls the runtime.
//!
//! They are wasm-bindgen's functions too: it leaves numbers and addresses as they are, so that what it exports is the
//! raw ABI, and its glue for JavaScript costs the module nothing.

use crate::memory::{Block, Buffer};
use crate::profile::Profile;
use crate::runtime::Runtime;
use crate::{fault, slot};
use tinyrustlm_core::error::{Code, Error};
use tinyrustlm_core::sampler::SamplerConfig;
use tinyrustlm_core::template::Now;
use tinyrustlm_core::tokenizer::DecodeMode;
use wasm_bindgen::prelude::wasm_bindgen;

/// Restores the state of a fresh instance.
#[wasm_bindgen]
pub fn init_runtime() -> u32 {
    fault::set_max_model_bytes(0);
    slot::with(|runtime| {
        *runtime = Runtime::new();
        Ok(())
    })
}

/// Positions to plan at the next load; 0 is the default.
#[wasm_bindgen]
pub fn set_context(positions: u32) -> u32 {
    slot::with(|runtime| {
        runtime.context = positions;
        Ok(())
    })
}

/// The local time that templates see.
#[wasm_bindgen]
pub fn set_now(year: u32, month: u32, day: u32, hour: u32, minute: u32, second: u32) -> u32 {
    slot::with(|runtime| {
        let fits = (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !fits || hour > 23 || minute > 59 || second > 59 {
            return Err(Error::new(Code::InvalidLength));
        }
        runtime.now = Now {
            year: year as u16,
            month: month as u8,
            day: day as u8,
            hour: hour as u8,
            minute: minute as u8,
            second: second as u8,
        };
        Ok(())
    })
}

/// Checks a model in a block of `alloc` and takes the block over; on failure the block stays the caller's.
#[wasm_bindgen]
pub fn load_model(ptr: *mut u8, len: usize) -> u32 {
    // Before the lock: a transfer that is too large must not touch the runtime.
    if len as u64 > fault::ceiling() {
        return fault::record(Error::new(Code::TransferCeilingExceeded));
    }
    slot::with(|runtime| {
        // SAFETY: the host passes a block of `alloc` with its length, as the contract of the ABI says.
        let file = unsafe { Block::adopt(ptr, len) }?;
        runtime.load(file)
    })
}

/// Address of the loaded file; null without one.
#[wasm_bindgen]
pub fn model_ptr() -> *const u8 {
    slot::ask(|runtime| runtime.loaded.as_ref().map_or(0, |loaded| loaded.file().ptr() as usize)) as *const u8
}

/// Length of the loaded file; 0 without one.
#[wasm_bindgen]
pub fn model_len() -> usize {
    slot::ask(|runtime| runtime.loaded.as_ref().map_or(0, |loaded| loaded.file().len()))
}

/// Positions in use.
#[wasm_bindgen]
pub fn context_len() -> usize {
    slot::ask(|runtime| runtime.loaded.as_ref().map_or(0, |loaded| loaded.context_len()))
}

/// The ids of a text, as the last result.
#[wasm_bindgen]
pub fn encode(ptr: *const u8, len: usize, specials: u32) -> u32 {
    with_bytes(ptr, len, |runtime, text| runtime.encode(text, specials != 0))
}

/// The bytes of ids, as the last result.
#[wasm_bindgen]
pub fn decode(ptr: *const u8, len: usize, mode: u32) -> u32 {
    let mode = if mode == 0 { DecodeMode::Raw } else { DecodeMode::Visible };
    with_bytes(ptr, len, |runtime, bytes| runtime.decode(crate::prompt::Ids::read(bytes)?.slice(), mode))
}

/// The prompt of a conversation, as the last result.
#[wasm_bindgen]
pub fn render(ptr: *const u8, len: usize, as_ids: u32) -> u32 {
    with_bytes(ptr, len, |runtime, input| runtime.render(input, as_ids != 0))
}

/// The logits after a list of ids from position 0, as the last result.
#[wasm_bindgen]
pub fn logits(ptr: *const u8, len: usize) -> u32 {
    with_bytes(ptr, len, |runtime, bytes| runtime.logits(crate::prompt::Ids::read(bytes)?.slice()))
}

/// Address of the last result.
#[wasm_bindgen]
pub fn last_result_ptr() -> *const u8 {
    slot::ask(|runtime| runtime.result.bytes().as_ptr() as usize) as *const u8
}

/// Length of the last result.
#[wasm_bindgen]
pub fn last_result_len() -> usize {
    slot::ask(|runtime| runtime.result.bytes().len())
}

/// A profile of these four; everything else is off.
#[wasm_bindgen]
pub fn set_sampling_config(temperature: f32, top_k: u32, top_p: f32, seed: u64) -> u32 {
    let (temperature, top_p) = (f64::from(temperature), f64::from(top_p));
    let sampler = SamplerConfig { temperature, top_k, top_p, seed, ..SamplerConfig::GREEDY };
    slot::with(|runtime| runtime.set_profile(Profile { sampler, ..Profile::GREEDY }))
}

/// The whole profile.
#[wasm_bindgen]
pub fn set_sampling_profile(ptr: *const u8, len: usize) -> u32 {
    with_bytes(ptr, len, |runtime, record| runtime.set_profile(Profile::parse(record)?))
}

/// What ends generation besides the model's own set.
#[wasm_bindgen]
pub fn set_stops(ptr: *const u8, len: usize) -> u32 {
    with_bytes(ptr, len, |runtime, record| runtime.set_stops(record))
}

/// Begins a generation.
#[wasm_bindgen]
pub fn start_generation(input: u32, ptr: *const u8, len: usize, max_new_tokens: u32) -> u32 {
    with_bytes(ptr, len, |runtime, bytes| runtime.start(input, bytes, max_new_tokens))
}

/// The next batch of the prompt, or the next token.
#[wasm_bindgen]
pub fn generate_next_token() -> u32 {
    slot::with(Runtime::next)
}

/// Ends the generation under way.
#[wasm_bindgen]
pub fn cancel() -> u32 {
    slot::with(Runtime::cancel)
}

/// A whole generation from a text; the last result is all of its text.
#[wasm_bindgen]
pub fn generate(ptr: *const u8, len: usize, max_new_tokens: u32) -> u32 {
    with_bytes(ptr, len, |runtime, text| {
        runtime.start(0, text, max_new_tokens)?;
        let mut whole = Buffer::EMPTY;
        loop {
            runtime.next()?;
            whole.append(runtime.result.bytes())?;
            if !runtime.is_running() {
                runtime.result = whole;
                return Ok(());
            }
        }
    })
}

/// The best tokens of the last step, as the last result.
#[wasm_bindgen]
pub fn top_logprobs() -> u32 {
    slot::with(|runtime| runtime.top_logprobs())
}

/// Forgets the conversation; model and memory stay.
#[wasm_bindgen]
pub fn reset_context() -> u32 {
    slot::with(Runtime::reset)
}

/// Gives back the model's block and all its memory.
#[wasm_bindgen]
pub fn free_model() -> u32 {
    slot::with(|runtime| {
        runtime.free();
        Ok(())
    })
}

/// What a call does with the bytes it was given.
#[inline(always)]
fn with_bytes(ptr: *const u8, len: usize, work: impl FnOnce(&mut Runtime, &[u8]) -> Result<(), Error>) -> u32 {
    slot::with(|runtime| {
        fault::check_bytes(ptr, len)?;
        // SAFETY: the host vouches for `len` initialised bytes at `ptr` for the length of the call.
        work(runtime, unsafe { core::slice::from_raw_parts(ptr, len) })
    })
}
