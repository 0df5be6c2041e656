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

use super::codes::{Codes, Step, TILE};
use super::prefetch::prefetch;
use super::{Quantised, Tile};
use crate::bytes::{part, rows};
use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
use core::ops::Range;

/// The codes of a block as pairs, for `P` parts of `N` tokens.
pub(super) type Pairs<const N: usize, const P: usize> = [[[i32; N]; P]; BLOCK_COLS / 2];

const SCALES: usize = 2 * GROUP_ROWS;
const BYTES: usize = BLOCK_COLS * GROUP_ROWS;
const NIBBLES: usize = BYTES / 2;

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
    /// The same less 8.
    fn signed_nibbles(self) -> [Self; 4];

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
    fn dot_nibbles(packed: &[u8; NIBBLES], x: &Pairs<1, 1>) -> Self::Sums {
        let [sums] = nibbles::<Self, 1, 1>(packed, x, 0, Self::nibbles);
        sums
    }
}

#[inline(always)]
fn bytes<R: Rows, const N: usize, const P: usize>(packed: &[u8; BYTES], x: &Pairs<N, P>, part: usize) -> [R::Sums; N] {
    let mut sums = [R::splat(0); N];
    let vectors = packed.as_chunks::<{ 4 * GROUP_ROWS }>().0;
    for (vector, [even, odd]) in vectors.iter().zip(x.as_chunks().0) {
        let vector = R::load(vector);
        let (low, high) = (vector.low_bytes(), vector.high_bytes());
        let (Some(even), Some(odd)) = (even.get(part), odd.get(part)) else { break };
        for ((sums, even), odd) in sums.iter_mut().zip(even).zip(odd) {
            *sums = high.dot(low.dot(*sums, *even), *odd);
        }
    }
    sums
}

#[inline(always)]
fn nibbles<R: Rows, const N: usize, const P: usize>(
    packed: &[u8; NIBBLES],
    x: &Pairs<N, P>,
    part: usize,
    apart: impl Fn(R) -> [R; 4],
) -> [R::Sums; N] {
    let mut sums = [R::splat(0); N];
    let vectors = packed.as_chunks::<{ 4 * GROUP_ROWS }>().0;
    let Some((low, high)) = x.as_chunks().0.split_at_checked(BLOCK_COLS / 8) else { return sums };
    for ((vector, [even, odd]), [high_even, high_odd]) in vectors.iter().zip(low).zip(high) {
        for (weights, x) in apart(R::load(vector)).into_iter().zip([even, high_even, odd, high_odd]) {
            let Some(x) = x.get(part) else { break };
            for (sums, x) in sums.iter_mut().zip(x) {
                *sums = weights.dot(*sums, *x);
            }
        }
    }
    sums
}

/// Part `part` of a tile of `P` parts of `N` tokens each, one row group.
#[inline(always)]
fn tile<R: Rows, const N: usize, const P: usize>(
    dtype: DType,
    row_group: &[u8],
    pairs: &[Pairs<N, P>],
    steps: &[[[Step; N]; P]],
    part: usize,
) -> [R::Floats; N] {
    let mut acc = [R::zero(); N];
    let x = pairs.iter().zip(steps.iter().filter_map(|steps| steps.get(part)));
    match dtype {
        DType::Q8_0 => {
            for (group, (x, step)) in row_group.as_chunks::<{ SCALES + BYTES }>().0.iter().zip(x) {
                if N == 1 {
                    prefetch(group);
                }
                let Some((d, packed)) = group.split_first_chunk() else { break };
                let Some(packed) = packed.first_chunk() else { break };
                let d = R::f16(d);
                let sums = bytes::<R, N, P>(packed, x, part);
                for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                    *acc = R::accumulate(*acc, d, step.d, sums);
                }
            }
        }
        DType::Q4_0 => {
            for (group, (x, step)) in row_group.as_chunks::<{ SCALES + NIBBLES }>().0.iter().zip(x) {
                if N == 1 {
                    prefetch(group);
                }
                let Some((d, packed)) = group.split_first_chunk() else { break };
                let Some(packed) = packed.first_chunk() else { break };
                let d = R::f16(d);
                let sums = match one(x) {
                    // sum (q - 8) x = sum q x - 8 sum x, exact in i32.
                    Some(one) => {
                        let eights = step.first().map_or(0, |step| step.sum.wrapping_mul(8));
                        [R::sub(R::dot_nibbles(packed, one), R::splat(eights)); N]
                    }
                    None => nibbles::<R, N, P>(packed, x, part, R::signed_nibbles),
                };
                for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                    *acc = R::accumulate(*acc, d, step.d, sums);
                }
            }
        }
        _ => {
            for (group, (x, step)) in row_group.as_chunks::<{ 2 * SCALES + NIBBLES }>().0.iter().zip(x) {
                if N == 1 {
                    prefetch(group);
                }
                let Some((d, packed)) = group.split_first_chunk() else { break };
                let Some((m, packed)) = packed.split_first_chunk() else { break };
                let Some(packed) = packed.first_chunk() else { break };
                let (d, m) = (R::f16(d), R::f16(m));
                let sums = match one(x) {
                    Some(x) => [R::dot_nibbles(packed, x); N],
                    None => nibbles::<R, N, P>(packed, x, part, R::nibbles),
                };
                for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                    *acc = R::accumulate(*acc, d, step.d, sums);
                    *acc = R::accumulate(*acc, m, step.d, R::splat(step.sum));
                }
            }
        }
    }
    acc
}

/// The codes of a tile of one token.
#[inline(always)]
fn one<const N: usize, const P: usize>(x: &Pairs<N, P>) -> Option<&Pairs<1, 1>> {
    bytemuck::try_cast_ref(x).ok()
}

/// Row group `group` for the tokens from `first` on, in tiles of `P` parts of `N`.
#[inline(always)]
fn tiles<R: Rows, const N: usize, const P: usize>(
    w: &Quantised<'_>,
    x: &Codes<'_>,
    out: &Tile<'_>,
    first: usize,
    group: usize,
) {
    let pairs = bytemuck::try_cast_slice::<i16, Pairs<N, P>>(x.codes).unwrap_or(&[]);
    let steps = bytemuck::try_cast_slice::<Step, [[Step; N]; P]>(x.steps).unwrap_or(&[]);
    let mut token = first;
    for (pairs, steps) in rows(pairs, w.blocks).zip(rows(steps, w.blocks)) {
        for part in 0..P {
            for acc in tile::<R, N, P>(w.dtype, w.row_group(group), pairs, steps, part) {
                out.put(token, group, &R::store(acc));
                token = token.wrapping_add(1);
            }
        }
    }
}

/// Row group `group` of 8-bit codes for the `N` tokens from `first` on, each a tile of its own: what a weight vector is
/// taken apart for serves them all. Gives `N`.
#[inline(always)]
fn few<R: Rows, const N: usize>(
    w: &Quantised<'_>,
    x: &Codes<'_>,
    out: &Tile<'_>,
    first: usize,
    at: usize,
    group: usize,
) -> usize {
    let pairs = bytemuck::try_cast_slice::<i16, Pairs<1, 1>>(x.codes).unwrap_or(&[]);
    let (mut inputs, mut steps) = ([[].as_slice(); N], [[].as_slice(); N]);
    for (i, (input, step)) in inputs.iter_mut().zip(&mut steps).enumerate() {
        let start = at.wrapping_add(i).wrapping_mul(w.blocks);
        // All of one length, so that the loop need not ask for each.
        (*input, *step) = (part(pairs, start, w.blocks), part(x.steps, start, w.blocks));
        if input.len() != w.blocks || step.len() != w.blocks {
            return N;
        }
    }
    let mut acc = [R::zero(); N];
    for (block, group) in w.row_group(group).as_chunks::<{ SCALES + BYTES }>().0.iter().enumerate() {
        prefetch(group);
        let Some((d, packed)) = group.split_first_chunk() else { break };
        let d = R::f16(d);
        let mut sums = [R::splat(0); N];
        for (vector, weights) in packed.as_chunks::<{ 4 * GROUP_ROWS }>().0.iter().enumerate() {
            let weights = R::load(weights);
            let (low, high) = (weights.low_bytes(), weights.high_bytes());
            for (sums, input) in sums.iter_mut().zip(inputs) {
                let Some([[[even]], [[odd]]]) = input.get(block).and_then(|x| x.as_chunks::<2>().0.get(vector)) else {
                    break;
                };
                *sums = high.dot(low.dot(*sums, *even), *odd);
            }
        }
        for ((acc, step), sums) in acc.iter_mut().zip(steps).zip(sums) {
            *acc = R::accumulate(*acc, d, step.get(block).map_or(0.0, |step| step.d), sums);
        }
    }
    for (i, acc) in acc.into_iter().enumerate() {
        out.put(first.wrapping_add(i), group, &R::store(acc));
    }
    N
}

/// out[t][r] = row r of the matrix times token t, for the rows of `groups`; `N` tokens of a tile of `N * P` at a time.
#[inline(always)]
pub(super) fn matmul_quantised<R: Rows, const N: usize, const P: usize>(
    w: &Quantised<'_>,
    x: &Codes<'_>,
    out: &Tile<'_>,
    groups: Range<usize>,
) {
    const { assert!(N * P == TILE) };
    let (whole, rest) = x.split(out.tokens, w.blocks);
    for group in groups {
        tiles::<R, N, P>(w, &whole, out, 0, group);
        let left = out.tokens % TILE;
        let first = out.tokens.wrapping_sub(left);
        if left == 1 || w.dtype != DType::Q8_0 {
            tiles::<R, 1, 1>(w, &rest, out, first, group);
            continue;
        }
        let mut at = 0usize;
        while at < left {
            let token = first.wrapping_add(at);
            at = at.wrapping_add(match left.wrapping_sub(at) {
                1 => few::<R, 1>(w, &rest, out, token, at, group),
                2 | 4 => few::<R, 2>(w, &rest, out, token, at, group),
                _ => few::<R, 3>(w, &rest, out, token, at, group),
            });
        }
    }
}
