//! The record that says what the last step of a generation did.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

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

static LAST: [AtomicU32; 6] = [const { AtomicU32::new(0) }; 6];

/// Address of the record of the last event (24 bytes, constant).
#[unsafe(no_mangle)]
pub extern "C" fn event_ptr() -> *const u8 {
    LAST.as_ptr().cast()
}

/// A word of the last event.
#[cfg(target_arch = "wasm32")]
pub fn word(index: usize) -> u32 {
    LAST.get(index).map_or(0, |word| word.load(Relaxed))
}

/// Keeps an event for the host to read.
pub fn record(event: &Event) {
    let fields = [event.kind, event.id, event.logprob.to_bits(), event.stop, event.done, event.total];
    for (slot, field) in LAST.iter().zip(fields) {
        slot.store(field, Relaxed);
    }
}
