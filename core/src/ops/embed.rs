//! One row of the embedding as floats.

use crate::bytes::rows;
use crate::container::DType;
use crate::container::directory::{BLOCK_COLS, GROUP_ROWS};
use crate::kernels::f16::f16_to_f32;
use crate::model::Matrix;

/// `out = row * scale`, every value exact as `SPEC.md`, section 4, writes it, then one product.
/// `out` has the matrix's columns.
pub fn embed(matrix: &Matrix<'_>, row: usize, scale: f32, out: &mut [f32]) {
    if matrix.dtype == DType::F32 {
        let start = row.wrapping_mul(matrix.cols);
        let values = matrix.floats().get(start..).unwrap_or(&[]);
        for (out, value) in out.iter_mut().zip(values) {
            *out = value * scale;
        }
        return;
    }
    let (group, lane) = (row / GROUP_ROWS, row % GROUP_ROWS);
    let len = matrix.row_group_bytes();
    let blocks = matrix.data.get(group.wrapping_mul(len)..).unwrap_or(&[]);
    let group_bytes = matrix.dtype.group_bytes().max(1);
    let scales = matrix.dtype.group_scales().wrapping_mul(2);
    for (out, block) in out.chunks_mut(BLOCK_COLS).zip(rows(blocks, group_bytes)) {
        let (head, packed) = block.split_at_checked(scales).unwrap_or((&[], &[]));
        let half = |index: usize| head.as_chunks::<2>().0.get(index).map_or(0.0, |bits| f16_to_f32(*bits));
        let (d, m) = (half(lane), half(lane.wrapping_add(GROUP_ROWS)));
        for (column, out) in out.iter_mut().enumerate() {
            let vector = column / 4;
            let byte = |vector: usize| {
                let at = vector.wrapping_mul(4 * GROUP_ROWS).wrapping_add(lane.wrapping_mul(4));
                packed.get(at.wrapping_add(column % 4)).copied().unwrap_or(0)
            };
            let nibble = || if vector < 4 { byte(vector) & 15 } else { byte(vector.saturating_sub(4)) >> 4 };
            let value = match matrix.dtype {
                DType::Q8_0 => d * f32::from(byte(vector) as i8),
                DType::Q4_0 => d * f32::from(nibble() as i8 - 8),
                _ => d * f32::from(nibble()) + m,
            };
            *out = value * scale;
        }
    }
}
