//! Products of matrices that share their input.

use super::Pass;
use crate::container::directory::BLOCK_COLS;
use crate::error::Error;
use crate::kernels::codes::encode;
use crate::kernels::{Codes, Input, Product, Step, Task, for_each_row, matmul};
use crate::model::Linear;
use core::sync::atomic::{AtomicBool, Ordering};

struct Encode<'a> {
    x: &'a [f32],
    codes: &'a mut [i16],
    steps: &'a mut [Step],
}

impl Task for Encode<'_> {
    type Out = bool;

    #[inline(always)]
    fn run<V: crate::kernels::Lanes>(self) -> bool {
        encode(self.x, self.codes, self.steps)
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
        if quantised {
            for_each_row(self.workers, tokens, codes, steps, |token, codes, steps| {
                let start = token.wrapping_mul(cols);
                let x = x.get(start..start.wrapping_add(cols)).unwrap_or(&[]);
                if !isa.run(Encode { x, codes, steps }) {
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
