//! The inner loops: matrix products and lane arithmetic, for each instruction set under the same names, chosen once
//! by the shell through an [`Isa`].
//!
//! Contract of every matrix product: weights `[rows, cols]` as they lie in the file, inputs `[tokens, cols]`, outputs
//! `[tokens, rows]`; each output is one fixed sequence of IEEE operations (`SPEC.md`, section 5), so backends, numbers
//! of tokens and numbers of parts give the same bits.

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod aarch64;
pub mod codes;
mod dispatch;
pub mod f16;
mod float_mode;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
mod floats;
mod lanes;
mod prefetch;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
mod rows;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod scalar;
mod stored;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm32;
mod workers;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use codes::{Codes, Step};
pub use dispatch::{Isa, Task};
pub(crate) use float_mode::FloatMode;
pub use lanes::{LANES, Lanes, Op, Places};
pub(crate) use prefetch::{Soon, prefetch, prefetch_behind};
pub use stored::{Bf16, Stored};
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) use wasm32::sqrt;
pub use workers::{Columns, Serial, Workers, for_each_row, for_each_row_in_space, share};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{avx2::Avx2, avx512::Avx512};

use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
use crate::error::{Code, Error};
use crate::model::{Linear, Matrix};
use core::ops::Range;
use workers::Shared;

/// A matrix in row groups of 8.
#[derive(Clone, Copy)]
pub(crate) struct Quantised<'a> {
    dtype: DType,
    /// Column blocks of a row.
    blocks: usize,
    /// Blocks from one row group to the next.
    stride: usize,
    group_bytes: usize,
    group_scales: usize,
    data: &'a [u8],
    /// What is read after it, where that is known.
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    soon: Soon<'a>,
}

impl<'a> Quantised<'a> {
    /// The blocks of row group `index`; empty beyond the last.
    #[inline(always)]
    fn row_group(&self, index: usize) -> &'a [u8] {
        let len = self.blocks.saturating_mul(self.group_bytes);
        let start = index.saturating_mul(self.stride).saturating_mul(self.group_bytes);
        self.data.get(start..start.saturating_add(len)).unwrap_or(&[])
    }
}

/// A row-major matrix of floats.
#[derive(Clone, Copy)]
pub(crate) struct Floats<'a, W> {
    cols: usize,
    data: &'a [W],
}

impl<'a, W> Floats<'a, W> {
    /// Rows 8 * index and following, at most 8 of them.
    #[inline(always)]
    fn rows_of(&self, index: usize) -> &'a [W] {
        let len = self.cols.wrapping_mul(GROUP_ROWS);
        let start = index.wrapping_mul(len);
        let rest = self.data.get(start..).unwrap_or(&[]);
        rest.get(..len).unwrap_or(rest)
    }
}

/// Where a part writes: its row groups of every token's output.
pub(crate) struct Tile<'a> {
    out: &'a Shared<'a, f32>,
    tokens: usize,
    rows: usize,
    bias: Option<&'a [f32]>,
}

impl Tile<'_> {
    /// Writes the outputs of row group `group` for `token`, the bias added; rows beyond the last are dropped.
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    fn put(&self, token: usize, group: usize, values: &[f32; GROUP_ROWS]) {
        self.put_all(token, group..group.saturating_add(1), values);
    }

    /// The same of the row groups of `groups`, which are the part's own, as far as there are values for them.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn put_all<const LEN: usize>(&self, token: usize, groups: Range<usize>, values: &[f32; LEN]) {
        let row = groups.start.saturating_mul(GROUP_ROWS);
        let len = self.rows.min(groups.end.saturating_mul(GROUP_ROWS)).saturating_sub(row).min(LEN);
        if token >= self.tokens || len == 0 {
            return;
        }
        // SAFETY: each row group belongs to one part, and a part writes it alone, one token after the other; the
        // results of different (token, row group) pairs do not overlap.
        let to = unsafe { self.out.range(token.saturating_mul(self.rows).saturating_add(row), len) };
        match to.first_chunk_mut::<LEN>() {
            // All but the last: a store instead of a copy of some length.
            Some(whole) => *whole = *values,
            None => to.iter_mut().zip(values).for_each(|(to, value)| *to = *value),
        }
        if let Some(bias) = self.bias {
            for (to, bias) in to.iter_mut().zip(bias.get(row..).unwrap_or(&[])) {
                *to += *bias;
            }
        }
    }
}

/// The inputs of a product: `[tokens, cols]` floats, and their codes where a matrix is quantised.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Input vectors.
    pub tokens: usize,
    /// Columns.
    pub cols: usize,
    /// `[tokens, cols]`.
    pub floats: &'a [f32],
    /// For quantised matrices.
    pub codes: Codes<'a>,
}

/// One of the products that share their inputs.
pub struct Product<'a> {
    linear: &'a Linear<'a>,
    out: Shared<'a, f32>,
}

impl<'a> Product<'a> {
    /// `linear`, weights `[rows, cols]` and bias, into `out`, `[tokens, rows]`.
    pub fn new(linear: &'a Linear<'a>, out: &'a mut [f32]) -> Self {
        Self { linear, out: Shared::new(out) }
    }

    /// Whether it needs the inputs' codes.
    pub fn is_quantised(&self) -> bool {
        self.linear.matrix.dtype.is_quantised()
    }
}

impl core::fmt::Debug for Product<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Product").field("linear", &self.linear).finish_non_exhaustive()
    }
}

/// Products of a row group with a token that a part should at least have, so that waking a worker pays.
const LEAST_SHARE: usize = 8;

/// Parts for each worker, where there is work for that many: a worker that is held up then holds the others up less.
const PARTS_EACH: usize = 16;

/// Computes all `products` of `input`, their rows spread over `workers`.
///
/// # Errors
/// `KernelShape` when a slice has not the length its shape needs.
pub fn matmul(isa: Isa, workers: &dyn Workers, input: &Input<'_>, products: &[Product<'_>]) -> Result<(), Error> {
    let mut groups = 0usize;
    for product in products {
        if !fits(input, product.linear, product.out.len()) {
            return Err(Error::new(Code::KernelShape));
        }
        groups = groups.saturating_add(product.linear.matrix.row_groups());
    }
    let parts = match workers::count(workers) {
        0 | 1 => 1,
        count => count.saturating_mul(PARTS_EACH).min(groups.saturating_mul(input.tokens) / LEAST_SHARE).max(1),
    };
    workers::run(workers, parts, |part| {
        // The row groups of all products in one line; this part's stretch of it.
        let mine = share(groups, parts, part);
        let mut first = 0usize;
        for Product { linear, out } in products {
            let count = linear.matrix.row_groups();
            let from = mine.start.max(first).saturating_sub(first);
            let to = mine.end.saturating_sub(first).min(count);
            if from < to {
                let tile = Tile { out, tokens: input.tokens, rows: linear.matrix.rows, bias: linear.bias };
                run(isa, &linear.matrix, input, &tile, from..to);
            }
            first = first.saturating_add(count);
        }
    });
    Ok(())
}

/// A part of a matrix `[rows, cols]` in q8_0 groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeMatrix<'a> {
    /// From its first group on.
    pub data: &'a [u8],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Column blocks from one row group to the next.
    pub stride: usize,
}

impl<'a> CodeMatrix<'a> {
    /// All of it, to be asked for.
    pub(crate) fn soon(&self) -> Soon<'a> {
        let group_bytes = DType::Q8_0.group_bytes();
        let stride = self.stride.saturating_mul(group_bytes);
        let all = self.data.get(..self.rows.div_ceil(GROUP_ROWS).saturating_mul(stride)).unwrap_or(self.data);
        Soon::new(all, self.cols.div_ceil(BLOCK_COLS).saturating_mul(group_bytes), stride)
    }
}

/// `out[t] = w * x[t]`, `[tokens, rows]`, in the calling thread: the products of attention, many and small. Meanwhile it asks for
/// `soon`.
#[inline(never)]
pub(crate) fn code_product(
    isa: Isa,
    w: &CodeMatrix<'_>,
    x: &Codes<'_>,
    tokens: usize,
    out: &mut [f32],
    soon: Soon<'_>,
) {
    let dtype = DType::Q8_0;
    let matrix = Quantised {
        dtype,
        blocks: w.cols.div_ceil(BLOCK_COLS),
        stride: w.stride,
        group_bytes: dtype.group_bytes(),
        group_scales: dtype.group_scales(),
        data: w.data,
        soon,
    };
    let tile = Tile { out: &Shared::new(out), tokens, rows: w.rows, bias: None };
    dispatch::matmul_quantised(isa, &matrix, x, &tile, 0..w.rows.div_ceil(GROUP_ROWS));
}

fn fits(input: &Input<'_>, linear: &Linear<'_>, out_len: usize) -> bool {
    let matrix = &linear.matrix;
    let times = |a: usize, b: usize| a.checked_mul(b);
    let blocks = matrix.blocks();
    let values = match matrix.dtype {
        DType::F32 => Some(matrix.row_major::<f32>().len()),
        DType::Bf16 => Some(matrix.row_major::<Bf16>().len()),
        _ => None,
    };
    let input_fits = match values {
        Some(values) => {
            times(input.tokens, matrix.cols) == Some(input.floats.len())
                && times(matrix.rows, matrix.cols) == Some(values)
        }
        None => {
            let need = times(input.tokens, blocks);
            let data = times(matrix.row_groups(), blocks).and_then(|groups| times(groups, matrix.dtype.group_bytes()));
            need == Some(input.codes.steps.len())
                && need.and_then(|need| times(need, 32)) == Some(input.codes.codes.len())
                && data == Some(matrix.data.len())
                && matrix.dtype != DType::Bytes
        }
    };
    let bias_fits = linear.bias.is_none_or(|bias| bias.len() == matrix.rows);
    let out_fits = times(input.tokens, matrix.rows) == Some(out_len);
    input_fits && bias_fits && out_fits && input.cols == matrix.cols
}

fn run(isa: Isa, matrix: &Matrix<'_>, input: &Input<'_>, out: &Tile<'_>, groups: Range<usize>) {
    match matrix.dtype {
        DType::F32 => run_floats::<f32>(isa, matrix, input, out, groups),
        DType::Bf16 => run_floats::<Bf16>(isa, matrix, input, out, groups),
        dtype => {
            let w = Quantised {
                dtype,
                blocks: matrix.blocks(),
                stride: matrix.blocks(),
                group_bytes: dtype.group_bytes().max(1),
                group_scales: dtype.group_scales(),
                data: matrix.data,
                soon: Soon::default(),
            };
            dispatch::matmul_quantised(isa, &w, &input.codes, out, groups);
        }
    }
}

fn run_floats<W: Stored>(isa: Isa, matrix: &Matrix<'_>, input: &Input<'_>, out: &Tile<'_>, groups: Range<usize>) {
    let w = Floats::<W> { cols: matrix.cols, data: matrix.row_major() };
    dispatch::matmul_floats(isa, &w, input.floats, out, groups);
}
