//! Attention over keys and values kept as codes (`SPEC.md`, 6.4): two products of quantised matrices.

use super::attention::softmax;
use crate::bytes::{part, part_mut, rows_mut};
use crate::container::directory::BLOCK_COLS;
use crate::kernels::codes::{encode, encode_meanwhile};
use crate::kernels::{CodeMatrix, Codes, Isa, LANES, Lanes, Op, Soon, Step, Task, code_product};

/// The inputs of one position and one key head.
#[derive(Debug)]
pub(crate) struct AttendCodes<'a> {
    /// `[heads, head_dim]`.
    pub queries: &'a [f32],
    /// `[positions, head_dim]`.
    pub keys: CodeMatrix<'a>,
    /// `[head_dim, positions]`.
    pub values: CodeMatrix<'a>,
    /// The step of each position's values.
    pub steps: &'a [f32],
    /// Positions at the beginning that are not visible: a matrix begins with a whole block.
    pub hidden: usize,
    /// Factor of the scores.
    pub scale: f32,
    /// Soft cap of the scores; 0: none.
    pub softcap: f32,
    /// Where keys and values come from memory rather than from the cache: what will come from it next.
    pub cold: Option<Soon<'a>>,
    /// To work in: `CacheShape::score_len`.
    pub space: &'a mut [f32],
    /// `[heads, head_dim]`.
    pub out: &'a mut [f32],
}

/// Computes `out`. Gives `false` when a query or a score is not finite.
///
/// Cost: `positions * heads * head_dim * 2` integer products; keys and values are read once for each head.
pub(crate) fn attend_codes(isa: Isa, job: AttendCodes<'_>) -> bool {
    let AttendCodes { queries, keys, values, steps, hidden, scale, softcap, cold, space, out } = job;
    let (dim, positions) = (keys.cols, keys.rows);
    let heads = out.len().checked_div(dim).unwrap_or(0);
    let (sums, space) = space.split_at_mut_checked(heads.div_ceil(LANES).wrapping_mul(LANES)).unwrap_or_default();
    let blocks = dim.max(positions).div_ceil(BLOCK_COLS).wrapping_mul(heads);
    let (scores, rest) = space.split_at_mut_checked(heads.wrapping_mul(positions)).unwrap_or_default();
    let (codes, code_steps) = rest.split_at_mut_checked(blocks.wrapping_mul(BLOCK_COLS / 2)).unwrap_or_default();
    let codes = bytemuck::try_cast_slice_mut(codes).unwrap_or(&mut []);
    let code_steps = bytemuck::try_cast_slice_mut(part_mut(code_steps, 0, blocks.wrapping_mul(2))).unwrap_or(&mut []);

    let mut soon = if cold.is_some() { values.soon() } else { Soon::default() };
    let mut finite = encode(isa, queries, dim, codes, code_steps);
    code_product(isa, &keys, &first(codes, code_steps, heads, dim), heads, scores, Soon::default());
    for (scores, sum) in rows_mut(scores, positions).zip(sums.iter_mut()) {
        finite &= isa.run(Weights { scores, sum, steps, hidden, scale, softcap, soon: &mut soon });
    }
    finite &= encode_meanwhile(isa, scores, positions, codes, code_steps, &mut soon);
    code_product(isa, &values, &first(codes, code_steps, heads, positions), heads, out, cold.unwrap_or_default());
    for (out, sum) in rows_mut(out, dim).zip(sums) {
        for out in out {
            *out /= *sum;
        }
    }
    finite
}

/// The codes of `tokens` inputs of `cols` columns.
fn first<'a>(codes: &'a [i16], steps: &'a [Step], tokens: usize, cols: usize) -> Codes<'a> {
    let blocks = tokens.wrapping_mul(cols.div_ceil(BLOCK_COLS));
    Codes { codes: part(codes, 0, blocks.wrapping_mul(BLOCK_COLS)), steps: part(steps, 0, blocks) }
}

/// `scores = exp(scores - max) * steps`, 0 for what is hidden, and the sum of the exponentials.
struct Weights<'a, 'm> {
    scores: &'a mut [f32],
    sum: &'a mut f32,
    steps: &'a [f32],
    hidden: usize,
    scale: f32,
    softcap: f32,
    soon: &'a mut Soon<'m>,
}

impl Task for Weights<'_, '_> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes>(self) -> bool {
        let (hidden, scores) = self.scores.split_at_mut_checked(self.hidden).unwrap_or_default();
        hidden.fill(0.0);
        let finite = softmax::<V>(scores, self.scale, self.softcap, self.soon);
        let mut times = Times { sums: [V::zero(); LANES], next: 0, soon: self.soon };
        V::map(scores, self.steps.get(self.hidden..).unwrap_or(&[]), &mut times);
        let mut sums = [0.0; LANES];
        for (sums, of) in sums.chunks_mut(V::WIDTH).zip(times.sums) {
            of.store(sums);
        }
        *self.sum = V::sum16(&sums);
        finite
    }
}

/// `e * step`, and the sixteen accumulators of the sum of all `e`, `LANES / V::WIDTH` vectors.
struct Times<'a, 'm, V> {
    sums: [V; LANES],
    next: usize,
    soon: &'a mut Soon<'m>,
}

impl<V: Lanes> Op<V> for Times<'_, '_, V> {
    #[inline(always)]
    fn of(&mut self, e: V, step: V) -> V {
        self.soon.lines::<1>();
        // Behind the end e is +0.0, which changes no accumulator.
        if let Some(sum) = self.sums.get_mut(self.next) {
            *sum = sum.add(e);
        }
        self.next = self.next.wrapping_add(1) % const { LANES / V::WIDTH };
        e.mul(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::DType;
    use crate::kv_cache::{CacheShape, KvType};
    use crate::model::Matrix;
    use crate::tests::build::Random;
    use crate::tests::naive;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn close_to_the_formula_in_f64_of_what_is_kept_and_blind_to_what_is_hidden() {
        let mut random = Random(23);
        for (heads, dim, kv_heads, context, range, cap) in [
            (3, 64, 2, 200, 0..130, 0.0),
            (1, 10, 1, 1, 0..1, 0.0),
            (2, 34, 3, 100, 33..70, 5.0),
            (4, 80, 1, 64, 63..64, 0.0),
            (9, 128, 1, 33, 31..33, 0.5),
        ] {
            let shape = CacheShape { kv_type: KvType::Q8_0, context, kv_heads, head_dim: dim };
            let mut floats = |n: usize| (0..n).map(|_| random.float()).collect::<Vec<f32>>();
            let row = kv_heads * dim;
            let (queries, keys, values) = (floats(heads * dim), floats(range.end * row), floats(range.end * row));
            // Whatever stood there before.
            let mut key_cache = vec![f32::from_bits(u32::MAX); shape.key_len() * kv_heads];
            let mut value_cache = vec![f32::from_bits(u32::MAX); shape.value_len() * kv_heads];
            // In two runs, the second one token at a time.
            let half = range.end / 2;
            assert!(shape.store_keys(&mut key_cache, 0, &keys[..half * row]));
            assert!(shape.store_values(&mut value_cache, 0, &values[..half * row]));
            for at in half..range.end {
                assert!(shape.store_keys(&mut key_cache, at, &keys[at * row..(at + 1) * row]));
                assert!(shape.store_values(&mut value_cache, at, &values[at * row..(at + 1) * row]));
            }
            let head = kv_heads - 1;
            let base = range.start / 32 * 32;
            let (value_codes, steps) = shape.value_codes(&value_cache, head, base..range.end);
            let (mut space, mut out) = (vec![9.0; shape.score_len(heads)], vec![9.0; heads * dim]);
            let job = AttendCodes {
                queries: &queries,
                keys: shape.key_codes(&key_cache, head, base..range.end),
                values: value_codes,
                steps,
                hidden: range.start - base,
                scale: 0.25,
                softcap: cap,
                cold: None,
                space: &mut space,
                out: &mut out,
            };
            assert!(attend_codes(Isa::Scalar, job));
            // What the codes stand for, and that they are the nearest.
            let matrix = |m: CodeMatrix<'_>| -> Vec<Vec<f64>> {
                let matrix = Matrix { dtype: DType::Q8_0, rows: m.rows, cols: m.cols, data: m.data };
                (0..m.rows).map(|r| naive::row(&matrix, r)).collect()
            };
            let kept_keys = matrix(shape.key_codes(&key_cache, head, 0..range.end));
            let (all_values, all_steps) = shape.value_codes(&value_cache, head, 0..context);
            let all_values = matrix(all_values);
            let kept_value = |t: usize, d: usize| all_values[d][t] * f64::from(all_steps[t]);
            for t in 0..range.end {
                let at = |x: &[f32], d: usize| f64::from(x[t * row + head * dim + d]);
                let amax = |x: &[f32], of: std::ops::Range<usize>| of.map(|d| at(x, d).abs()).fold(0.0, f64::max);
                for (d, kept_key) in kept_keys[t].iter().enumerate() {
                    let key_step = amax(&keys, d / 32 * 32..dim.min(d / 32 * 32 + 32)) / 127.0;
                    assert!((at(&keys, d) - kept_key).abs() <= key_step * 0.57, "key {t} {d}");
                    let value_step = amax(&values, 0..dim) / 127.0;
                    assert!((at(&values, d) - kept_value(t, d)).abs() <= value_step * 0.500_01, "value {t} {d}");
                }
            }
            for h in 0..heads {
                let score = |t: usize| {
                    let dot: f64 = (0..dim).map(|d| f64::from(queries[h * dim + d]) * kept_keys[t][d]).sum();
                    let s = dot * 0.25;
                    if cap == 0.0 { s } else { (s / f64::from(cap)).tanh() * f64::from(cap) }
                };
                let max = range.clone().map(score).fold(f64::MIN, f64::max);
                let sum: f64 = range.clone().map(|t| (score(t) - max).exp()).sum();
                for d in 0..dim {
                    let exact: f64 =
                        range.clone().map(|t| (score(t) - max).exp() * kept_value(t, d)).sum::<f64>() / sum;
                    assert!((f64::from(out[h * dim + d]) - exact).abs() < 1e-4, "head {h} dim {d}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_or_too_large_is_seen() {
        let shape = CacheShape { kv_type: KvType::Q8_0, context: 2, kv_heads: 1, head_dim: 3 };
        let mut cache = vec![0.0; shape.key_len().max(shape.value_len())];
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(!shape.store_keys(&mut cache, 1, &[1.0, bad, 0.0]));
            assert!(!shape.store_values(&mut cache, 1, &[1.0, bad, 0.0]));
        }
        // 127 * 65520 has no f16 scale.
        assert!(shape.store_keys(&mut cache, 0, &[-8_321_039.0, 0.0, 1.0]));
        assert!(!shape.store_keys(&mut cache, 0, &[8_321_040.0, 0.0, 1.0]));
    }
}
