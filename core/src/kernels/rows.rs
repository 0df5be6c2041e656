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
use super::prefetch::{AHEAD, AHEAD_OF_SEVERAL, prefetch_behind, prefetch_far_behind};
use super::{Quantised, Tile};
use crate::bytes::{part, rows};
use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
use bytemuck::{Pod, Zeroable};
use core::ops::Range;

/// The codes of a block, two of 16 bits or four bytes of such at a place, for `P` parts of `N` tokens.
pub(super) type Pairs<const N: usize, const P: usize> = [[[i32; N]; P]; BLOCK_COLS / 2];

/// Four columns of bytes, or eight of nibbles, of a row group.
pub(super) type Vector = [u8; 4 * GROUP_ROWS];
/// An f16 for each row.
pub(super) type Scales = [u8; 2 * GROUP_ROWS];
pub(super) type Bytes = [Vector; BLOCK_COLS / 4];
pub(super) type Nibbles = [Vector; BLOCK_COLS / 8];

/// A block of 8-bit codes: a step for each row, then the codes.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Q8 {
    d: Scales,
    bytes: Bytes,
}

/// The same of nibbles.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Q4 {
    d: Scales,
    nibbles: Nibbles,
}

/// Nibbles with a minimum besides the step.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Q4Min {
    d: Scales,
    m: Scales,
    nibbles: Nibbles,
}

/// A field of each block. A macro: with closures, lengths that are known come to be computed.
macro_rules! field {
    ($first:ident, $blocks:ident, $field:ident) => {{
        let mut fields = [&$first.$field; G];
        for (field, block) in fields.iter_mut().zip($blocks) {
            *field = &block.$field;
        }
        fields
    }};
}

/// The vectors of `G` row groups as they lie in the file, side by side, and what is done with them.
pub(super) trait Rows<const G: usize>: Copy {
    /// Four columns of each row, ready to be multiplied.
    type Four: Copy;
    /// Sums of products on the way, one for each row.
    type Partial: Copy;
    /// An i32 for each row.
    type Sums: Copy;
    /// An f32 for each row.
    type Floats: Copy;

    /// How far ahead weights are asked for.
    const AHEAD: usize = AHEAD;

    fn load(vectors: [&Vector; G]) -> Self;
    /// Columns 4k to 4k + 3 of 8-bit codes.
    fn bytes(self) -> Self::Four;
    /// Columns 4k to 4k + 3 and 16 + 4k to 16 + 4k + 3.
    fn nibbles(self) -> [Self::Four; 2];
    /// The same less 8.
    fn signed_nibbles(self) -> [Self::Four; 2];

    fn start() -> Self::Partial;
    /// `sums` plus the four products of each row with the codes that two places have for them.
    fn dot(four: Self::Four, sums: Self::Partial, x: [i32; 2]) -> Self::Partial;
    /// `excess`: what these sums are too large by; 0 where the weights were nibbles.
    fn finish(sums: Self::Partial, excess: i32) -> Self::Sums;
    /// The excess of sums with signed weights, of [`Step::sum`].
    #[inline(always)]
    fn excess(_: i32) -> i32 {
        0
    }
    /// The sum of the codes, of [`Step::sum`].
    #[inline(always)]
    fn sum_of_codes(sum: i32) -> i32 {
        sum
    }

    fn splat(value: i32) -> Self::Sums;
    fn sub(a: Self::Sums, b: Self::Sums) -> Self::Sums;

    fn zero() -> Self::Floats;
    fn f16(bits: [&Scales; G]) -> Self::Floats;
    /// `acc + (d * dx) * f32(sums)`, each of the four one operation.
    fn accumulate(acc: Self::Floats, d: Self::Floats, dx: f32, sums: Self::Sums) -> Self::Floats;
    fn store(floats: Self::Floats) -> [[f32; GROUP_ROWS]; G];

    /// Sums of a block of bytes for one token. Backends may know another way here and in the next two.
    #[inline(always)]
    fn dot_bytes(packed: [&Bytes; G], x: &Pairs<1, 1>) -> Self::Partial {
        let [sums] = bytes::<Self, G, 1, 1>(packed, x, 0);
        sums
    }

    /// Sums of a block of nibbles for part `part` of a tile, what `apart` gives of a vector times the codes.
    #[inline(always)]
    fn dots_nibbles<const N: usize, const P: usize>(
        packed: [&Nibbles; G],
        x: &Pairs<N, P>,
        part: usize,
        apart: impl Fn(Self) -> [Self::Four; 2],
    ) -> [Self::Partial; N] {
        nibbles::<Self, G, N, P>(packed, x, part, apart)
    }

    /// Sums of a block of nibbles for one token.
    #[inline(always)]
    fn dot_nibbles(packed: [&Nibbles; G], x: &Pairs<1, 1>) -> Self::Partial {
        let [sums] = nibbles::<Self, G, 1, 1>(packed, x, 0, Self::nibbles);
        sums
    }
}

/// Element `at` of each, `first` of the first.
#[inline(always)]
pub(super) fn beside<'a, T, O: AsRef<[T]> + ?Sized, const G: usize>(
    first: &'a T,
    of: [&'a O; G],
    at: usize,
) -> Option<[&'a T; G]> {
    let mut elements = [first; G];
    for (element, of) in elements.iter_mut().zip(of).skip(1) {
        *element = of.as_ref().get(at)?;
    }
    Some(elements)
}

/// Element `at` of each.
#[inline(always)]
fn each<T, const G: usize>(of: [&[T]; G], at: usize) -> Option<[&T; G]> {
    let mut elements = [of.first()?.get(at)?; G];
    for (element, of) in elements.iter_mut().zip(of) {
        *element = of.get(at)?;
    }
    Some(elements)
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
fn bytes<R: Rows<G>, const G: usize, const N: usize, const P: usize>(
    packed: [&Bytes; G],
    x: &Pairs<N, P>,
    part: usize,
) -> [R::Partial; N] {
    let mut sums = [R::start(); N];
    let Some(first) = packed.first() else { return sums };
    for (at, (first, x)) in first.iter().zip(x.as_chunks().0).enumerate() {
        let Some(vectors) = beside(first, packed, at) else { break };
        let four = R::load(vectors).bytes();
        let Some([first, second]) = codes_of(x, part) else { break };
        for ((sums, first), second) in sums.iter_mut().zip(first).zip(second) {
            *sums = R::dot(four, *sums, [*first, *second]);
        }
    }
    sums
}

#[inline(always)]
fn nibbles<R: Rows<G>, const G: usize, const N: usize, const P: usize>(
    packed: [&Nibbles; G],
    x: &Pairs<N, P>,
    part: usize,
    apart: impl Fn(R) -> [R::Four; 2],
) -> [R::Partial; N] {
    let mut sums = [R::start(); N];
    let (low, high) = x.as_chunks().0.split_at_checked(BLOCK_COLS / 8).unwrap_or_default();
    let Some(first) = packed.first() else { return sums };
    for (at, ((first, low), high)) in first.iter().zip(low).zip(high).enumerate() {
        let Some(vectors) = beside(first, packed, at) else { break };
        let fours = apart(R::load(vectors));
        let (Some(low), Some(high)) = (codes_of(low, part), codes_of(high, part)) else { break };
        for (four, [first, second]) in fours.into_iter().zip([low, high]) {
            for ((sums, first), second) in sums.iter_mut().zip(first).zip(second) {
                *sums = R::dot(four, *sums, [*first, *second]);
            }
        }
    }
    sums
}

/// All blocks.
#[inline(always)]
fn all<'a, T: Pod>(w: &Quantised<'a>) -> &'a [T] {
    bytemuck::try_cast_slice(w.data).unwrap_or(&[])
}

/// The blocks of `G` row groups from `groups.start` on, all of one length. For those beyond the end the first stands again.
#[inline(always)]
fn blocks<'a, T, const G: usize>(w: &Quantised<'_>, all: &'a [T], groups: &Range<usize>) -> [&'a [T]; G] {
    let mut blocks = [[].as_slice(); G];
    for (at, blocks) in blocks.iter_mut().enumerate() {
        let index = groups.start.wrapping_add(at);
        let index = if index < groups.end { index } else { groups.start };
        *blocks = part(all, index.wrapping_mul(w.stride), w.blocks);
    }
    blocks
}

/// Bytes from the first of `G` row groups to the first of those that are asked for meanwhile. Memory is asked for in order, so of
/// several that is a whole number of times as many.
#[inline(always)]
fn lead<R: Rows<G>, T, const G: usize>(w: &Quantised<'_>) -> usize {
    let all = w.stride.saturating_mul(size_of::<T>()).saturating_mul(G).max(1);
    if G == 1 { R::AHEAD } else { AHEAD_OF_SEVERAL.div_ceil(all).saturating_mul(all) }
}

/// Asks for `G` blocks of the row groups that come `lead` bytes behind, one after the other, when block `at` of these is read.
#[inline(always)]
fn prefetch_next<T: Pod, const G: usize>(w: &Quantised<'_>, block: [&T; G], at: usize, lead: usize) {
    let Some(first) = block.first() else { return };
    if G == 1 {
        return prefetch_behind(core::slice::from_ref(*first), lead);
    }
    let from = at.wrapping_mul(G);
    // What lies between two row groups is not asked for.
    let gap = if from < w.blocks { 0 } else { w.stride.wrapping_sub(w.blocks) };
    let blocks = from.wrapping_sub(at).wrapping_add(gap);
    for i in 0..G {
        let behind = blocks.wrapping_add(i).wrapping_mul(size_of::<T>());
        prefetch_far_behind(core::slice::from_ref(*first), lead.wrapping_add(behind));
    }
}

/// Part `part` of a tile of `P` parts of `N` tokens each, for `G` row groups.
#[inline(always)]
fn tile<R: Rows<G>, const G: usize, const N: usize, const P: usize>(
    w: &Quantised<'_>,
    groups: &Range<usize>,
    pairs: &[Pairs<N, P>],
    steps: &[[[Step; N]; P]],
    part: usize,
) -> [R::Floats; N] {
    let mut acc = [R::zero(); N];
    match w.dtype {
        DType::Q8_0 => {
            let (blocks, lead) = (blocks::<Q8, G>(w, all(w), groups), lead::<R, Q8, G>(w));
            let Some(first) = blocks.first() else { return acc };
            for (at, ((first, x), step)) in first.iter().zip(pairs).zip(steps).enumerate() {
                let (Some(block), Some(step)) = (beside(first, blocks, at), step.get(part)) else { break };
                if N == 1 {
                    prefetch_next(w, block, at, lead);
                }
                let (d, packed) = (R::f16(field!(first, block, d)), field!(first, block, bytes));
                let sums = match one(x) {
                    Some(x) => [R::dot_bytes(packed, x); N],
                    None => bytes::<R, G, N, P>(packed, x, part),
                };
                for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                    *acc = R::accumulate(*acc, d, step.d, R::finish(sums, R::excess(step.sum)));
                }
            }
        }
        DType::Q4_0 => {
            let (blocks, lead) = (blocks::<Q4, G>(w, all(w), groups), lead::<R, Q4, G>(w));
            let Some(first) = blocks.first() else { return acc };
            for (at, ((first, x), step)) in first.iter().zip(pairs).zip(steps).enumerate() {
                let (Some(block), Some(step)) = (beside(first, blocks, at), step.get(part)) else { break };
                if N == 1 {
                    prefetch_next(w, block, at, lead);
                }
                let (d, packed) = (R::f16(field!(first, block, d)), field!(first, block, nibbles));
                let (sums, is_one) = match one(x) {
                    Some(x) => ([R::dot_nibbles(packed, x); N], true),
                    None => (R::dots_nibbles(packed, x, part, R::signed_nibbles), false),
                };
                for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                    let sums = if is_one {
                        // sum (q - 8) x = sum q x - 8 sum x, exact in i32.
                        R::sub(R::finish(sums, 0), R::splat(R::sum_of_codes(step.sum).wrapping_mul(8)))
                    } else {
                        R::finish(sums, R::excess(step.sum))
                    };
                    *acc = R::accumulate(*acc, d, step.d, sums);
                }
            }
        }
        _ => {
            let (blocks, lead) = (blocks::<Q4Min, G>(w, all(w), groups), lead::<R, Q4Min, G>(w));
            let Some(first) = blocks.first() else { return acc };
            for (at, ((first, x), step)) in first.iter().zip(pairs).zip(steps).enumerate() {
                let (Some(block), Some(step)) = (beside(first, blocks, at), step.get(part)) else { break };
                if N == 1 {
                    prefetch_next(w, block, at, lead);
                }
                let (d, m) = (R::f16(field!(first, block, d)), R::f16(field!(first, block, m)));
                let packed = field!(first, block, nibbles);
                let sums = match one(x) {
                    Some(x) => [R::dot_nibbles(packed, x); N],
                    None => R::dots_nibbles(packed, x, part, R::nibbles),
                };
                for ((acc, step), sums) in acc.iter_mut().zip(step).zip(sums) {
                    *acc = R::accumulate(*acc, d, step.d, R::finish(sums, 0));
                    *acc = R::accumulate(*acc, m, step.d, R::splat(R::sum_of_codes(step.sum)));
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

/// Writes the outputs of `G` row groups from `groups.start` on for `token`; those beyond the end are dropped.
#[inline(always)]
fn put<R: Rows<G>, const G: usize>(out: &Tile<'_>, token: usize, groups: &Range<usize>, acc: R::Floats) {
    let values = R::store(acc);
    // Of a length that is known: a store instead of a copy.
    match bytemuck::try_cast_ref::<_, [f32; 16]>(&values) {
        Ok(values) => out.put_all(token, groups.clone(), values),
        Err(_) => out.put_all(token, groups.clone(), values.as_flattened().first_chunk::<8>().unwrap_or(&[0.0; 8])),
    }
}

/// The first `G` row groups of `groups` for the tokens from `first` on, in tiles of `P` parts of `N`.
#[inline(always)]
fn tiles<R: Rows<G>, const G: usize, const N: usize, const P: usize>(
    w: &Quantised<'_>,
    x: &Codes<'_>,
    out: &Tile<'_>,
    first: usize,
    groups: &Range<usize>,
) {
    let pairs = bytemuck::try_cast_slice::<i16, Pairs<N, P>>(x.codes).unwrap_or(&[]);
    let steps = bytemuck::try_cast_slice::<Step, [[Step; N]; P]>(x.steps).unwrap_or(&[]);
    let mut token = first;
    for (pairs, steps) in rows(pairs, w.blocks).zip(rows(steps, w.blocks)) {
        for part in 0..P {
            for acc in tile::<R, G, N, P>(w, groups, pairs, steps, part) {
                put::<R, G>(out, token, groups, acc);
                token = token.wrapping_add(1);
            }
        }
    }
}

/// Row groups of 8-bit codes for the `N` tokens from `first` on, each a tile of its own, of `x` the ones from the `at`th on: what
/// a weight vector is taken apart for serves them all. Gives `N`.
#[inline(always)]
fn few<R: Rows<G>, const G: usize, const N: usize>(
    w: &Quantised<'_>,
    x: &Codes<'_>,
    out: &Tile<'_>,
    token: usize,
    at: usize,
    mut groups: Range<usize>,
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
    let lead = lead::<R, Q8, G>(w);
    let (all, mut soon) = (all(w), w.soon);
    while !groups.is_empty() {
        let blocks = blocks::<Q8, G>(w, all, &groups);
        let mut acc = [R::zero(); N];
        // By index: with iterators, as in `tile`, the compiler unrolls less, which takes up to a third longer.
        for at in 0..w.blocks {
            let Some(block) = each(blocks, at) else { break };
            // As many lines as these blocks have.
            let more = if G == 1 { soon.lines::<5>() } else { soon.lines::<9>() };
            if !more {
                prefetch_next(w, block, at, lead);
            }
            let d = R::f16(block.map(|block| &block.d));
            let mut sums = [R::start(); N];
            for vector in 0..BLOCK_COLS / 4 {
                let Some(vectors) = each(block.map(|block| block.bytes.as_slice()), vector) else { break };
                let four = R::load(vectors).bytes();
                for (sums, input) in sums.iter_mut().zip(inputs) {
                    let Some([[[first]], [[second]]]) = input.get(at).and_then(|x| x.as_chunks::<2>().0.get(vector))
                    else {
                        break;
                    };
                    *sums = R::dot(four, *sums, [*first, *second]);
                }
            }
            for ((acc, step), sums) in acc.iter_mut().zip(steps).zip(sums) {
                let Some(step) = step.get(at) else { break };
                *acc = R::accumulate(*acc, d, step.d, R::finish(sums, R::excess(step.sum)));
            }
        }
        for (i, acc) in acc.into_iter().enumerate() {
            put::<R, G>(out, token.wrapping_add(i), &groups, acc);
        }
        groups.start = groups.start.saturating_add(G);
    }
    N
}

/// Bytes of row groups that stay in the first cache while one number of tokens after the other goes through them.
const RUN: usize = 32 << 10;

/// out[t][r] = row r of the matrix times token t, for the rows of `groups`. `N` tokens of a tile of `N * P` and `G` row groups at a
/// time by `R`; by `One` what comes from memory: in one place.
#[inline(always)]
pub(super) fn matmul_quantised<One: Rows<1>, R: Rows<G>, const G: usize, const N: usize, const P: usize>(
    w: &Quantised<'_>,
    x: &Codes<'_>,
    out: &Tile<'_>,
    mut groups: Range<usize>,
) {
    const { assert!(N * P == TILE) };
    let (whole, rest) = x.split(out.tokens, w.blocks);
    let left = out.tokens % TILE;
    let first = out.tokens.wrapping_sub(left);
    let apart = left > 1 && w.dtype == DType::Q8_0;
    // Row groups that one number of tokens after the other goes through; all of them where there is only one.
    let run = match out.tokens {
        2 | 3 if apart => usize::MAX,
        _ if apart => RUN.checked_div(w.blocks.saturating_mul(w.group_bytes)).unwrap_or(0).max(G),
        _ => G,
    };
    while !groups.is_empty() {
        let end = groups.end.min(groups.start.saturating_add(run));
        let mut some = groups.start..end;
        groups.start = end;
        let all = some.clone();
        while !some.is_empty() {
            tiles::<R, G, N, P>(w, &whole, out, 0, &some);
            some.start = some.start.saturating_add(G);
        }
        if !apart {
            for group in all.clone() {
                tiles::<One, 1, 1, 1>(w, &rest, out, first, &(group..group.saturating_add(1)));
            }
        }
        let mut at = 0usize;
        while apart && at < left {
            let token = first.wrapping_add(at);
            at = at.wrapping_add(match left.wrapping_sub(at) {
                1 => few::<R, G, 1>(w, &rest, out, token, at, all.clone()),
                2 | 4 => few::<R, G, 2>(w, &rest, out, token, at, all.clone()),
                _ => few::<R, G, 3>(w, &rest, out, token, at, all.clone()),
            });
        }
    }
}
