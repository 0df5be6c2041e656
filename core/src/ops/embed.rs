//! One row of the embedding as floats.

use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS, place};
use crate::kernels::f16::f16_to_f32;
use crate::kernels::{Bf16, Stored};
use crate::model::Matrix;

/// `out = row * scale`, every value exact as `SPEC.md`, section 4, writes it, then one product.
/// `out` has the matrix's columns.
pub fn embed(matrix: &Matrix<'_>, row: usize, scale: f32, out: &mut [f32]) {
    match matrix.dtype {
        DType::F32 => return values::<f32>(matrix, row, scale, out),
        DType::Bf16 => return values::<Bf16>(matrix, row, scale, out),
        _ => {}
    }
    let (group, lane) = (row / GROUP_ROWS, row % GROUP_ROWS);
    let (dtype, group_bytes) = (matrix.dtype, matrix.dtype.group_bytes());
    let mut start = group.wrapping_mul(matrix.row_group_bytes());
    for out in out.chunks_mut(BLOCK_COLS) {
        let block = matrix.data.get(start..).unwrap_or(&[]);
        start = start.wrapping_add(group_bytes);
        let half = |index: usize| block.as_chunks::<2>().0.get(index).map_or(0.0, |bits| f16_to_f32(*bits));
        let (d, m) = (half(lane), half(lane.wrapping_add(GROUP_ROWS)));
        let codes = block.get(dtype.group_scales().wrapping_mul(2)..).unwrap_or(&[]);
        for (column, out) in out.iter_mut().enumerate() {
            let of_byte = if dtype == DType::Q8_0 { column } else { column % 16 };
            let byte = codes.get(place(lane, of_byte)).copied().unwrap_or(0);
            let nibble = if column < 16 { byte & 15 } else { byte >> 4 };
            let value = match dtype {
                DType::Q8_0 => d * f32::from(byte as i8),
                DType::Q4_0 => d * f32::from(nibble as i8 - 8),
                _ => d * f32::from(nibble) + m,
            };
            *out = value * scale;
        }
    }
}

fn values<W: Stored>(matrix: &Matrix<'_>, row: usize, scale: f32, out: &mut [f32]) {
    let start = row.wrapping_mul(matrix.cols);
    let values = matrix.row_major::<W>().get(start..).unwrap_or(&[]);
    for (out, value) in out.iter_mut().zip(values) {
        *out = value.value() * scale;
    }
}
