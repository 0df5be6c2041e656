//! AVX2 with F16C. No FMA: it would change bits.
//!
//! Everything here is inlined into the three functions at the end, which are compiled for AVX2 and F16C and which only
//! an [`Avx2`] leads to; [`Rows256`] and [`encode_block`] also into those of `avx512.rs`, whose features include these and
//! which only an `Avx512` leads to. So wherever an intrinsic runs, the CPU has it.
#![allow(unsafe_code)]

use super::super::codes::{Codes, LEAST_AMAX, ROUNDER, Step};
use super::super::dispatch::Task;
use super::super::floats;
use super::super::lanes::{LANES, Lanes, Places, Sixteen, sums_of_sixteen};
use super::super::rows::{self, Nibbles, Pairs, Rows, Scales, Vector};
use super::super::{Bf16, Floats, Quantised, Stored, Tile};
use crate::container::directory::BLOCK_COLS;
use core::arch::x86_64::*;
use core::ops::Range;

/// Proof that the CPU has AVX2 and F16C and the system keeps their registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// # Safety
    /// AVX2 and F16C must be usable on every thread that will run kernels.
    pub const unsafe fn assume() -> Self {
        Self(())
    }
}

#[derive(Clone, Copy)]
struct Avx2Lanes(__m256, __m256);

impl Lanes for Avx2Lanes {
    const WIDTH: usize = LANES;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: see the head of this file.
        let all = unsafe { _mm256_set1_ps(value) };
        Self(all, all)
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { Self(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { Self(_mm256_sub_ps(self.0, other.0), _mm256_sub_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { Self(_mm256_mul_ps(self.0, other.0), _mm256_mul_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { Self(_mm256_div_ps(self.0, other.0), _mm256_div_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // maxps gives the second operand where the first is not greater, NaN included.
        // SAFETY: see the head of this file.
        unsafe { Self(_mm256_max_ps(self.0, other.0), _mm256_max_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { Self(_mm256_min_ps(self.0, other.0), _mm256_min_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn shift_to_exponent(self) -> Self {
        // SAFETY: see the head of this file.
        unsafe {
            let (low, high) = (_mm256_castps_si256(self.0), _mm256_castps_si256(self.1));
            let (low, high) = (_mm256_slli_epi32::<23>(low), _mm256_slli_epi32::<23>(high));
            Self(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high))
        }
    }

    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        Self::load_some(from)
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        self.store_some(to);
    }

    #[inline(always)]
    fn encode_block(x: &[f32; BLOCK_COLS], codes: &mut [i16; BLOCK_COLS]) -> Step {
        // SAFETY: see the head of this file.
        unsafe { encode_block::<Columns>(x, codes) }
    }

    sums_of_sixteen!();
}

impl Sixteen for Avx2Lanes {
    #[inline(always)]
    fn whole(from: &[f32; LANES]) -> Self {
        let at = from.as_ptr();
        // SAFETY: 16 floats can be read from `at`, of any alignment. See the head of this file.
        unsafe { Self(_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8))) }
    }

    #[inline(always)]
    fn widened(from: &[Bf16; LANES]) -> Self {
        let at = from.as_ptr();
        // SAFETY: 16 numbers of 16 bits can be read from `at`, of any alignment. See the head of this file.
        unsafe {
            let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.add(8).cast()));
            let (low, high) = (_mm256_slli_epi32::<16>(low), _mm256_slli_epi32::<16>(high));
            Self(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high))
        }
    }

    #[inline(always)]
    fn put(self, to: &mut [f32; LANES]) {
        let at = to.as_mut_ptr();
        // SAFETY: 16 floats can be written at `at`, of any alignment. See the head of this file.
        unsafe {
            _mm256_storeu_ps(at, self.0);
            _mm256_storeu_ps(at.add(8), self.1);
        }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: see the head of this file.
        unsafe {
            let by8 = _mm256_add_ps(self.0, self.1);
            let by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps::<1>(by8));
            let by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
            _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)))
        }
    }
}

/// Four columns of eight rows in 256 bits.
#[derive(Clone, Copy)]
pub(super) struct Rows256(pub(super) __m256i);

/// Sums plus the products of 16-bit integers with the pair in every lane, two by two.
#[inline(always)]
fn dot_pair(sums: __m256i, w: __m256i, pair: i32) -> __m256i {
    // SAFETY: see the head of this file.
    unsafe { _mm256_add_epi32(sums, _mm256_madd_epi16(w, _mm256_set1_epi32(pair))) }
}

impl Rows<1> for Rows256 {
    /// Columns 0 and 2, columns 1 and 3, as 16-bit integers.
    type Four = [__m256i; 2];
    type Partial = __m256i;
    type Sums = __m256i;
    type Floats = __m256;

    #[inline(always)]
    fn load([bytes]: [&Vector; 1]) -> Self {
        // SAFETY: 32 bytes can be read, of any alignment. See the head of this file.
        Self(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
    }

    #[inline(always)]
    fn bytes(self) -> [__m256i; 2] {
        // SAFETY: see the head of this file.
        unsafe { [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(self.0)), _mm256_srai_epi16::<8>(self.0)] }
    }

    #[inline(always)]
    fn nibbles(self) -> [[__m256i; 2]; 2] {
        // SAFETY: see the head of this file.
        unsafe {
            let mask = _mm256_set1_epi16(15);
            [
                [_mm256_and_si256(self.0, mask), _mm256_and_si256(_mm256_srli_epi16::<8>(self.0), mask)],
                [_mm256_and_si256(_mm256_srli_epi16::<4>(self.0), mask), _mm256_srli_epi16::<12>(self.0)],
            ]
        }
    }

    #[inline(always)]
    fn signed_nibbles(self) -> [[__m256i; 2]; 2] {
        // SAFETY: see the head of this file.
        unsafe {
            // With its highest bit turned over, a nibble's sign extension is the nibble less 8.
            let v = _mm256_xor_si256(self.0, _mm256_set1_epi16(0x8888_u16 as i16));
            [
                [
                    _mm256_srai_epi16::<12>(_mm256_slli_epi16::<12>(v)),
                    _mm256_srai_epi16::<12>(_mm256_slli_epi16::<4>(v)),
                ],
                [_mm256_srai_epi16::<12>(_mm256_slli_epi16::<8>(v)), _mm256_srai_epi16::<12>(v)],
            ]
        }
    }

    #[inline(always)]
    fn start() -> __m256i {
        Self::splat(0)
    }

    #[inline(always)]
    fn dot([even, odd]: [__m256i; 2], sums: __m256i, [first, second]: [i32; 2]) -> __m256i {
        dot_pair(dot_pair(sums, even, first), odd, second)
    }

    /// A quarter of the weights after the other: there are registers for no more.
    #[inline(always)]
    fn dots_nibbles<const N: usize, const P: usize>(
        [packed]: [&Nibbles; 1],
        x: &Pairs<N, P>,
        part: usize,
        apart: impl Fn(Self) -> [[__m256i; 2]; 2],
    ) -> [__m256i; N] {
        let mut sums = [Self::splat(0); N];
        let vectors = packed;
        let Some((low, high)) = x.as_chunks().0.split_at_checked(BLOCK_COLS / 8) else { return sums };
        for ((vector, [even, odd]), [high_even, high_odd]) in vectors.iter().zip(low).zip(high) {
            let [[a, c], [b, d]] = apart(Self::load([vector]));
            for (weights, x) in [a, b, c, d].into_iter().zip([even, high_even, odd, high_odd]) {
                let Some(x) = x.get(part) else { break };
                for (sums, x) in sums.iter_mut().zip(x) {
                    *sums = dot_pair(*sums, weights, *x);
                }
            }
        }
        sums
    }

    #[inline(always)]
    fn finish(sums: __m256i, _: i32) -> __m256i {
        sums
    }

    #[inline(always)]
    fn splat(value: i32) -> __m256i {
        // SAFETY: see the head of this file.
        unsafe { _mm256_set1_epi32(value) }
    }

    #[inline(always)]
    fn sub(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see the head of this file.
        unsafe { _mm256_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn zero() -> __m256 {
        // SAFETY: see the head of this file.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    fn f16([bits]: [&Scales; 1]) -> __m256 {
        // SAFETY: 16 bytes can be read, of any alignment. See the head of this file.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(bits.as_ptr().cast())) }
    }

    #[inline(always)]
    fn accumulate(acc: __m256, d: __m256, dx: f32, sums: __m256i) -> __m256 {
        // SAFETY: see the head of this file.
        unsafe {
            let factor = _mm256_mul_ps(d, _mm256_set1_ps(dx));
            _mm256_add_ps(acc, _mm256_mul_ps(factor, _mm256_cvtepi32_ps(sums)))
        }
    }

    #[inline(always)]
    fn store(floats: __m256) -> [[f32; 8]; 1] {
        let mut out = [0.0; 8];
        // SAFETY: 8 floats can be written, of any alignment. See the head of this file.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), floats) };
        [out]
    }

    /// Nibbles 1 and 2 of a lane are multiplied where they stand, 16 and 256 times too large, and their sums shifted
    /// back: 256 * 15 * 32767 * 8 columns stay below 2^31, and the sums are exact multiples.
    #[inline(always)]
    fn dot_nibbles([packed]: [&Nibbles; 1], x: &Pairs<1, 1>) -> __m256i {
        // SAFETY: see the head of this file.
        unsafe {
            let (mask0, mask1) = (_mm256_set1_epi16(0x000f), _mm256_set1_epi16(0x00f0));
            let mask2 = _mm256_set1_epi16(0x0f00);
            let mut units = _mm256_setzero_si256();
            let mut by16 = _mm256_setzero_si256();
            let mut by256 = _mm256_setzero_si256();
            let (low, high) = x.as_chunks().0.split_at_checked(4).unwrap_or_default();
            for ((vector, [x0, x1]), [x8, x9]) in packed.iter().zip(low).zip(high) {
                let v = Self::load([vector]).0;
                units = dot_pair(units, _mm256_and_si256(v, mask0), x0[0][0]);
                by256 = dot_pair(by256, _mm256_and_si256(v, mask2), x1[0][0]);
                by16 = dot_pair(by16, _mm256_and_si256(v, mask1), x8[0][0]);
                units = dot_pair(units, _mm256_srli_epi16::<12>(v), x9[0][0]);
            }
            let scaled = _mm256_add_epi32(_mm256_srai_epi32::<4>(by16), _mm256_srai_epi32::<8>(by256));
            _mm256_add_epi32(units, scaled)
        }
    }
}

/// How the codes of a block are kept.
pub(super) trait Kept {
    /// From which places the eight bytes of four codes come.
    const ORDER: u64;
    /// What of 16 codes is summed up, in eight parts.
    ///
    /// # Safety
    /// Only inside of what is compiled for AVX2.
    unsafe fn sums(codes: __m256i) -> __m256i;
}

/// Columns 0, 2, 1, 3.
struct Columns;

impl Kept for Columns {
    const ORDER: u64 = 0x0706_0302_0504_0100;

    #[inline(always)]
    unsafe fn sums(codes: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_madd_epi16(codes, _mm256_set1_epi16(1)) }
    }
}

/// [`Lanes::encode_block`].
///
/// # Safety
/// Only inside of what is compiled for AVX2.
#[inline(always)]
pub(super) unsafe fn encode_block<K: Kept>(x: &[f32; BLOCK_COLS], codes: &mut [i16; BLOCK_COLS]) -> Step {
    // SAFETY: 32 floats can be read from `x` and 32 codes written to `codes`, of any alignment. See the head of this file.
    unsafe {
        let x = x.as_ptr();
        let x = [_mm256_loadu_ps(x), _mm256_loadu_ps(x.add(8)), _mm256_loadu_ps(x.add(16)), _mm256_loadu_ps(x.add(24))];
        let mut by8 = _mm256_setzero_si256();
        for x in x {
            let magnitude = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fff_ffff));
            by8 = _mm256_max_epu32(by8, magnitude);
        }
        let by4 = _mm_max_epu32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256::<1>(by8));
        let by2 = _mm_max_epu32(by4, _mm_shuffle_epi32::<0x4e>(by4));
        let amax = _mm_cvtsi128_si32(_mm_max_epu32(by2, _mm_shuffle_epi32::<0xb1>(by2))) as u32;
        if amax < LEAST_AMAX {
            *codes = [0; BLOCK_COLS];
            return Step { d: 0.0, sum: 0 };
        }
        let d = f32::from_bits(amax) / 32767.0;
        let (divisor, rounder) = (_mm256_set1_ps(d), _mm256_set1_ps(ROUNDER));
        let mut wide = [_mm256_setzero_si256(); 4];
        for (code, x) in wide.iter_mut().zip(x) {
            let rounded = _mm256_castps_si256(_mm256_add_ps(_mm256_div_ps(x, divisor), rounder));
            *code = _mm256_sub_epi32(rounded, _mm256_castps_si256(rounder));
        }
        // Packing works in halves of a vector, so its groups of four columns come as 0 2 1 3 and are put in order; then the
        // columns of each group are put in theirs.
        let (low, high) = (K::ORDER as i64, K::ORDER.wrapping_add(0x0808_0808_0808_0808) as i64);
        let order = _mm256_set_epi64x(high, low, high, low);
        let mut by8 = _mm256_setzero_si256();
        for (to, wide) in codes.as_chunks_mut::<16>().0.iter_mut().zip(wide.as_chunks::<2>().0) {
            let [low, high] = *wide;
            let packed = _mm256_packs_epi32(low, high);
            by8 = _mm256_add_epi32(by8, K::sums(packed));
            let in_order = _mm256_permute4x64_epi64::<0xd8>(packed);
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_shuffle_epi8(in_order, order));
        }
        let by4 = _mm_add_epi32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256::<1>(by8));
        let by2 = _mm_add_epi32(by4, _mm_shuffle_epi32::<0x4e>(by4));
        let sum = _mm_cvtsi128_si32(_mm_add_epi32(by2, _mm_shuffle_epi32::<0xb1>(by2)));
        Step { d, sum }
    }
}

/// See [`super::super::scalar::matmul_quantised`].
#[target_feature(enable = "avx2,f16c")]
pub fn matmul_quantised(w: &Quantised<'_>, x: &Codes<'_>, out: &Tile<'_>, groups: Range<usize>) {
    rows::matmul_quantised::<Rows256, Rows256, 1, 8, 1>(w, x, out, groups);
}

/// See [`super::super::scalar::matmul_floats`].
#[target_feature(enable = "avx2,f16c")]
pub fn matmul_floats<W: Stored>(w: &Floats<'_, W>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    floats::matmul::<Avx2Lanes, W>(w, x, out, groups);
}

/// Runs a task over these lanes.
#[target_feature(enable = "avx2,f16c")]
pub fn call<T: Task>(task: T) -> T::Out {
    task.run::<Avx2Lanes>()
}
