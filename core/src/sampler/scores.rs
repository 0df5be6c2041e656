//! From logits to scores: bans, constraints, bias and penalties.
//!
//! What is known about a token stands in one word per token, so that a pass over the vocabulary reads two arrays
//! in step and does real work only for tokens about which something is known.

use super::config::SamplerConfig;
use crate::error::{Code, Error};
use bytemuck::{Pod, Zeroable};

/// Generated occurrences, saturating.
pub(super) const COUNT: u32 = (1 << 24) - 1;
/// The token has an entry in the bias list.
pub(super) const BIASED: u32 = 1 << 27;
/// The token ends a sequence: banned until the minimum length is reached.
pub(super) const ENDS: u32 = 1 << 28;
/// The token is never chosen.
pub(super) const BANNED: u32 = 1 << 29;
/// Penalties leave the token alone.
pub(super) const EXEMPT: u32 = 1 << 30;
/// The token occurs in the transcript.
pub(super) const SEEN: u32 = 1 << 31;

/// An entry of the bias list.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Bias {
    /// The token.
    pub id: u32,
    /// Added to its logit; negative infinity bans it.
    pub value: f32,
}

/// Everything that decides the scores of one step.
pub(super) struct Scores<'s> {
    pub logits: &'s [f32],
    pub marks: &'s [u32],
    pub bias: &'s [Bias],
    /// One bit per token, least significant first: set means allowed.
    pub allowed: Option<&'s [u32]>,
    /// Marks that ban a token in this step.
    pub banning: u32,
    /// Marks for which a score is more than its logit in this step.
    pub adjusting: u32,
    pub config: &'s SamplerConfig,
}

impl Scores<'_> {
    /// Refuses NaN and infinities.
    pub(super) fn check_finite(&self) -> Result<(), Error> {
        let magnitude = |x: &f32| x.to_bits() & 0x7fff_ffff;
        if self.logits.iter().fold(0, |worst, x| worst.max(magnitude(x))) < 0x7f80_0000 {
            return Ok(());
        }
        let index = self.logits.iter().position(|x| !x.is_finite()).unwrap_or(0);
        Err(Error::new(Code::NonFiniteLogit).entry(index as u32))
    }

    /// Calls `each` with every allowed id, ascending, and its score.
    #[inline(always)]
    pub(super) fn each(&self, mut each: impl FnMut(u32, f64)) {
        for (id, (&logit, &marks)) in (0u32..).zip(self.logits.iter().zip(self.marks)) {
            if let Some(allowed) = self.allowed {
                let word = allowed.get((id >> 5) as usize).copied().unwrap_or(0);
                if word >> (id & 31) & 1 == 0 {
                    continue;
                }
            }
            if marks & self.banning != 0 {
                continue;
            }
            let score = f64::from(logit);
            each(id, if marks & self.adjusting == 0 { score } else { self.adjusted(id, score, marks) });
        }
    }

    /// The score of a token with bias or penalties.
    #[inline(never)]
    fn adjusted(&self, id: u32, mut score: f64, marks: u32) -> f64 {
        if marks & BIASED != 0
            && let Ok(at) = self.bias.binary_search_by_key(&id, |b| b.id)
            && let Some(bias) = self.bias.get(at)
        {
            score += f64::from(bias.value);
        }
        if marks & EXEMPT != 0 && !self.config.penalise_special {
            return score;
        }
        if marks & SEEN != 0 {
            let r = self.config.repetition_penalty;
            score = if score < 0.0 { score * r } else { score / r };
        }
        let count = marks & COUNT;
        if count > 0 {
            score -= f64::from(count) * self.config.frequency_penalty;
            score -= self.config.presence_penalty;
        }
        score
    }
}
