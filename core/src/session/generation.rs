//! The generation loop: one token per call.
//!
//! A [`Generation`] owns the session, the sampler, the text stream and the transcript, all in memory the caller gave.
//! [`Generation::begin`] takes a prompt; each [`Generation::next`] computes a part of it or brings one token, until an
//! event carries a [`StopReason`]. A token is sampled first and forwarded by the call after, so the last one costs no
//! pass. Whatever happens, model and memory stay usable: `begin` starts over, and keeps the positions whose tokens
//! the new prompt begins with.

use super::conversation::common_prefix;
use super::{Session, require_ids};
use crate::error::{Code, Error};
use crate::kernels::{FloatMode, Workers};
use crate::memory::Block64;
use crate::model::Stops;
use crate::sampler::{Candidate, Choice, LogProb, Sampler, SamplerConfig};
use crate::stops::{Loop, LoopDetector, MAX_PERIOD, StopReason};
use crate::stream::{StopMatch, Stream};
use crate::tokenizer::{DecodeMode, Decoder, Tokenizer};
use heapless::Vec;

/// Most stop ids the caller may name.
pub const MAX_STOP_IDS: usize = 64;
/// Most log-probabilities per token.
pub const MAX_LOGPROBS: usize = 32;
/// What the text stream may hold back, with some to spare.
const ROOM: usize = 512;
/// Tokens of the prompt that one call computes at most, a pass of the default batch: the time it takes to notice a
/// cancellation.
const PREFILL_CHUNK: usize = crate::plan::DEFAULT_BATCH;

/// What a decoder shows for an incomplete character.
const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// A loop that ends generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopRule {
    /// Longest pattern, in tokens, 1 to 64.
    pub max_period: u32,
    /// Times it must stand in a row, at least 2.
    pub repetitions: u32,
}

/// What is reported as a loop when no rule ends generation.
const LOOP_REPORT: LoopRule = LoopRule { max_period: MAX_PERIOD as u32, repetitions: 4 };

/// How one generation runs. Sampling is the [`SamplerConfig`]'s matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most new tokens.
    pub max_new_tokens: u32,
    /// End tokens are banned before so many.
    pub min_new_tokens: u32,
    /// The model's end tokens do not end generation.
    pub ignore_eos: bool,
    /// Special tokens show in the text, the end token included.
    pub show_special: bool,
    /// The text continues the prompt's, instead of standing for itself. Matters where the first token of a text has
    /// its white space stripped.
    pub continues: bool,
    /// Ends generation in a loop.
    pub loops: Option<LoopRule>,
    /// Log-probabilities to report per token, up to [`MAX_LOGPROBS`].
    pub logprobs: u32,
}

impl Limits {
    /// 256 tokens, and nothing else.
    pub const DEFAULT: Self = Self {
        max_new_tokens: 256,
        min_new_tokens: 0,
        ignore_eos: false,
        show_special: false,
        continues: false,
        loops: None,
        logprobs: 0,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A generated token.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Token {
    /// The token.
    pub id: u32,
    /// How it was chosen.
    pub choice: Choice,
    /// Its log-probability under the model itself, where asked for.
    pub logprob: Option<f64>,
}

/// What a call brought.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Event {
    /// The token, unless the call computed a part of the prompt or only ended.
    pub token: Option<Token>,
    /// Bytes of visible text written.
    pub written: usize,
    /// Why this was the last event.
    pub stop: Option<StopReason>,
}

/// What [`Generation::begin`] starts anew.
#[derive(Debug)]
struct Run {
    running: bool,
    cancelled: bool,
    limits: Limits,
    turn: u32,
    /// Bytes of decoded text that are still the prompt's.
    skip: usize,
    detector: LoopDetector,
    max_lost_mass: f64,
    incomplete_tail: bool,
    stop: Option<StopReason>,
    stop_match: Option<StopMatch>,
    looped: Option<Loop>,
    error: Option<Error>,
    top_len: usize,
}

impl Run {
    #[inline(never)]
    fn new(limits: &Limits, turn: u32) -> Self {
        Self {
            running: false,
            cancelled: false,
            limits: *limits,
            turn,
            skip: 0,
            detector: LoopDetector::new(),
            max_lost_mass: 0.0,
            incomplete_tail: false,
            stop: None,
            stop_match: None,
            looped: None,
            error: None,
            top_len: 0,
        }
    }
}

/// A session that generates.
#[derive(Debug)]
pub struct Generation<'a, 'm> {
    session: Session<'a>,
    sampler: Sampler<'m>,
    tokenizer: Tokenizer<'a>,
    model_stops: Stops<'a>,
    stop_ids: Vec<u32, MAX_STOP_IDS>,
    stream: Stream,
    decoder: Decoder<'a>,
    /// Bytes that one step of the decoder may need.
    most: usize,
    /// Prompt and generated ids, `[context]`. The first `kv_len` are those of the session.
    transcript: &'m mut [u32],
    len: usize,
    prompt_len: usize,
    reused: usize,
    run: Run,
    top: [LogProb; MAX_LOGPROBS],
}

impl<'a, 'm> Generation<'a, 'm> {
    /// Memory beside the session's: the sampler's, and 4 bytes per position.
    pub const fn blocks(vocab: usize, context: usize) -> usize {
        Sampler::blocks(vocab).saturating_add(context.div_ceil(16))
    }

    /// A generation over `session` with `memory` of at least [`Generation::blocks`]. The model's stop strings are set.
    ///
    /// # Errors
    /// A profile out of range, too little memory, or more stop strings than there is room for.
    #[inline(never)]
    pub fn new(
        session: Session<'a>,
        tokenizer: &Tokenizer<'a>,
        config: &SamplerConfig,
        memory: &'m mut [Block64],
    ) -> Result<Self, Error> {
        let short = Error::new(Code::SamplerMemoryTooShort);
        let vocab = session.model().config.vocab_size;
        let (sampling, rest) = memory.split_at_mut_checked(Sampler::blocks(vocab)).ok_or(short)?;
        let transcript: &mut [u32] = bytemuck::try_cast_slice_mut(rest).map_err(|_| short)?;
        let transcript = transcript.get_mut(..session.context()).ok_or(short)?;
        let mut sampler = Sampler::new(config, vocab, sampling)?;
        sampler.set_isa(session.isa());
        for id in (0..vocab as u32).filter(|&id| tokenizer.is_special(id)) {
            sampler.exempt(id);
        }
        let model_stops = session.model().stops;
        let mut generation = Self {
            session,
            sampler,
            tokenizer: *tokenizer,
            model_stops,
            stop_ids: Vec::new(),
            stream: Stream::new(),
            decoder: tokenizer.decoder(DecodeMode::Visible),
            most: tokenizer.max_push_bytes(),
            transcript,
            len: 0,
            prompt_len: 0,
            reused: 0,
            run: Run::new(&Limits::DEFAULT, 0),
            top: [LogProb { id: 0, logprob: 0.0 }; MAX_LOGPROBS],
        };
        generation.replace_stops(&[], &mut || None, false)?;
        Ok(generation)
    }

    /// Sets the caller's stop ids and stop strings, in place of those set before; the model's strings come first in
    /// the numbering. `include_stop`: a completed stop string is shown.
    ///
    /// # Errors
    /// An id outside the vocabulary or too many, a stop string that [`Stream::add_stop`] refuses. Stops are then only
    /// the model's.
    pub fn set_stops<'s>(
        &mut self,
        ids: &[u32],
        mut strings: impl Iterator<Item = &'s [u8]>,
        include_stop: bool,
    ) -> Result<(), Error> {
        self.replace_stops(ids, &mut || strings.next(), include_stop)
    }

    fn replace_stops<'s>(
        &mut self,
        ids: &[u32],
        next: &mut dyn FnMut() -> Option<&'s [u8]>,
        include_stop: bool,
    ) -> Result<(), Error> {
        self.stop_ids.clear();
        self.stream.keep_stops(0);
        self.stream.include_stop(include_stop);
        for text in self.model_stops.strings() {
            self.stream.add_stop(text)?;
        }
        let vocab = self.session.model().config.vocab_size;
        require_ids(ids, vocab, Code::InvalidStopId)?;
        let own = self.stream.stop_count();
        while let Some(text) = next() {
            if let Err(error) = self.stream.add_stop(text) {
                self.stream.keep_stops(own);
                return Err(error);
            }
        }
        let full = Error::new(Code::InvalidStopId).entry(MAX_STOP_IDS as u32);
        self.stop_ids.extend_from_slice(ids).map_err(|_| full)
    }

    /// Starts on `prompt`, whose ids are those to compute: nothing is added. `turn` addresses the draws.
    ///
    /// Positions the session holds already for the same first ids are kept; at least the last id is computed.
    ///
    /// # Errors
    /// An empty prompt, one longer than the context (with its length as index), an id outside the vocabulary, limits
    /// out of range. Nothing has changed then.
    pub fn begin(&mut self, prompt: &[u32], turn: u32, limits: &Limits) -> Result<(), Error> {
        let vocab = self.session.model().config.vocab_size;
        let Some(before_last) = prompt.len().checked_sub(1) else {
            return Err(Error::new(Code::EmptyPrompt));
        };
        if prompt.len() > self.transcript.len() {
            return Err(Error::new(Code::ContextExceeded).entry(prompt.len() as u32));
        }
        require_ids(prompt, vocab, Code::TokenRange)?;
        if limits.min_new_tokens > limits.max_new_tokens {
            return Err(Error::new(Code::InvalidMinimumLength));
        }
        let wild = |rule: LoopRule| !(1..=MAX_PERIOD as u32).contains(&rule.max_period) || rule.repetitions < 2;
        if limits.loops.is_some_and(wild) {
            return Err(Error::new(Code::InvalidLoopRule));
        }

        let known = self.transcript.get(..self.session.kv_len().min(self.len)).unwrap_or(&[]);
        self.reused = common_prefix(known, prompt).min(before_last);
        self.session.truncate(self.reused)?;
        for (slot, &id) in self.transcript.iter_mut().zip(prompt) {
            *slot = id;
        }
        self.len = prompt.len();
        self.prompt_len = prompt.len();

        let ends = if limits.ignore_eos { &[] } else { self.model_stops.ids() };
        self.sampler.set_ends(ends.iter().chain(&self.stop_ids).copied());
        self.sampler.start(turn);
        self.sampler.note_prompt(prompt);
        self.stream.start();
        let mode = if limits.show_special { DecodeMode::Raw } else { DecodeMode::Visible };
        self.decoder = self.tokenizer.decoder(mode);
        self.run = Run::new(limits, turn);
        self.run.running = true;
        Ok(())
    }

    /// Ends generation with the next call.
    pub fn cancel(&mut self) {
        self.run.cancelled = true;
    }

    /// Bytes of output that always suffice for [`Generation::next`].
    pub fn room(&self) -> usize {
        self.most.saturating_mul(4).saturating_add(ROOM)
    }

    /// The next part of the prompt, or the next token and the text that is certain since.
    ///
    /// `allowed`: one bit per token, least significant first, where only some tokens may follow. It is looked at when
    /// a token is chosen; [`Generation::wants_token`] says whether this call will.
    ///
    /// # Errors
    /// [`Code::OutputBufferExceeded`] if `out` is shorter than [`Generation::room`]; nothing has happened then.
    /// [`Code::GenerationEnded`] behind the last event. Any other error ends generation with [`StopReason::Error`].
    pub fn next(&mut self, workers: &dyn Workers, allowed: Option<&[u32]>, out: &mut [u8]) -> Result<Event, Error> {
        if !self.run.running {
            return Err(Error::new(Code::GenerationEnded));
        }
        if out.len() < self.room() {
            return Err(Error::new(Code::OutputBufferExceeded));
        }
        let _mode = FloatMode::standard();
        let mut event = Event::default();
        if let Err(error) = self.advance(workers, allowed, out, &mut event) {
            self.run.running = false;
            self.run.stop = Some(StopReason::Error);
            self.run.error = Some(error);
            return Err(error);
        }
        event.stop = self.run.stop;
        Ok(event)
    }

    /// Whether the next call chooses a token.
    pub fn wants_token(&self) -> bool {
        self.run.running && self.session.kv_len().saturating_add(1) >= self.len && !self.filling()
    }

    /// Whether a part of the prompt is still to be computed.
    fn filling(&self) -> bool {
        self.session.kv_len() < self.prompt_len
    }

    #[inline(never)]
    fn advance(
        &mut self,
        workers: &dyn Workers,
        allowed: Option<&[u32]>,
        out: &mut [u8],
        event: &mut Event,
    ) -> Result<(), Error> {
        let generated = self.generated_count();
        if self.run.cancelled {
            return self.end(StopReason::Cancelled, out, event);
        }
        if let Some(reason) = self.full() {
            return self.end(reason, out, event);
        }
        if self.filling() {
            let from = self.session.kv_len();
            let to = self.prompt_len.min(from.saturating_add(PREFILL_CHUNK));
            self.session.prefill(self.transcript.get(from..to).unwrap_or(&[]), workers)?;
            if to == self.prompt_len && self.run.limits.continues {
                self.meet_prompt(out)?;
            }
            return Ok(());
        }
        if generated > 0
            && let Some(&id) = self.transcript.get(self.session.kv_len())
        {
            self.session.step(id, workers)?;
        }

        let logits = self.session.logits();
        self.run.top_len = (self.run.limits.logprobs as usize).min(MAX_LOGPROBS).min(logits.len());
        let top = self.top.get_mut(..self.run.top_len).unwrap_or(&mut []);
        let denominator = if top.is_empty() { None } else { Some(self.sampler.logprobs(logits, top)?) };
        let choice = self.sampler.sample(logits, allowed, generated >= self.run.limits.min_new_tokens)?;
        let id = choice.id;
        let logit = logits.get(id as usize).map_or(0.0, |logit| f64::from(*logit));
        event.token = Some(Token { id, choice, logprob: denominator.map(|denominator| logit - denominator) });
        self.run.max_lost_mass = self.run.max_lost_mass.max(choice.lost_mass);
        self.sampler.note_generated(id);
        if let Some(slot) = self.transcript.get_mut(self.len) {
            *slot = id;
            self.len = self.len.saturating_add(1);
        }

        #[expect(clippy::manual_contains, reason = "it compares sixteen at a time, in many times the code")]
        let named = self.stop_ids.iter().any(|stop| *stop == id);
        let mut reason = None;
        if self.model_stops.contains(id) && !self.run.limits.ignore_eos {
            reason = Some(StopReason::EosToken);
        } else if named {
            reason = Some(StopReason::StopTokenId);
        }
        if reason.is_none() || self.run.limits.show_special {
            self.show(Some(id), out, event)?;
        }
        let rule = self.run.limits.loops.unwrap_or(LOOP_REPORT);
        if let Some(found) = self.run.detector.push(id, rule.max_period, rule.repetitions) {
            self.run.looped = Some(found);
            if self.run.limits.loops.is_some() {
                reason = reason.or(Some(StopReason::LoopDetected));
            }
        }
        let last = if self.run.stop_match.is_some() { Some(StopReason::StopString) } else { self.full() };
        match reason.or(last) {
            Some(reason) => self.end(reason, out, event),
            None => Ok(()),
        }
    }

    /// Why there is no room for another token.
    fn full(&self) -> Option<StopReason> {
        if self.generated_count() >= self.run.limits.max_new_tokens {
            Some(StopReason::MaxOutput)
        } else if self.len >= self.transcript.len() {
            Some(StopReason::ContextFull)
        } else {
            None
        }
    }

    /// Shows the decoder the prompt, so that the first new token is not the first of the text.
    fn meet_prompt(&mut self, out: &mut [u8]) -> Result<(), Error> {
        for &id in self.transcript.get(..self.prompt_len).unwrap_or(&[]) {
            self.decoder.push(id, out)?;
        }
        // What it holds back would come out with the first new token.
        self.run.skip = self.decoder.clone().finish(out)?;
        Ok(())
    }

    /// Decodes a token, or with none what is left, into the far end of `out`, and lets through to its front what is
    /// certain.
    fn show(&mut self, id: Option<u32>, out: &mut [u8], event: &mut Event) -> Result<(), Error> {
        let out = out.get_mut(event.written..).unwrap_or(&mut []);
        let front = out.len().saturating_sub(self.most);
        let Some((front, back)) = out.split_at_mut_checked(front) else { return Ok(()) };
        let holding = self.decoder.is_holding();
        let len = match id {
            Some(id) => self.decoder.push(id, back),
            None => self.decoder.finish(back),
        }?;
        let text = back.get(..len).unwrap_or(&[]);
        self.run.incomplete_tail = holding && id.is_none() && text.ends_with(REPLACEMENT);
        let from = self.run.skip.min(len);
        self.run.skip = self.run.skip.saturating_sub(from);
        let pushed = self.stream.push(text.get(from..).unwrap_or(&[]), front)?;
        self.run.stop_match = self.run.stop_match.or(pushed.stop);
        event.written = event.written.saturating_add(pushed.written);
        Ok(())
    }

    /// Ends generation and writes what was held back.
    fn end(&mut self, reason: StopReason, out: &mut [u8], event: &mut Event) -> Result<(), Error> {
        self.run.running = false;
        self.run.stop = Some(reason);
        if self.run.stop_match.is_some() {
            return Ok(());
        }
        self.show(None, out, event)?;
        if self.run.stop_match.is_some() {
            // The last token's text came out only now, and completed a stop string.
            self.run.stop = Some(StopReason::StopString);
            return Ok(());
        }
        let tail = self.stream.finish(out.get_mut(event.written..).unwrap_or(&mut []))?;
        event.written = event.written.saturating_add(tail);
        Ok(())
    }

    /// The session.
    pub fn session(&self) -> &Session<'a> {
        &self.session
    }

    /// Forgets the sequence; the next prompt is computed from its first id.
    pub fn reset(&mut self) {
        self.session.reset();
        self.run.running = false;
        self.len = 0;
        self.prompt_len = 0;
    }

    /// The sampler, for bias, bans and the candidates of the last token.
    pub fn sampler(&mut self) -> &mut Sampler<'m> {
        &mut self.sampler
    }

    /// The profile.
    pub fn config(&self) -> &SamplerConfig {
        self.sampler.config()
    }

    /// The candidates of the last token.
    pub fn candidates(&self) -> &[Candidate] {
        self.sampler.candidates()
    }

    /// The turn that addresses the draws.
    pub fn turn(&self) -> u32 {
        self.run.turn
    }

    /// The most probability that one token's candidates lost to their cap.
    pub fn max_lost_mass(&self) -> f64 {
        self.run.max_lost_mass
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer<'a> {
        &self.tokenizer
    }

    /// Whether `begin` was called and no event has ended it.
    pub fn is_running(&self) -> bool {
        self.run.running
    }

    /// The prompt of the last [`Generation::begin`].
    pub fn prompt(&self) -> &[u32] {
        self.transcript.get(..self.prompt_len).unwrap_or(&[])
    }

    /// Every id generated since, end tokens included.
    pub fn generated(&self) -> &[u32] {
        self.transcript.get(self.prompt_len..self.len).unwrap_or(&[])
    }

    fn generated_count(&self) -> u32 {
        self.len.saturating_sub(self.prompt_len) as u32
    }

    /// Positions of the prompt that were there already.
    pub fn reused(&self) -> usize {
        self.reused
    }

    /// Why generation ended.
    pub fn stop(&self) -> Option<StopReason> {
        self.run.stop
    }

    /// The stop string that was completed.
    pub fn stop_match(&self) -> Option<StopMatch> {
        self.run.stop_match
    }

    /// The loop the output ended in, or was in last.
    pub fn looped(&self) -> Option<Loop> {
        self.run.looped
    }

    /// The tokens of that loop, newest first.
    pub fn loop_pattern(&self) -> &[u32] {
        self.run.detector.pattern(self.run.looped.map_or(0, |l| l.period))
    }

    /// The error that ended generation.
    pub fn error(&self) -> Option<Error> {
        self.run.error
    }

    /// Whether the output ended within a character. The text shows U+FFFD for it; the ids have all there was.
    pub fn incomplete_tail(&self) -> bool {
        self.run.incomplete_tail
    }

    /// The log-probabilities asked for, of the last token, best first.
    pub fn top(&self) -> &[LogProb] {
        self.top.get(..self.run.top_len).unwrap_or(&[])
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.run.limits
    }
}
