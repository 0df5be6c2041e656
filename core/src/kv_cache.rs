//! Keys and values of every position seen, per layer.

use core::ops::Range;

/// `[layer, position, kv_head, head_dim]` of f32, keys and values apart.
///
/// Rows at and beyond the committed length are free to be written; nothing reads them.
#[derive(Debug)]
pub struct KvCache<'a> {
    keys: &'a mut [f32],
    values: &'a mut [f32],
}

/// Keys and values of one layer, `[context, kv_size]` each.
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

fn layer_range(layer: usize, layer_len: usize) -> Range<usize> {
    let start = layer.saturating_mul(layer_len);
    start..start.saturating_add(layer_len)
}
