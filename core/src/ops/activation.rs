//! The gated activations, and the soft cap and divisor of the logits.

use super::math::{softcap, times_sigmoid};
use crate::kernels::{Isa, Lanes, Op, Task};
use crate::model::Activation;

/// 2 * sqrt(2 / pi): twice the inner factor of GELU's tanh form.
const GELU_FACTOR: f32 = f32::from_bits(0x3fcc_422a);
const GELU_CUBE: f32 = 0.044_715;

struct Gated<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
    activation: Activation,
}

impl<V: Lanes> Op<V> for Activation {
    #[inline(always)]
    fn of(&mut self, gate: V, up: V) -> V {
        let argument = match self {
            Self::Silu => gate,
            // 0.5 * (1 + tanh(u)) = 1 / (1 + exp(-2u)), without the cancellation.
            Self::GeluTanh => {
                let cube = gate.mul(gate).mul(gate);
                gate.add(cube.mul(V::splat(GELU_CUBE))).mul(V::splat(GELU_FACTOR))
            }
        };
        times_sigmoid(gate, argument).mul(up)
    }
}

impl Task for Gated<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes>(mut self) {
        V::map(self.gate, self.up, &mut self.activation);
    }
}

/// `gate = activation(gate) * up`.
pub fn gate(isa: Isa, activation: Activation, gate: &mut [f32], up: &[f32]) {
    isa.run(Gated { gate, up, activation });
}

struct Logits<'a> {
    logits: &'a mut [f32],
    divisor: f32,
    cap: f32,
}

impl Task for Logits<'_> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes>(self) -> bool {
        let mut finish = Finish { divisor: self.divisor, cap: self.cap, zeros: V::zero() };
        V::map(self.logits, &[], &mut finish);
        finish.zeros.is_zero()
    }
}

struct Finish<V> {
    divisor: f32,
    cap: f32,
    /// Zero times a finite value is a zero, times anything else NaN.
    zeros: V,
}

impl<V: Lanes> Op<V> for Finish<V> {
    #[inline(always)]
    fn of(&mut self, mut value: V, _: V) -> V {
        if self.divisor != 1.0 {
            value = value.div(V::splat(self.divisor));
        }
        if self.cap != 0.0 {
            value = softcap(value, V::splat(self.cap));
        }
        self.zeros = self.zeros.add(value.mul(V::zero()));
        value
    }
}

/// Divides the logits and caps them. Gives `false` when one is not finite.
pub fn finish_logits(isa: Isa, logits: &mut [f32], divisor: f32, cap: f32) -> bool {
    isa.run(Logits { logits, divisor, cap })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_to_the_formulas_in_f64() {
        for i in -4000..4000 {
            let x = i as f32 / 100.0;
            let wide = f64::from(x);
            let (mut silu, mut gelu, mut cap) = ([x; 3], [x; 19], [x; 5]);
            gate(Isa::Scalar, Activation::Silu, &mut silu, &[2.0; 3]);
            gate(Isa::Scalar, Activation::GeluTanh, &mut gelu, &[1.0; 19]);
            assert!(finish_logits(Isa::Scalar, &mut cap, 2.0, 30.0));
            let exact = 2.0 * wide / (1.0 + (-wide).exp());
            assert!((f64::from(silu[2]) - exact).abs() <= 5e-7 * exact.abs() + 1e-15, "silu {x}");
            let u = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3));
            let exact = 0.5 * wide * (1.0 + u.tanh());
            assert!((f64::from(gelu[18]) - exact).abs() <= 3e-6 * exact.abs() + 1e-6, "gelu {x}");
            let exact = 30.0 * (wide / 60.0).tanh();
            assert!((f64::from(cap[4]) - exact).abs() <= 8e-6, "cap {x}");
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        let mut x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        gate(Isa::Scalar, Activation::Silu, &mut x, &[1.0; 3]);
        assert!(x.iter().all(|v| !v.is_finite()));
        assert!(!finish_logits(Isa::Scalar, &mut [1.0, f32::NAN], 1.0, 0.0));
    }
}
