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

use super::lanes::dot16;
use crate::bytes::rows;
use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
use crate::kernels::codes::{Codes, Step, TILE};
use crate::kernels::{Floats, Quantised, Stored, Tile};
use core::arch::wasm32::*;
use core::ops::Range;

/// The expression for each of four lanes. Written out, since a module that is optimised for size unrolls no loop and calls closures.
macro_rules! each {
    ($lane:ident => $of:expr) => {
        [
            {
                let $lane = 0usize;
                $of
            },
            {
                let $lane = 1usize;
                $of
            },
            {
                let $lane = 2usize;
                $of
            },
            {
                let $lane = 3usize;
                $of
            },
        ]
    };
}

/// Rows 0 to 3 and rows 4 to 7.
///
/// Written out wherever it is made: a repeat expression would be a loop over memory.
type Rows = [v128; 2];

/// Bytes of a group's scales, or of its minima.
const SCALES: usize = 2 * GROUP_ROWS;

/// The outputs of four tokens, one after the other.
type Outputs = [[f32; GROUP_ROWS]; 4];

/// out[t][r] = row r of the matrix times token t, for the rows of `groups`.
#[allow(unsafe_code)]
pub fn matmul_quantised(w: &Quantised<'_>, x: &Codes<'_>, out: &Tile<'_>, groups: Range<usize>) {
    let blocks = w.blocks;
    let need = out.tokens.saturating_mul(blocks);
    let whole = x.steps.len() >= need && x.codes.len() >= need.saturating_mul(BLOCK_COLS);
    if !whole || w.group_bytes != w.dtype.group_bytes() {
        return;
    }
    let whole = out.tokens.wrapping_sub(out.tokens % TILE);
    let mut outputs: Outputs = bytemuck::Zeroable::zeroed();
    for group in groups {
        let row_group = w.row_group(group);
        let mut token = 0usize;
        while token < out.tokens && !row_group.is_empty() {
            // Four lanes of a tile, or a token alone.
            let (lane, width) = if token < whole { (token % TILE, 4) } else { (0, 1) };
            let first = token.wrapping_sub(lane).wrapping_mul(blocks);
            let run = if width == 4 { four } else { one };
            // SAFETY: `codes` and `steps` have `blocks` blocks for each of `tokens`, tile after tile, so these lanes of each
            // block of the tile lie inside; a row group has `blocks` groups of `group_bytes`. Both were checked above, so
            // the products do not wrap either.
            unsafe {
                let codes = x.codes.as_ptr().add(first * BLOCK_COLS + 2 * lane);
                run(w, row_group.as_ptr(), codes, x.steps.as_ptr().add(first + lane), &mut outputs);
            }
            for values in outputs.iter().take(width) {
                out.put(token, group, values);
                token = token.wrapping_add(1);
            }
        }
    }
}

/// Where in a group the weights stand, behind the scales and, where there are such, the minima; and what a weight is less
/// than it says: sum (q - 8) x = sum q x - 8 sum x, exact in i32.
#[inline(always)]
fn group_shape(w: &Quantised<'_>) -> (usize, i32) {
    (2 * w.group_scales, if w.dtype == DType::Q4_0 { 8 } else { 0 })
}

/// A row group with a token alone: the first of the outputs.
///
/// # Safety
/// `w.blocks` groups can be read at `weights`, and so many blocks at `codes` and `steps`.
#[inline(never)]
#[allow(unsafe_code)]
unsafe fn one(
    w: &Quantised<'_>,
    mut weights: *const u8,
    mut codes: *const i16,
    mut steps: *const Step,
    outputs: &mut Outputs,
) {
    let mut acc = [f32x4_splat(0.0), f32x4_splat(0.0)];
    let (packed, middle) = group_shape(w);
    for _ in 0..w.blocks {
        // SAFETY: each turn of the loop reads one of each.
        unsafe {
            let Step { d, sum } = *steps;
            let isum = if w.dtype == DType::Q8_0 {
                bytes(weights.add(packed), codes)
            } else {
                nibbles(weights.add(packed), codes, i32x4_splat(sum.wrapping_mul(-middle)))
            };
            let mut factors = floats(isum);
            let mut at = 0;
            loop {
                acc = add_scaled(acc, scales(weights.add(at)), d, factors);
                at += SCALES;
                if at == packed {
                    break;
                }
                // The minima, times the sum of the codes.
                let sum = f32x4_splat(sum as f32);
                factors = [sum, sum];
            }
        }
        // Beyond the last block these may point behind the slices; they are not read there.
        weights = weights.wrapping_add(w.group_bytes);
        codes = codes.wrapping_add(BLOCK_COLS);
        steps = steps.wrapping_add(1);
    }
    put(&mut outputs[0], acc);
}

/// Four tokens of a tile: the weights are read and taken apart once.
///
/// # Safety
/// As for [`one`], for the lanes from `codes` and `steps` on of a tile.
#[inline(never)]
#[allow(unsafe_code)]
unsafe fn four(
    w: &Quantised<'_>,
    mut weights: *const u8,
    mut codes: *const i16,
    mut steps: *const Step,
    outputs: &mut Outputs,
) {
    let mut acc = each!(_t => [f32x4_splat(0.0), f32x4_splat(0.0)]);
    let (packed, middle) = group_shape(w);
    for _ in 0..w.blocks {
        // SAFETY: each turn of the loop reads one group, and four lanes of a block and its steps.
        unsafe {
            let isums = each!(t => {
                let start = i32x4_splat((*steps.add(t)).sum.wrapping_mul(-middle));
                [start, start]
            });
            let isums = products_of_four(isums, weights.add(packed), codes, w.dtype != DType::Q8_0);
            let mut factors = each!(t => floats(isums[t]));
            let mut at = 0;
            loop {
                let scales = scales(weights.add(at));
                acc = each!(t => add_scaled(acc[t], scales, (*steps.add(t)).d, factors[t]));
                at += SCALES;
                if at == packed {
                    break;
                }
                // As in `one`.
                factors = each!(t => {
                    let sum = f32x4_splat((*steps.add(t)).sum as f32);
                    [sum, sum]
                });
            }
        }
        // As in `one`.
        weights = weights.wrapping_add(w.group_bytes);
        codes = codes.wrapping_add(BLOCK_COLS * TILE);
        steps = steps.wrapping_add(TILE);
    }
    each!(t => put(&mut outputs[t], acc[t]));
}

#[inline(always)]
#[allow(unsafe_code)]
fn put(to: &mut [f32; GROUP_ROWS], acc: Rows) {
    // SAFETY: 8 floats are 32 bytes.
    unsafe {
        v128_store(to.as_mut_ptr().cast(), acc[0]);
        v128_store(to.as_mut_ptr().add(4).cast(), acc[1]);
    }
}

#[inline(always)]
fn floats(isum: Rows) -> Rows {
    [f32x4_convert_i32x4(isum[0]), f32x4_convert_i32x4(isum[1])]
}

/// Eight scales.
///
/// # Safety
/// 16 bytes can be read at `at`.
#[inline(always)]
#[allow(unsafe_code)]
unsafe fn scales(at: *const u8) -> Rows {
    // SAFETY: the caller's.
    let half = unsafe { v128_load(at.cast()) };
    [f16_to_f32(i32x4_extend_low_i16x8(half)), f16_to_f32(i32x4_extend_high_i16x8(half))]
}

/// acc + (scale * dx) * factor, each operation rounded.
#[inline(always)]
fn add_scaled(acc: Rows, scales: Rows, dx: f32, factor: Rows) -> Rows {
    let dx = f32x4_splat(dx);
    [
        f32x4_add(acc[0], f32x4_mul(f32x4_mul(scales[0], dx), factor[0])),
        f32x4_add(acc[1], f32x4_mul(f32x4_mul(scales[1], dx), factor[1])),
    ]
}

/// `sums` plus the products of a group with four lanes. Nibbles are taken for the bytes they stand in: first the low ones of
/// four vectors, then the high ones.
///
/// # Safety
/// 256 bytes, or 128 of nibbles, can be read at `w`, four pairs at 16 places of a tile from `x` on.
#[inline(always)]
#[allow(unsafe_code)]
unsafe fn products_of_four(mut sums: [Rows; 4], w: *const u8, mut x: *const i16, nibbles: bool) -> [Rows; 4] {
    let vectors = if nibbles { 4 } else { 8 };
    for turn in 0..BLOCK_COLS / 4 {
        // SAFETY: of 8 turns the last one reads the last 32 bytes and pairs 14 and 15.
        unsafe {
            let at = w.add(32 * (turn & (vectors - 1)));
            let (mut low, mut high) = (v128_load(at.cast()), v128_load(at.add(16).cast()));
            if nibbles {
                if turn >= vectors {
                    (low, high) = (u16x8_shr(low, 4), u16x8_shr(high, 4));
                }
                (low, high) = (v128_and(low, u8x16_splat(15)), v128_and(high, u8x16_splat(15)));
            }
            let even = [i16x8_shr(i16x8_shl(low, 8), 8), i16x8_shr(i16x8_shl(high, 8), 8)];
            let odd = [i16x8_shr(low, 8), i16x8_shr(high, 8)];
            sums = add_products(sums, even, x);
            sums = add_products(sums, odd, x.add(2 * TILE));
        }
        x = x.wrapping_add(4 * TILE);
    }
    sums
}

/// Adds the products of two columns with the pairs of four lanes at `x`.
///
/// # Safety
/// 16 bytes can be read at `x`.
#[inline(always)]
#[allow(unsafe_code)]
unsafe fn add_products(sums: [Rows; 4], weights: Rows, x: *const i16) -> [Rows; 4] {
    each!(t => {
        // SAFETY: the caller's.
        let pair = unsafe { v128_load32_splat(x.add(2 * t).cast()) };
        [
            i32x4_add(sums[t][0], i32x4_dot_i16x8(weights[0], pair)),
            i32x4_add(sums[t][1], i32x4_dot_i16x8(weights[1], pair)),
        ]
    })
}

/// Finite f16 numbers in the low halves: exponent and fraction are moved into place behind the sign, and 2^112 makes up for
/// the difference of the biases. The product is exact, subnormal numbers included.
#[inline(always)]
fn f16_to_f32(half: v128) -> v128 {
    let moved = v128_and(i32x4_shr(i32x4_shl(half, 16), 3), u32x4_splat(0x8fff_ffff));
    f32x4_mul(moved, f32x4_splat(f32::from_bits(0x7780_0000)))
}

/// Sums of products of a q8_0 group.
///
/// # Safety
/// 256 bytes can be read at `w`, 32 codes at `x`.
#[inline(always)]
#[allow(unsafe_code)]
unsafe fn bytes(mut w: *const u8, mut x: *const i16) -> Rows {
    let mut sums = [i32x4_splat(0), i32x4_splat(0)];
    for _ in 0..BLOCK_COLS / 4 {
        // SAFETY: of 8 turns the last one reads bytes 224 to 256 and codes 28 to 32.
        unsafe {
            let even = v128_load32_splat(x.cast());
            let odd = v128_load32_splat(x.add(2).cast());
            sums[0] = add_bytes(sums[0], v128_load(w.cast()), even, odd);
            sums[1] = add_bytes(sums[1], v128_load(w.add(16).cast()), even, odd);
        }
        w = w.wrapping_add(32);
        x = x.wrapping_add(4);
    }
    sums
}

#[inline(always)]
fn add_bytes(sum: v128, w: v128, even: v128, odd: v128) -> v128 {
    let sum = i32x4_add(sum, i32x4_dot_i16x8(i16x8_shr(i16x8_shl(w, 8), 8), even));
    i32x4_add(sum, i32x4_dot_i16x8(i16x8_shr(w, 8), odd))
}

/// `start` plus the sums of products of a group of nibbles: low ones of vector k are columns 4k and following, high ones 16 more.
///
/// # Safety
/// 128 bytes can be read at `w`, 32 codes at `x`.
#[inline(always)]
#[allow(unsafe_code)]
unsafe fn nibbles(mut w: *const u8, mut x: *const i16, start: v128) -> Rows {
    let mut low = [start, i32x4_splat(0), i32x4_splat(0)];
    let mut high = low;
    for _ in 0..BLOCK_COLS / 8 {
        // SAFETY: of 4 turns the last one reads bytes 96 to 128 and codes 12 to 16 and 28 to 32.
        unsafe {
            let codes = [
                v128_load32_splat(x.cast()),
                v128_load32_splat(x.add(2).cast()),
                v128_load32_splat(x.add(16).cast()),
                v128_load32_splat(x.add(18).cast()),
            ];
            low = add_nibbles(low, v128_load(w.cast()), codes);
            high = add_nibbles(high, v128_load(w.add(16).cast()), codes);
        }
        w = w.wrapping_add(32);
        x = x.wrapping_add(4);
    }
    let whole = |[sum, sum16, sum256]: [v128; 3]| i32x4_add(sum, i32x4_add(i32x4_shr(sum16, 4), i32x4_shr(sum256, 8)));
    [whole(low), whole(high)]
}

/// The sums times 1, 16 and 256.
#[inline(always)]
fn add_nibbles([sum, sum16, sum256]: [v128; 3], w: v128, codes: [v128; 4]) -> [v128; 3] {
    let [low_even, low_odd, high_even, high_odd] = codes;
    let even = i32x4_dot_i16x8(v128_and(w, u16x8_splat(0x000f)), low_even);
    let odd = i32x4_dot_i16x8(u16x8_shr(w, 12), high_odd);
    let times256 = i32x4_dot_i16x8(v128_and(w, u16x8_splat(0x0f00)), low_odd);
    let times16 = i32x4_dot_i16x8(v128_and(w, u16x8_splat(0x00f0)), high_even);
    [i32x4_add(i32x4_add(sum, even), odd), i32x4_add(sum16, times16), i32x4_add(sum256, times256)]
}

/// The same for a matrix of floats.
pub fn matmul_floats<W: Stored>(w: &Floats<'_, W>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    for group in groups {
        for (token, x) in (0..out.tokens).zip(rows(x, w.cols)) {
            let mut rest = w.rows_of(group);
            let mut values = [0.0; GROUP_ROWS];
            for value in &mut values {
                let (row, behind) = rest.split_at_checked(w.cols).unwrap_or_default();
                *value = dot16(row, x);
                rest = behind;
            }
            out.put(token, group, &values);
        }
    }
}
