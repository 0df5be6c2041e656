//! How much memory a session takes, to the byte, before it takes any.

use crate::container::directory::BLOCK_COLS;
use crate::error::{Code, Error};
use crate::limits::ALIGN;
use crate::memory::Block64;
use crate::model::{Config, Model};

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
        let config = &model.config;
        if context == 0 || batch == 0 {
            return Err(Error::new(Code::EmptyPlan));
        }
        if context > config.max_context {
            return Err(Error::new(Code::ContextExceeded));
        }
        let tables = model.rope.tables().count();
        Self::sized(config, context, batch.min(context), 1, tables).ok_or_else(|| Error::new(Code::PlanTooLarge))
    }

    /// The same for hosts that run `workers` parts at a time. More workers than this still compute the same bits.
    ///
    /// # Errors
    /// `PlanTooLarge` where the bytes do not fit the address space.
    pub fn for_workers(mut self, workers: usize) -> Result<Self, Error> {
        let per_worker = self.scores / self.workers.max(1);
        self.workers = workers.max(1);
        self.scores = per_worker.checked_mul(self.workers).ok_or(Code::PlanTooLarge)?;
        match self.checked_bytes() {
            Some(_) => Ok(self),
            None => Err(Error::new(Code::PlanTooLarge)),
        }
    }

    fn sized(config: &Config, context: usize, batch: usize, workers: usize, tables: usize) -> Option<Self> {
        let widest = config.hidden_size.max(config.query_size()).max(config.ffn_size);
        let group = config.head_count.checked_div(config.kv_head_count)?;
        let plan = Self {
            context,
            batch,
            workers,
            vocab_size: config.vocab_size,
            cache: config.layer_count.checked_mul(context)?.checked_mul(config.kv_size())?,
            logits: config.vocab_size,
            hidden: batch.checked_mul(config.hidden_size)?,
            query: batch.checked_mul(config.query_size())?,
            ffn: batch.checked_mul(config.ffn_size)?,
            blocks: batch.checked_mul(widest.div_ceil(BLOCK_COLS))?,
            scores: workers.checked_mul(group)?.checked_mul(context)?,
            angles: tables.checked_mul(batch)?.checked_mul(config.head_dim / 2)?,
        };
        plan.checked_bytes()?;
        Some(plan)
    }

    /// Every region: bytes of an element, elements.
    fn regions(&self) -> [(usize, usize); 15] {
        [
            (4, self.cache),
            (4, self.cache),
            (4, self.logits),
            (4, self.hidden),
            (4, self.hidden),
            (4, self.hidden),
            (4, self.query),
            (4, self.query),
            (4, self.ffn),
            (4, self.ffn),
            (64, self.blocks),
            (8, self.blocks),
            (4, self.scores),
            (4, self.angles),
            (4, self.angles),
        ]
    }

    fn checked_bytes(&self) -> Option<usize> {
        let mut total = 0usize;
        for (size, count) in self.regions() {
            total = total.checked_add(count.checked_mul(size)?.checked_next_multiple_of(ALIGN)?)?;
        }
        // Slices must not be longer than isize::MAX.
        isize::try_from(total).is_ok().then_some(total)
    }

    /// Bytes of everything: what to hand to `Session::new`.
    pub fn bytes(&self) -> usize {
        // Checked when the plan was made.
        self.checked_bytes().unwrap_or(usize::MAX)
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
