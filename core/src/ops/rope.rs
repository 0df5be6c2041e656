//! Rotary positions, split halves.

use super::math::sin_cos;
use crate::bytes::rows_mut;
use crate::kernels::{Isa, Lanes, Task};
use crate::model::RopeTable;

/// Cosines and sines of `position`: one f32 product per angle, then the factor of the table.
pub fn angles(table: &RopeTable<'_>, position: usize, cos: &mut [f32], sin: &mut [f32]) {
    for ((freq, cos), sin) in table.inv_freq.iter().zip(cos).zip(sin) {
        let (s, c) = sin_cos(position as f32 * freq);
        *cos = c * table.attention_factor;
        *sin = s * table.attention_factor;
    }
}

struct Rotate<'a> {
    first: &'a mut [f32],
    second: &'a mut [f32],
    cos: &'a [f32],
    sin: &'a [f32],
}

impl Task for Rotate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes>(self) {
        // Each pair stands alone, so a compiler may take as many at once as the instruction set has lanes.
        let halves = self.first.iter_mut().zip(self.second);
        for ((first, second), (cos, sin)) in halves.zip(self.cos.iter().zip(self.sin)) {
            let (a, b) = (*first, *second);
            *first = a * cos - b * sin;
            *second = b * cos + a * sin;
        }
    }
}

/// Rotates the first `2 * cos.len()` dimensions of each head of `x`, `[heads, head_dim]`.
pub fn rotate(isa: Isa, x: &mut [f32], head_dim: usize, cos: &[f32], sin: &[f32]) {
    let half = cos.len();
    for head in rows_mut(x, head_dim) {
        let Some((first, rest)) = head.split_at_mut_checked(half) else { return };
        let Some((second, _)) = rest.split_at_mut_checked(half) else { return };
        isa.run(Rotate { first, second, cos, sin });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_halves_of_the_rotated_part() {
        let table = RopeTable { rotary_dim: 4, attention_factor: 1.0, inv_freq: &[1.0, 0.1] };
        let (mut cos, mut sin) = ([0.0; 2], [0.0; 2]);
        angles(&table, 3, &mut cos, &mut sin);
        assert_eq!(cos, [libm::cosf(3.0), libm::cosf(3.0 * 0.1f32)]);
        // Two heads of six dimensions, four of which rotate.
        let mut x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -1.0, 0.0, 0.5, 0.0, 7.0, 8.0];
        rotate(Isa::Scalar, &mut x, 6, &cos, &sin);
        assert_eq!(x[0], 1.0 * cos[0] - 3.0 * sin[0]);
        assert_eq!(x[2], 3.0 * cos[0] + 1.0 * sin[0]);
        assert_eq!(x[1], 2.0 * cos[1] - 4.0 * sin[1]);
        assert_eq!(x[3], 4.0 * cos[1] + 2.0 * sin[1]);
        assert_eq!(x[4..6], [5.0, 6.0]);
        assert_eq!(x[8], 0.5 * cos[0] - sin[0]);
        assert_eq!(x[10..], [7.0, 8.0]);
    }

    #[test]
    fn the_position_advances() {
        let table = RopeTable { rotary_dim: 2, attention_factor: 1.0, inv_freq: &[1.0] };
        let (mut a, mut b, mut c, mut d) = ([0.0], [0.0], [0.0], [0.0]);
        angles(&table, 5, &mut a, &mut b);
        angles(&table, 6, &mut c, &mut d);
        assert_ne!((a, b), (c, d));
    }
}
