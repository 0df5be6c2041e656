//! The attention half of a layer.

use super::Pass;
use crate::bytes::part;
use crate::container::directory::BLOCK_COLS;
use crate::error::Error;
use crate::kernels::{Columns, Product, Soon, for_each_row, for_each_row_in_space, share};
use crate::kv_cache::{KvCache, KvType, LayerCache};
use crate::model::Layer;
use crate::model::tensors::Role;
use crate::ops::attention::{Attend, attend};
use crate::ops::code_attention::{AttendCodes, attend_codes};
use crate::ops::rope::rotate;
use crate::scratch::Scratch;
use core::sync::atomic::Ordering;

impl Pass<'_, '_> {
    /// `x = x + attention(norm(x))`.
    pub(super) fn attention(
        &self,
        index: usize,
        layer: &Layer<'_, '_>,
        scratch: &mut Scratch<'_>,
        cache: &mut KvCache<'_>,
    ) -> Result<(), Error> {
        let config = &self.model.config;
        let kv_size = config.kv_size();
        let kept = cache.layer(index, self.cache);
        let Scratch { normed, queries, attended, gate, branch, codes, steps, scores, cos, sin, .. } = scratch;
        self.block_input(normed, scratch.x, layer.norm(Role::AttnNorm));
        // What attention gives later stands where new keys stand now: there are no more key heads than heads. Values stand
        // where the feed-forward half works, which has room for them.
        let fresh = self.tokens.wrapping_mul(kv_size);
        let new_keys = attended.get_mut(..fresh).unwrap_or(&mut []);
        let new_values = gate.get_mut(..fresh).unwrap_or(&mut []);
        let (wq, wk, wv) = (layer.linear(Role::Wq), layer.linear(Role::Wk), layer.linear(Role::Wv));
        let products = [Product::new(&wq, queries), Product::new(&wk, new_keys), Product::new(&wv, new_values)];
        self.linear(self.tokens, normed, codes, steps, &products)?;
        let norms = (layer.norm(Role::QNorm), layer.norm(Role::KNorm));
        let rows = (&mut **queries, config.query_size());
        for_each_row(self.workers, self.tokens, rows, (&mut *new_keys, kv_size), |token, queries, keys| {
            self.norm(queries, norms.0);
            self.norm(keys, norms.1);
            self.rotate(index, token, cos, sin, queries);
            self.rotate(index, token, cos, sin, keys);
        });
        let finite = self.cache.store_keys(kept.keys, self.position, new_keys);
        if !(finite & self.cache.store_values(kept.values, self.position, new_values)) {
            self.finite.store(false, Ordering::Relaxed);
        }

        let wo = layer.linear(Role::Wo);
        self.attend(index, queries, &kept, attended, scores, wo.matrix.data);
        self.linear(self.tokens, attended, codes, steps, &[Product::new(&wo, branch)])?;
        self.add_branch(scratch.x, branch, layer.norm(Role::AttnPostNorm));
        Ok(())
    }

    /// Rotates the heads of `x`, `[heads, head_dim]` of a token of this pass, as layer `index` does.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    fn rotate(&self, index: usize, token: usize, cos: &[f32], sin: &[f32], x: &mut [f32]) {
        let rope = &self.model.rope;
        let Some(table) = rope.table_index(index) else { return };
        let (dim, used) = (self.model.config.head_dim, rope.table(table).map_or(0, |table| table.inv_freq.len()));
        let at = table.wrapping_mul(self.tokens).wrapping_add(token).wrapping_mul(dim / 2);
        let end = at.wrapping_add(used);
        rotate(self.isa, x, dim, cos.get(at..end).unwrap_or(&[]), sin.get(at..end).unwrap_or(&[]));
    }

    /// All heads of all tokens. A task is one key head of one token; each part has scores of its own. `wo` is what is read after.
    fn attend(
        &self,
        index: usize,
        queries: &[f32],
        kept: &LayerCache<'_>,
        attended: &mut [f32],
        scores: &mut [f32],
        wo: &[u8],
    ) {
        let (keys, values) = (&*kept.keys, &*kept.values);
        let config = &self.model.config;
        let (dim, kv_heads) = (config.head_dim, config.kv_head_count.max(1));
        let group = config.query_size() / kv_heads;
        let tasks = self.tokens.wrapping_mul(kv_heads);
        let window = self.model.window(index);
        let (isa, position, cache, finite) = (self.isa, self.position, self.cache, &self.finite);
        // Head after head: its keys and values then stay in the cache of the CPU from token to token.
        let by_head = Columns::new(kv_heads, tasks);
        for_each_row_in_space(self.workers, by_head, attended, self.score_parts, scores, |task, next, out, scores| {
            let token = task.checked_div(kv_heads).unwrap_or(0);
            let head_of = |task: usize| task.checked_rem(kv_heads).unwrap_or(0);
            let head = head_of(task);
            // Several tokens go through the same keys and values.
            let cold = self.tokens == 1;
            let end = position.wrapping_add(token).wrapping_add(1);
            let start = if window == 0 { 0 } else { end.saturating_sub(window) };
            let queries = part(queries, task.wrapping_mul(group), group);
            let (scale, softcap) = (config.attention_scale, config.attention_softcap);
            let done = match cache.kv_type {
                KvType::F32 => {
                    let from = head.wrapping_mul(cache.context).wrapping_add(start).wrapping_mul(dim);
                    let positions = end.saturating_sub(start);
                    let job = Attend {
                        queries,
                        keys: part(keys, from, positions.wrapping_mul(dim)),
                        values: part(values, from, positions.wrapping_mul(dim)),
                        stride: dim,
                        head_dim: dim,
                        positions,
                        scale,
                        softcap,
                        cold,
                        scores,
                        score_stride: cache.context,
                        out,
                    };
                    attend(isa, job)
                }
                KvType::Q8_0 => {
                    let base = start.wrapping_sub(start % BLOCK_COLS);
                    let (values, steps) = cache.value_codes(values, head, base..end);
                    let keys_of = |head: usize| cache.key_codes(keys, head, base..end);
                    // A part that has no head left is soon at `wo`.
                    let soon = || match next {
                        Some(next) => keys_of(head_of(next)).soon(),
                        None => Soon::of(wo.get(share(wo.len(), tasks, task)).unwrap_or(&[])),
                    };
                    let job = AttendCodes {
                        queries,
                        keys: keys_of(head),
                        values,
                        steps,
                        hidden: start.wrapping_sub(base),
                        scale,
                        softcap,
                        cold: cold.then(soon),
                        space: scores,
                        out,
                    };
                    attend_codes(isa, job)
                }
            };
            if !done {
                finite.store(false, Ordering::Relaxed);
            }
        });
    }
}
