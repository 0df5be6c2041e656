//! Matrix products over 128-bit SIMD.
//!
//! A vector of weights holds 8 rows x 4 columns, row by row, so one register of 16 bytes has four rows. Even and odd
//! bytes are taken apart as 16-bit numbers, and `i32x4.dot_i16x8_s` multiplies them with a pair of activation codes
//! that stands in every lane: one lane is one row, and the sums need no reordering at the end.
//!
//! ```text
//! bytes   r0c0 r0c1 r0c2 r0c3 | r1c0 ...      (i8)
//! even    r0c0      r0c2      | r1c0 ...      (i16)   x   x0 x2 | x0 x2 | ...
//! odd          r0c1      r0c3 |      ...      (i16)   x   x1 x3 | x1 x3 | ...
//! ```
//!
//! Nibbles stay where they are in their 16 bits as long as no sign bit is touched: the products are then 16 or 256
//! times too large, and the sums are shifted once per block. The largest, 8 columns * 15 * 32767 * 256, fits an i32.

use super::{SimdLanes, load};
use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
use crate::kernels::codes::Codes;
use crate::kernels::lanes::dot16;
use crate::kernels::{Floats, Quantised, Tile};
use core::arch::wasm32::*;
use core::ops::Range;

/// Rows 0 to 3 and rows 4 to 7.
type Rows = [v128; 2];

/// out[t][r] = row r of the matrix times token t, for the rows of `groups`.
pub fn matmul_quantised(w: &Quantised<'_>, x: &Codes<'_>, out: &Tile<'_>, groups: Range<usize>) {
    for group in groups {
        let row_group = w.row_group(group);
        for token in 0..out.tokens {
            let first = token.saturating_mul(w.blocks);
            let x_codes = x.codes.as_chunks::<BLOCK_COLS>().0.iter().skip(first);
            let x_blocks = x_codes.zip(x.steps.iter().skip(first));
            let mut acc = [f32x4_splat(0.0); 2];
            for (block, (x_codes, step)) in row_group.chunks_exact(w.group_bytes).zip(x_blocks) {
                let (scales, packed) = block.split_at_checked(w.group_scales * 2).unwrap_or((&[], &[]));
                let vectors = packed.as_chunks::<32>().0;
                let pairs = x_codes.as_chunks::<4>().0;
                let mut isum = if w.dtype == DType::Q8_0 { bytes(vectors, pairs) } else { nibbles(vectors, pairs) };
                if w.dtype == DType::Q4_0 {
                    let middle = i32x4_splat(step.sum.wrapping_mul(8));
                    isum = isum.map(|sum| i32x4_sub(sum, middle));
                }
                let mut scales = scales.as_chunks::<{ 2 * GROUP_ROWS }>().0.iter();
                if let Some(d) = scales.next() {
                    add_scaled(&mut acc, d, step.d, isum.map(|sum| f32x4_convert_i32x4(sum)));
                }
                // q4_1 alone has minima.
                if let Some(m) = scales.next() {
                    add_scaled(&mut acc, m, step.d, [f32x4_splat(step.sum as f32); 2]);
                }
            }
            let mut values = [0.0f32; GROUP_ROWS];
            for (to, acc) in values.as_chunks_mut::<4>().0.iter_mut().zip(acc) {
                *to = [
                    f32x4_extract_lane::<0>(acc),
                    f32x4_extract_lane::<1>(acc),
                    f32x4_extract_lane::<2>(acc),
                    f32x4_extract_lane::<3>(acc),
                ];
            }
            out.put(token, group, &values);
        }
    }
}

/// acc = acc + (scale * dx) * factor, each operation rounded.
#[inline(always)]
fn add_scaled(acc: &mut Rows, scales: &[u8; 2 * GROUP_ROWS], dx: f32, factor: Rows) {
    let half = load(scales);
    let scales = [f16_to_f32(u32x4_extend_low_u16x8(half)), f16_to_f32(u32x4_extend_high_u16x8(half))];
    for ((acc, scale), factor) in acc.iter_mut().zip(scales).zip(factor) {
        *acc = f32x4_add(*acc, f32x4_mul(f32x4_mul(scale, f32x4_splat(dx)), factor));
    }
}

/// Finite f16 numbers in the low halves: exponent and fraction are moved into place, and 2^112 makes up for the
/// difference of the biases. The product is exact, subnormal numbers included.
#[inline(always)]
fn f16_to_f32(half: v128) -> v128 {
    let sign = u32x4_shl(v128_and(half, u32x4_splat(0x8000)), 16);
    let rest = u32x4_shl(v128_and(half, u32x4_splat(0x7fff)), 13);
    v128_or(f32x4_mul(rest, f32x4_splat(f32::from_bits(0x7780_0000))), sign)
}

/// Two pairs of activation codes, each in all lanes: columns 0 and 2, columns 1 and 3.
#[inline(always)]
fn splat_pairs(codes: &[i16; 4]) -> [v128; 2] {
    let [x0, x2, x1, x3] = *codes;
    let pair = |low: i16, high: i16| i32x4_splat((low as u16 as i32) | (i32::from(high) << 16));
    [pair(x0, x2), pair(x1, x3)]
}

#[inline(always)]
fn halves(vector: &[u8; 32]) -> Rows {
    let (halves, _) = vector.as_chunks::<16>();
    match halves {
        [low, high] => [load(low), load(high)],
        _ => [i32x4_splat(0); 2],
    }
}

/// Sums of products of a q8_0 group.
#[inline(always)]
fn bytes(vectors: &[[u8; 32]], pairs: &[[i16; 4]]) -> Rows {
    let mut sums = [i32x4_splat(0); 2];
    for (vector, codes) in vectors.iter().zip(pairs) {
        let [even, odd] = splat_pairs(codes);
        for (sum, w) in sums.iter_mut().zip(halves(vector)) {
            let w_even = i16x8_shr(i16x8_shl(w, 8), 8);
            *sum = i32x4_add(*sum, i32x4_dot_i16x8(w_even, even));
            *sum = i32x4_add(*sum, i32x4_dot_i16x8(i16x8_shr(w, 8), odd));
        }
    }
    sums
}

/// Sums of products of a group of nibbles: low ones of vector k are columns 4k and following, high ones 16 more.
#[inline(always)]
fn nibbles(vectors: &[[u8; 32]], pairs: &[[i16; 4]]) -> Rows {
    let (low_pairs, high_pairs) = pairs.split_at_checked(BLOCK_COLS / 8).unwrap_or((&[], &[]));
    let zero = [i32x4_splat(0); 2];
    let (mut sums, mut sums16, mut sums256) = (zero, zero, zero);
    for ((vector, low), high) in vectors.iter().zip(low_pairs).zip(high_pairs) {
        let ([low_even, low_odd], [high_even, high_odd]) = (splat_pairs(low), splat_pairs(high));
        let sums = sums.iter_mut().zip(&mut sums16).zip(&mut sums256);
        for (((sum, sum16), sum256), w) in sums.zip(halves(vector)) {
            *sum = i32x4_add(*sum, i32x4_dot_i16x8(v128_and(w, u16x8_splat(0x000f)), low_even));
            *sum256 = i32x4_add(*sum256, i32x4_dot_i16x8(v128_and(w, u16x8_splat(0x0f00)), low_odd));
            *sum16 = i32x4_add(*sum16, i32x4_dot_i16x8(v128_and(w, u16x8_splat(0x00f0)), high_even));
            *sum = i32x4_add(*sum, i32x4_dot_i16x8(u16x8_shr(w, 12), high_odd));
        }
    }
    let mut out = sums;
    for ((out, sum16), sum256) in out.iter_mut().zip(sums16).zip(sums256) {
        *out = i32x4_add(*out, i32x4_add(i32x4_shr(sum16, 4), i32x4_shr(sum256, 8)));
    }
    out
}

/// The same for an f32 matrix.
pub fn matmul_f32(w: &Floats<'_>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    for group in groups {
        for (token, x) in x.chunks_exact(w.cols.max(1)).take(out.tokens).enumerate() {
            let mut acc = [0.0; GROUP_ROWS];
            for (acc, row) in acc.iter_mut().zip(w.rows_of(group).chunks_exact(w.cols.max(1))) {
                *acc = dot16::<SimdLanes>(row, x);
            }
            out.put(token, group, &acc);
        }
    }
}
