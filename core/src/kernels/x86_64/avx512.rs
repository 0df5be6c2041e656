//! AVX-512 with VNNI. No FMA: it would change bits.
//!
//! Floats: the sixteen accumulators are one register.
//!
//! Products of codes: `vpdpbusd` multiplies four unsigned bytes of a lane with four signed ones and adds all to the lane,
//! exactly, so weights are multiplied as they lie in the file. Activation codes are kept as bytes for that, the upper and the
//! lower ones of four columns apart: `x = 256 h + l - 32768`, both unsigned, as h is kept 128 more than it is. So
//!
//! ```text
//! sum w x  =  256 * sum w h  +  sum w l  -  32768 * sum w
//! ```
//!
//! where the last sum is the same for all tokens; no term reaches 2^29. Vectors of eight rows stay 256 bits wide, which is
//! how they lie in the file; what they gain besides is 32 registers.
//!
//! Everything here is inlined into the three functions at the end, which are compiled for the features that [`Avx512`]
//! names and which only an [`Avx512`] leads to; so wherever an intrinsic runs, the CPU has it.
#![allow(unsafe_code)]

use super::super::codes::{Codes, Step};
use super::super::dispatch::Task;
use super::super::floats;
use super::super::lanes::{LANES, Lanes, Places, Sixteen, sums_of_sixteen};
use super::super::prefetch::AHEAD_AVX512;
use super::super::rows::{self, Pairs, Rows};
use super::super::{Bf16, Floats, Quantised, Stored, Tile};
use super::avx2::{Kept, Rows256, encode_block};
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
    const AHEAD: usize = AHEAD_AVX512;

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
        if let Some(whole) = from.first_chunk() {
            return Self::whole(whole);
        }
        // SAFETY: lanes that are masked out are not read and become +0.0, the others lie in `from`; any alignment does.
        // See the head of this file.
        Self(unsafe { _mm512_maskz_loadu_ps(first(from.len()), from.as_ptr()) })
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        if let Some(whole) = to.first_chunk_mut() {
            return self.put(whole);
        }
        // SAFETY: lanes that are masked out are not written, the others lie in `to`; any alignment does. See the head
        // of this file.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), first(to.len()), self.0) }
    }

    #[inline(always)]
    fn encode_block(x: &[f32; BLOCK_COLS], codes: &mut [i16; BLOCK_COLS]) -> Step {
        // SAFETY: see the head of this file.
        unsafe { encode_block(x, codes, BYTES) }
    }

    #[inline(always)]
    fn columns(places: [i16; 4]) -> [i16; 4] {
        let [h0, h1, h2, h3, l0, l1, l2, l3]: [u8; 8] = bytemuck::cast(places);
        [[l0, h0], [l1, h1], [l2, h2], [l3, h3]].map(|bytes| i16::from_le_bytes(bytes) ^ i16::MIN)
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

/// The upper bytes before the lower ones; with its highest bit turned over, a signed byte is an unsigned one that is 128 more.
const BYTES: Kept = Kept { order: 0x0604_0200_0705_0301, turned: 0x8080_8080 };

/// Four columns of eight rows.
#[derive(Clone, Copy)]
struct Vnni(Rows256);

impl Vnni {
    #[inline(always)]
    fn finish_both([a, b]: [[__m256i; 2]; 2], [count, other]: [__m256i; 2]) -> __m256i {
        // SAFETY: see the head of this file.
        unsafe { _mm256_add_epi32(Self::finish(a, count), Self::finish(b, other)) }
    }
}

impl Rows for Vnni {
    /// Signed bytes.
    type Four = __m256i;
    /// Products with the upper and with the lower bytes.
    type Partial = [__m256i; 2];
    /// Sums of the weights.
    type Count = __m256i;
    type Sums = __m256i;
    type Floats = __m256;

    const AHEAD: usize = AHEAD_AVX512;

    #[inline(always)]
    fn load(bytes: &[u8; 32]) -> Self {
        Self(Rows256::load(bytes))
    }

    #[inline(always)]
    fn bytes(self) -> __m256i {
        self.0.0
    }

    #[inline(always)]
    fn nibbles(self) -> [__m256i; 2] {
        // SAFETY: see the head of this file.
        unsafe {
            let (v, mask) = (self.0.0, _mm256_set1_epi8(15));
            [_mm256_and_si256(v, mask), _mm256_and_si256(_mm256_srli_epi16::<4>(v), mask)]
        }
    }

    #[inline(always)]
    fn signed_nibbles(self) -> [__m256i; 2] {
        // SAFETY: see the head of this file.
        self.nibbles().map(|v| unsafe { _mm256_sub_epi8(v, _mm256_set1_epi8(8)) })
    }

    #[inline(always)]
    fn start() -> [__m256i; 2] {
        [Self::splat(0); 2]
    }

    #[inline(always)]
    fn uncounted() -> __m256i {
        Self::splat(0)
    }

    #[inline(always)]
    fn count_bytes(count: __m256i, four: __m256i) -> __m256i {
        // SAFETY: see the head of this file.
        unsafe { known::dpbusd(count, _mm256_set1_epi8(1), four) }
    }

    #[inline(always)]
    fn count_nibbles(count: __m256i, [low, high]: [__m256i; 2]) -> __m256i {
        // SAFETY: see the head of this file.
        Self::count_bytes(count, unsafe { _mm256_add_epi8(low, high) })
    }

    #[inline(always)]
    fn dot(four: __m256i, [by_upper, by_lower]: [__m256i; 2], [upper, lower]: [i32; 2]) -> [__m256i; 2] {
        // SAFETY: see the head of this file.
        unsafe {
            [
                known::dpbusd(by_upper, _mm256_set1_epi32(upper), four),
                known::dpbusd(by_lower, _mm256_set1_epi32(lower), four),
            ]
        }
    }

    #[inline(always)]
    fn finish([by_upper, by_lower]: [__m256i; 2], count: __m256i) -> __m256i {
        // SAFETY: see the head of this file.
        unsafe {
            let lower = _mm256_sub_epi32(by_lower, _mm256_slli_epi32::<15>(count));
            _mm256_add_epi32(_mm256_slli_epi32::<8>(by_upper), lower)
        }
    }

    #[inline(always)]
    fn splat(value: i32) -> __m256i {
        Rows256::splat(value)
    }

    #[inline(always)]
    fn sub(a: __m256i, b: __m256i) -> __m256i {
        Rows256::sub(a, b)
    }

    #[inline(always)]
    fn zero() -> __m256 {
        Rows256::zero()
    }

    #[inline(always)]
    fn f16(bits: &[u8; 16]) -> __m256 {
        Rows256::f16(bits)
    }

    #[inline(always)]
    fn accumulate(acc: __m256, d: __m256, dx: f32, sums: __m256i) -> __m256 {
        Rows256::accumulate(acc, d, dx, sums)
    }

    #[inline(always)]
    fn store(floats: __m256) -> [f32; 8] {
        Rows256::store(floats)
    }

    /// With one token there are too few sums to wait for; so each vector of a pair has its own.
    #[inline(always)]
    fn dot_bytes(packed: &[u8; 256], x: &Pairs<1, 1>) -> __m256i {
        let (mut sums, mut count) = ([Self::start(); 2], [Self::uncounted(); 2]);
        for (vectors, x) in packed.as_chunks::<64>().0.iter().zip(x.as_chunks::<4>().0) {
            let each = vectors.as_chunks().0.iter().zip(x.as_chunks::<2>().0);
            for ((sums, count), (vector, [[[upper]], [[lower]]])) in sums.iter_mut().zip(&mut count).zip(each) {
                let four = Self::load(vector).bytes();
                *sums = Self::dot(four, *sums, [*upper, *lower]);
                *count = Self::count_bytes(*count, four);
            }
        }
        Self::finish_both(sums, count)
    }

    /// As `dot_bytes`, the low and the high nibbles apart.
    #[inline(always)]
    fn dot_nibbles(packed: &[u8; 128], x: &Pairs<1, 1>) -> __m256i {
        let (mut sums, mut count) = ([Self::start(); 2], Self::uncounted());
        let (low, high) = x.as_chunks().0.split_at_checked(4).unwrap_or_default();
        for ((vector, low), high) in packed.as_chunks().0.iter().zip(low).zip(high) {
            let fours = Self::load(vector).nibbles();
            count = Self::count_nibbles(count, fours);
            for ((sums, four), [[[upper]], [[lower]]]) in sums.iter_mut().zip(fours).zip([low, high]) {
                *sums = Self::dot(four, *sums, [*upper, *lower]);
            }
        }
        Self::finish_both(sums, [count, Self::uncounted()])
    }
}

/// See [`super::super::scalar::matmul_quantised`].
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub fn matmul_quantised(w: &Quantised<'_>, x: &Codes<'_>, out: &Tile<'_>, groups: Range<usize>) {
    rows::matmul_quantised::<Vnni, 8, 1>(w, x, out, groups);
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
