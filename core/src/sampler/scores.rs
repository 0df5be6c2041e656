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

/// Tokens that are looked at together.
pub(super) const RUN: usize = 32;
static_assertions::const_assert_eq!(RUN, u32::BITS as usize);

/// The tokens of a run that may be chosen, moved together.
pub(super) struct Run {
    len: usize,
    pub ids: [u32; RUN],
    /// Behind them, infinity.
    pub scores: [f64; RUN],
}

impl Run {
    /// Ids and scores.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, f64)> {
        let ids = self.ids.get(..self.len).unwrap_or(&[]);
        ids.iter().copied().zip(self.scores.iter().copied())
    }
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

    /// The logits of a run in which every token may be chosen and nothing is known of any: they are its scores.
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    fn plain(&self, from: usize) -> Option<&[f32; RUN]> {
        // A run is as long as a word of the mask has bits.
        if self.allowed.is_some_and(|words| words.get(from / RUN) != Some(&u32::MAX)) {
            return None;
        }
        let marks = self.marks.get(from..)?.first_chunk::<RUN>()?;
        let known = marks.iter().fold(0, |all, marks| all | marks);
        if known & (self.banning | self.adjusting) == 0 { self.logits.get(from..)?.first_chunk() } else { None }
    }

    /// The best score among the [`RUN`] tokens from `from` on; negative infinity where none may be chosen.
    #[inline(never)]
    pub(super) fn best(&self, from: usize) -> f64 {
        let Some(logits) = self.plain(from) else {
            return self
                .run(from)
                .each()
                .fold(f64::NEG_INFINITY, |best, (_, score)| if score > best { score } else { best });
        };
        let mut best = [f32::NEG_INFINITY; 8];
        for part in logits.as_chunks::<8>().0 {
            for (best, &x) in best.iter_mut().zip(part) {
                *best = if x > *best { x } else { *best };
            }
        }
        f64::from(best.into_iter().fold(f32::NEG_INFINITY, |best, x| if x > best { x } else { best }))
    }

    /// The tokens that may be chosen among the [`RUN`] from `from` on.
    #[inline(never)]
    pub(super) fn run(&self, from: usize) -> Run {
        let mut run = Run { len: 0, ids: [0; RUN], scores: [f64::INFINITY; RUN] };
        if let Some(logits) = self.plain(from) {
            for ((id, score), (at, &logit)) in run.ids.iter_mut().zip(&mut run.scores).zip((0u32..).zip(logits)) {
                *id = (from as u32).wrapping_add(at);
                *score = f64::from(logit);
            }
            run.len = RUN;
            return run;
        }
        let allowed = self.allowed.map_or(u32::MAX, |words| words.get(from / RUN).copied().unwrap_or(0));
        for at in 0..RUN as u32 {
            let id = (from as u32).wrapping_add(at);
            let token = id as usize;
            let (Some(&logit), Some(&marks)) = (self.logits.get(token), self.marks.get(token)) else { break };
            if allowed >> at & 1 == 0 || marks & self.banning != 0 {
                continue;
            }
            let score = f64::from(logit);
            let score = if marks & self.adjusting == 0 { score } else { self.adjusted(id, score, marks) };
            // A bias may ban.
            if score == f64::NEG_INFINITY {
                continue;
            }
            if let (Some(i), Some(s)) = (run.ids.get_mut(run.len), run.scores.get_mut(run.len)) {
                (*i, *s) = (id, score);
                run.len = run.len.wrapping_add(1);
            }
        }
        run
    }

    /// Where each run begins.
    pub(super) fn starts(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.logits.len()).step_by(RUN)
    }

    /// The score of a token with bias or penalties.
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
