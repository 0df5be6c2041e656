//! Do the weights already lie on the grid of a quantised format?
//!
//! Published weights are sometimes the de-quantised values of a 4- or 8-bit file. Such a grid is worth finding: the codes
//! come back exactly, and a fresh rounding to another grid would be far worse. A tensor lies on the Q4 grids when every
//! block of 32 has at most 16 distinct values, and each value is within a quarter step of a grid point; rounding
//! noise of bf16 stays below a tenth of a step, and a wrong code would need half of one.
//!
//! On the Q8_0 grid the same noise reaches half a step at the outer codes, so there the step has to be known first. It was
//! an f16, and the largest value of the block (code 127 or -127) tells it to a few neighbours: the tensor lies on the grid
//! when every block has one under which each value is a code's multiple rounded to bf16 or better. Neighbouring codes stay
//! apart in bf16, so the codes are then the source's.

use super::blocks::{Block, Dtype};
use super::quantize::{ScaleOverflow, codes, half, min_max, signed_max};
use half::f16;

/// Farthest distance from a grid point, in steps.
const NEAR: f32 = 0.25;
/// Half a unit in the last place of bf16, relative to the value.
const BF16_HALF: f32 = 1.0 / 256.0;
/// Neighbours of an f16 within `BF16_HALF` of it, on each side, and one for its own rounding.
const F16_NEIGHBOURS: u16 = 9;

/// Collects what a tensor's blocks say about it.
#[derive(Debug)]
pub struct GridTest {
    q4_0: bool,
    q4_1: bool,
    q8_0: bool,
    values: u64,
}

impl GridTest {
    /// A test that has seen nothing.
    pub const fn new() -> Self {
        Self { q4_0: true, q4_1: true, q8_0: true, values: 0 }
    }

    /// Looks at one block of 1 to 32 values.
    pub fn see(&mut self, x: &[f32]) {
        if (self.q4_0 || self.q4_1) && distinct_over_16(x) {
            (self.q4_0, self.q4_1) = (false, false);
        }
        if self.q4_0 {
            let d = signed_max(x) / -8.0;
            self.q4_0 = x.iter().all(|v| near(*v, d, -8.0, 7.0));
        }
        if self.q4_1 {
            let (min, max) = min_max(x);
            let d = (max - min) / 15.0;
            self.q4_1 = x.iter().all(|v| near(v - min, d, 0.0, 15.0));
        }
        self.values += x.len() as u64;
        self.q8_0 = self.q8_0 && q8_step(x).is_some();
    }

    /// The grid the tensor lies on, the smallest format first.
    pub fn verdict(&self) -> Option<Dtype> {
        if self.values == 0 {
            None
        } else if self.q4_0 {
            Some(Dtype::Q4_0)
        } else if self.q4_1 {
            Some(Dtype::Q4_1)
        } else if self.q8_0 {
            Some(Dtype::Q8_0)
        } else {
            None
        }
    }
}

/// The step of the Q8_0 grid that the block lies on: of the f16 numbers under which every value is a code's multiple, the
/// one that fits the values best.
fn q8_step(x: &[f32]) -> Option<f16> {
    let middle = f16::from_f32(signed_max(x).abs() / 127.0);
    if !middle.is_finite() {
        return None;
    }
    let bits = middle.to_bits();
    (bits.saturating_sub(F16_NEIGHBOURS)..=bits + F16_NEIGHBOURS)
        .map(f16::from_bits)
        .filter_map(|d| q8_distance(x, d).map(|distance| (d, distance)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(d, _)| d)
}

/// Sum of squared distances from the multiples of `d`; `None` when a value is none of them, even rounded to bf16.
fn q8_distance(x: &[f32], d: f16) -> Option<f64> {
    let d = d.to_f32();
    x.iter().try_fold(0.0f64, |sum, x| {
        let point = q8_code(*x, d) * d;
        let distance = (x - point).abs();
        (distance <= point.abs() * BF16_HALF).then_some(sum + f64::from(distance).powi(2))
    })
}

fn q8_code(x: f32, d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { (x / d).round_ties_even().clamp(-127.0, 127.0) }
}

fn near(x: f32, d: f32, lowest: f32, highest: f32) -> bool {
    if d == 0.0 {
        return x == 0.0;
    }
    let steps = x / d;
    let code = steps.round_ties_even();
    (steps - code).abs() <= NEAR && (lowest..=highest).contains(&code)
}

/// More than 16 distinct bit patterns.
fn distinct_over_16(x: &[f32]) -> bool {
    let mut seen = [0u32; 16];
    let mut count = 0;
    for bits in x.iter().map(|v| v.to_bits()) {
        if seen[..count].contains(&bits) {
            continue;
        }
        if count == 16 {
            return true;
        }
        seen[count] = bits;
        count += 1;
    }
    false
}

/// The codes of a block that lies on the grid of `dtype`, with the scale (and minimum) that fits the values best in the
/// sense of least squares. The codes come from the exact grid, before any rounding of the scale.
pub fn recover(dtype: Dtype, x: &[f32]) -> Result<Block, ScaleOverflow> {
    if dtype == Dtype::Q8_0 {
        return Ok(recover_q8(x));
    }
    let (d, m) = match dtype {
        Dtype::Q4_1 => {
            let (min, max) = min_max(x);
            ((max - min) / 15.0, min)
        }
        _ => (signed_max(x) / -8.0, 0.0),
    };
    if d == 0.0 {
        return Ok(codes(dtype, x, f16::ZERO, half(m)?));
    }
    let mut block = Block::zero(dtype);
    for (q, x) in block.q.iter_mut().zip(x) {
        let code = ((x - m) / d).round_ties_even();
        *q = match dtype {
            Dtype::Q4_1 => code.clamp(0.0, 15.0) as u8,
            _ => (code.clamp(-8.0, 7.0) + 8.0) as u8,
        };
    }
    let (d, m) = fit(dtype, x, &block, d, m);
    block.d = half(d)?;
    block.m = half(m)?;
    Ok(block)
}

/// The codes and the step of a block of the Q8_0 grid; of another block, those of the step its largest value tells.
fn recover_q8(x: &[f32]) -> Block {
    let d = q8_step(x).unwrap_or_else(|| f16::from_f32(signed_max(x).abs() / 127.0));
    let mut block = Block { d, ..Block::zero(Dtype::Q8_0) };
    for (q, x) in block.q.iter_mut().zip(x) {
        *q = q8_code(*x, d.to_f32()) as i8 as u8;
    }
    block
}

/// Least squares of x ~ d * code (+ m), in f64.
fn fit(dtype: Dtype, x: &[f32], block: &Block, d: f32, m: f32) -> (f32, f32) {
    let (mut n, mut sq, mut sqq, mut sx, mut sqx) = (0.0f64, 0.0, 0.0, 0.0, 0.0);
    for (q, x) in block.q.iter().zip(x) {
        let q = match dtype {
            Dtype::Q4_1 => f64::from(*q),
            _ => f64::from(*q) - 8.0,
        };
        let x = f64::from(*x);
        n += 1.0;
        sq += q;
        sqq += q * q;
        sx += x;
        sqx += q * x;
    }
    if dtype == Dtype::Q4_1 {
        let determinant = n * sqq - sq * sq;
        if determinant <= 0.0 {
            return (d, m);
        }
        let slope = (n * sqx - sq * sx) / determinant;
        (slope as f32, ((sx - slope * sq) / n) as f32)
    } else if sqq > 0.0 {
        ((sqx / sqq) as f32, 0.0)
    } else {
        (d, m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern, the same in each run.
    fn random(seed: u64) -> impl FnMut() -> u32 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        }
    }

    fn bf16(x: f32) -> f32 {
        half::bf16::from_f32(x).to_f32()
    }

    /// Blocks as ggml writes them: the extreme codes are present.
    fn source(dtype: Dtype, seed: u64) -> Vec<Block> {
        let mut next = random(seed);
        (0..64)
            .map(|_| {
                let d = f16::from_f32(0.001 + next() as f32 / u32::MAX as f32);
                let mut block = Block { d, ..Block::zero(dtype) };
                for q in &mut block.q {
                    *q = match dtype {
                        Dtype::Q8_0 => ((next() % 255) as i32 - 127) as i8 as u8,
                        _ => (next() % 16) as u8,
                    };
                }
                match dtype {
                    Dtype::Q8_0 => block.q[3] = 127,
                    Dtype::Q4_0 => block.q[3] = 0,
                    _ => (block.q[3], block.q[9], block.m) = (0, 15, f16::from_f32(-7.3 * d.to_f32())),
                }
                block
            })
            .collect()
    }

    #[test]
    fn each_grid_is_found_through_bf16_and_its_codes_come_back() {
        for dtype in Dtype::QUANTISED {
            let mut test = GridTest::new();
            for block in source(dtype, 7) {
                let x = block.decode(dtype).map(bf16);
                test.see(&x);
                let found = recover(dtype, &x).unwrap();
                assert_eq!(found.q, block.q, "{dtype:?}");
                // Each value tells the step to half a unit of bf16, their fit no worse, and then it is rounded to f16.
                let off = (found.d.to_f32() / block.d.to_f32() - 1.0).abs();
                assert!(off <= BF16_HALF + (-11f32).exp2(), "{dtype:?}: step off by {off}");
            }
            assert_eq!(test.verdict(), Some(dtype));
        }
    }

    #[test]
    fn f32_values_of_a_grid_come_back_to_the_bit() {
        for dtype in [Dtype::Q8_0, Dtype::Q4_0] {
            for block in source(dtype, 11) {
                assert_eq!(recover(dtype, &block.decode(dtype)).unwrap(), block);
            }
        }
    }

    #[test]
    fn ordinary_weights_lie_on_no_grid() {
        let mut next = random(3);
        let mut test = GridTest::new();
        for _ in 0..64 {
            let x: [f32; 32] = std::array::from_fn(|_| bf16(next() as f32 / u32::MAX as f32 - 0.25));
            test.see(&x);
        }
        assert_eq!(test.verdict(), None);
    }

    #[test]
    fn one_block_off_the_grid_rules_it_out() {
        let mut test = GridTest::new();
        for block in source(Dtype::Q4_1, 5) {
            test.see(&block.decode(Dtype::Q4_1));
        }
        let mut x = source(Dtype::Q4_1, 6)[0].decode(Dtype::Q4_1);
        x[0] += 0.4 * (x[9] - x[3]) / 15.0;
        test.see(&x);
        assert_eq!(test.verdict(), None);
    }
}
