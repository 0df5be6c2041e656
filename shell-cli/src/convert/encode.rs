//! From rows of the source to payload bytes, a strip of rows at a time.

use super::blocks::{BLOCK, Block, Dtype, GROUP_ROWS, pack};
use super::grid::{GridTest, recover};
use super::mapping::{Destination, RowOrder};
use super::quantize::{ScaleOverflow, round_block, search_block};
use super::refusal::{Refusal, refuse};
use super::source::{Source, SourceDtype, SourceTensor, widen};
use crate::failure::Failure;

/// Rows read at a time; a multiple of the rows of a group.
const STRIP: u64 = 128;

/// How the codes of a tensor are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// The values, bit for bit.
    Keep,
    /// The source's own codes.
    Import,
    /// Codes recovered from a grid the weights lie on.
    Grid,
    /// Plain rounding.
    Round,
    /// Scales searched under the mean squares of the inputs.
    Search,
}

impl Method {
    /// The name in ledger and report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Import => "import",
            Self::Grid => "grid",
            Self::Round => "round",
            Self::Search => "search",
        }
    }

    /// In words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Keep => "as they are",
            Self::Import => "the source's own codes",
            Self::Grid => "codes recovered from the grid the weights lie on",
            Self::Round => "rounded",
            Self::Search => "rounded, scales searched",
        }
    }

    /// The stored values may differ from the source's.
    pub const fn is_lossy(self) -> bool {
        !matches!(self, Self::Keep | Self::Import)
    }
}

/// dtype and method of one tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encoding {
    pub dtype: Dtype,
    pub method: Method,
}

/// Reads destination rows `first..first + rows` as stored bytes, in the order of the destination.
fn stored_rows(
    source: &Source,
    tensor: &SourceTensor,
    dest: &Destination,
    first: u64,
    rows: u64,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    if dest.piece.order == RowOrder::Same {
        return source.read_rows(tensor, dest.piece.source_row(first), rows, out);
    }
    let (mut row, mut all) = (Vec::new(), Vec::new());
    for at in first..first + rows {
        source.read_rows(tensor, dest.piece.source_row(at), 1, &mut row)?;
        all.extend_from_slice(&row);
    }
    *out = all;
    Ok(())
}

/// Calls `each` with strips of rows as f32, all transforms done: first row, values.
pub fn strips(
    source: &Source,
    dest: &Destination,
    mut each: impl FnMut(u64, &[f32]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let tensor = source.tensor(&dest.piece.source)?;
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    let step = if dest.is_matrix() { STRIP } else { dest.rows() };
    for first in (0..dest.rows()).step_by(step as usize) {
        stored_rows(source, tensor, dest, first, step.min(dest.rows() - first), &mut bytes)?;
        values.clear();
        widen(tensor.dtype, &bytes, &mut values);
        if dest.piece.add_one {
            values.iter_mut().for_each(|v| *v += 1.0);
        }
        each(first, &values)?;
    }
    Ok(())
}

/// Whether bf16 holds every value.
pub fn is_bf16(source: &Source, dest: &Destination) -> Result<bool, Failure> {
    let mut all = true;
    strips(source, dest, |_, values| {
        all &= values.iter().all(|v| v.to_bits() & 0xffff == 0);
        Ok(())
    })?;
    Ok(all)
}

/// The grid a matrix lies on, if any.
pub fn grid(source: &Source, dest: &Destination) -> Result<Option<Dtype>, Failure> {
    let mut test = GridTest::new();
    strips(source, dest, |_, values| {
        for row in values.chunks_exact(dest.cols() as usize) {
            row.chunks(BLOCK).for_each(|block| test.see(block));
        }
        Ok(())
    })?;
    Ok(test.verdict())
}

/// Calls `each` with the payload of `dest`, piece by piece.
pub fn payload(
    source: &Source,
    dest: &Destination,
    encoding: Encoding,
    importance: Option<&[f32]>,
    mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let cols = dest.cols() as usize;
    let mut out = Vec::new();
    match encoding.method {
        Method::Keep if encoding.dtype == Dtype::Bf16 => strips(source, dest, |first, values| {
            out.clear();
            for (at, value) in values.iter().enumerate() {
                let [low @ .., a, b] = value.to_le_bytes();
                if low != [0, 0] {
                    let (row, name) = (first + (at / cols) as u64, &dest.piece.source);
                    let message =
                        format!("tensor {name:?}, row {row}: bf16 does not hold {value:e}; use --quant exact");
                    return Err(refuse(Refusal::NotBf16, message));
                }
                out.extend([a, b]);
            }
            each(&out)
        }),
        Method::Keep => strips(source, dest, |_, values| {
            out.clear();
            out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            each(&out)
        }),
        Method::Import => {
            let tensor = source.tensor(&dest.piece.source)?;
            let block_bytes = tensor.dtype.block_bytes() as usize;
            let mut bytes = Vec::new();
            for first in (0..dest.rows()).step_by(STRIP as usize) {
                stored_rows(source, tensor, dest, first, STRIP.min(dest.rows() - first), &mut bytes)?;
                out.clear();
                groups(encoding.dtype, bytes.chunks_exact(tensor.row_bytes() as usize), cols, &mut out, |row, b| {
                    Ok(Block::from_ggml(tensor.dtype, &row[b * block_bytes..(b + 1) * block_bytes]))
                })?;
                each(&out)?;
            }
            Ok(())
        }
        Method::Grid | Method::Round | Method::Search => strips(source, dest, |first, values| {
            out.clear();
            groups(encoding.dtype, values.chunks_exact(cols), cols, &mut out, |row, b| {
                let range = b * BLOCK..cols.min((b + 1) * BLOCK);
                let block = &row[range.clone()];
                let encoded = match (encoding.method, importance) {
                    (Method::Grid, _) => recover(encoding.dtype, block),
                    (Method::Search, Some(h)) => search_block(encoding.dtype, block, &h[range]),
                    _ => round_block(encoding.dtype, block),
                };
                encoded.map_err(|ScaleOverflow(scale)| {
                    refuse(
                        Refusal::ScaleOverflow,
                        format!(
                            "tensor {:?}, near row {first}: a scale of {scale:e} does not fit f16; use --quant f32",
                            dest.piece.source
                        ),
                    )
                })
            })?;
            each(&out)
        }),
    }
}

/// Packs rows into groups of 8, the last one filled up with zero rows.
fn groups<'r, T: 'r>(
    dtype: Dtype,
    rows: impl Iterator<Item = &'r [T]>,
    cols: usize,
    out: &mut Vec<u8>,
    mut block: impl FnMut(&'r [T], usize) -> Result<Block, Failure>,
) -> Result<(), Failure> {
    let rows: Vec<&[T]> = rows.collect();
    for group in rows.chunks(GROUP_ROWS) {
        for b in 0..cols.div_ceil(BLOCK) {
            let mut blocks = [Block::zero(dtype); GROUP_ROWS];
            for (slot, row) in blocks.iter_mut().zip(group) {
                *slot = block(row, b)?;
            }
            pack(dtype, &blocks, out);
        }
    }
    Ok(())
}

/// The container's dtype that holds a source dtype code for code.
pub fn import_dtype(dtype: SourceDtype) -> Option<Dtype> {
    match dtype {
        SourceDtype::Q8_0 => Some(Dtype::Q8_0),
        SourceDtype::Q4_0 => Some(Dtype::Q4_0),
        SourceDtype::Q4_1 => Some(Dtype::Q4_1),
        _ => None,
    }
}
