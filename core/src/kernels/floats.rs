//! Products of floats over the lanes of any instruction set: weights of f32 and bf16, and the scores of attention.

use super::lanes::{LANES, Places, Sixteen};
use super::prefetch::prefetch_behind;
use super::{Floats, Stored, Tile};
use crate::bytes::{rows, rows_mut};
use crate::container::directory::GROUP_ROWS;
use core::ops::Range;

/// dot16 of `R` rows with `T` inputs: each pair has its own accumulators, and each load serves several.
///
/// Loops and functions rather than `map` and closures: those may stay outside of what is compiled for the instruction set.
#[inline(always)]
fn dots<V: Sixteen, W: Stored, const R: usize, const T: usize>(w: [&[W]; R], x: [&[f32]; T]) -> [[f32; R]; T] {
    let mut acc = [[V::zero(); R]; T];
    let cols = w.first().map_or(0, |w| w.len());
    let (mut w_chunks, mut x_chunks) = ([[].as_slice(); R], [[].as_slice(); T]);
    // Cut to one length, so that the loop need not ask for each.
    for (chunks, w) in w_chunks.iter_mut().zip(w) {
        let Some(whole) = w.as_chunks::<LANES>().0.get(..cols / LANES) else { return [[0.0; R]; T] };
        *chunks = whole;
    }
    for (chunks, x) in x_chunks.iter_mut().zip(x) {
        let Some(whole) = x.as_chunks::<LANES>().0.get(..cols / LANES) else { return [[0.0; R]; T] };
        *chunks = whole;
    }
    let mut weights = [V::zero(); R];
    for i in 0..cols / LANES {
        for (weights, w) in weights.iter_mut().zip(w_chunks) {
            let Some(w) = w.get(i) else { break };
            // f32 comes a fifth slower with it: it waits for nothing but the memory as it is.
            if T == 1 && size_of::<W>() < size_of::<f32>() {
                prefetch_behind(w, V::AHEAD);
            }
            *weights = W::lanes(w);
        }
        for (acc, x) in acc.iter_mut().zip(x_chunks) {
            let Some(x) = x.get(i) else { break };
            let x = V::whole(x);
            for (acc, w) in acc.iter_mut().zip(weights) {
                *acc = acc.add(w.mul(x));
            }
        }
    }
    let done = cols.wrapping_sub(cols % LANES);
    if done != cols {
        for (weights, w) in weights.iter_mut().zip(w) {
            *weights = W::tail(w.get(done..).unwrap_or(&[]));
        }
        for (acc, x) in acc.iter_mut().zip(x) {
            let x = V::load(x.get(done..).unwrap_or(&[]));
            for (acc, w) in acc.iter_mut().zip(weights) {
                *acc = acc.add(w.mul(x));
            }
        }
    }
    let mut sums = [[0.0; R]; T];
    for (sums, acc) in sums.iter_mut().zip(acc) {
        for (sum, acc) in sums.iter_mut().zip(acc) {
            *sum = acc.sum();
        }
    }
    sums
}

/// [`Lanes::dots`](super::Lanes::dots), three heads and two keys at a time while there are.
#[inline(always)]
pub(super) fn scores<V: Sixteen>(
    queries: &[f32],
    dim: usize,
    keys: &[f32],
    stride: usize,
    scores: &mut [f32],
    places: Places,
    cold: bool,
) {
    let (mut heads, mut out, dim) = (queries, scores, dim.max(1));
    while !heads.is_empty() {
        let count = if heads.len() >= dim.saturating_mul(3) { 3 } else { 1 };
        let (some, rest) = heads.split_at_checked(dim.saturating_mul(count)).unwrap_or((heads, &[]));
        let (to, rest_out) =
            core::mem::take(&mut out).split_at_mut_checked(places.stride.saturating_mul(count)).unwrap_or_default();
        match count {
            3 => some_heads::<V, 3>(some, dim, keys, stride, to, places, cold),
            _ => some_heads::<V, 1>(some, dim, keys, stride, to, places, cold),
        }
        (heads, out) = (rest, rest_out);
    }
}

#[inline(always)]
fn some_heads<V: Sixteen, const T: usize>(
    queries: &[f32],
    dim: usize,
    keys: &[f32],
    stride: usize,
    scores: &mut [f32],
    places: Places,
    cold: bool,
) {
    let mut of = rows(queries, dim);
    let mut inputs = [[].as_slice(); T];
    for input in &mut inputs {
        *input = of.next().unwrap_or(&[]);
    }
    let mut rest = keys;
    let mut at = 0usize;
    while at < places.len {
        let key = rest.get(..dim).unwrap_or(&[]);
        let next = rest.get(stride..).unwrap_or(&[]);
        let place = places.start.wrapping_add(at);
        match next.get(..dim) {
            Some(second) if at.wrapping_add(1) < places.len => {
                if cold {
                    prefetch_behind(key, V::AHEAD);
                    prefetch_behind(second, V::AHEAD);
                }
                put(&dots::<V, f32, 2, T>([key, second], inputs), scores, places.stride, place);
                rest = next.get(stride..).unwrap_or(&[]);
                at = at.wrapping_add(2);
            }
            _ => {
                put(&dots::<V, f32, 1, T>([key], inputs), scores, places.stride, place);
                rest = next;
                at = at.wrapping_add(1);
            }
        }
    }
}

/// The dots of each head to `place` of its row and following.
#[inline(always)]
fn put<const R: usize, const T: usize>(dots: &[[f32; R]; T], scores: &mut [f32], stride: usize, place: usize) {
    for (scores, dots) in rows_mut(scores, stride).zip(dots) {
        for (score, dot) in scores.iter_mut().skip(place).zip(dots) {
            *score = *dot;
        }
    }
}

#[inline(always)]
fn tile<V: Sixteen, W: Stored, const R: usize, const T: usize>(
    w: &Floats<'_, W>,
    x: &[f32],
    token: usize,
    group: usize,
    out: &Tile<'_>,
) {
    let mut values = [[0.0; GROUP_ROWS]; T];
    let row_group = w.rows_of(group);
    let mut inputs = [[].as_slice(); T];
    for (i, input) in inputs.iter_mut().enumerate() {
        let start = token.wrapping_add(i).wrapping_mul(w.cols);
        *input = x.get(start..start.wrapping_add(w.cols)).unwrap_or(&[]);
    }
    for (first, some) in rows(row_group, w.cols.saturating_mul(R)).enumerate() {
        let mut of = rows(some, w.cols);
        let mut weights = [[].as_slice(); R];
        for row in &mut weights {
            *row = of.next().unwrap_or(&[]);
        }
        for (values, dots) in values.iter_mut().zip(dots::<V, W, R, T>(weights, inputs)) {
            for (value, dot) in values.iter_mut().skip(first.wrapping_mul(R)).zip(dots) {
                *value = dot;
            }
        }
    }
    // Rows that do not fill a run of R.
    let done = row_group.len().checked_div(w.cols.saturating_mul(R)).unwrap_or(0).wrapping_mul(R);
    for (i, row) in rows(row_group, w.cols).enumerate().skip(done) {
        for (values, [dot]) in values.iter_mut().zip(dots::<V, W, 1, T>([row], inputs)) {
            if let Some(value) = values.get_mut(i) {
                *value = dot;
            }
        }
    }
    for (i, values) in values.iter().enumerate() {
        out.put(token.wrapping_add(i), group, values);
    }
}

/// out[t][r] = dot16(row r, token t) for the rows of `groups`.
#[inline(always)]
pub(super) fn matmul<V: Sixteen, W: Stored>(w: &Floats<'_, W>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    for group in groups {
        let mut token = 0usize;
        while out.tokens.saturating_sub(token) >= 4 {
            tile::<V, W, 1, 4>(w, x, token, group, out);
            token = token.wrapping_add(4);
        }
        while token < out.tokens {
            // Row after row, as the memory lies: for one token the reading decides, and two rows at once are read at
            // little more than half the rate.
            tile::<V, W, 1, 1>(w, x, token, group, out);
            token = token.wrapping_add(1);
        }
    }
}
