//! Asking for memory before it is needed.

use bytemuck::Pod;

/// How far ahead, in bytes. For one token the weights come from memory, once and in order; processors look ahead by
/// themselves, but not all the way to the first cache, where instructions wait least. Measured on an EPYC that has AVX2.
pub const AHEAD: usize = 1536;

/// The same with AVX-512, measured on an EPYC that has it (Zen 4): q8_0, q4_0 and bf16 come 3 to 8 % faster than with 1.5 KiB.
#[cfg(target_arch = "x86_64")]
pub const AHEAD_AVX512: usize = 3072;

/// The same where several row groups are read at once: far enough that it comes to the second cache meanwhile. Measured on the
/// same EPYC: 6 to 24 KiB do as well; with 3 KiB the scores of a cache of codes take an eighth longer.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
pub const AHEAD_OF_SEVERAL: usize = 12 << 10;

/// Bytes that come together.
const LINE: usize = 64;

/// Asks for the bytes [`AHEAD`] behind these, whatever stands there. A hint: no bit depends on it.
#[inline(always)]
pub(crate) fn prefetch<T>(read_now: &[T]) {
    prefetch_behind(read_now, AHEAD);
}

/// [`prefetch`] for the bytes `ahead` bytes behind these: as an instruction set wants it, or of what is read in steps, some
/// steps.
#[inline(always)]
pub(crate) fn prefetch_behind<T>(read_now: &[T], ahead: usize) {
    ask::<true>(read_now.as_ptr().cast::<u8>().wrapping_add(ahead), size_of_val(read_now));
}

/// The same to the second cache. While these are on their way the first one takes other requests, so more can be; those that
/// are too many seem to be dropped.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
#[inline(always)]
pub(crate) fn prefetch_far_behind<T>(read_now: &[T], ahead: usize) {
    ask::<false>(read_now.as_ptr().cast::<u8>().wrapping_add(ahead), size_of_val(read_now));
}

/// To the `NEAR` cache, the first, or to the second.
#[inline(always)]
#[allow(unsafe_code)]
fn ask<const NEAR: bool>(start: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..len.div_ceil(LINE) {
        use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let at = start.wrapping_add(line.wrapping_mul(LINE)).cast();
        // SAFETY: nothing is read; an address without memory is ignored.
        unsafe { if NEAR { _mm_prefetch::<_MM_HINT_T0>(at) } else { _mm_prefetch::<_MM_HINT_T1>(at) } };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len, LINE);
}

/// What is read next, asked for little by little while something else is computed: memory would have nothing to do meanwhile.
///
/// To the second cache, and spread: three lines with sixteen exponentials, one with what is quicker, four with a block of codes.
/// That much came in time on an EPYC with AVX-512; two lines more made the product with the values a third slower.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Soon<'a> {
    /// Of a row.
    now: &'a [u8],
    /// From the next row on.
    rows: &'a [u8],
    /// Bytes of a row, and from one to the next.
    len: usize,
    stride: usize,
}

impl<'a> Soon<'a> {
    /// A slice.
    pub(crate) fn of<T: Pod>(all: &'a [T]) -> Self {
        Self { now: bytemuck::try_cast_slice(all).unwrap_or(&[]), ..Self::default() }
    }

    /// Rows of `len` bytes, `stride` apart.
    pub(crate) fn new(rows: &'a [u8], len: usize, stride: usize) -> Self {
        Self { now: &[], rows, len, stride }
    }

    /// Asks for `COUNT` lines more. Gives `false` when all were asked for.
    #[inline(always)]
    pub(crate) fn lines<const COUNT: usize>(&mut self) -> bool {
        if cfg!(not(target_arch = "x86_64")) {
            return false;
        }
        if let Some((lines, rest)) = self.now.split_at_checked(const { COUNT * LINE }) {
            ask::<false>(lines.as_ptr(), const { COUNT * LINE });
            self.now = rest;
            return true;
        }
        let some = !(self.now.is_empty() && self.rows.is_empty());
        if some {
            self.next_row();
        }
        some
    }

    /// Asks for what is left of a row and begins the next.
    #[inline(never)]
    fn next_row(&mut self) {
        ask::<false>(self.now.as_ptr(), self.now.len());
        self.now = self.rows.get(..self.len).unwrap_or(self.rows);
        self.rows = self.rows.get(self.stride..).unwrap_or(&[]);
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn asks_for_all_rows_and_for_nothing_between_them() {
        let bytes = [0u8; 1000];
        for (len, stride, rows) in [(100, 160, 3), (128, 128, 4), (64, 300, 2), (10, 10, 1), (1000, 1000, 1)] {
            let all = &bytes[..stride * (rows - 1) + len];
            let mut soon = Soon::new(all, len, stride);
            let mut begun = Vec::new();
            let mut calls = 0;
            while soon.lines::<2>() {
                calls += 1;
                assert!(soon.now.len() <= len);
                if !soon.now.is_empty() {
                    let at = soon.now.as_ptr() as usize - bytes.as_ptr() as usize;
                    assert_eq!(at % stride + soon.now.len(), len, "{len} {stride}: {at}");
                    begun.push(at / stride);
                }
            }
            begun.dedup();
            assert_eq!(begun.len(), rows, "{len} {stride}");
            assert!(calls <= rows * (len.div_ceil(2 * LINE) + 1), "{len} {stride}: {calls}");
        }
        assert!(!Soon::default().lines::<1>());
        assert!(Soon::of(&[1.0f32; 40]).lines::<1>());
    }
}
