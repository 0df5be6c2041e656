//! RMS norm.

use super::math::sqrt;
use crate::bytes::rows_mut;
use crate::kernels::{Isa, Lanes, Op, Task};

struct RmsNorm<'a> {
    x: &'a mut [f32],
    weight: &'a [f32],
    epsilon: f32,
}

impl Task for RmsNorm<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes>(self) {
        let mean = V::dot16(self.x, self.x) / self.x.len() as f32;
        let factor = 1.0 / sqrt(mean + self.epsilon);
        V::map(self.x, self.weight, &mut Scale { factor: V::splat(factor) });
    }
}

struct Scale<V> {
    factor: V,
}

impl<V: Lanes> Op<V> for Scale<V> {
    #[inline(always)]
    fn of(&mut self, x: V, weight: V) -> V {
        x.mul(self.factor).mul(weight)
    }
}

/// `x = (x * (1 / sqrt(mean(x * x) + epsilon))) * weight` over rows of `weight.len()` elements, of which there are
/// none where that is 0.
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn rms_norm(isa: Isa, x: &mut [f32], weight: &[f32], epsilon: f32) {
    for x in rows_mut(x, weight.len()) {
        isa.run(RmsNorm { x, weight, epsilon });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::build::Random;
    use std::vec::Vec;

    #[test]
    fn close_to_the_formula_in_f64() {
        let mut random = Random(5);
        for n in 1..70 {
            let x: Vec<f32> = (0..n).map(|_| random.float()).collect();
            let w: Vec<f32> = (0..n).map(|_| random.float()).collect();
            let mean = x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / n as f64;
            let mut y = x.clone();
            rms_norm(Isa::Scalar, &mut y, &w, 1e-6);
            for i in 0..n {
                let exact = f64::from(x[i]) / (mean + 1e-6).sqrt() * f64::from(w[i]);
                assert!((f64::from(y[i]) - exact).abs() <= 4e-7 * exact.abs() + 1e-30);
            }
        }
    }

    #[test]
    fn zeros_stay_zeros() {
        let mut x = [0.0; 20];
        rms_norm(Isa::Scalar, &mut x, &[2.0; 20], 1e-5);
        assert_eq!(x, [0.0; 20]);
    }
}
