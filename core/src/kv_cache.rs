//! Keys and values of every position seen, per layer.

use crate::bytes;
use core::ops::Range;

/// `[layer, kv_head, position, head_dim]` of f32, keys and values apart: what a head reads lies in one stretch.
///
/// Rows at and beyond the committed length are free to be written; nothing reads them.
#[derive(Debug)]
pub struct KvCache<'a> {
    keys: &'a mut [f32],
    values: &'a mut [f32],
}

/// Keys and values of one layer, `[kv_head, context, head_dim]` each.
#[derive(Debug)]
pub struct LayerCache<'a> {
    /// Keys, rotated.
    pub keys: &'a mut [f32],
    /// Values.
    pub values: &'a mut [f32],
}

impl<'a> KvCache<'a> {
    /// A cache in these two slices of equal length.
    pub fn new(keys: &'a mut [f32], values: &'a mut [f32]) -> Self {
        Self { keys, values }
    }

    /// The rows of `layer`, each layer taking `layer_len` elements.
    pub fn layer(&mut self, layer: usize, layer_len: usize) -> LayerCache<'_> {
        let range = layer_range(layer, layer_len);
        LayerCache {
            keys: self.keys.get_mut(range.clone()).unwrap_or(&mut []),
            values: self.values.get_mut(range).unwrap_or(&mut []),
        }
    }

    /// All keys and all values, to look at.
    pub fn raw(&self) -> (&[f32], &[f32]) {
        (self.keys, self.values)
    }
}

/// Puts `rows`, `[tokens, kv_head, head_dim]`, to the positions from `first` on of a layer's keys or values, where a head
/// has `head_len` elements.
pub fn store(cache: &mut [f32], head_len: usize, first: usize, rows: &[f32], kv_size: usize, head_dim: usize) {
    let mut position = first.wrapping_mul(head_dim);
    for row in bytes::rows(rows, kv_size) {
        let mut at = position;
        for head in bytes::rows(row, head_dim) {
            let to = cache.get_mut(at..).unwrap_or(&mut []);
            to.iter_mut().zip(head).for_each(|(to, from)| *to = *from);
            at = at.wrapping_add(head_len);
        }
        position = position.wrapping_add(head_dim);
    }
}

fn layer_range(layer: usize, layer_len: usize) -> Range<usize> {
    let start = layer.wrapping_mul(layer_len);
    start..start.wrapping_add(layer_len)
}
