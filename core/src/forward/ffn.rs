//! The feed-forward half of a layer.

use super::Pass;
use crate::error::Error;
use crate::kernels::{Product, for_each_row};
use crate::model::Layer;
use crate::model::tensors::Role;
use crate::ops::activation::gate;
use crate::scratch::Scratch;

impl Pass<'_, '_> {
    /// `x = x + down(act(gate(norm(x))) * up(norm(x)))`.
    pub(super) fn ffn(&self, layer: &Layer<'_, '_>, scratch: &mut Scratch<'_>) -> Result<(), Error> {
        let config = &self.model.config;
        let Scratch { normed, gate: gated, up, branch, codes, steps, .. } = scratch;
        let (isa, activation, len) = (self.isa, config.activation, config.ffn_size);
        let gated = gated.get_mut(..self.tokens.wrapping_mul(len)).unwrap_or(&mut []);
        let up = up.get_mut(..self.tokens.wrapping_mul(len)).unwrap_or(&mut []);
        self.block_input(normed, scratch.x, layer.norm(Role::FfnNorm));
        let (w1, w3) = (layer.linear(Role::W1), layer.linear(Role::W3));
        let products = [Product::new(&w1, gated), Product::new(&w3, up)];
        self.linear(self.tokens, normed, codes, steps, &products)?;
        for_each_row(self.workers, self.tokens, (&mut *gated, len), (&mut *up, len), |_, gated, up| {
            gate(isa, activation, gated, up);
        });
        self.linear(self.tokens, gated, codes, steps, &[Product::new(&layer.linear(Role::W2), branch)])?;
        self.add_branch(scratch.x, branch, layer.norm(Role::FfnPostNorm));
        Ok(())
    }
}
