//! x86-64.

pub mod avx2;
