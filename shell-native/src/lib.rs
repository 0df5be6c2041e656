//! TinyRustLM for programs with std: maps model files, detects the CPU, runs threads.

pub use tinyrustlm_core as core;
