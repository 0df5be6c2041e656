//! The record that says what the last step of a generation did.

use crate::record::Record;
use wasm_bindgen::prelude::wasm_bindgen;

/// Kinds of events.
pub const PROMPT: u32 = 0;
/// A token was chosen.
pub const TOKEN: u32 = 1;
/// The generation is over.
pub const END: u32 = 2;

/// What a step did. All fields are 0 where they mean nothing.
#[derive(Default)]
pub struct Event {
    /// `PROMPT`, `TOKEN` or `END`.
    pub kind: u32,
    /// The token.
    pub id: u32,
    /// Natural logarithm of its probability by the unmodified logits, where the profile asks for it; else NaN.
    pub logprob: f32,
    /// Why this was the last event; 0 while it goes on.
    pub stop: u32,
    /// Tokens of the prompt computed (`PROMPT`) or generated.
    pub done: u32,
    /// Tokens of the prompt.
    pub total: u32,
}

static LAST: Record<6> = Record::new();

/// Address of the record of the last event (24 bytes, constant).
#[wasm_bindgen]
pub fn event_ptr() -> *const u8 {
    LAST.ptr()
}

/// Keeps an event for the host to read.
pub fn record(event: &Event) {
    LAST.write(0, &[event.kind, event.id, event.logprob.to_bits(), event.stop, event.done, event.total]);
}
