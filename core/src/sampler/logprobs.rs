//! Log-probabilities of the model itself: before bans, penalties, temperature and truncation.

use super::Sampler;
use super::candidates::select;
use super::filters::Rest;
use super::scores::Scores;
use crate::error::{Code, Error};
use libm::log;

/// A token with its log-probability.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LogProb {
    /// The token.
    pub id: u32,
    /// Natural logarithm of its probability.
    pub logprob: f64,
}

impl Sampler<'_> {
    /// Fills `top` with the best tokens of the softmax over `logits`, best first, equal ones by ascending id, and
    /// returns the logarithm of the softmax's denominator: the log-probability of any token is its logit minus it.
    /// At most 1,024 entries are filled; entries beyond the vocabulary are left alone.
    ///
    /// Call it before [`Sampler::sample`] of the same step: both use the same memory.
    ///
    /// # Errors
    /// Logits of another length than the vocabulary.
    pub fn logprobs(&mut self, logits: &[f32], top: &mut [LogProb]) -> Result<f64, Error> {
        if logits.is_empty() {
            return Err(Error::new(Code::LogitsLength));
        }
        self.check(logits, None)?;
        let Self { config, marks, bias, .. } = self;
        let scores = Scores { logits, marks, bias, allowed: None, banning: 0, adjusting: 0, config };
        let selected = select(self.pool, &scores, top.len().clamp(1, super::MAX_CANDIDATES));
        let best = self.pool.first().map_or(0.0, |best| best.score);
        let mass = Rest { scores: &scores, best, temperature: 1.0, last: None }.mass(self.isa);
        let denominator = best + log(mass.total);
        for (slot, c) in top.iter_mut().zip(self.pool.iter().take(selected.len)) {
            *slot = LogProb { id: c.id, logprob: c.score - denominator };
        }
        Ok(denominator)
    }
}
