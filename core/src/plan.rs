//! How much memory a session takes, to the byte, before it takes any.

use crate::container::directory::BLOCK_COLS;
use crate::error::{Code, Error};
use crate::kv_cache::{CacheShape, KvType};
use crate::limits::ALIGN;
use crate::memory::Block64;
use crate::model::Model;

/// Tokens a prefill pass takes at a time unless the host says otherwise.
pub const DEFAULT_BATCH: usize = 64;

/// Context planned unless the host says otherwise; never more than the model's.
pub const DEFAULT_CONTEXT: usize = 2048;

/// Where each count of a plan stands; all are in elements.
#[derive(Clone, Copy)]
pub(crate) enum Region {
    /// `[layers, kv_heads]` of [`CacheShape::key_len`].
    Keys,
    /// The same of [`CacheShape::value_len`].
    Values,
    /// `[vocab_size]`.
    Logits,
    /// `[workers]` of [`CacheShape::score_len`].
    Scores,
    /// `[batch, hidden_size]`: three times (stream, normed, branch).
    Hidden,
    /// `[batch, query_size]`: twice (queries, attention output).
    Query,
    /// `[batch, ffn_size]`, or `[batch, kv_size]` where that is more: twice (gate, which new values use too, and up).
    Ffn,
    /// `[batch, blocks]` of [`BLOCK_COLS`] codes.
    Codes,
    /// `[batch, blocks]`.
    Steps,
    /// `[tables, batch, head_dim / 2]`, for cosines and for sines.
    Angles,
}

/// How many regions there are of each count, and bytes of an element.
const REGIONS: [(u8, u8); 10] = [(1, 4), (1, 4), (1, 4), (1, 4), (3, 4), (2, 4), (2, 4), (1, 64), (1, 8), (2, 4)];

/// Slices must not be longer.
const LARGEST: u64 = isize::MAX as u64;

/// Sizes of every region of a session's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Positions the cache holds.
    pub context: usize,
    /// Tokens a pass over the weights takes at most.
    pub batch: usize,
    /// Parts of attention that can run at the same time.
    pub workers: usize,
    /// Entries of the vocabulary.
    pub vocab_size: usize,
    /// How keys and values are kept.
    pub kv_type: KvType,
    counts: [usize; REGIONS.len()],
}

impl Plan {
    /// The plan for `context` positions and prefill passes of `batch` tokens, cut to the context.
    ///
    /// # Errors
    /// `EmptyPlan` for 0, `ContextExceeded` for a context over the model's, `PlanTooLarge` where the bytes do not
    /// fit the address space.
    #[inline(never)]
    pub fn new(model: &Model<'_>, context: usize, batch: usize) -> Result<Self, Error> {
        let config = &model.config;
        if context == 0 || batch == 0 {
            return Err(Error::new(Code::EmptyPlan));
        }
        if context > config.max_context {
            return Err(Error::new(Code::ContextExceeded));
        }
        let batch = batch.min(context);
        let query = config.query_size();
        let blocks = config.hidden_size.max(query).max(config.ffn_size).div_ceil(BLOCK_COLS);
        // A product of sizes that no usize holds is the largest there is, and too large.
        let counts = [
            0,
            0,
            config.vocab_size,
            0,
            batch.saturating_mul(config.hidden_size),
            batch.saturating_mul(query),
            batch.saturating_mul(config.ffn_size.max(config.kv_size())),
            batch.saturating_mul(blocks),
            batch.saturating_mul(blocks),
            batch.saturating_mul(config.head_dim / 2).saturating_mul(model.rope.tables().count()),
        ];
        let kv_type = KvType::F32;
        Self { context, batch, workers: 1, vocab_size: config.vocab_size, kv_type, counts }.for_cache(model, kv_type)
    }

    /// The same with keys and values kept otherwise.
    ///
    /// # Errors
    /// `PlanTooLarge` where the bytes do not fit the address space.
    pub fn for_cache(mut self, model: &Model<'_>, kv_type: KvType) -> Result<Self, Error> {
        self.kv_type = kv_type;
        let (config, shape) = (&model.config, self.cache(model));
        let heads = config.head_count.checked_div(config.kv_head_count).unwrap_or(0);
        let all = config.layer_count.saturating_mul(config.kv_head_count);
        let of = |len: usize, count: usize| len.saturating_mul(count);
        let [keys, values, _, scores, ..] = &mut self.counts;
        (*keys, *values) = (of(shape.key_len(), all), of(shape.value_len(), all));
        *scores = of(shape.score_len(heads), self.workers);
        self.fits()?;
        Ok(self)
    }

    /// A layer of the cache.
    pub(crate) fn cache(&self, model: &Model<'_>) -> CacheShape {
        let config = &model.config;
        CacheShape {
            kv_type: self.kv_type,
            context: self.context,
            kv_heads: config.kv_head_count,
            head_dim: config.head_dim,
        }
    }

    /// The same for hosts that run `workers` parts at a time. More workers than this still compute the same bits.
    ///
    /// # Errors
    /// `PlanTooLarge` where the bytes do not fit the address space.
    pub fn for_workers(mut self, workers: usize) -> Result<Self, Error> {
        let workers = workers.max(1);
        if let Some(scores) = self.counts.get_mut(Region::Scores as usize) {
            *scores = (*scores / self.workers.max(1)).saturating_mul(workers);
        }
        self.workers = workers;
        self.fits()?;
        Ok(self)
    }

    /// What a pass of so many of the batch's tokens works in.
    pub(crate) fn for_tokens(&self, tokens: usize) -> Self {
        let mut plan = Self { batch: tokens, ..*self };
        // From here on, counts are a multiple of the batch.
        for count in plan.counts.iter_mut().skip(Region::Hidden as usize) {
            *count = (*count / self.batch.max(1)).saturating_mul(tokens);
        }
        plan
    }

    fn fits(&self) -> Result<(), Error> {
        if self.total() > LARGEST { Err(Error::new(Code::PlanTooLarge)) } else { Ok(()) }
    }

    /// Checks that the plan is one of the model's.
    ///
    /// # Errors
    /// Those of [`Plan::new`] and [`Plan::for_workers`]; `PlanMismatch` for the plan of another model.
    pub(crate) fn check(&self, model: &Model<'_>) -> Result<(), Error> {
        let expected = Self::new(model, self.context, self.batch)?;
        let expected = expected.for_cache(model, self.kv_type)?.for_workers(self.workers)?;
        if expected == *self { Ok(()) } else { Err(Error::new(Code::PlanMismatch)) }
    }

    /// Elements of each region of a kind.
    pub(crate) fn count(&self, region: Region) -> usize {
        self.counts.get(region as usize).copied().unwrap_or(0)
    }

    /// Bytes of all regions, each padded.
    #[inline(never)]
    fn total(&self) -> u64 {
        let mut total = 0u64;
        for (count, (regions, size)) in self.counts.iter().zip(REGIONS) {
            let bytes = (*count as u64).saturating_mul(u64::from(size)).saturating_add(ALIGN as u64 - 1);
            let padded = bytes / ALIGN as u64 * ALIGN as u64;
            total = total.saturating_add(padded.saturating_mul(u64::from(regions)));
        }
        total
    }

    /// Bytes of everything: what to hand to `Session::new`.
    pub fn bytes(&self) -> usize {
        // Checked when the plan was made.
        self.total() as usize
    }

    /// The same in blocks.
    pub fn block_count(&self) -> usize {
        Block64::count(self.bytes())
    }

    /// Bytes of keys and values.
    pub fn kv_bytes(&self) -> usize {
        self.count(Region::Keys).saturating_add(self.count(Region::Values)).saturating_mul(4)
    }

    /// Bytes of the logits.
    pub fn logits_bytes(&self) -> usize {
        self.count(Region::Logits).saturating_mul(4)
    }

    /// Bytes of everything else, padding included.
    pub fn scratch_bytes(&self) -> usize {
        self.bytes().saturating_sub(self.kv_bytes()).saturating_sub(self.logits_bytes())
    }
}
