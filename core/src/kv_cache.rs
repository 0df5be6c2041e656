//! Keys and values of every position seen, per layer.
//!
//! A cache of codes keeps a head's keys as a matrix `[positions, head_dim]` and its values as one `[head_dim, positions]`,
//! both in q8_0 groups, so that attention is two products of the kind every backend has. A position is written alone and
//! nothing is ever read back to write it, so a sequence that is cut short leaves the bits of one that never went on.

use crate::bytes::{part, part_mut, rows};
use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS, place};
use crate::kernels::codes::{LEAST_AMAX, amax, nearest};
use crate::kernels::f16::{F16_INFINITY, f16_to_f32, f32_to_f16};
use crate::kernels::{CodeMatrix, LANES};
use core::ops::Range;

/// How keys and values are kept.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum KvType {
    /// As they are: what the reference computes.
    #[default]
    F32 = 0,
    /// As 8-bit codes, in little more than a quarter of the memory. Not the reference's bits.
    Q8_0 = 1,
}

impl KvType {
    /// Both.
    pub const ALL: [Self; 2] = [Self::F32, Self::Q8_0];

    /// The name of options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Q8_0 => "q8_0",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kv_type| kv_type.name() == name)
    }

    /// The one of that number in the ABI.
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// Bytes of a group of codes, and where its codes begin.
const GROUP_BYTES: usize = DType::Q8_0.group_bytes();
const SCALES: usize = 2 * GROUP_ROWS;
/// 1.0 as f16, for all rows of a group of values: their steps belong to positions and stand apart.
const ONES: [u8; SCALES] = [0, 0x3c, 0, 0x3c, 0, 0x3c, 0, 0x3c, 0, 0x3c, 0, 0x3c, 0, 0x3c, 0, 0x3c];

/// The keys and values of a layer: how many there are, and how they are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheShape {
    /// How they are kept.
    pub kv_type: KvType,
    /// Positions.
    pub context: usize,
    /// Key heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

impl CacheShape {
    /// Elements of four bytes that the keys of a head take.
    pub fn key_len(self) -> usize {
        match self.kv_type {
            KvType::F32 => self.context.saturating_mul(self.head_dim),
            KvType::Q8_0 => group_words(self.context, self.head_dim),
        }
    }

    /// The same of its values: the codes, then a step for each position.
    pub fn value_len(self) -> usize {
        match self.kv_type {
            KvType::F32 => self.context.saturating_mul(self.head_dim),
            KvType::Q8_0 => group_words(self.head_dim, self.context).saturating_add(self.context),
        }
    }

    /// Elements that attention works in for the `heads` query heads of a key head.
    pub fn score_len(self, heads: usize) -> usize {
        let scores = heads.saturating_mul(self.context);
        match self.kv_type {
            KvType::F32 => scores,
            KvType::Q8_0 => {
                // The codes of a block and its step; and a sum for each head, which takes a vector's room, so that what follows
                // lies as it did.
                let blocks = self.context.max(self.head_dim).div_ceil(BLOCK_COLS);
                let codes = heads.saturating_mul(blocks).saturating_mul(BLOCK_COLS / 2 + 2);
                scores.saturating_add(codes).saturating_add(heads.div_ceil(LANES).saturating_mul(LANES))
            }
        }
    }

    /// Column blocks from one row group of the values to the next.
    fn value_stride(self) -> usize {
        self.context.div_ceil(BLOCK_COLS)
    }

    /// The keys of `head` at the positions of `range`, which begins at a multiple of 32, as a matrix.
    pub(crate) fn key_codes(self, keys: &[f32], head: usize, range: Range<usize>) -> CodeMatrix<'_> {
        let stride = self.head_dim.div_ceil(BLOCK_COLS);
        let first = (range.start / GROUP_ROWS).wrapping_mul(stride).wrapping_mul(GROUP_BYTES);
        let data = codes(part(keys, head.wrapping_mul(self.key_len()), self.key_len()));
        let data = data.get(first..).unwrap_or(&[]);
        CodeMatrix { data, rows: range.len(), cols: self.head_dim, stride }
    }

    /// The values of `head` at the same positions, `[head_dim, positions]`, and the step of each position.
    pub(crate) fn value_codes(self, values: &[f32], head: usize, range: Range<usize>) -> (CodeMatrix<'_>, &[f32]) {
        let len = self.value_len();
        let head = part(values, head.wrapping_mul(len), len);
        let (groups, steps) = head.split_at_checked(len.wrapping_sub(self.context)).unwrap_or_default();
        let first = (range.start / BLOCK_COLS).wrapping_mul(GROUP_BYTES);
        let data = codes(groups).get(first..).unwrap_or(&[]);
        let matrix = CodeMatrix { data, rows: self.head_dim, cols: range.len(), stride: self.value_stride() };
        (matrix, steps.get(range).unwrap_or(&[]))
    }

    /// Puts `new`, `[tokens, kv_heads, head_dim]`, to the positions from `first` on of a layer's keys. Gives `false` when a
    /// value is not finite or too large.
    pub fn store_keys(self, keys: &mut [f32], first: usize, new: &[f32]) -> bool {
        let mut finite = true;
        self.each_head(keys, self.key_len(), first, new, |position, head, x| match self.kv_type {
            KvType::F32 => store_floats(head, position, x),
            KvType::Q8_0 => finite &= store_key(codes_mut(head), position, x),
        });
        finite
    }

    /// The same for values.
    pub fn store_values(self, values: &mut [f32], first: usize, new: &[f32]) -> bool {
        let mut finite = true;
        let groups = self.value_len().wrapping_sub(self.context);
        self.each_head(values, self.value_len(), first, new, |position, head, x| match self.kv_type {
            KvType::F32 => store_floats(head, position, x),
            KvType::Q8_0 => {
                let (head, steps) = head.split_at_mut_checked(groups).unwrap_or_default();
                let d = store_value(codes_mut(head), self.value_stride(), position, x);
                finite &= d.is_finite();
                if let Some(step) = steps.get_mut(position) {
                    *step = d;
                }
            }
        });
        finite
    }

    /// Calls `put(position, the head's part of the cache, the head's new elements)` for each head of each token.
    fn each_head(
        self,
        cache: &mut [f32],
        len: usize,
        first: usize,
        new: &[f32],
        mut put: impl FnMut(usize, &mut [f32], &[f32]),
    ) {
        for (token, row) in rows(new, self.kv_heads.wrapping_mul(self.head_dim)).enumerate() {
            for (head, x) in rows(row, self.head_dim).enumerate() {
                put(first.wrapping_add(token), part_mut(cache, head.wrapping_mul(len), len), x);
            }
        }
    }
}

/// Words of a matrix of q8_0 groups.
fn group_words(rows: usize, cols: usize) -> usize {
    let groups = rows.div_ceil(GROUP_ROWS).saturating_mul(cols.div_ceil(BLOCK_COLS));
    groups.saturating_mul(GROUP_BYTES / 4)
}

fn store_floats(head: &mut [f32], position: usize, x: &[f32]) {
    let to = head.get_mut(position.wrapping_mul(x.len())..).unwrap_or(&mut []);
    to.iter_mut().zip(x).for_each(|(to, from)| *to = *from);
}

fn codes(words: &[f32]) -> &[u8] {
    bytemuck::try_cast_slice(words).unwrap_or(&[])
}

fn codes_mut(words: &mut [f32]) -> &mut [u8] {
    bytemuck::try_cast_slice_mut(words).unwrap_or(&mut [])
}

/// Between -127 and 127: a scale rounded down to a small f16 can be much too small.
fn clamped(code: f32) -> f32 {
    let code = if code > 127.0 { 127.0 } else { code };
    if code < -127.0 { -127.0 } else { code }
}

/// Puts the code of a row and a column to its place in a group.
fn put(group: &mut [u8], row: usize, col: usize, code: f32) {
    if let Some(byte) = group.get_mut(SCALES.wrapping_add(place(row, col))) {
        *byte = nearest(code) as u8;
    }
}

/// Row `position` of a head's keys: a scale for each block of 32 elements, an f16.
fn store_key(head: &mut [u8], position: usize, x: &[f32]) -> bool {
    let row_group = (position / GROUP_ROWS).wrapping_mul(x.len().div_ceil(BLOCK_COLS));
    let mut finite = true;
    for (block, x) in x.chunks(BLOCK_COLS).enumerate() {
        let group = head.get_mut(row_group.wrapping_add(block).wrapping_mul(GROUP_BYTES)..).unwrap_or(&mut []);
        let bits = f32_to_f16(f32::from_bits(amax(x)) / 127.0);
        let d = f16_to_f32(bits);
        finite &= bits != F16_INFINITY;
        let scale = group.get_mut(position % GROUP_ROWS * 2..).unwrap_or(&mut []);
        scale.iter_mut().zip(bits).for_each(|(to, from)| *to = from);
        for (col, x) in x.iter().enumerate() {
            let code = if d == 0.0 { 0.0 } else { clamped(x / d) };
            put(group, position, col, code);
        }
    }
    finite
}

/// Column `position` of a head's values. Gives the step of its codes, which is not finite when a value is not.
fn store_value(head: &mut [u8], stride: usize, position: usize, x: &[f32]) -> f32 {
    let amax = amax(x);
    let d = if amax < LEAST_AMAX { 0.0 } else { f32::from_bits(amax) / 127.0 };
    let block = position / BLOCK_COLS;
    for (row_group, x) in x.chunks(GROUP_ROWS).enumerate() {
        let at = row_group.wrapping_mul(stride).wrapping_add(block).wrapping_mul(GROUP_BYTES);
        let group = head.get_mut(at..).unwrap_or(&mut []);
        group.iter_mut().zip(ONES).for_each(|(to, from)| *to = from);
        for (row, x) in x.iter().enumerate() {
            put(group, row, position, if d == 0.0 { 0.0 } else { x / d });
        }
    }
    d
}

/// The cache of all layers, `[layer, kv_head]` of what [`CacheShape`] says, keys and values apart: what a head reads lies in
/// one stretch.
///
/// Positions at and beyond the committed length are free to be written; nothing reads them.
#[derive(Debug)]
pub struct KvCache<'a> {
    keys: &'a mut [f32],
    values: &'a mut [f32],
}

/// Keys and values of one layer.
#[derive(Debug)]
pub struct LayerCache<'a> {
    /// Keys, rotated.
    pub keys: &'a mut [f32],
    /// Values.
    pub values: &'a mut [f32],
}

impl<'a> KvCache<'a> {
    /// A cache in these two slices.
    pub fn new(keys: &'a mut [f32], values: &'a mut [f32]) -> Self {
        Self { keys, values }
    }

    /// The part of `layer`.
    pub fn layer(&mut self, layer: usize, shape: CacheShape) -> LayerCache<'_> {
        let keys = shape.key_len().wrapping_mul(shape.kv_heads);
        let values = shape.value_len().wrapping_mul(shape.kv_heads);
        LayerCache {
            keys: part_mut(self.keys, layer.wrapping_mul(keys), keys),
            values: part_mut(self.values, layer.wrapping_mul(values), values),
        }
    }

    /// All keys and all values, to look at.
    pub fn raw(&self) -> (&[f32], &[f32]) {
        (self.keys, self.values)
    }
}
