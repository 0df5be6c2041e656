//! Products of matrices that share their input.

use super::Pass;
use crate::container::directory::BLOCK_COLS;
use crate::error::Error;
use crate::kernels::codes::{TILE, encode};
use crate::kernels::{Codes, Input, Product, Step, Task, for_each_row, matmul};
use crate::model::Linear;
use core::sync::atomic::{AtomicBool, Ordering};

struct Encode<'a> {
    x: &'a [f32],
    cols: usize,
    codes: &'a mut [i16],
    steps: &'a mut [Step],
}

impl Task for Encode<'_> {
    type Out = bool;

    #[inline(always)]
    fn run<V: crate::kernels::Lanes>(self) -> bool {
        encode(self.x, self.cols, self.codes, self.steps)
    }
}

impl Pass<'_, '_> {
    /// `out = matrix * x + bias` for each token and each of `products`, all of which take the same `x`,
    /// `[tokens, cols]`. Gives `false` when an input is not finite.
    pub(super) fn linear(
        &self,
        x: &[f32],
        codes: &mut [i16],
        steps: &mut [Step],
        products: &[Product<'_>],
    ) -> Result<bool, Error> {
        let tokens = self.tokens.max(1);
        let cols = x.len() / tokens;
        let blocks = cols.div_ceil(BLOCK_COLS);
        let quantised = products.iter().any(Product::is_quantised);
        let count = if quantised { tokens.wrapping_mul(blocks) } else { 0 };
        let codes = codes.get_mut(..count.wrapping_mul(BLOCK_COLS)).unwrap_or(&mut []);
        let steps = steps.get_mut(..count).unwrap_or(&mut []);
        let isa = self.isa;
        let finite = AtomicBool::new(true);
        // Whole tiles, then the tokens left over.
        let whole = if quantised { tokens / TILE } else { 0 };
        let left = if quantised { tokens % TILE } else { 0 };
        let split = whole.wrapping_mul(TILE).wrapping_mul(blocks);
        let (tile_codes, rest_codes) = codes.split_at_mut_checked(split.wrapping_mul(BLOCK_COLS)).unwrap_or_default();
        let (tile_steps, rest_steps) = steps.split_at_mut_checked(split).unwrap_or_default();
        for (first, width, count, codes, steps) in
            [(0, TILE, whole, tile_codes, tile_steps), (whole.wrapping_mul(TILE), 1, left, rest_codes, rest_steps)]
        {
            for_each_row(self.workers, count, codes, steps, |tile, codes, steps| {
                let start = first.wrapping_add(tile.wrapping_mul(width)).wrapping_mul(cols);
                let x = x.get(start..start.wrapping_add(width.wrapping_mul(cols))).unwrap_or(&[]);
                if !isa.run(Encode { x, cols, codes, steps }) {
                    finite.store(false, Ordering::Relaxed);
                }
            });
        }
        let input = Input { tokens, cols, floats: x, codes: Codes { codes, steps } };
        matmul(self.isa, self.workers, &input, products)?;
        Ok(finite.load(Ordering::Relaxed))
    }

    /// A product of this pass, into the front of `out`.
    pub(super) fn product<'a>(&self, linear: Linear<'a>, out: &'a mut [f32]) -> Product<'a> {
        let len = self.tokens.wrapping_mul(linear.matrix.rows);
        Product::new(linear, out.get_mut(..len).unwrap_or(&mut []))
    }
}
