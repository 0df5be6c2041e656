//! The same runtime as a class for wasm-bindgen. Numbers are the codes of `SPEC.md`; nothing is thrown.

// The macro's own code: unsafe blocks without proofs, items without docs.
#![allow(clippy::undocumented_unsafe_blocks, missing_docs, missing_debug_implementations)]

use crate::{abi, event, fault, memory, slot};
use alloc::string::String;
use wasm_bindgen::prelude::wasm_bindgen;

/// The runtime of this instance. All objects of the class share it.
#[wasm_bindgen]
pub struct Runtime;

#[wasm_bindgen]
impl Runtime {
    /// Gives access to the runtime.
    #[wasm_bindgen(constructor)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Runtime {
        Runtime
    }

    /// Takes a block of memory to stream a model into; 0 on failure.
    pub fn alloc(&self, len: usize) -> usize {
        memory::alloc(len) as usize
    }

    /// Loads the model in a block of `alloc`.
    #[wasm_bindgen(js_name = loadModel)]
    pub fn load_model(&self, ptr: usize, len: usize) -> u32 {
        abi::load_model(ptr as *mut u8, len)
    }

    /// Sets temperature, top-k, top-p and seed; everything else is off.
    #[wasm_bindgen(js_name = setSampling)]
    pub fn set_sampling(&self, temperature: f32, top_k: u32, top_p: f32, seed: u32) -> u32 {
        abi::set_sampling_config(temperature, top_k, top_p, u64::from(seed))
    }

    /// Begins to continue a text, or (`chat`) to answer a conversation in JSON.
    pub fn start(&self, input: &str, chat: bool, max_new_tokens: u32) -> u32 {
        abi::start_generation(u32::from(chat), input.as_ptr(), input.len(), max_new_tokens)
    }

    /// The next piece of work.
    pub fn next(&self) -> u32 {
        abi::generate_next_token()
    }

    /// A word of the event record: 0 kind, 1 id, 3 stop reason, 4 done, 5 total.
    pub fn event(&self, word: usize) -> u32 {
        event::word(word)
    }

    /// Text of the last result.
    pub fn text(&self) -> String {
        copied(|runtime| runtime.result.bytes())
    }

    /// The report of the last load or generation, JSON.
    pub fn diagnostics(&self) -> String {
        copied(|runtime| runtime.report.bytes())
    }

    /// Class of the last error, 1 to 14.
    #[wasm_bindgen(js_name = errorClass)]
    pub fn error_class(&self) -> u32 {
        fault::class()
    }

    /// Forgets the conversation.
    pub fn reset(&self) -> u32 {
        abi::reset_context()
    }

    /// Frees the model's memory.
    #[wasm_bindgen(js_name = freeModel)]
    pub fn free_model(&self) -> u32 {
        abi::free_model()
    }
}

fn copied(bytes: fn(&crate::runtime::Runtime) -> &[u8]) -> String {
    let mut text = String::new();
    slot::with(|runtime| {
        if let Ok(whole) = core::str::from_utf8(bytes(runtime)) {
            text = String::from(whole);
        }
        Ok(())
    });
    text
}
