//! AVX-512 with VNNI. No FMA: it would change bits.
//!
//! Floats: the sixteen accumulators are one register.
//!
//! Products of codes: `vpdpbusd` multiplies four unsigned bytes of a lane with four signed ones and adds all to the lane,
//! exactly. Activation codes are kept as bytes for that, the upper and the lower ones of four columns apart: `x = 256 h + l`,
//! h signed and l unsigned. Lower bytes meet the weights as they lie in the file; upper ones meet them with 128 added, which is
//! their highest bit turned over, and unsigned. So
//!
//! ```text
//! sum w x  =  256 * sum (w + 128) h  +  sum w l  -  32768 * sum h
//! ```
//!
//! where the last sum was found when the codes were; no term reaches 2^29. Nibbles are unsigned as they are: for them nothing is
//! added nor taken off.
//!
//! For several tokens two row groups are multiplied at a time, a register of sixteen rows: each code that is loaded serves both.
//! For one token it is one: memory is read a third slower in two places by turns than in one.
//!
//! Everything here is inlined into the three functions at the end, which are compiled for the features that [`Avx512`]
//! names and which only an [`Avx512`] leads to; so wherever an intrinsic runs, the CPU has it.
#![allow(unsafe_code)]

use super::super::codes::{Codes, Step};
use super::super::dispatch::Task;
use super::super::floats;
use super::super::lanes::{LANES, Lanes, Places, Sixteen, sums_of_sixteen};
use super::super::prefetch::AHEAD_AVX512;
use super::super::rows::{self, Bytes, Nibbles, Pairs, Rows, Scales, Vector, beside};
use super::super::{Bf16, Floats, Quantised, Stored, Tile};
use super::avx2::{Kept, Rows256, encode_block};
use super::known;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
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
        unsafe { encode_block::<BytesApart>(x, codes) }
    }

    #[inline(always)]
    fn columns(places: [i16; 4]) -> [i16; 4] {
        let [h0, h1, h2, h3, l0, l1, l2, l3]: [u8; 8] = bytemuck::cast(places);
        [[l0, h0], [l1, h1], [l2, h2], [l3, h3]].map(i16::from_le_bytes)
    }

    #[inline(always)]
    fn sum_of_codes(sum: i32) -> i32 {
        let (upper, lower) = sums_of_bytes(sum);
        (upper >> 7).wrapping_add(lower)
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

/// The upper bytes before the lower ones.
struct BytesApart;

impl Kept for BytesApart {
    const ORDER: u64 = 0x0604_0200_0705_0301;

    /// With h and l the bytes of x: `(h << 15) + l`, which is `128 x - 127 l`.
    #[inline(always)]
    unsafe fn sums(codes: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let lower = _mm256_and_si256(codes, _mm256_set1_epi16(255));
            let all = _mm256_madd_epi16(codes, _mm256_set1_epi16(128));
            _mm256_add_epi32(all, _mm256_madd_epi16(lower, _mm256_set1_epi16(-127)))
        }
    }
}

/// The sum of the upper bytes of a block's codes, times 2^15, and that of the lower ones, which is less than that.
#[inline(always)]
fn sums_of_bytes(sum: i32) -> (i32, i32) {
    let lower = sum & 0x7fff;
    (sum.wrapping_sub(lower), lower)
}

/// A register of 32-bit lanes, one for each row of `G` row groups.
trait Words<const G: usize>: Copy {
    type Floats: Copy;

    fn load(vectors: [&Vector; G]) -> Self;
    fn splat(word: i32) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn sub_bytes(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// 16-bit lanes shifted right by 4.
    fn shifted_by_4(self) -> Self;
    fn times_256(self) -> Self;
    /// Plus the products of the four bytes of each lane, those of `a` unsigned, those of `b` signed.
    fn plus_products(self, a: Self, b: Self) -> Self;

    fn zero() -> Self::Floats;
    fn f16(bits: [&Scales; G]) -> Self::Floats;
    fn accumulate(self, acc: Self::Floats, d: Self::Floats, dx: f32) -> Self::Floats;
    fn store(floats: Self::Floats) -> [[f32; GROUP_ROWS]; G];
}

impl Words<1> for __m256i {
    type Floats = __m256;

    #[inline(always)]
    fn load(vectors: [&Vector; 1]) -> Self {
        Rows256::load(vectors).0
    }

    #[inline(always)]
    fn splat(word: i32) -> Self {
        Rows256::splat(word)
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm256_add_epi32(self, other) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Rows256::sub(self, other)
    }

    #[inline(always)]
    fn sub_bytes(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm256_sub_epi8(self, other) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm256_and_si256(self, other) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm256_xor_si256(self, other) }
    }

    #[inline(always)]
    fn shifted_by_4(self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm256_srli_epi16::<4>(self) }
    }

    #[inline(always)]
    fn times_256(self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm256_slli_epi32::<8>(self) }
    }

    #[inline(always)]
    fn plus_products(self, a: Self, b: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { known::dpbusd256(self, a, b) }
    }

    #[inline(always)]
    fn zero() -> __m256 {
        Rows256::zero()
    }

    #[inline(always)]
    fn f16(bits: [&Scales; 1]) -> __m256 {
        Rows256::f16(bits)
    }

    #[inline(always)]
    fn accumulate(self, acc: __m256, d: __m256, dx: f32) -> __m256 {
        Rows256::accumulate(acc, d, dx, self)
    }

    #[inline(always)]
    fn store(floats: __m256) -> [[f32; GROUP_ROWS]; 1] {
        Rows256::store(floats)
    }
}

impl Words<2> for __m512i {
    type Floats = __m512;

    #[inline(always)]
    fn load([low, high]: [&Vector; 2]) -> Self {
        // SAFETY: 32 bytes can be read from each, of any alignment. See the head of this file.
        unsafe {
            let low = _mm512_castsi256_si512(_mm256_loadu_si256(low.as_ptr().cast()));
            _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(high.as_ptr().cast()))
        }
    }

    #[inline(always)]
    fn splat(word: i32) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm512_set1_epi32(word) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm512_add_epi32(self, other) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm512_sub_epi32(self, other) }
    }

    #[inline(always)]
    fn sub_bytes(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm512_sub_epi8(self, other) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm512_and_si512(self, other) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    fn shifted_by_4(self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm512_srli_epi16::<4>(self) }
    }

    #[inline(always)]
    fn times_256(self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { _mm512_slli_epi32::<8>(self) }
    }

    #[inline(always)]
    fn plus_products(self, a: Self, b: Self) -> Self {
        // SAFETY: see the head of this file.
        unsafe { known::dpbusd(self, a, b) }
    }

    #[inline(always)]
    fn zero() -> __m512 {
        // SAFETY: see the head of this file.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    fn f16(bits: [&Scales; 2]) -> __m512 {
        // SAFETY: 16 bytes can be read from each, of any alignment. See the head of this file.
        unsafe {
            let [low, high] = bits.map(|bits| _mm_loadu_si128(bits.as_ptr().cast()));
            known::f16(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high))
        }
    }

    #[inline(always)]
    fn accumulate(self, acc: __m512, d: __m512, dx: f32) -> __m512 {
        // SAFETY: see the head of this file.
        unsafe {
            let factor = _mm512_mul_ps(d, _mm512_set1_ps(dx));
            _mm512_add_ps(acc, _mm512_mul_ps(factor, _mm512_cvtepi32_ps(self)))
        }
    }

    #[inline(always)]
    fn store(floats: __m512) -> [[f32; GROUP_ROWS]; 2] {
        let mut out = [[0.0; GROUP_ROWS]; 2];
        // SAFETY: 16 floats can be written, of any alignment. See the head of this file.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr().cast(), floats) };
        out
    }
}

/// Four columns of each row, or eight.
#[derive(Clone, Copy)]
struct Vnni<W>(W);

impl<W: Copy> Vnni<W> {
    /// Signed bytes, ready to be multiplied.
    #[inline(always)]
    fn signed<const G: usize>(bytes: W) -> [W; 2]
    where
        W: Words<G>,
    {
        [bytes.xor(W::splat(0x8080_8080_u32 as i32)), bytes]
    }

    #[inline(always)]
    fn add<const G: usize>([a, b]: [W; 2], [c, d]: [W; 2]) -> [W; 2]
    where
        W: Words<G>,
    {
        [a.add(c), b.add(d)]
    }
}

impl<const G: usize, W: Words<G>> Rows<G> for Vnni<W> {
    /// What meets the upper bytes, unsigned; and the lower ones, signed.
    type Four = [W; 2];
    /// Products with the upper and with the lower bytes.
    type Partial = [W; 2];
    type Sums = W;
    type Floats = W::Floats;

    const AHEAD: usize = AHEAD_AVX512;

    #[inline(always)]
    fn load(vectors: [&Vector; G]) -> Self {
        Self(W::load(vectors))
    }

    #[inline(always)]
    fn bytes(self) -> [W; 2] {
        Self::signed(self.0)
    }

    #[inline(always)]
    fn nibbles(self) -> [[W; 2]; 2] {
        let mask = W::splat(0x0f0f_0f0f);
        let (low, high) = (self.0.and(mask), self.0.shifted_by_4().and(mask));
        [[low; 2], [high; 2]]
    }

    #[inline(always)]
    fn signed_nibbles(self) -> [[W; 2]; 2] {
        let [[low, _], [high, _]] = self.nibbles();
        let eights = W::splat(0x0808_0808);
        [Self::signed(low.sub_bytes(eights)), Self::signed(high.sub_bytes(eights))]
    }

    #[inline(always)]
    fn start() -> [W; 2] {
        [W::splat(0); 2]
    }

    #[inline(always)]
    fn dot([unsigned, signed]: [W; 2], [by_upper, by_lower]: [W; 2], [upper, lower]: [i32; 2]) -> [W; 2] {
        [by_upper.plus_products(unsigned, W::splat(upper)), by_lower.plus_products(W::splat(lower), signed)]
    }

    #[inline(always)]
    fn finish([by_upper, by_lower]: [W; 2], excess: i32) -> W {
        by_upper.times_256().add(by_lower).sub(W::splat(excess))
    }

    #[inline(always)]
    fn excess(sum: i32) -> i32 {
        sums_of_bytes(sum).0
    }

    #[inline(always)]
    fn sum_of_codes(sum: i32) -> i32 {
        Avx512Lanes::sum_of_codes(sum)
    }

    #[inline(always)]
    fn splat(value: i32) -> W {
        W::splat(value)
    }

    #[inline(always)]
    fn sub(a: W, b: W) -> W {
        a.sub(b)
    }

    #[inline(always)]
    fn zero() -> W::Floats {
        W::zero()
    }

    #[inline(always)]
    fn f16(bits: [&Scales; G]) -> W::Floats {
        W::f16(bits)
    }

    #[inline(always)]
    fn accumulate(acc: W::Floats, d: W::Floats, dx: f32, sums: W) -> W::Floats {
        sums.accumulate(acc, d, dx)
    }

    #[inline(always)]
    fn store(floats: W::Floats) -> [[f32; GROUP_ROWS]; G] {
        W::store(floats)
    }

    /// With one token there are too few sums to wait for; so each vector of a pair has its own.
    #[inline(always)]
    fn dot_bytes(packed: [&Bytes; G], x: &Pairs<1, 1>) -> [W; 2] {
        let [mut even, mut odd] = [Self::start(); 2];
        let Some(first) = packed.first() else { return even };
        for (at, (first, [[[upper]], [[lower]]])) in first.iter().zip(x.as_chunks().0).enumerate() {
            let Some(vectors) = beside(first, packed, at) else { break };
            let sums = if at % 2 == 0 { &mut even } else { &mut odd };
            *sums = Self::dot(Self::load(vectors).bytes(), *sums, [*upper, *lower]);
        }
        Self::add(even, odd)
    }

    /// As `dot_bytes`, the low and the high nibbles apart.
    #[inline(always)]
    fn dot_nibbles(packed: [&Nibbles; G], x: &Pairs<1, 1>) -> [W; 2] {
        let [mut by_low, mut by_high] = [Self::start(); 2];
        let (low, high) = x.as_chunks().0.split_at_checked(4).unwrap_or_default();
        let Some(first) = packed.first() else { return by_low };
        for (at, ((first, [[[a]], [[b]]]), [[[c]], [[d]]])) in first.iter().zip(low).zip(high).enumerate() {
            let Some(vectors) = beside(first, packed, at) else { break };
            let [low, high] = Self::load(vectors).nibbles();
            by_low = Self::dot(low, by_low, [*a, *b]);
            by_high = Self::dot(high, by_high, [*c, *d]);
        }
        Self::add(by_low, by_high)
    }
}

/// See [`super::super::scalar::matmul_quantised`].
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub fn matmul_quantised(w: &Quantised<'_>, x: &Codes<'_>, out: &Tile<'_>, groups: Range<usize>) {
    rows::matmul_quantised::<Vnni<__m256i>, Vnni<__m512i>, 2, 8, 1>(w, x, out, groups);
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
