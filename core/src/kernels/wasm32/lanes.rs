//! Sixteen lanes in four registers.

use super::load;
use crate::kernels::{LANES, Lanes};
use core::arch::wasm32::*;

/// The lanes of 128-bit SIMD.
#[derive(Clone, Copy, Debug)]
pub struct SimdLanes([v128; 4]);

impl SimdLanes {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(v128, v128) -> v128) -> Self {
        let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (self.0, other.0);
        Self([f(a0, b0), f(a1, b1), f(a2, b2), f(a3, b3)])
    }
}

impl Lanes for SimdLanes {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self([f32x4_splat(value); 4])
    }

    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        let mut lanes = [f32x4_splat(0.0); 4];
        for (lane, from) in lanes.iter_mut().zip(from.as_chunks::<4>().0) {
            *lane = load(from);
        }
        Self(lanes)
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    fn store(self, to: &mut [f32; LANES]) {
        for (lane, to) in self.0.into_iter().zip(to.as_chunks_mut::<4>().0) {
            // SAFETY: the reference covers the 16 bytes written; the instruction needs no alignment.
            unsafe { v128_store(to.as_mut_ptr().cast(), lane) }
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_add(a, b))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_sub(a, b))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_mul(a, b))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_div(a, b))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // pmax(a, b) is `if a < b { b } else { a }`: with the operands exchanged, the definition to the letter.
        self.zip(other, |a, b| f32x4_pmax(b, a))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        // pmin(a, b) is `if b < a { b } else { a }`.
        self.zip(other, |a, b| f32x4_pmin(b, a))
    }

    #[inline(always)]
    fn shift_to_exponent(self) -> Self {
        let [a0, a1, a2, a3] = self.0;
        Self([u32x4_shl(a0, 23), u32x4_shl(a1, 23), u32x4_shl(a2, 23), u32x4_shl(a3, 23)])
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let [a0, a1, a2, a3] = self.0;
        // Halves of 8, then of 4: lanes 0 to 3. Then of 2 and of 1.
        let four = f32x4_add(f32x4_add(a0, a2), f32x4_add(a1, a3));
        let two = f32x4_add(four, i32x4_shuffle::<2, 3, 2, 3>(four, four));
        f32x4_extract_lane::<0>(two) + f32x4_extract_lane::<1>(two)
    }
}
