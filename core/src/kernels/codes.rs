//! Activations as 16-bit codes per block of 32 columns (`SPEC.md`, 5.2).

use super::{Isa, Lanes, Soon, Task};
use crate::bytes::rows;
use crate::container::directory::BLOCK_COLS;
use bytemuck::{Pod, Zeroable};

/// Below this bit pattern, 2^-100, a block counts as zero.
pub const LEAST_AMAX: u32 = 0x0d80_0000;
/// 1.5 * 2^23: adding it rounds to the nearest integer, ties to even, and leaves that integer in the low bits.
pub const ROUNDER: f32 = 12_582_912.0;

/// Tokens whose codes stand side by side: a product of that many reads what it needs next at one place.
pub const TILE: usize = 8;

/// The codes of several input vectors, in tiles of [`TILE`] tokens while there are that many, then in tiles of one.
///
/// The instruction set that made them multiplies them: four columns take eight bytes, in the order in which its products meet
/// them. Where 16-bit integers are multiplied that is columns 0, 2, 1, 3: a pair of codes meets the even or the odd bytes (or
/// nibbles) of a weight vector.
#[derive(Clone, Copy, Debug)]
pub struct Codes<'a> {
    /// `[blocks, 16, tokens of the tile, 2]` for each tile.
    pub codes: &'a [i16],
    /// `[blocks, tokens of the tile]` for each tile.
    pub steps: &'a [Step],
}

impl<'a> Codes<'a> {
    /// Those in whole tiles, and those of the tokens left over, where a token has `blocks` blocks.
    pub fn split(&self, tokens: usize, blocks: usize) -> (Self, Self) {
        let whole = tokens.wrapping_sub(tokens % TILE).saturating_mul(blocks);
        let (steps, rest_steps) = self.steps.split_at_checked(whole).unwrap_or_default();
        let (codes, rest_codes) = self.codes.split_at_checked(whole.saturating_mul(BLOCK_COLS)).unwrap_or_default();
        (Self { codes, steps }, Self { codes: rest_codes, steps: rest_steps })
    }

    /// Block `index` of `blocks` of one of `tokens` tokens; [`Isa::columns`] puts four columns of it in order.
    pub fn block(&self, tokens: usize, blocks: usize, token: usize, index: usize) -> ([i16; BLOCK_COLS], Step) {
        let whole = tokens.wrapping_sub(tokens % TILE);
        let (first, width) = if token < whole { (token.wrapping_sub(token % TILE), TILE) } else { (token, 1) };
        let at = first.saturating_mul(blocks).saturating_add(index.saturating_mul(width));
        let lane = token.wrapping_sub(first);
        let step = self.steps.get(at.saturating_add(lane)).copied().unwrap_or(Step { d: 0.0, sum: 0 });
        let mut codes = [0; BLOCK_COLS];
        let pairs = self.codes.as_chunks::<2>().0.get(at.saturating_mul(BLOCK_COLS / 2).saturating_add(lane)..);
        // The last of the block may have fewer than `width` pairs behind it.
        let mut rest = pairs.unwrap_or(&[]);
        for to in codes.as_chunks_mut::<2>().0 {
            *to = rest.first().copied().unwrap_or_default();
            rest = rest.get(width..).unwrap_or(&[]);
        }
        (codes, step)
    }
}

/// What a block of codes stands for.
#[derive(Clone, Copy, PartialEq, Pod, Zeroable, Debug)]
#[repr(C)]
pub struct Step {
    /// The value of one code step.
    pub d: f32,
    /// The sum of the codes; with AVX-512 that of their upper bytes, times 2^15, plus that of their lower ones. See
    /// [`Isa::sum_of_codes`].
    pub sum: i32,
}

/// Fills the codes and steps of `x`, `[tokens, cols]`, tile after tile: a block for each 32 columns of each token.
///
/// Gives `false` when a value is not finite.
#[inline(always)]
fn encode_all<V: Lanes>(x: &[f32], cols: usize, codes: &mut [i16], steps: &mut [Step], soon: &mut Soon<'_>) -> bool {
    let mut finite = true;
    let tokens = x.len() / cols.max(1);
    let whole = tokens.wrapping_sub(tokens % TILE);
    let pairs = codes.as_chunks_mut::<2>().0;
    for (token, x) in rows(x, cols).enumerate() {
        let (lane, width) = if token < whole { (token % TILE, TILE) } else { (0, 1) };
        let mut at = token.wrapping_sub(lane).wrapping_mul(cols.div_ceil(BLOCK_COLS));
        for x in x.chunks(BLOCK_COLS) {
            soon.lines::<4>();
            let mut filled = [0.0; BLOCK_COLS];
            let x = match x.first_chunk() {
                Some(whole) => whole,
                None => {
                    filled.iter_mut().zip(x).for_each(|(to, from)| *to = *from);
                    &filled
                }
            };
            let to = pairs.get_mut(at.wrapping_mul(BLOCK_COLS / 2).wrapping_add(lane)..).unwrap_or(&mut []);
            let step = if width == 1 {
                // A token alone has its pairs one behind the other.
                let Some(to) = to.as_flattened_mut().first_chunk_mut() else { return false };
                V::encode_block(x, to)
            } else {
                let mut block = [0; BLOCK_COLS];
                let step = V::encode_block(x, &mut block);
                spread(&block, to);
                step
            };
            finite &= step.d.is_finite();
            if let Some(to) = steps.get_mut(at.wrapping_add(lane)) {
                *to = step;
            }
            at = at.wrapping_add(width);
        }
    }
    finite
}

/// The pairs of a block to the first of [`TILE`] places each. Not inlined: compiled for AVX-512 it becomes a scatter, which takes
/// twice as long.
#[inline(never)]
fn spread(block: &[i16; BLOCK_COLS], to: &mut [[i16; 2]]) {
    for (to, pair) in to.iter_mut().step_by(TILE).zip(block.as_chunks().0) {
        *to = *pair;
    }
}

/// The bits of the largest magnitude.
#[inline(always)]
pub fn amax(x: &[f32]) -> u32 {
    x.iter().fold(0u32, |amax, v| amax.max(v.to_bits() & 0x7fff_ffff))
}

/// The integer nearest to `x`, ties to even, of which the lower bits count: right for |x| up to 2^21.
#[inline(always)]
pub fn nearest(x: f32) -> u32 {
    (x + ROUNDER).to_bits()
}

/// [`encode_all`] for an instruction set.
struct Encode<'a, 'm> {
    x: &'a [f32],
    cols: usize,
    codes: &'a mut [i16],
    steps: &'a mut [Step],
    soon: &'a mut Soon<'m>,
}

impl Task for Encode<'_, '_> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes>(self) -> bool {
        encode_all::<V>(self.x, self.cols, self.codes, self.steps, self.soon)
    }
}

/// Fills the codes and steps of `x`, `[tokens, cols]`, for products by the same `isa`. Gives `false` when a value is not finite.
pub fn encode(isa: Isa, x: &[f32], cols: usize, codes: &mut [i16], steps: &mut [Step]) -> bool {
    encode_meanwhile(isa, x, cols, codes, steps, &mut Soon::default())
}

/// [`encode`], asking for `soon` meanwhile.
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub(crate) fn encode_meanwhile(
    isa: Isa,
    x: &[f32],
    cols: usize,
    codes: &mut [i16],
    steps: &mut [Step],
    soon: &mut Soon<'_>,
) -> bool {
    isa.run(Encode { x, cols, codes, steps, soon })
}

/// [`Lanes::encode_block`] in portable code.
#[cfg_attr(not(target_arch = "wasm32"), inline(always))]
pub(super) fn encode_block(x: &[f32; BLOCK_COLS], codes: &mut [i16; BLOCK_COLS]) -> Step {
    let amax = amax(x);
    if amax < LEAST_AMAX {
        *codes = [0; BLOCK_COLS];
        return Step { d: 0.0, sum: 0 };
    }
    // Not finite when a value is not.
    let d = f32::from_bits(amax) / 32767.0;
    // |x / d| is at most 32767.004, so no code leaves -32767..=32767.
    for (code, x) in codes.iter_mut().zip(x) {
        *code = nearest(x / d) as i16;
    }
    for columns in codes.as_chunks_mut::<4>().0 {
        let [c0, c1, c2, c3] = *columns;
        *columns = [c0, c2, c1, c3];
    }
    Step { d, sum: codes.iter().fold(0i32, |sum, &code| sum.wrapping_add(i32::from(code))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::build::Random;
    use std::vec;
    use std::vec::Vec;

    fn one(x: &[f32]) -> (Vec<i16>, Vec<Step>, bool) {
        let blocks = x.len().div_ceil(32);
        let (mut codes, mut steps) = (vec![7; blocks * 32], vec![Step { d: 7.0, sum: 7 }; blocks]);
        let finite = encode(Isa::Scalar, x, x.len(), &mut codes, &mut steps);
        (codes, steps, finite)
    }

    #[test]
    fn codes_are_those_of_the_specification() {
        let mut random = Random(3);
        for n in 1..70 {
            let x: Vec<f32> = (0..n).map(|_| random.float() * 3.0).collect();
            let (codes, steps, finite) = one(&x);
            assert!(finite);
            for (b, block) in x.chunks(32).enumerate() {
                let amax = block.iter().fold(0.0f32, |m, v| m.max(v.abs()));
                let d = amax / 32767.0;
                assert_eq!(steps[b].d, d);
                let mut sum = 0;
                for i in 0..32 {
                    let exact = block.get(i).map_or(0.0, |v| libm::rintf(v / d)).clamp(-32767.0, 32767.0) as i16;
                    assert_eq!(Isa::Scalar.columns(codes.as_chunks().0[b * 8 + i / 4])[i % 4], exact);
                    sum += i32::from(exact);
                }
                assert_eq!(steps[b].sum, sum);
            }
        }
    }

    #[test]
    fn tiny_and_infinite_blocks() {
        let least = f32::from_bits(LEAST_AMAX);
        assert_eq!(one(&[least]).0[0], 32767);
        assert_eq!(one(&[f32::from_bits(LEAST_AMAX - 1)]), (vec![0; 32], vec![Step { d: 0.0, sum: 0 }], true));
        assert_eq!(one(&[-f32::MAX]).0[0], -32767);
        assert!(!one(&[1.0, f32::INFINITY]).2);
        assert!(!one(&[1.0, 2.0, f32::NAN]).2);
    }
}
