//! The attention half of a layer.

use super::Pass;
use crate::bytes::{rows, rows_mut};
use crate::error::Error;
use crate::kernels::{Columns, for_each_row_in_space};
use crate::kv_cache::{KvCache, LayerCache, store};
use crate::model::Layer;
use crate::ops::attention::{Attend, attend};
use crate::ops::rms_norm::rms_norm;
use crate::ops::rope::rotate;
use crate::scratch::Scratch;
use core::sync::atomic::{AtomicBool, Ordering};

impl Pass<'_, '_> {
    /// `x = x + attention(norm(x))`. Gives `false` when something is not finite.
    pub(super) fn attention(
        &self,
        index: usize,
        layer: &Layer<'_>,
        scratch: &mut Scratch<'_>,
        cache: &mut KvCache<'_>,
    ) -> Result<bool, Error> {
        let config = &self.model.config;
        let kv_size = config.kv_size();
        let LayerCache { keys, values } = cache.layer(index, self.context.wrapping_mul(kv_size));
        let head_len = self.context.wrapping_mul(config.head_dim);
        let queries_len = self.tokens.wrapping_mul(config.query_size());
        let queries = scratch.queries.get_mut(..queries_len).unwrap_or(&mut []);
        let attended = scratch.attended.get_mut(..queries_len).unwrap_or(&mut []);

        let input = self.block_input(scratch.x, scratch.normed, layer.attn_norm);
        // What attention gives later stands where new keys and values stand now: there are no more key heads than heads.
        let fresh = attended.get_mut(..self.tokens.wrapping_mul(kv_size)).unwrap_or(&mut []);
        let products = [self.product(layer.wq, queries), self.product(layer.wk, fresh)];
        let mut finite = self.linear(input, scratch.codes, scratch.steps, &products)?;
        for (norm, x) in [(layer.q_norm, &mut *queries), (layer.k_norm, &mut *fresh)] {
            if let Some(norm) = norm {
                rms_norm(self.isa, x, norm, config.rms_norm_epsilon);
            }
        }
        if let Some(table) = self.model.rope.table_index(index) {
            self.rotate(table, (scratch.cos, scratch.sin), queries, fresh);
        }
        store(keys, head_len, self.position, fresh, kv_size, config.head_dim);
        finite &= self.linear(input, scratch.codes, scratch.steps, &[self.product(layer.wv, fresh)])?;
        store(values, head_len, self.position, fresh, kv_size, config.head_dim);

        finite &= self.attend(index, queries, keys, values, attended, scratch.scores);
        finite &= self.linear(attended, scratch.codes, scratch.steps, &[self.product(layer.wo, scratch.branch)])?;
        Ok(self.add_branch(scratch, layer.attn_post_norm) && finite)
    }

    fn rotate(&self, table: usize, (cos, sin): (&[f32], &[f32]), queries: &mut [f32], keys: &mut [f32]) {
        let config = &self.model.config;
        let half = (config.head_dim / 2).max(1);
        let used = self.model.rope.table(table).map_or(0, |table| table.inv_freq.len());
        let first = table.wrapping_mul(self.tokens);
        let angles = rows(cos, half).zip(rows(sin, half)).skip(first);
        let queries = rows_mut(queries, config.query_size());
        let keys = rows_mut(keys, config.kv_size());
        for ((queries, keys), (cos, sin)) in queries.zip(keys).zip(angles) {
            let (cos, sin) = (cos.get(..used).unwrap_or(cos), sin.get(..used).unwrap_or(sin));
            rotate(self.isa, queries, config.head_dim, cos, sin);
            rotate(self.isa, keys, config.head_dim, cos, sin);
        }
    }

    /// All heads of all tokens. A task is one key head of one token; each part has scores of its own.
    fn attend(
        &self,
        index: usize,
        queries: &[f32],
        keys: &[f32],
        values: &[f32],
        attended: &mut [f32],
        scores: &mut [f32],
    ) -> bool {
        let config = &self.model.config;
        let (dim, kv_heads) = (config.head_dim, config.kv_head_count.max(1));
        let group = config.query_size() / kv_heads;
        let tasks = self.tokens.wrapping_mul(kv_heads);
        let window = self.model.window(index);
        let Self { isa, position, context, .. } = *self;
        let finite = AtomicBool::new(true);
        // Head after head: its keys and values then stay in the cache of the CPU from token to token.
        let by_head = Columns::new(kv_heads, tasks);
        for_each_row_in_space(self.workers, by_head, attended, self.score_parts, scores, |task, out, scores| {
            let token = task.checked_div(kv_heads).unwrap_or(0);
            let head = task.checked_rem(kv_heads).unwrap_or(0);
            let end = position.wrapping_add(token).wrapping_add(1);
            let start = if window == 0 { 0 } else { end.saturating_sub(window) };
            let first = head.wrapping_mul(context);
            let from = first.wrapping_add(start).wrapping_mul(dim);
            let to = first.wrapping_add(end).wrapping_mul(dim);
            let first_query = task.wrapping_mul(group);
            let done = attend(
                isa,
                Attend {
                    queries: queries.get(first_query..first_query.wrapping_add(group)).unwrap_or(&[]),
                    keys: keys.get(from..to).unwrap_or(&[]),
                    values: values.get(from..to).unwrap_or(&[]),
                    stride: dim,
                    head_dim: dim,
                    positions: end.saturating_sub(start),
                    scale: config.attention_scale,
                    softcap: config.attention_softcap,
                    scores,
                    score_stride: context,
                    out,
                },
            );
            if !done {
                finite.store(false, Ordering::Relaxed);
            }
        });
        finite.load(Ordering::Relaxed)
    }
}
