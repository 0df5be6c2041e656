//! NEON, which every 64-bit Arm with floating point has. No fused multiply-add: it would change bits.
#![allow(unsafe_code)]

use super::super::codes::Codes;
use super::super::lanes::{LANES, Lanes, Places, Sixteen, sums_of_sixteen};
use super::super::rows::{self, Rows, Scales, Vector};
use super::super::{Bf16, Floats, Quantised, Stored, Tile, floats};
use core::arch::aarch64::*;
use core::ops::Range;

/// Sixteen floats in four registers.
#[derive(Clone, Copy)]
pub struct NeonLanes([float32x4_t; 4]);

impl NeonLanes {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Self {
        let ([a, b, c, d], [e, g, h, i]) = (self.0, other.0);
        Self([f(a, e), f(b, g), f(c, h), f(d, i)])
    }
}

// SAFETY, for the whole file: this module is compiled only for targets with NEON; loads and stores below go to arrays
// of the stated size and need only the alignment of their elements.
impl Lanes for NeonLanes {
    const WIDTH: usize = LANES;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: NEON is there.
        Self([unsafe { vdupq_n_f32(value) }; 4])
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: NEON is there.
        self.zip(other, |a, b| unsafe { vaddq_f32(a, b) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: NEON is there.
        self.zip(other, |a, b| unsafe { vsubq_f32(a, b) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: NEON is there.
        self.zip(other, |a, b| unsafe { vmulq_f32(a, b) })
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: NEON is there.
        self.zip(other, |a, b| unsafe { vdivq_f32(a, b) })
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // vmaxq would give NaN for NaN.
        // SAFETY: NEON is there.
        self.zip(other, |a, b| unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) })
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        // SAFETY: NEON is there.
        self.zip(other, |a, b| unsafe { vbslq_f32(vcltq_f32(a, b), a, b) })
    }

    #[inline(always)]
    fn shift_to_exponent(self) -> Self {
        // SAFETY: NEON is there.
        Self(self.0.map(|a| unsafe { vreinterpretq_f32_u32(vshlq_n_u32::<23>(vreinterpretq_u32_f32(a))) }))
    }

    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        Self::load_some(from)
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        self.store_some(to);
    }

    sums_of_sixteen!();
}

impl Sixteen for NeonLanes {
    #[inline(always)]
    fn whole(from: &[f32; LANES]) -> Self {
        let at = from.as_ptr();
        // SAFETY: 16 floats can be read from `at`.
        unsafe { Self([vld1q_f32(at), vld1q_f32(at.add(4)), vld1q_f32(at.add(8)), vld1q_f32(at.add(12))]) }
    }

    #[inline(always)]
    fn widened(from: &[Bf16; LANES]) -> Self {
        let at = from.as_ptr().cast::<u16>();
        // SAFETY: 16 numbers can be read from `at`.
        unsafe {
            let halves = [vld1q_u16(at), vld1q_u16(at.add(8))];
            let [a, b] = halves.map(|half| vmovl_u16(vget_low_u16(half)));
            let [c, d] = halves.map(|half| vmovl_high_u16(half));
            Self([a, c, b, d].map(|wide| vreinterpretq_f32_u32(vshlq_n_u32::<16>(wide))))
        }
    }

    #[inline(always)]
    fn put(self, to: &mut [f32; LANES]) {
        let at = to.as_mut_ptr();
        let [a, b, c, d] = self.0;
        // SAFETY: 16 floats can be written at `at`.
        unsafe {
            vst1q_f32(at, a);
            vst1q_f32(at.add(4), b);
            vst1q_f32(at.add(8), c);
            vst1q_f32(at.add(12), d);
        }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let [a, b, c, d] = self.0;
        // SAFETY: NEON is there.
        unsafe {
            let by4 = vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d));
            let by2 = vadd_f32(vget_low_f32(by4), vget_high_f32(by4));
            vget_lane_f32::<0>(by2) + vget_lane_f32::<1>(by2)
        }
    }
}

/// Rows 0 to 3 and 4 to 7.
#[derive(Clone, Copy)]
struct NeonRows(int16x8_t, int16x8_t);

impl NeonRows {
    #[inline(always)]
    fn map(self, f: impl Fn(int16x8_t) -> int16x8_t) -> Self {
        Self(f(self.0), f(self.1))
    }

    /// `sums` plus the products with `pair` in every lane, two by two.
    #[inline(always)]
    fn dot_pair(self, [a, b]: [int32x4_t; 2], pair: i32) -> [int32x4_t; 2] {
        // SAFETY: NEON is there.
        let x = unsafe { vreinterpretq_s16_s32(vdupq_n_s32(pair)) };
        [dot_half(a, self.0, x), dot_half(b, self.1, x)]
    }
}

/// `sums[r] + w[2r] * x[2r] + w[2r + 1] * x[2r + 1]` for four rows.
#[inline(always)]
fn dot_half(sums: int32x4_t, w: int16x8_t, x: int16x8_t) -> int32x4_t {
    // SAFETY: NEON is there.
    unsafe {
        let low = vmull_s16(vget_low_s16(w), vget_low_s16(x));
        vaddq_s32(sums, vpaddq_s32(low, vmull_high_s16(w, x)))
    }
}

impl Rows<1> for NeonRows {
    /// Columns 0 and 2, columns 1 and 3.
    type Four = [Self; 2];
    type Partial = [int32x4_t; 2];
    type Sums = [int32x4_t; 2];
    type Floats = [float32x4_t; 2];

    #[inline(always)]
    fn load([bytes]: [&Vector; 1]) -> Self {
        let at = bytes.as_ptr();
        // SAFETY: 32 bytes can be read from `at`.
        unsafe { Self(vreinterpretq_s16_u8(vld1q_u8(at)), vreinterpretq_s16_u8(vld1q_u8(at.add(16)))) }
    }

    #[inline(always)]
    fn bytes(self) -> [Self; 2] {
        // SAFETY: NEON is there.
        unsafe { [self.map(|v| vshrq_n_s16::<8>(vshlq_n_s16::<8>(v))), self.map(|v| vshrq_n_s16::<8>(v))] }
    }

    #[inline(always)]
    fn nibbles(self) -> [[Self; 2]; 2] {
        // SAFETY: NEON is there.
        unsafe {
            let mask = vdupq_n_s16(15);
            let shifted = |v: int16x8_t, by: int16x8_t| vreinterpretq_s16_u16(vshlq_u16(vreinterpretq_u16_s16(v), by));
            [
                [self.map(|v| vandq_s16(v, mask)), self.map(|v| vandq_s16(shifted(v, vdupq_n_s16(-8)), mask))],
                [
                    self.map(|v| vandq_s16(shifted(v, vdupq_n_s16(-4)), mask)),
                    self.map(|v| shifted(v, vdupq_n_s16(-12))),
                ],
            ]
        }
    }

    #[inline(always)]
    fn signed_nibbles(self) -> [[Self; 2]; 2] {
        // With its highest bit turned over, a nibble's sign extension is the nibble less 8.
        // SAFETY: NEON is there.
        unsafe {
            let turned = self.map(|v| veorq_s16(v, vdupq_n_s16(0x8888_u16 as i16)));
            [
                [
                    turned.map(|v| vshrq_n_s16::<12>(vshlq_n_s16::<12>(v))),
                    turned.map(|v| vshrq_n_s16::<12>(vshlq_n_s16::<4>(v))),
                ],
                [turned.map(|v| vshrq_n_s16::<12>(vshlq_n_s16::<8>(v))), turned.map(|v| vshrq_n_s16::<12>(v))],
            ]
        }
    }

    #[inline(always)]
    fn start() -> [int32x4_t; 2] {
        Self::splat(0)
    }

    #[inline(always)]
    fn dot([even, odd]: [Self; 2], sums: [int32x4_t; 2], [first, second]: [i32; 2]) -> [int32x4_t; 2] {
        odd.dot_pair(even.dot_pair(sums, first), second)
    }

    #[inline(always)]
    fn finish(sums: [int32x4_t; 2], _: i32) -> [int32x4_t; 2] {
        sums
    }

    #[inline(always)]
    fn splat(value: i32) -> [int32x4_t; 2] {
        // SAFETY: NEON is there.
        [unsafe { vdupq_n_s32(value) }; 2]
    }

    #[inline(always)]
    fn sub([a, b]: [int32x4_t; 2], [c, d]: [int32x4_t; 2]) -> [int32x4_t; 2] {
        // SAFETY: NEON is there.
        unsafe { [vsubq_s32(a, c), vsubq_s32(b, d)] }
    }

    #[inline(always)]
    fn zero() -> [float32x4_t; 2] {
        // SAFETY: NEON is there.
        [unsafe { vdupq_n_f32(0.0) }; 2]
    }

    #[inline(always)]
    fn f16([bits]: [&Scales; 1]) -> [float32x4_t; 2] {
        // As `f16_to_f32`: exponent and mantissa land 112 too low, one exact product puts that right.
        // SAFETY: NEON is there, and 16 bytes can be read.
        unsafe {
            let bits = vreinterpretq_u16_u8(vld1q_u8(bits.as_ptr()));
            let halves = [vmovl_u16(vget_low_u16(bits)), vmovl_u16(vget_high_u16(bits))];
            halves.map(|half| {
                let magnitude = vshlq_n_u32::<13>(vandq_u32(half, vdupq_n_u32(0x7fff)));
                let factor = vdupq_n_f32(f32::from_bits((112 + 127) << 23));
                let value = vmulq_f32(vreinterpretq_f32_u32(magnitude), factor);
                let sign = vshlq_n_u32::<16>(vandq_u32(half, vdupq_n_u32(0x8000)));
                vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(value), sign))
            })
        }
    }

    #[inline(always)]
    fn accumulate(
        [a, b]: [float32x4_t; 2],
        [d, e]: [float32x4_t; 2],
        dx: f32,
        [s, t]: [int32x4_t; 2],
    ) -> [float32x4_t; 2] {
        // SAFETY: NEON is there.
        unsafe {
            let dx = vdupq_n_f32(dx);
            [
                vaddq_f32(a, vmulq_f32(vmulq_f32(d, dx), vcvtq_f32_s32(s))),
                vaddq_f32(b, vmulq_f32(vmulq_f32(e, dx), vcvtq_f32_s32(t))),
            ]
        }
    }

    #[inline(always)]
    fn store([a, b]: [float32x4_t; 2]) -> [[f32; 8]; 1] {
        let mut out = [0.0; 8];
        let at = out.as_mut_ptr();
        // SAFETY: 8 floats can be written at `at`.
        unsafe {
            vst1q_f32(at, a);
            vst1q_f32(at.add(4), b);
        }
        [out]
    }
}

/// See [`super::super::scalar::matmul_quantised`].
pub fn matmul_quantised(w: &Quantised<'_>, x: &Codes<'_>, out: &Tile<'_>, groups: Range<usize>) {
    rows::matmul_quantised::<NeonRows, NeonRows, 1, 4, 2>(w, x, out, groups);
}

/// See [`super::super::scalar::matmul_floats`].
pub fn matmul_floats<W: Stored>(w: &Floats<'_, W>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    floats::matmul::<NeonLanes, W>(w, x, out, groups);
}
