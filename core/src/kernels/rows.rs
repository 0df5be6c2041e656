//! The matrix product of quantised weights for every vector instruction set.
//!
//! A 32-byte vector of a group holds 4 columns of 8 rows, so as 32-bit lanes each lane is one row, and as 16-bit lanes
//! a lane holds two neighbouring columns:
//!
//! ```text
//! q8_0   lane 2r: columns 0 (low byte), 1 (high)   lane 2r + 1: columns 2, 3
//! q4     lane 2r: nibbles 0 | 16 | 1 | 17           lane 2r + 1: nibbles 2 | 18 | 3 | 19
//! ```
//!
//! Taking the low bytes (or one nibble) of all lanes gives columns (0, 2) of each row as 16-bit integers, the high ones
//! columns (1, 3). One multiply-add of pairs with the activation codes (x0, x2) or (x1, x3) in every lane then adds two
//! columns to each row's sum, with the rows in order and nothing to shuffle. Activation codes are stored in that order.

use super::codes::{Codes, Step};
use super::{Quantised, Tile};
use crate::bytes::rows;
use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
use core::ops::Range;

/// The codes of a block as pairs.
pub(super) type Pairs = [i32; BLOCK_COLS / 2];

const NO_PAIRS: Pairs = [0; BLOCK_COLS / 2];
const NO_STEP: Step = Step { d: 0.0, sum: 0 };

/// Sixteen 16-bit integers: two columns of eight rows.
pub(super) trait Rows: Copy {
    /// Eight i32, one for each row.
    type Sums: Copy;
    /// Eight f32, one for each row.
    type Floats: Copy;

    fn load(bytes: &[u8; 4 * GROUP_ROWS]) -> Self;
    /// The low bytes, sign extended.
    fn low_bytes(self) -> Self;
    /// The high bytes, sign extended.
    fn high_bytes(self) -> Self;
    /// Nibbles number 0 to 3 of each lane.
    fn nibbles(self) -> [Self; 4];

    fn splat(value: i32) -> Self::Sums;
    fn sub(a: Self::Sums, b: Self::Sums) -> Self::Sums;
    /// `sums[r] + self[2r] * low half of pair + self[2r + 1] * high half`.
    fn dot(self, sums: Self::Sums, pair: i32) -> Self::Sums;

    fn zero() -> Self::Floats;
    fn f16(bits: &[u8; 2 * GROUP_ROWS]) -> Self::Floats;
    /// `acc + (d * dx) * f32(sums)`, each of the four one operation.
    fn accumulate(acc: Self::Floats, d: Self::Floats, dx: f32, sums: Self::Sums) -> Self::Floats;
    fn store(floats: Self::Floats) -> [f32; GROUP_ROWS];

    /// Sums of a block of nibbles for one token; backends may know a shorter way.
    #[inline(always)]
    fn dot_nibbles(packed: &[u8], x: &Pairs) -> Self::Sums {
        let [sums] = nibbles::<Self, 1>(packed, [x]);
        sums
    }
}

#[inline(always)]
fn bytes<R: Rows, const N: usize>(packed: &[u8], x: [&Pairs; N]) -> [R::Sums; N] {
    let mut sums = [R::splat(0); N];
    let vectors = packed.as_chunks::<{ 4 * GROUP_ROWS }>().0;
    for (k, vector) in vectors.iter().enumerate().take(8) {
        let vector = R::load(vector);
        let (low, high) = (vector.low_bytes(), vector.high_bytes());
        for (sums, x) in sums.iter_mut().zip(x) {
            *sums = low.dot(*sums, x[2 * k]);
            *sums = high.dot(*sums, x[2 * k + 1]);
        }
    }
    sums
}

#[inline(always)]
fn nibbles<R: Rows, const N: usize>(packed: &[u8], x: [&Pairs; N]) -> [R::Sums; N] {
    let mut sums = [R::splat(0); N];
    let vectors = packed.as_chunks::<{ 4 * GROUP_ROWS }>().0;
    for (k, vector) in vectors.iter().enumerate().take(4) {
        let [n0, n1, n2, n3] = R::load(vector).nibbles();
        for (sums, x) in sums.iter_mut().zip(x) {
            *sums = n0.dot(*sums, x[2 * k]);
            *sums = n2.dot(*sums, x[2 * k + 1]);
            *sums = n1.dot(*sums, x[2 * k + 8]);
            *sums = n3.dot(*sums, x[2 * k + 9]);
        }
    }
    sums
}

/// `N` tokens from `token` on, one row group.
#[inline(always)]
fn tile<R: Rows, const N: usize>(
    w: &Quantised<'_>,
    row_group: &[u8],
    pairs: &[Pairs],
    steps: &[Step],
    token: usize,
) -> [R::Floats; N] {
    let mut acc = [R::zero(); N];
    let mut at = [0usize; N];
    for (i, at) in at.iter_mut().enumerate() {
        *at = token.saturating_add(i).saturating_mul(w.blocks);
    }
    for group in rows(row_group, w.group_bytes) {
        let Some((d, packed)) = group.split_first_chunk() else { return acc };
        let x = at.map(|at| pairs.get(at).unwrap_or(&NO_PAIRS));
        let step = at.map(|at| *steps.get(at).unwrap_or(&NO_STEP));
        at = at.map(|at| at.wrapping_add(1));
        let d = R::f16(d);
        if w.dtype == DType::Q8_0 {
            let sums = bytes::<R, N>(packed, x);
            for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                *acc = R::accumulate(*acc, d, step.d, sums);
            }
            continue;
        }
        let (m, packed) = match w.dtype {
            DType::Q4_1 => packed.split_first_chunk().map_or((None, packed), |(m, packed)| (Some(m), packed)),
            _ => (None, packed),
        };
        let sums = match x.as_slice() {
            [x] => [R::dot_nibbles(packed, x); N],
            _ => nibbles::<R, N>(packed, x),
        };
        match m {
            None => {
                for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                    // sum (q - 8) x = sum q x - 8 sum x, exact in i32.
                    let sums = R::sub(sums, R::splat(step.sum.wrapping_mul(8)));
                    *acc = R::accumulate(*acc, d, step.d, sums);
                }
            }
            Some(m) => {
                let m = R::f16(m);
                for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                    *acc = R::accumulate(*acc, d, step.d, sums);
                    *acc = R::accumulate(*acc, m, step.d, R::splat(step.sum));
                }
            }
        }
    }
    acc
}

/// out[t][r] = row r of the matrix times token t, for the rows of `groups`; `WIDE` tokens at a time while there are.
#[inline(always)]
pub(super) fn matmul_quantised<R: Rows, const WIDE: usize>(
    w: &Quantised<'_>,
    x: &Codes<'_>,
    out: &Tile<'_>,
    groups: Range<usize>,
) {
    let Ok(pairs) = bytemuck::try_cast_slice::<i16, Pairs>(x.codes) else { return };
    for group in groups {
        let row_group = w.row_group(group);
        let mut token = 0usize;
        while out.tokens.saturating_sub(token) >= WIDE {
            let acc = tile::<R, WIDE>(w, row_group, pairs, x.steps, token);
            for acc in acc {
                out.put(token, group, &R::store(acc));
                token = token.wrapping_add(1);
            }
        }
        while token < out.tokens {
            let [acc] = tile::<R, 1>(w, row_group, pairs, x.steps, token);
            out.put(token, group, &R::store(acc));
            token = token.wrapping_add(1);
        }
    }
}
