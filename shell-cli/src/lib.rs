//! What the program `slm` is made of, as a library, so that fixtures and tests use the same converter and compilers.

// These panic when a reader has gone; what is written to a locked stdout ends quietly instead.
#![deny(clippy::print_stdout)]

pub mod commands;
pub mod convert;
pub mod failure;
pub mod generate;
pub mod inspect;
pub mod kv_cache;
pub mod pages;
pub mod template;
pub mod tokenizer;
