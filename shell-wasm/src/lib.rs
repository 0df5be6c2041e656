//! TinyRustLM as one WebAssembly module without imports.
