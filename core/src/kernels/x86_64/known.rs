//! Instructions of AVX-512 that Miri does not know, in the words of AVX2 for Miri alone.
//!
//! # Safety
//! All: the CPU has AVX2, AVX512F, AVX512VL and AVX512VNNI.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

/// `sums` and the products of the four bytes of each lane, those of `a` unsigned, those of `b` signed.
#[inline(always)]
pub unsafe fn dpbusd(sums: __m256i, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        if cfg!(miri) {
            let even = _mm256_madd_epi16(
                _mm256_and_si256(a, _mm256_set1_epi16(255)),
                _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(b)),
            );
            let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(a), _mm256_srai_epi16::<8>(b));
            _mm256_add_epi32(sums, _mm256_add_epi32(even, odd))
        } else {
            _mm256_dpbusd_epi32(sums, a, b)
        }
    }
}

/// The second operand where the first is not greater.
#[inline(always)]
pub unsafe fn max(a: __m512, b: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { if cfg!(miri) { halves(a, b, |a, b| _mm256_max_ps(a, b)) } else { _mm512_max_ps(a, b) } }
}

/// The second operand where the first is not smaller.
#[inline(always)]
pub unsafe fn min(a: __m512, b: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { if cfg!(miri) { halves(a, b, |a, b| _mm256_min_ps(a, b)) } else { _mm512_min_ps(a, b) } }
}

#[inline(always)]
unsafe fn halves(a: __m512, b: __m512, f: impl Fn(__m256, __m256) -> __m256) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
        let low = f(_mm256_castpd_ps(_mm512_castpd512_pd256(a)), _mm256_castpd_ps(_mm512_castpd512_pd256(b)));
        let upper = |v| _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(v));
        let high = f(upper(a), upper(b));
        let low = _mm512_castpd256_pd512(_mm256_castps_pd(low));
        _mm512_castpd_ps(_mm512_insertf64x4::<1>(low, _mm256_castps_pd(high)))
    }
}
