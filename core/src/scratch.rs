//! The caller's memory, cut into the regions of the plan.

use crate::error::{Code, Error};
use crate::kernels::Step;
use crate::kv_cache::KvCache;
use crate::memory::Block64;
use crate::plan::{Plan, Region};
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
    /// The next region of `len` numbers of four bytes; an empty one where it does not fit.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    fn take(&mut self, len: usize) -> &'a mut [f32] {
        let blocks = len.div_ceil(16);
        let region = core::mem::take(&mut self.rest).split_at_mut_checked(blocks).and_then(|(head, rest)| {
            self.rest = rest;
            bytemuck::try_cast_slice_mut(head).ok()?.get_mut(..len)
        });
        region.unwrap_or(&mut [])
    }
}

/// Cuts what outlives a pass off `memory`: the cache and the logits, and the rest, for [`Scratch::cut`]. Nothing is written.
///
/// # Errors
/// `MemoryTooSmall` with the bytes needed for everything.
pub fn cut<'a>(
    plan: &Plan,
    memory: &'a mut [Block64],
) -> Result<(KvCache<'a>, &'a mut [f32], &'a mut [Block64]), Error> {
    if memory.len() < plan.block_count() {
        return Err(Error::new(Code::MemoryTooSmall).at(plan.bytes() as u64));
    }
    let mut arena = Arena { rest: memory };
    let cache = KvCache::new(arena.take(plan.count(Region::Keys)), arena.take(plan.count(Region::Values)));
    Ok((cache, arena.take(plan.count(Region::Logits)), arena.rest))
}

fn cast<T: Pod>(region: &mut [f32]) -> &mut [T] {
    bytemuck::try_cast_slice_mut(region).unwrap_or(&mut [])
}

impl<'a> Scratch<'a> {
    /// The regions of a pass of `plan.batch` tokens, no longer than it needs them.
    pub fn cut(plan: &Plan, memory: &'a mut [Block64]) -> Self {
        let mut arena = Arena { rest: memory };
        Self {
            x: arena.take(plan.count(Region::Hidden)),
            normed: arena.take(plan.count(Region::Hidden)),
            branch: arena.take(plan.count(Region::Hidden)),
            queries: arena.take(plan.count(Region::Query)),
            attended: arena.take(plan.count(Region::Query)),
            gate: arena.take(plan.count(Region::Ffn)),
            up: arena.take(plan.count(Region::Ffn)),
            codes: cast(arena.take(plan.count(Region::Codes).wrapping_mul(16))),
            steps: cast(arena.take(plan.count(Region::Steps).wrapping_mul(2))),
            scores: arena.take(plan.count(Region::Scores)),
            cos: arena.take(plan.count(Region::Angles)),
            sin: arena.take(plan.count(Region::Angles)),
        }
    }
}
