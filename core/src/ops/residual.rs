//! The residual stream, and the check that it stays finite.

use crate::kernels::{Isa, LANES, Lanes, Task};

struct AddScaled<'a> {
    x: &'a mut [f32],
    branch: &'a [f32],
    scale: f32,
}

impl Task for AddScaled<'_> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes>(self) -> bool {
        let scale = V::splat(self.scale);
        let (x, x_tail) = self.x.as_chunks_mut::<LANES>();
        let (branch, branch_tail) = self.branch.as_chunks();
        // Zero times a finite value is a zero, times anything else NaN.
        let mut zeros = V::zero();
        for (x, branch) in x.iter_mut().zip(branch) {
            let sum = V::load(x).add(V::load(branch).mul(scale));
            zeros = zeros.add(sum.mul(V::zero()));
            sum.store(x);
        }
        let sum = V::load_part(x_tail).add(V::load_part(branch_tail).mul(scale));
        zeros = zeros.add(sum.mul(V::zero()));
        sum.store_part(x_tail);
        zeros.sum() == 0.0
    }
}

/// `x = x + branch * scale`. Gives `false` when a result is not finite.
pub fn add_scaled(isa: Isa, x: &mut [f32], branch: &[f32], scale: f32) -> bool {
    isa.run(AddScaled { x, branch, scale })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_and_sees_what_is_not_finite() {
        for n in 1..40 {
            let mut x = std::vec![1.0f32; n];
            let mut branch = std::vec![0.5f32; n];
            assert!(add_scaled(Isa::Scalar, &mut x, &branch, 0.25));
            assert!(x.iter().all(|v| *v == 1.125));
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                branch[n - 1] = bad;
                assert!(!add_scaled(Isa::Scalar, &mut x.clone(), &branch, 0.25));
            }
        }
    }
}
