//! The matrix product of f32 weights over the lanes of any instruction set.

use super::lanes::{LANES, Sixteen};
use super::{Floats, Tile};
use crate::bytes::rows;
use crate::container::directory::GROUP_ROWS;
use core::ops::Range;

/// dot16 of `R` rows with `T` inputs: each pair has its own accumulators, and each load serves several.
#[inline(always)]
fn dots<V: Sixteen, const R: usize, const T: usize>(w: [&[f32]; R], x: [&[f32]; T]) -> [[f32; R]; T] {
    let mut acc = [[V::zero(); R]; T];
    let cols = w.first().map_or(0, |w| w.len());
    let (w, w_tail) = (w.map(|w| w.as_chunks::<LANES>().0), w.map(|w| w.as_chunks::<LANES>().1));
    let (x, x_tail) = (x.map(|x| x.as_chunks::<LANES>().0), x.map(|x| x.as_chunks::<LANES>().1));
    const NONE: [f32; LANES] = [0.0; LANES];
    for i in 0..cols / LANES {
        let w = w.map(|w| V::whole(w.get(i).unwrap_or(&NONE)));
        for (acc, x) in acc.iter_mut().zip(x) {
            let x = V::whole(x.get(i).unwrap_or(&NONE));
            for (acc, w) in acc.iter_mut().zip(w) {
                *acc = acc.add(w.mul(x));
            }
        }
    }
    if !cols.is_multiple_of(LANES) {
        let w = w_tail.map(|w| V::load(w));
        for (acc, x) in acc.iter_mut().zip(x_tail) {
            let x = V::load(x);
            for (acc, w) in acc.iter_mut().zip(w) {
                *acc = acc.add(w.mul(x));
            }
        }
    }
    acc.map(|acc| acc.map(|acc| acc.sum()))
}

#[inline(always)]
fn tile<V: Sixteen, const R: usize, const T: usize>(
    w: &Floats<'_>,
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
        let weights = [(); R].map(|()| of.next().unwrap_or(&[]));
        for (values, dots) in values.iter_mut().zip(dots::<V, R, T>(weights, inputs)) {
            for (value, dot) in values.iter_mut().skip(first.wrapping_mul(R)).zip(dots) {
                *value = dot;
            }
        }
    }
    // Rows that do not fill a run of R.
    let done = row_group.len().checked_div(w.cols.saturating_mul(R)).unwrap_or(0).wrapping_mul(R);
    for (i, row) in rows(row_group, w.cols).enumerate().skip(done) {
        for (values, [dot]) in values.iter_mut().zip(dots::<V, 1, T>([row], inputs)) {
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
pub(super) fn matmul_f32<V: Sixteen>(w: &Floats<'_>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    for group in groups {
        let mut token = 0usize;
        while out.tokens.saturating_sub(token) >= 3 {
            tile::<V, 2, 3>(w, x, token, group, out);
            token = token.wrapping_add(3);
        }
        while token < out.tokens {
            tile::<V, 4, 1>(w, x, token, group, out);
            token = token.wrapping_add(1);
        }
    }
}
