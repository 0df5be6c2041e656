//! The residual stream, and the check that it stays finite.

use crate::kernels::{Isa, Lanes, Op, Task};

struct AddScaled<'a> {
    x: &'a mut [f32],
    branch: &'a [f32],
    scale: f32,
}

impl Task for AddScaled<'_> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes>(self) -> bool {
        let mut add = Add { scale: V::splat(self.scale), zeros: V::zero() };
        V::map(self.x, self.branch, &mut add);
        add.zeros.is_zero()
    }
}

struct Add<V> {
    scale: V,
    /// Zero times a finite value is a zero, times anything else NaN.
    zeros: V,
}

impl<V: Lanes> Op<V> for Add<V> {
    #[inline(always)]
    fn of(&mut self, x: V, branch: V) -> V {
        let sum = x.add(branch.mul(self.scale));
        self.zeros = self.zeros.add(sum.mul(V::zero()));
        sum
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
