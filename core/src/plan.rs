//! How much memory a session takes, to the byte, before it takes any.

use crate::container::directory::BLOCK_COLS;
use crate::error::{Code, Error};
use crate::limits::ALIGN;
use crate::memory::Block64;
use crate::model::Model;

/// Tokens a prefill pass takes at a time unless the host says otherwise.
pub const DEFAULT_BATCH: usize = 64;

/// Context planned unless the host says otherwise; never more than the model's.
pub const DEFAULT_CONTEXT: usize = 2048;

/// Sizes of every region of a session's memory, in elements of four bytes unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Plan {
    /// Positions the cache holds.
    pub context: usize,
    /// Tokens a pass over the weights takes at most.
    pub batch: usize,
    /// Parts of attention that can run at the same time.
    pub workers: usize,
    pub vocab_size: usize,
    /// `[layers, context, kv_size]`, for keys and for values.
    pub cache: usize,
    /// `[vocab_size]`.
    pub logits: usize,
    /// `[batch, hidden_size]`: three times (stream, normed, branch).
    pub hidden: usize,
    /// `[batch, query_size]`: twice (queries, attention output).
    pub query: usize,
    /// `[batch, ffn_size]`: twice (gate, up).
    pub ffn: usize,
    /// `[batch, blocks]`: a block of codes has 64 bytes, its step 8.
    pub blocks: usize,
    /// `[workers, heads per kv head, context]`.
    pub scores: usize,
    /// `[tables, batch, head_dim / 2]`, for cosines and for sines.
    pub angles: usize,
}

impl Plan {
    /// The plan for `context` positions and prefill passes of `batch` tokens, cut to the context.
    ///
    /// # Errors
    /// `EmptyPlan` for 0, `ContextExceeded` for a context over the model's, `PlanTooLarge` where the bytes do not
    /// fit the address space.
    pub fn new(model: &Model<'_>, context: usize, batch: usize) -> Result<Self, Error> {
        admit(model, context, batch)?;
        let plan = Self::of(model, context, batch);
        plan.fits()?;
        Ok(plan)
    }

    /// The sizes for a context and a batch that the model admits. What no `usize` holds is the largest there is.
    #[inline(never)]
    fn of(model: &Model<'_>, context: usize, batch: usize) -> Self {
        let config = &model.config;
        let (batch, widest) = (batch.min(context), config.hidden_size.max(config.query_size()).max(config.ffn_size));
        let product = |a: usize, b: usize| (a as u64).wrapping_mul(b as u64);
        // Nothing wraps: a file's sizes are below 2^25, of layers it has at most 2^10, of rotary tables 4.
        let counts = [
            product(config.layer_count, context).wrapping_mul(config.kv_size() as u64),
            config.vocab_size as u64,
            product(batch, config.hidden_size),
            product(batch, config.query_size()),
            product(batch, config.ffn_size),
            product(batch, widest.div_ceil(BLOCK_COLS)),
            product(config.head_count.checked_div(config.kv_head_count).unwrap_or(0), context),
            product(batch, config.head_dim / 2).wrapping_mul(model.rope.tables().count() as u64),
        ];
        let [cache, logits, hidden, query, ffn, blocks, scores, angles] =
            counts.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let vocab_size = config.vocab_size;
        Self { context, batch, workers: 1, vocab_size, cache, logits, hidden, query, ffn, blocks, scores, angles }
    }

    /// The same for hosts that run `workers` parts at a time. More workers than this still compute the same bits.
    ///
    /// # Errors
    /// `PlanTooLarge` where the bytes do not fit the address space.
    pub fn for_workers(mut self, workers: usize) -> Result<Self, Error> {
        self.set_workers(workers)?;
        Ok(self)
    }

    /// What a pass of so many of the batch's tokens works in.
    pub(crate) fn for_tokens(&self, model: &Model<'_>, tokens: usize) -> Self {
        Self { workers: self.workers, scores: self.scores, ..Self::of(model, self.context, tokens) }
    }

    fn set_workers(&mut self, workers: usize) -> Result<(), Error> {
        let per_worker = self.scores / self.workers.max(1);
        self.workers = workers.max(1);
        let scores = per_worker.checked_mul(self.workers).filter(|scores| *scores as u64 <= LARGEST / 16);
        self.scores = scores.ok_or(Code::PlanTooLarge)?;
        self.fits()
    }

    fn fits(&self) -> Result<(), Error> {
        if total(self.counts()) > LARGEST { Err(Error::new(Code::PlanTooLarge)) } else { Ok(()) }
    }

    /// Checks that the plan is one of the model's.
    ///
    /// # Errors
    /// Those of [`Plan::new`] and [`Plan::for_workers`]; `PlanMismatch` for the plan of another model.
    pub(crate) fn check(&self, model: &Model<'_>) -> Result<(), Error> {
        admit(model, self.context, self.batch)?;
        let mut expected = Self::of(model, self.context, self.batch);
        expected.fits()?;
        expected.set_workers(self.workers)?;
        if expected == *self { Ok(()) } else { Err(Error::new(Code::PlanMismatch)) }
    }

    fn counts(&self) -> [u64; 8] {
        [self.cache, self.logits, self.hidden, self.query, self.ffn, self.blocks, self.scores, self.angles]
            .map(|count| count as u64)
    }

    /// Bytes of everything: what to hand to `Session::new`.
    pub fn bytes(&self) -> usize {
        // Checked when the plan was made.
        total(self.counts()) as usize
    }

    /// The same in blocks.
    pub fn block_count(&self) -> usize {
        Block64::count(self.bytes())
    }

    /// Bytes of keys and values.
    pub fn kv_bytes(&self) -> usize {
        self.cache.saturating_mul(8)
    }

    /// Bytes of the logits.
    pub fn logits_bytes(&self) -> usize {
        self.logits.saturating_mul(4)
    }

    /// Bytes of everything else, padding included.
    pub fn scratch_bytes(&self) -> usize {
        self.bytes().saturating_sub(self.kv_bytes()).saturating_sub(self.logits_bytes())
    }
}

/// Slices must not be longer.
const LARGEST: u64 = isize::MAX as u64;

/// Bytes of all regions, each padded: of a count in [`Plan::counts`] there are some regions, with elements of some bytes.
fn total(counts: [u64; 8]) -> u64 {
    let [.., blocks, _, _] = counts;
    let regions = [(2u64, 4u64), (1, 4), (3, 4), (2, 4), (2, 4), (1, 64), (1, 4), (2, 4)];
    let bytes =
        |regions: u64, bytes: u64| bytes.div_ceil(ALIGN as u64).wrapping_mul(ALIGN as u64).wrapping_mul(regions);
    // A block's step stands in a region of its own.
    let steps = bytes(1, blocks.wrapping_mul(8));
    let each = counts.into_iter().zip(regions).map(|(count, (regions, size))| bytes(regions, count.wrapping_mul(size)));
    each.fold(steps, u64::wrapping_add)
}

fn admit(model: &Model<'_>, context: usize, batch: usize) -> Result<(), Error> {
    if context == 0 || batch == 0 {
        return Err(Error::new(Code::EmptyPlan));
    }
    if context > model.config.max_context {
        return Err(Error::new(Code::ContextExceeded));
    }
    Ok(())
}
