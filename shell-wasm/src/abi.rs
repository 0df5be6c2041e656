//! The functions of `SPEC.md` section 10. Each names the work and what it needs; `slot` lets it in.
//!
//! They are wasm-bindgen's functions too: it leaves numbers and addresses as they are, so that what it exports is the
//! raw ABI, and its glue for JavaScript costs the module nothing.

use crate::fault;
use crate::memory::Block;
use crate::prompt::Ids;
use crate::runtime::Runtime;
use crate::slot::{ask, call, call_with};
use tinyrustlm_core::error::{Code, Error};
use tinyrustlm_core::kv_cache::KvType;
use tinyrustlm_core::tokenizer::DecodeMode;
use wasm_bindgen::prelude::wasm_bindgen;

/// Restores the state of a fresh instance.
#[wasm_bindgen]
pub fn init_runtime() -> u32 {
    fault::set_max_model_bytes(0);
    call([0; 2], |runtime, _, _| {
        *runtime = Runtime::new();
        Ok(())
    })
}

/// Positions to plan at the next load; 0 is the default.
#[wasm_bindgen]
pub fn set_context(positions: u32) -> u32 {
    call([positions, 0], |runtime, _, [positions, _]| {
        runtime.context = positions;
        Ok(())
    })
}

/// How keys and values are kept from the next load on: 0 f32, 1 q8_0.
#[wasm_bindgen]
pub fn set_kv_cache(kv_type: u32) -> u32 {
    call([kv_type, 0], |runtime, _, [kv_type, _]| {
        runtime.kv_type = KvType::numbered(kv_type).ok_or(Code::InvalidLength)?;
        Ok(())
    })
}

/// The local time that templates see.
#[wasm_bindgen]
pub fn set_now(year: u32, month: u32, day: u32, hour: u32, minute: u32, second: u32) -> u32 {
    let fields = [year, month, day, hour, minute, second];
    call_with(fields.as_ptr().cast(), size_of_val(&fields), [0; 2], |runtime, fields, _| runtime.set_now(fields))
}

/// Checks a model in a block of `alloc` and takes the block over; on failure the block stays the caller's.
#[wasm_bindgen]
pub fn load_model(ptr: *mut u8, len: usize) -> u32 {
    // Before the lock: a transfer that is too large must not touch the runtime.
    if len as u64 > fault::ceiling() {
        return fault::record(Error::new(Code::TransferCeilingExceeded));
    }
    call([ptr as u32, len as u32], |runtime, _, [ptr, len]| {
        // SAFETY: the host passes a block of `alloc` with its length, as the contract of the ABI says.
        runtime.load(unsafe { Block::adopt(ptr as *mut u8, len as usize) }?)
    })
}

/// Address of the loaded file; null without one.
#[wasm_bindgen]
pub fn model_ptr() -> *const u8 {
    ask(|runtime| runtime.loaded.as_ref().map_or(0, |loaded| loaded.file().ptr() as usize)) as *const u8
}

/// Length of the loaded file; 0 without one.
#[wasm_bindgen]
pub fn model_len() -> usize {
    ask(|runtime| runtime.loaded.as_ref().map_or(0, |loaded| loaded.file().len()))
}

/// Positions in use.
#[wasm_bindgen]
pub fn context_len() -> usize {
    ask(|runtime| runtime.loaded.as_ref().map_or(0, |loaded| loaded.context_len()))
}

/// The ids of a text, as the last result.
#[wasm_bindgen]
pub fn encode(ptr: *const u8, len: usize, specials: u32) -> u32 {
    call_with(ptr, len, [specials, 0], |runtime, text, [specials, _]| runtime.encode(text, specials != 0))
}

/// The bytes of ids, as the last result.
#[wasm_bindgen]
pub fn decode(ptr: *const u8, len: usize, mode: u32) -> u32 {
    call_with(ptr, len, [mode, 0], |runtime, bytes, [mode, _]| {
        let mode = if mode == 0 { DecodeMode::Raw } else { DecodeMode::Visible };
        runtime.decode(Ids::read(bytes)?.slice(), mode)
    })
}

/// The prompt of a conversation, as the last result.
#[wasm_bindgen]
pub fn render(ptr: *const u8, len: usize, as_ids: u32) -> u32 {
    call_with(ptr, len, [as_ids, 0], |runtime, input, [as_ids, _]| runtime.render(input, as_ids != 0))
}

/// The logits after a list of ids from position 0, as the last result.
#[wasm_bindgen]
pub fn logits(ptr: *const u8, len: usize) -> u32 {
    call_with(ptr, len, [0; 2], |runtime, bytes, _| runtime.logits(Ids::read(bytes)?.slice()))
}

/// Address of the last result.
#[wasm_bindgen]
pub fn last_result_ptr() -> *const u8 {
    ask(|runtime| runtime.result.bytes().as_ptr() as usize) as *const u8
}

/// Length of the last result.
#[wasm_bindgen]
pub fn last_result_len() -> usize {
    ask(|runtime| runtime.result.bytes().len())
}

/// A profile of these four; everything else is off.
#[wasm_bindgen]
pub fn set_sampling_config(temperature: f32, top_k: u32, top_p: f32, seed: u64) -> u32 {
    const ONE: u64 = 1f64.to_bits();
    let (temperature, top_p) = (f64::from(temperature).to_bits(), f64::from(top_p).to_bits());
    let record = [temperature, top_p, 0, ONE, ONE, 0, 0, seed, u64::from(top_k), 0, 0, 0];
    set_sampling_profile(record.as_ptr().cast(), size_of_val(&record))
}

/// The whole profile.
#[wasm_bindgen]
pub fn set_sampling_profile(ptr: *const u8, len: usize) -> u32 {
    call_with(ptr, len, [0; 2], |runtime, record, _| runtime.set_profile(record))
}

/// What ends generation besides the model's own set.
#[wasm_bindgen]
pub fn set_stops(ptr: *const u8, len: usize) -> u32 {
    call_with(ptr, len, [0; 2], |runtime, record, _| runtime.set_stops(record))
}

/// Begins a generation.
#[wasm_bindgen]
pub fn start_generation(input: u32, ptr: *const u8, len: usize, max_new_tokens: u32) -> u32 {
    call_with(ptr, len, [input, max_new_tokens], |runtime, bytes, [input, max]| runtime.start(input, bytes, max))
}

/// The next batch of the prompt, or the next token.
#[wasm_bindgen]
pub fn generate_next_token() -> u32 {
    call([0; 2], |runtime, _, _| runtime.next())
}

/// Ends the generation under way.
#[wasm_bindgen]
pub fn cancel() -> u32 {
    call([0; 2], |runtime, _, _| runtime.cancel())
}

/// A whole generation from a text; the last result is all of its text.
#[wasm_bindgen]
pub fn generate(ptr: *const u8, len: usize, max_new_tokens: u32) -> u32 {
    call_with(ptr, len, [max_new_tokens, 0], |runtime, text, [max, _]| runtime.generate(text, max))
}

/// The best tokens of the last step, as the last result.
#[wasm_bindgen]
pub fn top_logprobs() -> u32 {
    call([0; 2], |runtime, _, _| runtime.top_logprobs())
}

/// Forgets the conversation; model and memory stay.
#[wasm_bindgen]
pub fn reset_context() -> u32 {
    call([0; 2], |runtime, _, _| runtime.reset())
}

/// Gives back the model's block and all its memory.
#[wasm_bindgen]
pub fn free_model() -> u32 {
    call([0; 2], |runtime, _, _| {
        runtime.free();
        Ok(())
    })
}
