//! TinyRustLM as one WebAssembly module without imports.
//!
//! Two ways in, one file: the raw functions of `SPEC.md` section 10 for any host, and a thin wasm-bindgen class over
//! them for JavaScript. Nothing is imported: no clock, no randomness, no printing. Every fault of a caller or a file
//! is a number; a trap would be a bug of this module.

#![cfg_attr(target_arch = "wasm32", no_std)]
#![allow(unsafe_code)] // the boundary itself: pointers come in from the host

extern crate alloc;

mod abi;
#[cfg(target_arch = "wasm32")]
mod class;
mod event;
mod fault;
mod memory;
mod profile;
mod prompt;
mod runtime;
mod slot;

#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
