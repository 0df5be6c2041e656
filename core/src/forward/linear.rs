//! Products of matrices that share their input.

use super::Pass;
use crate::container::directory::BLOCK_COLS;
use crate::error::Error;
use crate::kernels::codes::{TILE, encode};
use crate::kernels::{Codes, Input, Product, Step, for_each_row, matmul};
use core::sync::atomic::Ordering;

impl Pass<'_, '_> {
    /// `out = matrix * x + bias` for each of `products` and each of `tokens`, where all take the same `x`,
    /// `[tokens, cols]`.
    pub(super) fn linear(
        &self,
        tokens: usize,
        x: &[f32],
        codes: &mut [i16],
        steps: &mut [Step],
        products: &[Product<'_>],
    ) -> Result<(), Error> {
        let cols = x.len() / tokens.max(1);
        let blocks = cols.div_ceil(BLOCK_COLS);
        let coded = if products.iter().any(Product::is_quantised) { tokens } else { 0 };
        let codes = codes.get_mut(..coded.wrapping_mul(blocks).wrapping_mul(BLOCK_COLS)).unwrap_or(&mut []);
        let steps = steps.get_mut(..coded.wrapping_mul(blocks)).unwrap_or(&mut []);
        let (isa, finite) = (self.isa, &self.finite);
        // A tile is a row; the tokens left over share the last.
        let (row, row_len) = (blocks.wrapping_mul(TILE), cols.wrapping_mul(TILE));
        let codes_and_len = (&mut *codes, row.wrapping_mul(BLOCK_COLS));
        for_each_row(self.workers, coded.div_ceil(TILE), codes_and_len, (&mut *steps, row), |tile, codes, steps| {
            let x = x.get(tile.wrapping_mul(row_len)..).unwrap_or(&[]);
            let x = x.get(..row_len).unwrap_or(x);
            if !encode(isa, x, cols, codes, steps) {
                finite.store(false, Ordering::Relaxed);
            }
        });
        let input = Input { tokens, cols, floats: x, codes: Codes { codes, steps } };
        matmul(self.isa, self.workers, &input, products)
    }
}
