//! TinyRustLM core: runs compact instruct language models exactly, without an allocator.
//!
//! A model is one `.slm` file (format SLM1, see `SPEC.md`). The caller gives the bytes of the file and one
//! block of memory whose size [`plan`] states beforehand; nothing else is ever taken.
//!
//! Data flows one way, and the modules below are declared in that order. Each uses only those before it.
//!
//! The crate does not panic: any bytes and any order of calls give a value or a numbered [`Error`].
#![no_std]

#[cfg(not(target_endian = "little"))]
compile_error!("SLM1 files are little-endian and are read in place");

pub mod bytes;
pub mod error;
mod event;
pub mod limits;
pub mod memory;
mod utf8;

pub mod container;
pub mod kv_cache;
pub mod model;
pub mod plan;
pub mod scratch;

pub mod tokenizer;

pub mod template;

pub mod forward;
pub mod kernels;
pub mod ops;

pub mod sampler;
pub mod stops;
pub mod stream;

pub mod session;

pub mod diagnostics;

pub use error::{Class, Code, Error};
pub use memory::Block64;

#[cfg(test)]
extern crate std;
#[cfg(test)]
mod tests;
