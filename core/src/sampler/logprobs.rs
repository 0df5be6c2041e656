//! Log-probabilities of the model itself: before bans, penalties, temperature and truncation.

use super::Sampler;
use super::candidates::Selection;
use crate::error::{Code, Error};
use libm::{exp, log};

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
    /// Logits of another length than the vocabulary or not finite.
    pub fn logprobs(&mut self, logits: &[f32], top: &mut [LogProb]) -> Result<f64, Error> {
        let Some(&first) = logits.first() else { return Err(Error::new(Code::LogitsLength)) };
        let (scores, pool) = self.scores(logits, None)?;
        let best = logits.iter().fold(first, |best, &x| if x > best { x } else { best });
        let mut total = 0.0;
        let mut selection = Selection::new(pool, top.len().clamp(1, super::MAX_CANDIDATES));
        for (id, &logit) in (0u32..).zip(scores.logits) {
            total += exp(f64::from(logit) - f64::from(best));
            selection.push(id, f64::from(logit));
        }
        let denominator = f64::from(best) + log(total);
        let (len, _) = selection.finish();
        for (slot, c) in top.iter_mut().zip(self.pool.iter().take(len)) {
            *slot = LogProb { id: c.id, logprob: c.score - denominator };
        }
        Ok(denominator)
    }
}
