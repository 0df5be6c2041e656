//! One pass of the generic decoder (`SPEC.md`, section 6) over a run of tokens: several tokens share each pass over
//! the weights, and get the bits they would get one by one.
//!
//! Sizes and offsets here are products and sums of what `Plan` has found to fit the address space; none wraps.

mod attention;
mod ffn;
mod linear;

use crate::bytes::rows_mut;
use crate::error::{Code, Error};
use crate::kernels::{Isa, Product, Workers, for_each_row};
use crate::kv_cache::{CacheShape, KvCache};
use crate::model::Model;
use crate::ops::activation::finish_logits;
use crate::ops::embed::embed;
use crate::ops::residual::add_scaled;
use crate::ops::rms_norm::rms_norm;
use crate::ops::rope::angles;
use crate::scratch::Scratch;
use core::sync::atomic::{AtomicBool, Ordering};

/// What a pass runs on.
pub(crate) struct Pass<'p, 'm> {
    pub model: &'p Model<'m>,
    pub isa: Isa,
    pub workers: &'p dyn Workers,
    /// A layer of the cache.
    pub cache: CacheShape,
    /// Regions of scores.
    pub score_parts: usize,
    /// Tokens of this pass.
    pub tokens: usize,
    /// Position of the first.
    pub position: usize,
    /// Whether every value so far was finite.
    pub finite: AtomicBool,
}

impl Pass<'_, '_> {
    /// Runs `ids`, at most the planned batch, through all layers. Keys and values go to rows `position` and following
    /// of the cache; whether they count is the caller's decision.
    ///
    /// # Errors
    /// The layer or logit that is not finite.
    pub(crate) fn layers(&self, ids: &[u32], scratch: &mut Scratch<'_>, cache: &mut KvCache<'_>) -> Result<(), Error> {
        let config = &self.model.config;
        let hidden = config.hidden_size;
        let embedding = self.model.embedding();
        for (&id, x) in ids.iter().zip(rows_mut(scratch.x, hidden)) {
            embed(&embedding, id as usize, config.embedding_scale, x);
            // Adding nothing is the check: a scale can overflow a weight.
            if !x.iter().all(|v| v.is_finite()) {
                return Err(Error::new(Code::NonFiniteEmbedding).entry(id));
            }
        }
        self.angles(scratch);
        for index in 0..config.layer_count {
            let layer = self.model.layer(index);
            self.attention(index, &layer, scratch, cache)?;
            self.require_finite(Code::NonFiniteAttention, index)?;
            self.ffn(&layer, scratch)?;
            self.require_finite(Code::NonFiniteFfn, index)?;
        }
        Ok(())
    }

    /// The logits of the pass's last token.
    ///
    /// # Errors
    /// `NonFiniteLogits` with the id.
    pub(crate) fn head(&self, scratch: &mut Scratch<'_>, logits: &mut [f32]) -> Result<(), Error> {
        let config = &self.model.config;
        let hidden = config.hidden_size;
        let last = self.tokens.wrapping_sub(1).wrapping_mul(hidden);
        let normed = scratch.normed.get_mut(..hidden).unwrap_or(&mut []);
        self.block_input(normed, scratch.x.get(last..).unwrap_or(&[]), Some(self.model.final_norm()));
        let head = crate::model::Linear { matrix: self.model.head(), bias: None };
        self.linear(1, normed, scratch.codes, scratch.steps, &[Product::new(&head, logits)])?;
        if finish_logits(self.isa, logits, config.logit_divisor, config.logit_softcap) {
            return self.require_finite(Code::NonFiniteLogits, 0);
        }
        let id = logits.iter().position(|v| !v.is_finite()).unwrap_or(0);
        Err(Error::new(Code::NonFiniteLogits).entry(id as u32))
    }

    /// # Errors
    /// `code` with `entry` when a value was not finite.
    fn require_finite(&self, code: Code, entry: usize) -> Result<(), Error> {
        if self.finite.load(Ordering::Relaxed) { Ok(()) } else { Err(Error::new(code).entry(entry as u32)) }
    }

    /// Cosines and sines, `[tables, tokens, head_dim / 2]`, once for all layers.
    fn angles(&self, scratch: &mut Scratch<'_>) {
        let half = self.model.config.head_dim / 2;
        let mut at = 0usize;
        for table in self.model.rope.tables() {
            for token in 0..self.tokens {
                let (cos, sin) = (scratch.cos.get_mut(at..), scratch.sin.get_mut(at..));
                let position = self.position.wrapping_add(token);
                angles(&table, position, cos.unwrap_or(&mut []), sin.unwrap_or(&mut []));
                at = at.wrapping_add(half);
            }
        }
    }

    /// `x = x + norm(branch) * residual_scale`.
    fn add_branch(&self, x: &mut [f32], branch: &mut [f32], norm: Option<&[f32]>) {
        let hidden = self.model.config.hidden_size;
        for_each_row(self.workers, self.tokens, (x, hidden), (branch, hidden), |_, x, branch| {
            self.norm(branch, norm);
            if !add_scaled(self.isa, x, branch, self.model.config.residual_scale) {
                self.finite.store(false, Ordering::Relaxed);
            }
        });
    }

    /// The input of a block: the stream, normed where the family norms it there.
    fn block_input(&self, normed: &mut [f32], x: &[f32], norm: Option<&[f32]>) {
        let hidden = self.model.config.hidden_size;
        let tokens = normed.len().checked_div(hidden).unwrap_or(0);
        for_each_row(self.workers, tokens, (normed, hidden), (&mut [0.0f32; 0], 0), |token, normed, _| {
            let from = x.get(token.wrapping_mul(hidden)..).unwrap_or(&[]);
            for (to, from) in normed.iter_mut().zip(from) {
                *to = *from;
            }
            self.norm(normed, norm);
        });
    }

    /// Norms rows of `x` where the family does.
    fn norm(&self, x: &mut [f32], norm: Option<&[f32]>) {
        rms_norm(self.isa, x, norm.unwrap_or(&[]), self.model.config.rms_norm_epsilon);
    }
}
