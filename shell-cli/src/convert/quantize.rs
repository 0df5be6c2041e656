//! f32 weights to blocks of codes.
//!
//! Plain rounding, per block of 32 (`cols` may leave the last block short; its tail is zeros and takes no part):
//! q8_0 d = amax / 127; q4_0 d = m / -8 with m the value of largest magnitude, the first of equals, sign kept;
//! q4_1 m = min, d = (max - min) / 15. Scales are rounded to f16 first, and codes are computed against the rounded
//! scale: round-ties-even((x - m) / d), saturating. A scale that rounds to 0 gives codes of 0.

use super::blocks::{Block, Dtype};
use half::f16;

/// The scale of a block is beyond f16.
#[derive(Debug, PartialEq)]
pub struct ScaleOverflow(pub f32);

/// Rounds one block. `x` holds 1 to 32 finite values.
pub fn round_block(dtype: Dtype, x: &[f32]) -> Result<Block, ScaleOverflow> {
    match dtype {
        // Floats are never rounded to blocks.
        Dtype::F32 | Dtype::Bf16 | Dtype::Q8_0 => {
            let amax = x.iter().fold(0.0f32, |max, v| max.max(v.abs()));
            Ok(codes(dtype, x, half(amax / 127.0)?, f16::ZERO))
        }
        Dtype::Q4_0 => Ok(codes(dtype, x, half(signed_max(x) / -8.0)?, f16::ZERO)),
        Dtype::Q4_1 => {
            let (min, max) = min_max(x);
            // The difference of two finite f32 may overflow f32, but not f64.
            let d = ((f64::from(max) - f64::from(min)) / 15.0) as f32;
            Ok(codes(dtype, x, half(d)?, half(min)?))
        }
    }
}

/// Codes of `x` under a given scale and minimum.
pub fn codes(dtype: Dtype, x: &[f32], d: f16, m: f16) -> Block {
    let mut block = Block { d, m, ..Block::zero(dtype) };
    let (d, m) = (d.to_f32(), m.to_f32());
    if d == 0.0 {
        return block;
    }
    for (q, x) in block.q.iter_mut().zip(x) {
        *q = match dtype {
            Dtype::Q4_0 => ((x / d).round_ties_even().clamp(-8.0, 7.0) + 8.0) as u8,
            Dtype::Q4_1 => ((x - m) / d).round_ties_even().clamp(0.0, 15.0) as u8,
            _ => (x / d).round_ties_even().clamp(-127.0, 127.0) as i8 as u8,
        };
    }
    block
}

/// Rounds to f16; an infinite result is an error.
pub fn half(x: f32) -> Result<f16, ScaleOverflow> {
    let rounded = f16::from_f32(x);
    if rounded.is_finite() { Ok(rounded) } else { Err(ScaleOverflow(x)) }
}

/// The value of largest magnitude, the first of equals.
pub fn signed_max(x: &[f32]) -> f32 {
    x.iter().fold(0.0f32, |max, v| if v.abs() > max.abs() { *v } else { max })
}

/// Smallest and largest value.
pub fn min_max(x: &[f32]) -> (f32, f32) {
    x.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(min, max), v| (min.min(*v), max.max(*v)))
}

/// Rounds one block so that the squared error, weighted by `h` per column, is least among a set of candidate scales, each
/// refitted once by weighted least squares. Plain rounding is one of the candidates, so the result is never worse.
///
/// q8_0 tries the signed maximum over 127 s for seven s from 0.98 to 1.05, q4_0 over -8 s and 7 s for seven s from 0.8 to
/// 1.25; q4_1 tries (max - min) / (15 + s), s in 0, 0.5, 1, 2, the slack at the top or halved.
pub fn search_block(dtype: Dtype, x: &[f32], h: &[f32]) -> Result<Block, ScaleOverflow> {
    let mut best = round_block(dtype, x)?;
    let mut least = weighted_error(dtype, &best, x, h);
    let mut consider = |block: Block| {
        let error = weighted_error(dtype, &block, x, h);
        if error < least {
            (best, least) = (block, error);
        }
    };
    let mut candidate = |d: f32, m: f32| {
        let (Ok(d), Ok(m)) = (half(d), half(m)) else { return };
        let block = codes(dtype, x, d, m);
        let Some((d, m)) = refit(dtype, &block, x, h) else { return consider(block) };
        let (Ok(d), Ok(m)) = (half(d), half(m)) else { return };
        consider(codes(dtype, x, d, m));
    };
    if dtype == Dtype::Q4_1 {
        let (min, max) = min_max(x);
        for slack in [0.0f32, 0.5, 1.0, 2.0] {
            let d = (max - min) / (15.0 + slack);
            for share in [0.0, 0.5] {
                candidate(d, min - share * slack * d);
            }
        }
    } else {
        let top = signed_max(x);
        let (ends, low, high): (&[f32], f32, f32) =
            if dtype == Dtype::Q4_0 { (&[-8.0, 7.0], 0.8, 1.25) } else { (&[127.0], 0.98, 1.05) };
        for end in ends {
            for step in 0..7 {
                candidate(top / (end * (low + (high - low) * step as f32 / 6.0)), 0.0);
            }
        }
    }
    Ok(best)
}

fn weighted_error(dtype: Dtype, block: &Block, x: &[f32], h: &[f32]) -> f32 {
    let values = block.decode(dtype);
    x.iter().zip(values).zip(h).map(|((x, v), h)| h * (x - v) * (x - v)).fold(0.0, |sum, e| sum + e)
}

/// Scale and minimum that fit the codes best under the weights.
fn refit(dtype: Dtype, block: &Block, x: &[f32], h: &[f32]) -> Option<(f32, f32)> {
    let (mut s0, mut sq, mut sqq, mut sx, mut sqx) = (0.0f32, 0.0f32, 0.0f32, 0.0f32, 0.0f32);
    for ((q, x), h) in block.q.iter().zip(x).zip(h) {
        let q = match dtype {
            Dtype::Q4_1 => f32::from(*q),
            Dtype::Q4_0 => f32::from(*q) - 8.0,
            _ => f32::from(*q as i8),
        };
        s0 += h;
        sq += h * q;
        sqq += h * q * q;
        sx += h * x;
        sqx += h * q * x;
    }
    if dtype == Dtype::Q4_1 {
        let determinant = s0 * sqq - sq * sq;
        if determinant <= 0.0 {
            return None;
        }
        let d = (s0 * sqx - sq * sx) / determinant;
        Some((d, (sx - d * sq) / s0))
    } else {
        (sqq > 0.0).then(|| (sqx / sqq, 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(block: &Block) -> Vec<i8> {
        block.q.iter().map(|q| *q as i8).collect()
    }

    #[test]
    fn q8_0_rounds_ties_to_even() {
        let mut x = [0.0; 32];
        x[..8].copy_from_slice(&[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5]);
        let block = round_block(Dtype::Q8_0, &x).unwrap();
        assert_eq!(block.d, f16::ONE);
        assert_eq!(signed(&block)[..8], [127, 0, 2, 2, 0, -2, -2, 126]);
        x[1] = 1.9;
        x[2] = -1.9;
        assert_eq!(signed(&round_block(Dtype::Q8_0, &x).unwrap())[1..3], [2, -2]);
    }

    #[test]
    fn q4_0_takes_the_signed_maximum() {
        let mut x = [0.0; 32];
        x[..6].copy_from_slice(&[7.0, 7.0, 0.5, -0.5, 1.5, 8.0]);
        let block = round_block(Dtype::Q4_0, &x).unwrap();
        assert_eq!(block.d, f16::from_f32(-1.0));
        assert_eq!(block.q[..6], [1, 1, 8, 8, 6, 0]);
        assert_eq!(block.decode(Dtype::Q4_0)[5], 8.0);
        x[5] = -8.0;
        let block = round_block(Dtype::Q4_0, &x).unwrap();
        assert_eq!((block.d, block.q[5]), (f16::ONE, 0));
    }

    #[test]
    fn q4_1_spans_minimum_and_maximum() {
        let x: Vec<f32> = (0..32).map(|i| -3.0 + (i % 16) as f32 * 0.25).collect();
        let block = round_block(Dtype::Q4_1, &x).unwrap();
        assert_eq!((block.d.to_f32(), block.m.to_f32()), (0.25, -3.0));
        assert_eq!(block.decode(Dtype::Q4_1)[..], x[..]);
    }

    #[test]
    fn zeros_constants_and_short_tails_are_exact() {
        for dtype in Dtype::QUANTISED {
            let block = round_block(dtype, &[0.0; 32]).unwrap();
            assert_eq!(block.decode(dtype), [0.0; 32], "{dtype:?}");
        }
        assert_eq!(round_block(Dtype::Q4_1, &[0.375; 32]).unwrap().decode(Dtype::Q4_1), [0.375; 32]);
        // A tail takes no part: the minimum of a short q4_1 block is that of its own columns.
        let tail = round_block(Dtype::Q4_1, &[5.0, 20.0]).unwrap();
        assert_eq!((tail.d.to_f32(), tail.m.to_f32()), (1.0, 5.0));
        for dtype in [Dtype::Q8_0, Dtype::Q4_0] {
            assert_eq!(round_block(dtype, &[1.0; 3]).unwrap().decode(dtype)[3..], [0.0; 29]);
        }
    }

    #[test]
    fn codes_are_taken_against_the_rounded_scale() {
        // amax / 127 lies between two f16 numbers; the largest code must still be the nearest one.
        let x: Vec<f32> = (0..32).map(|i| 0.001_234_567 * (i as f32 - 20.0)).collect();
        let block = round_block(Dtype::Q8_0, &x).unwrap();
        for (value, decoded) in x.iter().zip(block.decode(Dtype::Q8_0)) {
            assert!((value - decoded).abs() <= block.d.to_f32() * 0.5);
        }
    }

    #[test]
    fn scales_beyond_f16_are_refused_and_those_below_give_zero() {
        assert_eq!(round_block(Dtype::Q8_0, &[1e30]), Err(ScaleOverflow(1e30 / 127.0)));
        assert!(round_block(Dtype::Q4_1, &[f32::MIN, f32::MAX]).is_err());
        assert_eq!(round_block(Dtype::Q8_0, &[1e-12]).unwrap().decode(Dtype::Q8_0), [0.0; 32]);
        assert_eq!(round_block(Dtype::Q4_0, &[8.0 * 65504.0]).unwrap().d.to_f32(), -65504.0);
    }

    #[test]
    fn the_search_is_never_worse_than_plain_rounding() {
        let mut state = 9u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        let (mut plain, mut searched) = ([0.0; 3], [0.0; 3]);
        for _ in 0..200 {
            let x: Vec<f32> = (0..32).map(|_| random() * random()).collect();
            let h: Vec<f32> = (0..32).map(|_| random().powi(2) + 0.01).collect();
            for (i, dtype) in Dtype::QUANTISED.into_iter().enumerate() {
                let error = |block: &Block| weighted_error(dtype, block, &x, &h);
                let (a, b) = (error(&round_block(dtype, &x).unwrap()), error(&search_block(dtype, &x, &h).unwrap()));
                assert!(b <= a);
                plain[i] += a;
                searched[i] += b;
            }
        }
        assert!(searched.iter().zip(plain).all(|(s, p)| *s < 0.9 * p), "{searched:?} {plain:?}");
    }
}
