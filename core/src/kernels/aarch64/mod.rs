//! 64-bit Arm.

pub mod neon;
