//! The unit in which callers hand over memory.

use bytemuck::{Pod, Zeroable};

/// 64 bytes at a multiple of 64: a cache line, and the widest vector.
#[derive(Clone, Copy, Pod, Zeroable, Debug)]
#[repr(C, align(64))]
pub struct Block64(pub [u8; 64]);

static_assertions::const_assert_eq!(size_of::<Block64>(), crate::limits::ALIGN);

impl Block64 {
    /// A block of zeros.
    pub const ZERO: Self = Self([0; 64]);

    /// Blocks that hold `bytes`.
    pub const fn count(bytes: usize) -> usize {
        bytes.div_ceil(64)
    }
}
