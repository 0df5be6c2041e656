//! Choosing the next token.
//!
//! The stages, in the default order: finite check; bans and constraints; minimum-length ban of the end tokens; bias;
//! penalties; temperature 0: the best, equal scores to the lower id; temperature; top-k; softmax; top-p; min-p;
//! typical-p; renormalisation; one draw. Every stage works on the distribution renormalised over what the stage before
//! left. Scores and probabilities are f64, sums run in the order stated, exp is our own and log libm's, so the same seed
//! and profile give the same token on every backend. `SPEC.md` section 9 has the formulas.
//!
//! ```text
//! logits [vocab] f32 -> scores f64 -> the best 1,024 -> weights -> survivors -> probabilities -> one draw
//! ```

mod candidates;
mod config;
mod exp;
mod filters;
mod logprobs;
mod prng;
mod scores;

pub use candidates::Candidate;
pub use config::{MAX_FACTOR, OnAllMasked, Preset, PrngKind, SamplerConfig, StageOrder};
pub use logprobs::LogProb;
pub use prng::{Pcg32, philox4x32_10};
pub use scores::Bias;

use crate::error::{Code, Error};
use crate::kernels::Isa;
use crate::limits::MAX_CANDIDATES;
use crate::memory::Block64;
use candidates::{Selected, select};
use prng::Draws;
use scores::Scores;

/// The stage that removed a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Cut {
    /// It survived.
    None = 0,
    /// Rank.
    TopK = 1,
    /// Nucleus.
    TopP = 2,
    /// Relative probability.
    MinP = 3,
    /// Typicality.
    TypicalP = 4,
}

impl Cut {
    /// The name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::TopK => "top_k",
            Self::TopP => "top_p",
            Self::MinP => "min_p",
            Self::TypicalP => "typical_p",
        }
    }
}

/// The outcome of one step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice {
    /// The token.
    pub id: u32,
    /// Its final probability.
    pub probability: f64,
    /// The draw, u = draw * 2^-32; none when greedy or forced.
    pub draw: Option<u32>,
    /// Candidates in the final distribution.
    pub survivors: u32,
    /// Probability of what survived every stage but had no place among the 1,024 candidates.
    pub lost_mass: f64,
    /// The choice is an end token because nothing else was allowed.
    pub forced: bool,
}

/// A sampler with its state, in memory of the caller.
#[derive(Debug)]
pub struct Sampler<'m> {
    config: SamplerConfig,
    /// `[2 * MAX_CANDIDATES]`
    pool: &'m mut [Candidate],
    /// `[vocab]`
    marks: &'m mut [u32],
    bias: &'m [Bias],
    draws: Draws,
    isa: Isa,
    traced: usize,
    listed: usize,
}

const POOL: usize = 2 * MAX_CANDIDATES;
const POOL_BLOCKS: usize = POOL * size_of::<Candidate>() / size_of::<Block64>();
static_assertions::const_assert_eq!(POOL_BLOCKS * size_of::<Block64>(), POOL * size_of::<Candidate>());

impl<'m> Sampler<'m> {
    /// Memory for a vocabulary: 49,152 bytes and 4 per token.
    pub const fn blocks(vocab: usize) -> usize {
        POOL_BLOCKS.saturating_add(vocab.div_ceil(16))
    }

    /// A sampler for `vocab` tokens in `memory` of at least [`Sampler::blocks`], at the start of turn 0.
    ///
    /// # Errors
    /// A profile out of range, or too little memory.
    #[inline(never)]
    pub fn new(config: &SamplerConfig, vocab: usize, memory: &'m mut [Block64]) -> Result<Self, Error> {
        config.validate()?;
        let short = Error::new(Code::SamplerMemoryTooShort);
        let (pool, rest) = memory.split_at_mut_checked(POOL_BLOCKS).ok_or(short)?;
        let pool: &mut [Candidate] = bytemuck::try_cast_slice_mut(pool).map_err(|_| short)?;
        let marks: &mut [u32] = bytemuck::try_cast_slice_mut(rest).map_err(|_| short)?;
        let marks = marks.get_mut(..vocab).ok_or(short)?;
        marks.fill(0);
        Ok(Self {
            config: *config,
            pool,
            marks,
            bias: &[],
            draws: Draws::new(config, 0),
            isa: Isa::baseline(),
            traced: 0,
            listed: 0,
        })
    }

    /// The profile.
    pub fn config(&self) -> &SamplerConfig {
        &self.config
    }

    /// Replaces the profile and starts turn 0 of its draws. Transcript, bans and bias stay.
    ///
    /// # Errors
    /// A profile out of range; the old one stays.
    pub fn set_config(&mut self, config: &SamplerConfig) -> Result<(), Error> {
        config.validate()?;
        self.config = *config;
        self.draws = Draws::new(config, 0);
        Ok(())
    }

    /// Bias by token, ascending by id. Finite values up to 10^6 in magnitude; negative infinity bans.
    ///
    /// # Errors
    /// [`Code::InvalidLogitBias`] with the entry's index; the list set before stays.
    pub fn set_bias(&mut self, bias: &'m [Bias]) -> Result<(), Error> {
        let mut least = 0u32;
        for (index, b) in (0u32..).zip(bias) {
            let value = f64::from(b.value);
            let fits = value.abs() <= MAX_FACTOR || value == f64::NEG_INFINITY;
            if !fits || b.id < least || b.id as usize >= self.marks.len() {
                return Err(Error::new(Code::InvalidLogitBias).entry(index));
            }
            least = b.id.saturating_add(1);
        }
        self.unmark(scores::BIASED);
        self.bias = bias;
        for b in bias {
            self.mark(b.id, scores::BIASED);
        }
        Ok(())
    }

    /// Bans or allows a token in every step.
    pub fn ban(&mut self, id: u32, banned: bool) {
        if banned {
            self.mark(id, scores::BANNED);
        } else if let Some(m) = self.marks.get_mut(id as usize) {
            *m &= !scores::BANNED;
        }
    }

    /// Declares a token special: penalties leave it alone unless the profile says otherwise.
    pub fn exempt(&mut self, id: u32) {
        self.mark(id, scores::EXEMPT);
    }

    /// Declares the tokens that end a sequence, in place of those declared before.
    pub fn set_ends(&mut self, ids: impl Iterator<Item = u32>) {
        self.unmark(scores::ENDS);
        for id in ids {
            self.mark(id, scores::ENDS);
        }
    }

    /// Forgets the transcript and starts the draws of `turn`.
    pub fn start(&mut self, turn: u32) {
        self.unmark(scores::SEEN | scores::COUNT);
        self.draws = Draws::new(&self.config, turn);
        self.listed = 0;
    }

    /// Notes tokens of the prompt: they count for the repetition penalty only.
    pub fn note_prompt(&mut self, ids: &[u32]) {
        for &id in ids {
            self.mark(id, scores::SEEN);
        }
    }

    /// Notes a generated token: it counts for every penalty.
    pub fn note_generated(&mut self, id: u32) {
        if let Some(m) = self.marks.get_mut(id as usize) {
            let count = (*m & scores::COUNT).saturating_add(1).min(scores::COUNT);
            *m = (*m & !scores::COUNT) | scores::SEEN | count;
        }
    }

    /// Sets the instruction set, which changes no bit.
    pub fn set_isa(&mut self, isa: Isa) {
        self.isa = isa;
    }

    /// Keeps at least the best `n` (up to 1,024) in [`Sampler::candidates`], also when a stage cuts them.
    pub fn trace(&mut self, n: usize) {
        self.traced = n.min(MAX_CANDIDATES);
    }

    /// The candidates of the last step, best score first, each with the stage that cut it.
    pub fn candidates(&self) -> &[Candidate] {
        self.pool.get(..self.listed).unwrap_or(&[])
    }

    /// Chooses the next token. `allowed` has one bit per token, least significant first, where only some may be chosen;
    /// `may_end` is false while the minimum length is not reached. Nothing is noted: see [`Sampler::note_generated`].
    ///
    /// Cost: two passes over the vocabulary, a third with top-k off.
    ///
    /// # Errors
    /// Logits of another length than the vocabulary, a short mask, a logit that is not finite (with its index), or no
    /// token left.
    pub fn sample(&mut self, logits: &[f32], allowed: Option<&[u32]>, may_end: bool) -> Result<Choice, Error> {
        self.listed = 0;
        self.check(logits, allowed)?;
        let config = &self.config;
        let (k, greedy) = (config.top_k as usize, config.temperature == 0.0);
        let keep = match (greedy, k) {
            (true, _) => 1,
            (false, 0) => MAX_CANDIDATES,
            (false, k) => k,
        };
        let scores = Scores {
            logits,
            marks: self.marks,
            bias: self.bias,
            allowed,
            banning: if may_end { scores::BANNED } else { scores::BANNED | scores::ENDS },
            adjusting: if config.penalises() { scores::SEEN | scores::COUNT | scores::BIASED } else { scores::BIASED },
            config,
        };
        scores.check_finite()?;
        let Selected { mut len, refused } = select(self.pool, &scores, keep.max(self.traced));
        let Some(&best) = self.pool.first().filter(|_| len > 0) else { return self.force_end() };

        // The reference keeps every candidate as good as the k-th, so those refused for want of a place come back.
        let last = self.pool.get(len.min(keep).wrapping_sub(1)).map_or(0.0, |c| c.score);
        if !greedy && k > 0 && refused == last {
            let known = self.pool.get(len.wrapping_sub(1)).map_or(0, |c| c.id);
            for from in scores.starts() {
                for (id, score) in scores.run(from).each() {
                    if let Some(slot) =
                        self.pool.get_mut(len).filter(|_| id > known && score == last && len < MAX_CANDIDATES)
                    {
                        *slot = Candidate::new(id, score);
                        len = len.wrapping_add(1);
                    }
                }
            }
        }
        self.listed = len;
        let candidates = self.pool.get_mut(..len).unwrap_or(&mut []);
        for c in candidates.iter_mut().skip(keep) {
            if greedy || c.score != last {
                c.cut = Cut::TopK as u32;
            }
        }

        let mut choice =
            Choice { id: best.id, probability: 1.0, draw: None, survivors: 1, lost_mass: 0.0, forced: false };
        if greedy {
            if let Some(c) = candidates.first_mut() {
                c.probability = 1.0;
            }
            return Ok(choice);
        }
        let rest = (k == 0 && refused > f64::NEG_INFINITY).then_some(&scores);
        choice.lost_mass = filters::truncate(config, candidates, rest, self.isa);
        let draw = self.draws.next();
        choice.draw = Some(draw);
        filters::pick(candidates, f64::from(draw) * (1.0 / 4_294_967_296.0), &mut choice);
        Ok(choice)
    }

    /// Whether there is a logit for each token, and a bit of the mask.
    fn check(&self, logits: &[f32], allowed: Option<&[u32]>) -> Result<(), Error> {
        if logits.len() != self.marks.len() {
            return Err(Error::new(Code::LogitsLength));
        }
        if allowed.is_some_and(|words| words.len() < logits.len().div_ceil(32)) {
            return Err(Error::new(Code::TokenMaskTooShort));
        }
        Ok(())
    }

    /// The outcome when no token is left.
    fn force_end(&self) -> Result<Choice, Error> {
        let end = self.marks.iter().position(|m| m & scores::ENDS != 0);
        match (self.config.on_all_masked, end) {
            (OnAllMasked::ForceEos, Some(id)) => {
                Ok(Choice { id: id as u32, probability: 1.0, draw: None, survivors: 0, lost_mass: 0.0, forced: true })
            }
            _ => Err(Error::new(Code::AllTokensMasked)),
        }
    }

    fn mark(&mut self, id: u32, bit: u32) {
        if let Some(m) = self.marks.get_mut(id as usize) {
            *m |= bit;
        }
    }

    fn unmark(&mut self, bits: u32) {
        for m in self.marks.iter_mut() {
            *m &= !bits;
        }
    }
}
