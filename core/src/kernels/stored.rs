//! The values of row-major matrices: f32, or bf16, which is the upper half of one.

use super::lanes::LANES;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
use super::lanes::Sixteen;
use crate::container::DType;
use bytemuck::{Pod, Zeroable};
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use core::arch::wasm32::v128;

/// The upper 16 bits of an f32 whose lower ones are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// A weight that widens to an f32 exactly.
pub trait Stored: Pod {
    /// What such matrices are.
    const DTYPE: DType;

    /// The weight.
    fn value(self) -> f32;

    /// Sixteen of them in order.
    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
    fn lanes<V: Sixteen>(from: &[Self; LANES]) -> V;

    /// The first of them, fewer than sixteen; +0.0 for the others.
    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
    #[inline(always)]
    fn tail<V: Sixteen>(from: &[Self]) -> V {
        V::load_some(from)
    }

    /// Sixteen of them in order.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    fn registers(from: &[Self; LANES]) -> [v128; 4];

    /// The first sixteen, +0.0 for what is not there.
    #[inline(always)]
    fn filled(from: &[Self]) -> [Self; LANES] {
        let mut whole = [Self::zeroed(); LANES];
        for (to, from) in whole.iter_mut().zip(from) {
            *to = *from;
        }
        whole
    }
}

impl Stored for f32 {
    const DTYPE: DType = DType::F32;

    #[inline(always)]
    fn value(self) -> f32 {
        self
    }

    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
    #[inline(always)]
    fn lanes<V: Sixteen>(from: &[f32; LANES]) -> V {
        V::whole(from)
    }

    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
    #[inline(always)]
    fn tail<V: Sixteen>(from: &[f32]) -> V {
        V::load(from)
    }

    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    #[inline(always)]
    fn registers(from: &[f32; LANES]) -> [v128; 4] {
        super::wasm32::registers(from)
    }
}

impl Stored for Bf16 {
    const DTYPE: DType = DType::Bf16;

    #[inline(always)]
    fn value(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
    #[inline(always)]
    fn lanes<V: Sixteen>(from: &[Bf16; LANES]) -> V {
        V::widened(from)
    }

    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    #[inline(always)]
    fn registers(from: &[Bf16; LANES]) -> [v128; 4] {
        super::wasm32::widened(from)
    }
}
