//! The caller's memory, cut into the regions of the plan.

use crate::error::{Code, Error};
use crate::kernels::Step;
use crate::kv_cache::KvCache;
use crate::memory::Block64;
use crate::plan::Plan;
use bytemuck::Pod;

/// What a pass works in. Sizes as in [`Plan`].
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Scratch<'a> {
    /// The residual stream.
    pub x: &'a mut [f32],
    /// Its normed copy, the input of a block.
    pub normed: &'a mut [f32],
    /// Output of a block.
    pub branch: &'a mut [f32],
    pub queries: &'a mut [f32],
    pub attended: &'a mut [f32],
    pub gate: &'a mut [f32],
    pub up: &'a mut [f32],
    pub codes: &'a mut [i16],
    pub steps: &'a mut [Step],
    pub scores: &'a mut [f32],
    pub cos: &'a mut [f32],
    pub sin: &'a mut [f32],
}

/// Takes regions off the front of a block of memory.
struct Arena<'a> {
    rest: &'a mut [Block64],
}

impl<'a> Arena<'a> {
    fn take<T: Pod>(&mut self, len: usize) -> Option<&'a mut [T]> {
        let blocks = Block64::count(len.checked_mul(size_of::<T>())?);
        let (head, tail) = core::mem::take(&mut self.rest).split_at_mut_checked(blocks)?;
        self.rest = tail;
        bytemuck::try_cast_slice_mut(head).ok()?.get_mut(..len)
    }
}

/// Cuts `memory` as `plan` says: cache, logits, scratch. Nothing is written.
///
/// # Errors
/// `MemoryTooSmall` with the bytes needed.
#[inline(never)]
pub fn cut<'a>(plan: &Plan, memory: &'a mut [Block64]) -> Result<(KvCache<'a>, &'a mut [f32], Scratch<'a>), Error> {
    let mut arena = Arena { rest: memory };
    let too_small = Error::new(Code::MemoryTooSmall).at(plan.bytes() as u64);
    let mut regions = || {
        let keys = arena.take(plan.cache)?;
        let values = arena.take(plan.cache)?;
        let logits = arena.take(plan.logits)?;
        let scratch = Scratch {
            x: arena.take(plan.hidden)?,
            normed: arena.take(plan.hidden)?,
            branch: arena.take(plan.hidden)?,
            queries: arena.take(plan.query)?,
            attended: arena.take(plan.query)?,
            gate: arena.take(plan.ffn)?,
            up: arena.take(plan.ffn)?,
            codes: arena.take(plan.blocks.checked_mul(32)?)?,
            steps: arena.take(plan.blocks)?,
            scores: arena.take(plan.scores)?,
            cos: arena.take(plan.angles)?,
            sin: arena.take(plan.angles)?,
        };
        Some((KvCache::new(keys, values), logits, scratch))
    };
    regions().ok_or(too_small)
}
