//! The feed-forward half of a layer.

use super::Pass;
use crate::error::Error;
use crate::kernels::for_each_row;
use crate::model::Layer;
use crate::ops::activation::gate;
use crate::scratch::Scratch;

impl Pass<'_, '_> {
    /// `x = x + down(act(gate(norm(x))) * up(norm(x)))`. Gives `false` when something is not finite.
    pub(super) fn ffn(&self, layer: &Layer<'_>, scratch: &mut Scratch<'_>) -> Result<bool, Error> {
        let config = &self.model.config;
        let len = self.tokens.wrapping_mul(config.ffn_size);
        let input = self.block_input(scratch.x, scratch.normed, layer.ffn_norm);
        let products = [self.product(layer.w1, scratch.gate), self.product(layer.w3, scratch.up)];
        let mut finite = self.linear(input, scratch.codes, scratch.steps, &products)?;
        let gated = scratch.gate.get_mut(..len).unwrap_or(&mut []);
        let up = scratch.up.get_mut(..len).unwrap_or(&mut []);
        let (isa, activation) = (self.isa, config.activation);
        for_each_row(self.workers, self.tokens, gated, up, |_, gated, up| {
            gate(isa, activation, gated, up);
        });
        finite &= self.linear(gated, scratch.codes, scratch.steps, &[self.product(layer.w2, scratch.branch)])?;
        Ok(self.add_branch(scratch, layer.ffn_post_norm) && finite)
    }
}
