//! Matrix products in portable code. This file defines the truth that every other backend must equal bit for bit.

use super::codes::Codes;
use super::f16::f16_to_f32;
use super::lanes::dot16;
use super::{Floats, Quantised, Stored, Tile};
use crate::bytes::rows;
use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
use core::ops::Range;

/// Codes of a group: 8 vectors of 8 rows x 4 columns, as q8_0 stores them.
type Unpacked = [i8; GROUP_ROWS * BLOCK_COLS];

/// out[t][r] = row r of the matrix times token t, for the rows of `groups`.
pub fn matmul_quantised(w: &Quantised<'_>, x: &Codes<'_>, out: &Tile<'_>, groups: Range<usize>) {
    let mut codes = [0; GROUP_ROWS * BLOCK_COLS];
    for group in groups {
        let row_group = w.row_group(group);
        for token in 0..out.tokens {
            let mut acc = [0.0f32; GROUP_ROWS];
            for (index, block) in rows(row_group, w.group_bytes).enumerate() {
                let (x_codes, step) = &x.block(out.tokens, w.blocks, token, index);
                let (scales, packed) = block.split_at_checked(w.group_scales * 2).unwrap_or((&[], &[]));
                let (d, m) = scales.split_at_checked(2 * GROUP_ROWS).unwrap_or((scales, &[]));
                unpack(w.dtype, packed, &mut codes);
                let d = d.as_chunks::<2>().0;
                for ((acc, d), isum) in acc.iter_mut().zip(d).zip(isums(&codes, x_codes)) {
                    *acc += (f16_to_f32(*d) * step.d) * isum as f32;
                }
                // Empty but for q4_1.
                for (acc, m) in acc.iter_mut().zip(m.as_chunks::<2>().0) {
                    *acc += (f16_to_f32(*m) * step.d) * step.sum as f32;
                }
            }
            out.put(token, group, &acc);
        }
    }
}

/// The codes of a group, q4_0's with 8 taken off.
pub fn unpack(dtype: DType, packed: &[u8], codes: &mut Unpacked) {
    if dtype == DType::Q8_0 {
        for (code, byte) in codes.iter_mut().zip(packed) {
            *code = *byte as i8;
        }
        return;
    }
    let middle = if dtype == DType::Q4_0 { 8 } else { 0 };
    let (low, high) = codes.split_at_mut(GROUP_ROWS * BLOCK_COLS / 2);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(packed) {
        *low = (byte & 15) as i8 - middle;
        *high = (byte >> 4) as i8 - middle;
    }
}

fn isums(codes: &Unpacked, x: &[i16; BLOCK_COLS]) -> [i32; GROUP_ROWS] {
    let mut sums = [0i32; GROUP_ROWS];
    for (vector, x) in codes.as_chunks::<{ 4 * GROUP_ROWS }>().0.iter().zip(x.as_chunks::<4>().0) {
        // The activation codes stand in the order of columns 0, 2, 1, 3.
        let [x0, x2, x1, x3] = *x;
        for (sum, &[w0, w1, w2, w3]) in sums.iter_mut().zip(vector.as_chunks::<4>().0) {
            // At most 4 * 128 * 32767, and 8 of them: far inside i32.
            *sum = sum.wrapping_add(product(w0, x0) + product(w1, x1) + product(w2, x2) + product(w3, x3));
        }
    }
    sums
}

#[inline(always)]
fn product(weight: i8, x: i16) -> i32 {
    i32::from(weight) * i32::from(x)
}

/// The same for a matrix of floats.
pub fn matmul_floats<W: Stored>(w: &Floats<'_, W>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    for group in groups {
        for (token, x) in rows(x, w.cols).take(out.tokens).enumerate() {
            let mut acc = [0.0; GROUP_ROWS];
            for (acc, row) in acc.iter_mut().zip(rows(w.rows_of(group), w.cols)) {
                *acc = dot16(row, x);
            }
            out.put(token, group, &acc);
        }
    }
}
