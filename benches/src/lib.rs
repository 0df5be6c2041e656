//! Benchmarks of TinyRustLM.
