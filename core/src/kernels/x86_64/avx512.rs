//! AVX-512 with VNNI. No FMA: it would change bits.
//!
//! Floats: the sixteen accumulators are one register. Products of codes: `vpdpwssd` multiplies, adds pairs and accumulates in
//! one instruction, exactly, wrapping as its two halves do. Vectors of eight rows stay 256 bits wide, which is how they lie
//! in the file; what they gain besides is 32 registers. The bits are proven, under Miri and in an emulator; the speed was
//! never measured, for want of such a CPU.
//!
//! Everything here is inlined into the three functions at the end, which are compiled for the features that [`Avx512`]
//! names and which only an [`Avx512`] leads to; so wherever an intrinsic runs, the CPU has it.
#![allow(unsafe_code)]

use super::super::codes::{Codes, Step};
use super::super::dispatch::Task;
use super::super::floats;
use super::super::lanes::{LANES, Lanes, Places, Sixteen, sums_of_sixteen};
use super::super::rows;
use super::super::{Bf16, Floats, Quantised, Stored, Tile};
use super::avx2::{Rows256, encode_block};
use super::known;
use crate::container::directory::BLOCK_COLS;
use core::arch::x86_64::*;
use core::ops::Range;

/// Proof that the CPU has AVX2, F16C and, of AVX-512, F, BW, VL and VNNI, and that the system keeps their registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Avx512(());

impl Avx512 {
    /// # Safety
    /// `avx2`, `f16c`, `avx512f`, `avx512bw`, `avx512vl` and `avx512vnni` must be usable on every thread that will run
    /// kernels.
    pub const unsafe fn assume() -> Self {
        Self(())
    }
}

#[derive(Clone, Copy)]
struct Avx512Lanes(__m512);

/// The first `count` lanes, all of them from 16 on.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    !u16::MAX.checked_shl(count as u32).unwrap_or(0)
}

impl Lanes for Avx512Lanes {
    const WIDTH: usize = LANES;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: see the head of this file.
        Self(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        Self(unsafe { _mm512_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        Self(unsafe { _mm512_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        Self(unsafe { _mm512_div_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        Self(unsafe { known::max(self.0, other.0) })
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        Self(unsafe { known::min(self.0, other.0) })
    }

    #[inline(always)]
    fn shift_to_exponent(self) -> Self {
        // SAFETY: see the head of this file.
        Self(unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(self.0))) })
    }

    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        // SAFETY: lanes that are masked out are not read and become +0.0, the others lie in `from`; any alignment does.
        // See the head of this file.
        Self(unsafe { _mm512_maskz_loadu_ps(first(from.len()), from.as_ptr()) })
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        // SAFETY: lanes that are masked out are not written, the others lie in `to`; any alignment does. See the head
        // of this file.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), first(to.len()), self.0) }
    }

    #[inline(always)]
    fn encode_block(x: &[f32; BLOCK_COLS], codes: &mut [i16; BLOCK_COLS]) -> Step {
        // SAFETY: see the head of this file.
        unsafe { encode_block(x, codes) }
    }

    sums_of_sixteen!();
}

impl Sixteen for Avx512Lanes {
    #[inline(always)]
    fn whole(from: &[f32; LANES]) -> Self {
        // SAFETY: 16 floats can be read, of any alignment. See the head of this file.
        Self(unsafe { _mm512_loadu_ps(from.as_ptr()) })
    }

    #[inline(always)]
    fn widened(from: &[Bf16; LANES]) -> Self {
        // SAFETY: 16 numbers of 16 bits can be read, of any alignment. See the head of this file.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)))
        }
    }

    #[inline(always)]
    fn put(self, to: &mut [f32; LANES]) {
        // SAFETY: 16 floats can be written, of any alignment. See the head of this file.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: see the head of this file.
        unsafe {
            let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(self.0)));
            let by8 = _mm256_add_ps(_mm512_castps512_ps256(self.0), upper);
            let by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps::<1>(by8));
            let by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
            _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)))
        }
    }
}

/// See [`super::super::scalar::matmul_quantised`].
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub fn matmul_quantised(w: &Quantised<'_>, x: &Codes<'_>, out: &Tile<'_>, groups: Range<usize>) {
    rows::matmul_quantised::<Rows256<true>, 8, 1>(w, x, out, groups);
}

/// See [`super::super::scalar::matmul_floats`].
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub fn matmul_floats<W: Stored>(w: &Floats<'_, W>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    floats::matmul::<Avx512Lanes, W>(w, x, out, groups);
}

/// Runs a task over these lanes.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub fn call<T: Task>(task: T) -> T::Out {
    task.run::<Avx512Lanes>()
}
