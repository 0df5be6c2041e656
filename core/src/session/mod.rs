//! A sequence being computed: the model, its cache and how far it has come.

pub mod conversation;
mod generation;

pub use generation::{Event, Generation, Limits, LoopRule, MAX_LOGPROBS, MAX_STOP_IDS, Token};

use crate::error::{Code, Error};
use crate::event::event;
use crate::forward::Pass;
use crate::kernels::{FloatMode, Isa, Workers};
use crate::kv_cache::KvCache;
use crate::memory::Block64;
use crate::model::Model;
use crate::plan::Plan;
use crate::scratch::{Scratch, cut};
use core::sync::atomic::AtomicBool;

/// # Errors
/// `code` with the index of the first id outside the vocabulary.
#[inline(never)]
fn require_ids(ids: &[u32], vocab_size: usize, code: Code) -> Result<(), Error> {
    match ids.iter().position(|&id| id as usize >= vocab_size) {
        Some(bad) => Err(Error::new(code).entry(bad as u32)),
        None => Ok(()),
    }
}

/// The state of one sequence in the caller's memory.
#[derive(Debug)]
pub struct Session<'a> {
    model: Model<'a>,
    plan: Plan,
    isa: Isa,
    cache: KvCache<'a>,
    logits: &'a mut [f32],
    /// What a pass works in.
    work: &'a mut [Block64],
    /// Positions whose keys and values count.
    kv_len: usize,
}

impl<'a> Session<'a> {
    /// An empty sequence of `model` in `memory`, of which `plan.bytes()` are used and nothing is written yet.
    ///
    /// # Errors
    /// `PlanMismatch` for a plan of another model, `MemoryTooSmall` with the bytes needed.
    #[inline(never)]
    pub fn new(model: &Model<'a>, plan: Plan, memory: &'a mut [Block64], isa: Isa) -> Result<Self, Error> {
        plan.check(model)?;
        let (cache, logits, work) = cut(&plan, memory)?;
        event!("session: context {=u32}, {=u32} bytes", plan.context as u32, plan.bytes() as u32);
        Ok(Self { model: *model, plan, isa, cache, logits, work, kv_len: 0 })
    }

    /// Appends `ids` and gives the logits of the last one, `[vocab_size]`.
    ///
    /// On an error the sequence is as long as before. The head runs once, for the last position.
    ///
    /// # Errors
    /// `EmptyPrompt`; `TokenRange` with the position in `ids`; `ContextExceeded`; a value that is not finite, with
    /// the layer.
    pub fn prefill(&mut self, ids: &[u32], workers: &dyn Workers) -> Result<&[f32], Error> {
        let _mode = FloatMode::standard();
        self.compute(ids, workers)?;
        Ok(self.logits)
    }

    /// [`prefill`](Self::prefill) in the float mode of the law.
    #[inline(never)]
    fn compute(&mut self, ids: &[u32], workers: &dyn Workers) -> Result<(), Error> {
        if ids.is_empty() {
            return Err(Error::new(Code::EmptyPrompt));
        }
        let vocab_size = self.model.config.vocab_size;
        require_ids(ids, vocab_size, Code::TokenRange)?;
        let end = self.kv_len.saturating_add(ids.len());
        if end > self.plan.context {
            return Err(Error::new(Code::ContextExceeded));
        }
        let mut pass = Pass {
            model: &self.model,
            isa: self.isa,
            workers,
            cache: self.plan.cache(&self.model),
            score_parts: self.plan.workers,
            tokens: 0,
            position: self.kv_len,
            finite: AtomicBool::new(true),
        };
        let mut rest = ids;
        while !rest.is_empty() {
            let (ids, behind) = rest.split_at_checked(self.plan.batch).unwrap_or((rest, &[]));
            rest = behind;
            pass.position = pass.position.wrapping_add(pass.tokens);
            pass.tokens = ids.len();
            let mut scratch = Scratch::cut(&self.plan.for_tokens(ids.len()), self.work);
            pass.layers(ids, &mut scratch, &mut self.cache)?;
            if rest.is_empty() {
                pass.head(&mut scratch, self.logits)?;
            }
        }
        // Only now, with every layer of every token done, do the new rows count.
        self.kv_len = end;
        event!("computed: {=u32} tokens, {=u32} positions in all", ids.len() as u32, end as u32);
        Ok(())
    }

    /// Appends one id and gives its logits.
    ///
    /// # Errors
    /// As [`prefill`](Self::prefill).
    pub fn step(&mut self, id: u32, workers: &dyn Workers) -> Result<&[f32], Error> {
        self.prefill(&[id], workers)
    }

    /// The logits of the last successful `prefill` or `step`; before the first, whatever the memory held.
    pub fn logits(&self) -> &[f32] {
        self.logits
    }

    /// The same, for samplers that work in place.
    pub fn logits_mut(&mut self) -> &mut [f32] {
        self.logits
    }

    /// Positions in the sequence.
    pub fn kv_len(&self) -> usize {
        self.kv_len
    }

    /// Positions the sequence can have.
    pub fn context(&self) -> usize {
        self.plan.context
    }

    /// The plan it was made from.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The model.
    pub fn model(&self) -> &Model<'a> {
        &self.model
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Keeps the first `len` positions. What follows gets the bits of a cold start with the same ids.
    ///
    /// # Errors
    /// `TruncateLength` when there are fewer.
    pub fn truncate(&mut self, len: usize) -> Result<(), Error> {
        if len > self.kv_len {
            return Err(Error::new(Code::TruncateLength));
        }
        self.kv_len = len;
        Ok(())
    }

    /// Forgets the sequence; model and memory stay.
    pub fn reset(&mut self) {
        event!("reset: {=u32} positions forgotten", self.kv_len as u32);
        self.kv_len = 0;
    }

    /// The whole key and value caches, for diagnostics: of f32, `[layer, kv_head, context, head_dim]`.
    pub fn caches(&self) -> (&[f32], &[f32]) {
        self.cache.raw()
    }
}
