//! Instructions of AVX-512 that Miri does not know, in the words of AVX2 for Miri alone.
//!
//! # Safety
//! All: the CPU has AVX2, F16C, AVX512F, AVX512VL and AVX512VNNI.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

/// `sums` and the products of the four bytes of each lane, those of `a` unsigned, those of `b` signed.
#[inline(always)]
pub unsafe fn dpbusd(sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        if cfg!(miri) {
            _mm512_add_epi32(sums, halves(a, b, |a, b| products(a, b)))
        } else {
            _mm512_dpbusd_epi32(sums, a, b)
        }
    }
}

/// The same of eight lanes.
#[inline(always)]
pub unsafe fn dpbusd256(sums: __m256i, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { if cfg!(miri) { _mm256_add_epi32(sums, products(a, b)) } else { _mm256_dpbusd_epi32(sums, a, b) } }
}

#[inline(always)]
unsafe fn products(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let even = _mm256_madd_epi16(
            _mm256_and_si256(a, _mm256_set1_epi16(255)),
            _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(b)),
        );
        let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(a), _mm256_srai_epi16::<8>(b));
        _mm256_add_epi32(even, odd)
    }
}

/// Sixteen f16 as f32.
#[inline(always)]
pub unsafe fn f16(bits: __m256i) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        if cfg!(miri) {
            let low = _mm256_cvtph_ps(_mm256_castsi256_si128(bits));
            let high = _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(bits));
            let low = _mm512_castsi256_si512(_mm256_castps_si256(low));
            _mm512_castsi512_ps(_mm512_inserti64x4::<1>(low, _mm256_castps_si256(high)))
        } else {
            _mm512_cvtph_ps(bits)
        }
    }
}

/// The second operand where the first is not greater.
#[inline(always)]
pub unsafe fn max(a: __m512, b: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { if cfg!(miri) { floats(a, b, |a, b| _mm256_max_ps(a, b)) } else { _mm512_max_ps(a, b) } }
}

/// The second operand where the first is not smaller.
#[inline(always)]
pub unsafe fn min(a: __m512, b: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { if cfg!(miri) { floats(a, b, |a, b| _mm256_min_ps(a, b)) } else { _mm512_min_ps(a, b) } }
}

#[inline(always)]
unsafe fn floats(a: __m512, b: __m512, f: impl Fn(__m256, __m256) -> __m256) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let f = |a, b| _mm256_castps_si256(f(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
        _mm512_castsi512_ps(halves(_mm512_castps_si512(a), _mm512_castps_si512(b), f))
    }
}

#[inline(always)]
unsafe fn halves(a: __m512i, b: __m512i, f: impl Fn(__m256i, __m256i) -> __m256i) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let low = f(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b));
        let high = f(_mm512_extracti64x4_epi64::<1>(a), _mm512_extracti64x4_epi64::<1>(b));
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    }
}
