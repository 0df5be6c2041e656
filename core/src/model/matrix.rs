//! Weights where they lie in the file.

use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
use crate::kernels::Stored;

/// A matrix `[rows, cols]` in one of the weight dtypes.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// How the values are stored.
    pub dtype: DType,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// The payload.
    pub data: &'a [u8],
}

impl<'a> Matrix<'a> {
    /// Column blocks of a row.
    pub fn blocks(&self) -> usize {
        self.cols.div_ceil(BLOCK_COLS)
    }

    /// Row groups, the last one perhaps padded.
    pub fn row_groups(&self) -> usize {
        self.rows.div_ceil(GROUP_ROWS)
    }

    /// Bytes of a row group.
    pub fn row_group_bytes(&self) -> usize {
        match self.dtype {
            DType::F32 => self.cols.saturating_mul(4 * GROUP_ROWS),
            DType::Bf16 => self.cols.saturating_mul(2 * GROUP_ROWS),
            dtype => self.blocks().saturating_mul(dtype.group_bytes()),
        }
    }

    /// The values of a row-major matrix of these; empty for other dtypes.
    pub fn row_major<W: Stored>(&self) -> &'a [W] {
        if self.dtype != W::DTYPE {
            return &[];
        }
        bytemuck::try_cast_slice(self.data).unwrap_or(&[])
    }
}

/// A matrix and its bias.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    /// The matrix.
    pub matrix: Matrix<'a>,
    /// One value per row, where the family has a bias.
    pub bias: Option<&'a [f32]>,
}
