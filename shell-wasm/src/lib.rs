//! TinyRustLM as one WebAssembly module without imports.
//!
//! The functions of `SPEC.md` section 10 are exported as they stand, for any host; wasm-bindgen makes typed glue for the
//! same exports. Nothing is imported: no clock, no randomness, no printing. Every fault of a caller or a file
//! is a number; a trap would be a bug of this module.

#![cfg(target_arch = "wasm32")]
#![no_std]
#![allow(unsafe_code)] // the boundary itself: pointers come in from the host

mod abi;
mod event;
mod fault;
mod heap;
mod memory;
mod profile;
mod prompt;
mod record;
mod report;
mod runtime;
mod slot;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
