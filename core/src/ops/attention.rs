//! Attention of the query heads that share a key head, for one position.

use super::math::{exp, softcap};
use crate::bytes::{part_mut, rows_mut};
use crate::kernels::{Isa, LANES, Lanes, Op, Places, Soon, Task, prefetch_behind};

/// Positions whose keys or values are visited by all heads before the next: they stay in the first cache.
const TILE: usize = 64;

/// The inputs of one position and one key head.
#[derive(Debug)]
pub struct Attend<'a> {
    /// `[heads, head_dim]`.
    pub queries: &'a [f32],
    /// Key of the first visible position and following, a row every `stride` elements.
    pub keys: &'a [f32],
    /// Values, likewise.
    pub values: &'a [f32],
    /// From one position to the next.
    pub stride: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Visible positions, the query's own included; at least 1.
    pub positions: usize,
    /// Factor of the scores.
    pub scale: f32,
    /// Soft cap of the scores; 0: none.
    pub softcap: f32,
    /// Keys and values come from memory rather than from the cache.
    pub cold: bool,
    /// `[heads, score_stride]`, to work in.
    pub scores: &'a mut [f32],
    /// At least `positions`.
    pub score_stride: usize,
    /// `[heads, head_dim]`.
    pub out: &'a mut [f32],
}

/// Computes `out`. Gives `false` when a score is not finite.
///
/// Cost: `positions * heads * head_dim * 2` products; keys and values are read once.
pub fn attend(isa: Isa, job: Attend<'_>) -> bool {
    isa.run(job)
}

impl Task for Attend<'_> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes>(self) -> bool {
        let (dim, stride) = (self.head_dim.max(1), self.stride.max(1));
        let score_stride = self.score_stride.max(1);
        let mut start = 0usize;
        for keys in self.keys.chunks(stride.saturating_mul(TILE)) {
            let tile = self.positions.saturating_sub(start).min(TILE);
            let places = Places { start, len: tile, stride: score_stride };
            V::dots(self.queries, dim, keys, stride, self.scores, places, self.cold);
            start = start.wrapping_add(tile);
        }

        let heads = self.out.len() / dim;
        let mut finite = true;
        let mut soon = if self.cold { Soon::of(self.values) } else { Soon::default() };
        for head in 0..heads {
            let scores = part_mut(self.scores, head.wrapping_mul(score_stride), self.positions);
            finite &= softmax::<V>(scores, self.scale, self.softcap, &mut soon);
        }
        self.out.fill(0.0);

        let mut start = 0usize;
        for values in self.values.chunks(stride.saturating_mul(TILE)) {
            let tile = self.positions.saturating_sub(start).min(TILE);
            for head in 0..heads {
                let scores = part_mut(self.scores, head.wrapping_mul(score_stride).wrapping_add(start), tile);
                mix::<V>(
                    scores,
                    values,
                    stride,
                    self.cold && head == 0,
                    part_mut(self.out, head.wrapping_mul(dim), dim),
                );
            }
            start = start.wrapping_add(tile);
        }
        for head in 0..heads {
            let sum = V::sum16(part_mut(self.scores, head.wrapping_mul(score_stride), self.positions));
            for out in part_mut(self.out, head.wrapping_mul(dim), dim) {
                *out /= sum;
            }
        }
        finite
    }
}

/// `scores = exp(scores - max)`, after the scale and the soft cap. Meanwhile asks for `soon`.
#[inline(always)]
pub(super) fn softmax<V: Lanes>(scores: &mut [f32], scale: f32, cap: f32, soon: &mut Soon<'_>) -> bool {
    let mut max = f32::NEG_INFINITY;
    let mut maxima = V::splat(max);
    let mut zeros = V::zero();
    for scores in scores.chunks_mut(V::WIDTH) {
        soon.lines::<1>();
        let mut s = V::load(scores).mul(V::splat(scale));
        zeros = zeros.add(s.mul(V::zero()));
        if cap != 0.0 {
            s = softcap(s, V::splat(cap));
        }
        s.store(scores);
        // A vector that is not full has zeros behind its end.
        if scores.len() < V::WIDTH {
            max = scores.iter().fold(max, |max, s| if *s > max { *s } else { max });
        } else {
            maxima = maxima.max(s);
        }
    }
    let mut lanes = [f32::NEG_INFINITY; LANES];
    maxima.store(&mut lanes);
    max = lanes.iter().fold(max, |max, value| if *value > max { *value } else { max });
    let max = V::splat(max);
    V::map(scores, &[], &mut ExpLess { max, soon });
    zeros.is_zero()
}

struct ExpLess<'a, 'm, V> {
    max: V,
    soon: &'a mut Soon<'m>,
}

impl<V: Lanes> Op<V> for ExpLess<'_, '_, V> {
    #[inline(always)]
    fn of(&mut self, s: V, _: V) -> V {
        self.soon.lines::<3>();
        exp(s.sub(self.max))
    }
}

/// `out[d] = out[d] + scores[t] * values[t][d]`, t ascending.
#[inline(always)]
fn mix<V: Lanes>(scores: &[f32], values: &[f32], stride: usize, cold: bool, out: &mut [f32]) {
    let mut first = 0usize;
    // Four vectors at a time keep the adds independent.
    let run = const { 4 * V::WIDTH };
    let whole = out.len() / run * run;
    let (wide, rest) = out.split_at_mut_checked(whole).unwrap_or_default();
    for out in rows_mut(wide, run) {
        let [mut a, mut b, mut c, mut d] = four::<V>(out);
        let mut value = values.get(first..).unwrap_or(&[]);
        for score in scores {
            // One check for all four loads.
            let Some(row) = value.get(..run) else { break };
            if cold {
                prefetch_behind(row, V::AHEAD);
            }
            let (score, [p, q, r, s]) = (V::splat(*score), four::<V>(row));
            a = a.add(score.mul(p));
            b = b.add(score.mul(q));
            c = c.add(score.mul(r));
            d = d.add(score.mul(s));
            value = value.get(stride..).unwrap_or(&[]);
        }
        for (out, acc) in out.chunks_mut(V::WIDTH).zip([a, b, c, d]) {
            acc.store(out);
        }
        first = first.wrapping_add(run);
    }
    for out in rest.chunks_mut(V::WIDTH) {
        let mut acc = V::load(out);
        let mut value = values.get(first..).unwrap_or(&[]);
        for score in scores {
            acc = acc.add(V::splat(*score).mul(V::load(value)));
            value = value.get(stride..).unwrap_or(&[]);
        }
        acc.store(out);
        first = first.wrapping_add(V::WIDTH);
    }
}

#[inline(always)]
fn four<V: Lanes>(from: &[f32]) -> [V; 4] {
    let (first, second) = from.split_at_checked(2 * V::WIDTH).unwrap_or((from, &[]));
    let ([a, b], [c, d]) = (two(first), two(second));
    [a, b, c, d]
}

#[inline(always)]
fn two<V: Lanes>(from: &[f32]) -> [V; 2] {
    [V::load(from), V::load(from.get(V::WIDTH..).unwrap_or(&[]))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::build::Random;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn close_to_the_formula_in_f64() {
        let mut random = Random(11);
        for (heads, dim, kv_heads, positions, cap) in
            [(3, 64, 2, 130, 0.0), (1, 10, 1, 1, 0.0), (2, 34, 3, 65, 5.0), (4, 80, 1, 64, 0.0), (2, 128, 1, 17, 0.5)]
        {
            let stride = dim * kv_heads;
            let mut floats = |n: usize| (0..n).map(|_| random.float()).collect::<Vec<f32>>();
            let (queries, keys) = (floats(heads * dim), floats(stride * positions));
            let values = floats(stride * positions);
            let mut scores = vec![9.0; heads * 200];
            let mut out = vec![9.0; heads * dim];
            let head = (kv_heads - 1) * dim;
            assert!(attend(
                Isa::Scalar,
                Attend {
                    queries: &queries,
                    keys: &keys[head..],
                    values: &values[head..],
                    stride,
                    head_dim: dim,
                    positions,
                    scale: 0.25,
                    softcap: cap,
                    cold: false,
                    scores: &mut scores,
                    score_stride: 200,
                    out: &mut out,
                },
            ));
            for h in 0..heads {
                let score = |t: usize| {
                    let dot: f64 = (0..dim)
                        .map(|d| f64::from(queries[h * dim + d]) * f64::from(keys[t * stride + head + d]))
                        .sum();
                    let s = dot * 0.25;
                    if cap == 0.0 { s } else { (s / f64::from(cap)).tanh() * f64::from(cap) }
                };
                let max = (0..positions).map(score).fold(f64::MIN, f64::max);
                let weights: Vec<f64> = (0..positions).map(|t| (score(t) - max).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for d in 0..dim {
                    let mixed: f64 =
                        (0..positions).map(|t| weights[t] * f64::from(values[t * stride + head + d])).sum();
                    assert!((f64::from(out[h * dim + d]) - mixed / sum).abs() < 2e-6, "head {h} dim {d}");
                }
                assert_eq!(scores[h * 200 + positions..(h + 1) * 200], vec![9.0; 200 - positions]);
            }
        }
    }

    #[test]
    fn a_score_that_is_not_finite_is_seen() {
        for (at, bad) in [(0, f32::NAN), (5, f32::INFINITY), (18, f32::NAN)] {
            let mut keys = vec![1.0f32; 20];
            keys[at] = bad;
            let (mut scores, mut out) = (vec![0.0; 20], [0.0; 1]);
            let finite = attend(
                Isa::Scalar,
                Attend {
                    queries: &[1.0],
                    keys: &keys,
                    values: &[1.0; 20],
                    stride: 1,
                    head_dim: 1,
                    positions: 20,
                    scale: 1.0,
                    softcap: 0.0,
                    cold: false,
                    scores: &mut scores,
                    score_stride: 20,
                    out: &mut out,
                },
            );
            assert!(!finite);
        }
    }
}
