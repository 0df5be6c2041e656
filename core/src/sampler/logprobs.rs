//! Log-probabilities of the model itself: before bans, penalties, temperature and truncation.

use super::Sampler;
use super::candidates::Selection;
use super::filters::Rest;
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
        let Some(&first) = logits.first() else { return Err(Error::new(Code::LogitsLength)) };
        let isa = self.isa;
        let (mut scores, pool) = self.scores(logits, None)?;
        (scores.banning, scores.adjusting) = (0, 0);
        let best = f64::from(logits.iter().fold(first, |best, &x| if x > best { x } else { best }));
        let mut selection = Selection::new(pool, top.len().clamp(1, super::MAX_CANDIDATES));
        selection.offer(&scores);
        let mass = Rest { scores: &scores, best, temperature: 1.0, last: None }.mass(isa);
        let denominator = best + log(mass.total);
        let (len, _) = selection.finish();
        for (slot, c) in top.iter_mut().zip(self.pool.iter().take(len)) {
            *slot = LogProb { id: c.id, logprob: c.score - denominator };
        }
        Ok(denominator)
    }
}
