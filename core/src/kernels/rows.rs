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
//! Where 16-bit integers are multiplied, the low bytes (or one nibble) of all lanes are columns (0, 2) of each row, the high
//! ones columns (1, 3). One multiply-add of pairs with the activation codes (x0, x2) or (x1, x3) in every lane then adds two
//! columns to each row's sum. Where bytes are multiplied, the four columns of a lane meet the upper or the lower bytes of
//! their four codes. Either way the rows stay in order and nothing is shuffled: activation codes are kept as they are met.

use super::codes::{Codes, Step, TILE};
use super::prefetch::{AHEAD, prefetch_behind};
use super::{Quantised, Tile};
use crate::bytes::{part, rows};
use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
use core::ops::Range;

/// The codes of a block, two of 16 bits or four bytes of such at a place, for `P` parts of `N` tokens.
pub(super) type Pairs<const N: usize, const P: usize> = [[[i32; N]; P]; BLOCK_COLS / 2];

const SCALES: usize = 2 * GROUP_ROWS;
const BYTES: usize = BLOCK_COLS * GROUP_ROWS;
const NIBBLES: usize = BYTES / 2;

/// A vector of a group as it lies in the file, and what is done with it.
pub(super) trait Rows: Copy {
    /// Four columns of eight rows, ready to be multiplied.
    type Four: Copy;
    /// Sums of products on the way, one for each row.
    type Partial: Copy;
    /// What the sums of all tokens need to know of the weights.
    type Count: Copy;
    /// Eight i32, one for each row.
    type Sums: Copy;
    /// Eight f32, one for each row.
    type Floats: Copy;

    /// How far ahead weights are asked for.
    const AHEAD: usize = AHEAD;

    fn load(bytes: &[u8; 4 * GROUP_ROWS]) -> Self;
    /// Columns 4k to 4k + 3 of 8-bit codes.
    fn bytes(self) -> Self::Four;
    /// Columns 4k to 4k + 3 and 16 + 4k to 16 + 4k + 3.
    fn nibbles(self) -> [Self::Four; 2];
    /// The same less 8.
    fn signed_nibbles(self) -> [Self::Four; 2];

    fn start() -> Self::Partial;
    fn uncounted() -> Self::Count;
    fn count_bytes(count: Self::Count, four: Self::Four) -> Self::Count;
    fn count_nibbles(count: Self::Count, fours: [Self::Four; 2]) -> Self::Count;
    /// `sums` plus the four products of each row with the codes that two places have for them.
    fn dot(four: Self::Four, sums: Self::Partial, x: [i32; 2]) -> Self::Partial;
    fn finish(sums: Self::Partial, count: Self::Count) -> Self::Sums;

    fn splat(value: i32) -> Self::Sums;
    fn sub(a: Self::Sums, b: Self::Sums) -> Self::Sums;

    fn zero() -> Self::Floats;
    fn f16(bits: &[u8; 2 * GROUP_ROWS]) -> Self::Floats;
    /// `acc + (d * dx) * f32(sums)`, each of the four one operation.
    fn accumulate(acc: Self::Floats, d: Self::Floats, dx: f32, sums: Self::Sums) -> Self::Floats;
    fn store(floats: Self::Floats) -> [f32; GROUP_ROWS];

    /// Sums of a block of bytes for one token. Backends may know another way here and in the next two.
    #[inline(always)]
    fn dot_bytes(packed: &[u8; BYTES], x: &Pairs<1, 1>) -> Self::Sums {
        let [sums] = bytes::<Self, 1, 1>(packed, x, 0);
        sums
    }

    /// Sums of a block of nibbles for part `part` of a tile, what `apart` gives of a vector times the codes.
    #[inline(always)]
    fn dots_nibbles<const N: usize, const P: usize>(
        packed: &[u8; NIBBLES],
        x: &Pairs<N, P>,
        part: usize,
        apart: impl Fn(Self) -> [Self::Four; 2],
    ) -> [Self::Sums; N] {
        nibbles::<Self, N, P>(packed, x, part, apart)
    }

    /// Sums of a block of nibbles for one token.
    #[inline(always)]
    fn dot_nibbles(packed: &[u8; NIBBLES], x: &Pairs<1, 1>) -> Self::Sums {
        let [sums] = nibbles::<Self, 1, 1>(packed, x, 0, Self::nibbles);
        sums
    }
}

/// What one part of a tile has at the two places of four columns.
#[inline(always)]
fn codes_of<const N: usize, const P: usize>(
    [first, second]: &[[[i32; N]; P]; 2],
    part: usize,
) -> Option<[&[i32; N]; 2]> {
    Some([first.get(part)?, second.get(part)?])
}

#[inline(always)]
fn bytes<R: Rows, const N: usize, const P: usize>(packed: &[u8; BYTES], x: &Pairs<N, P>, part: usize) -> [R::Sums; N] {
    let (mut sums, mut count) = ([R::start(); N], R::uncounted());
    for (vector, x) in packed.as_chunks().0.iter().zip(x.as_chunks().0) {
        let four = R::load(vector).bytes();
        count = R::count_bytes(count, four);
        let Some([first, second]) = codes_of(x, part) else { break };
        for ((sums, first), second) in sums.iter_mut().zip(first).zip(second) {
            *sums = R::dot(four, *sums, [*first, *second]);
        }
    }
    finish::<R, N>(sums, count)
}

#[inline(always)]
fn nibbles<R: Rows, const N: usize, const P: usize>(
    packed: &[u8; NIBBLES],
    x: &Pairs<N, P>,
    part: usize,
    apart: impl Fn(R) -> [R::Four; 2],
) -> [R::Sums; N] {
    let (mut sums, mut count) = ([R::start(); N], R::uncounted());
    let (low, high) = x.as_chunks().0.split_at_checked(BLOCK_COLS / 8).unwrap_or_default();
    for ((vector, low), high) in packed.as_chunks().0.iter().zip(low).zip(high) {
        let fours = apart(R::load(vector));
        count = R::count_nibbles(count, fours);
        let (Some(low), Some(high)) = (codes_of(low, part), codes_of(high, part)) else { break };
        for (four, [first, second]) in fours.into_iter().zip([low, high]) {
            for ((sums, first), second) in sums.iter_mut().zip(first).zip(second) {
                *sums = R::dot(four, *sums, [*first, *second]);
            }
        }
    }
    finish::<R, N>(sums, count)
}

#[inline(always)]
fn finish<R: Rows, const N: usize>(sums: [R::Partial; N], count: R::Count) -> [R::Sums; N] {
    let mut finished = [R::splat(0); N];
    for (finished, sums) in finished.iter_mut().zip(sums) {
        *finished = R::finish(sums, count);
    }
    finished
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
                    prefetch_behind(group, R::AHEAD);
                }
                let Some((d, packed)) = group.split_first_chunk() else { break };
                let Some(packed) = packed.first_chunk() else { break };
                let d = R::f16(d);
                let sums = match one(x) {
                    Some(x) => [R::dot_bytes(packed, x); N],
                    None => bytes::<R, N, P>(packed, x, part),
                };
                for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                    *acc = R::accumulate(*acc, d, step.d, sums);
                }
            }
        }
        DType::Q4_0 => {
            for (group, (x, step)) in row_group.as_chunks::<{ SCALES + NIBBLES }>().0.iter().zip(x) {
                if N == 1 {
                    prefetch_behind(group, R::AHEAD);
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
                    None => R::dots_nibbles(packed, x, part, R::signed_nibbles),
                };
                for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                    *acc = R::accumulate(*acc, d, step.d, sums);
                }
            }
        }
        _ => {
            for (group, (x, step)) in row_group.as_chunks::<{ 2 * SCALES + NIBBLES }>().0.iter().zip(x) {
                if N == 1 {
                    prefetch_behind(group, R::AHEAD);
                }
                let Some((d, packed)) = group.split_first_chunk() else { break };
                let Some((m, packed)) = packed.split_first_chunk() else { break };
                let Some(packed) = packed.first_chunk() else { break };
                let (d, m) = (R::f16(d), R::f16(m));
                let sums = match one(x) {
                    Some(x) => [R::dot_nibbles(packed, x); N],
                    None => R::dots_nibbles(packed, x, part, R::nibbles),
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
        prefetch_behind(group, R::AHEAD);
        let Some((d, packed)) = group.split_first_chunk() else { break };
        let d = R::f16(d);
        let (mut sums, mut count) = ([R::start(); N], R::uncounted());
        for (vector, weights) in packed.as_chunks().0.iter().enumerate() {
            let four = R::load(weights).bytes();
            count = R::count_bytes(count, four);
            for (sums, input) in sums.iter_mut().zip(inputs) {
                let Some([[[first]], [[second]]]) = input.get(block).and_then(|x| x.as_chunks::<2>().0.get(vector))
                else {
                    break;
                };
                *sums = R::dot(four, *sums, [*first, *second]);
            }
        }
        for ((acc, step), sums) in acc.iter_mut().zip(steps).zip(finish::<R, N>(sums, count)) {
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
