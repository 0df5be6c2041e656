//! Transcendental functions: the exponential over lanes, and the only gate to libm.
//!
//! Functions over lanes are inlined so that they are compiled for the caller's instruction set. A WebAssembly module
//! has one instruction set and a size budget: there each stands once.

use crate::kernels::Lanes;

/// log2(e).
const LOG2_E: f32 = f32::from_bits(0x3fb8_aa3b);
/// ln 2 in two parts; products of the first with integers below 2^14 are exact.
const LN2_HI: f32 = f32::from_bits(0x3f31_8000);
const LN2_LO: f32 = f32::from_bits(0xb95e_8083);
/// 1.5 * 2^23 + 127: adding it rounds to an integer n and leaves n + 127 in the low bits.
const EXPONENT: f32 = 12_583_039.0;
/// (exp(r) - 1 - r) / r^2 on |r| <= ln 2 / 2, highest power first; fitted for least relative error of exp.
const COEFFICIENTS: [f32; 5] = [
    f32::from_bits(0x3ab5_11e7),
    f32::from_bits(0x3c09_1d10),
    f32::from_bits(0x3d2a_ac79),
    f32::from_bits(0x3e2a_aa49),
    f32::from_bits(0x3eff_fffe),
];
/// Arguments are brought into the range from here to 88 first; both ends give normal numbers.
pub const LEAST: f32 = -87.0;
const MOST: f32 = 88.0;

/// exp of each lane, within 1.1 units in the last place on -87..88, and the value at the nearer end beyond.
/// NaN gives the value at -87.
#[cfg_attr(not(target_arch = "wasm32"), inline(always))]
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn exp<V: Lanes>(x: V) -> V {
    let x = x.max(V::splat(LEAST)).min(V::splat(MOST));
    let t = x.mul(V::splat(LOG2_E)).add(V::splat(EXPONENT));
    let n = t.sub(V::splat(EXPONENT));
    let r = x.sub(n.mul(V::splat(LN2_HI))).sub(n.mul(V::splat(LN2_LO)));
    let [first, rest @ ..] = COEFFICIENTS;
    let mut p = V::splat(first);
    for c in rest {
        p = p.mul(r).add(V::splat(c));
    }
    let y = p.mul(r).mul(r).add(r).add(V::splat(1.0));
    y.mul(t.shift_to_exponent())
}

/// x / (1 + exp(-a)) of each lane.
#[inline(always)]
pub fn times_sigmoid<V: Lanes>(x: V, a: V) -> V {
    x.div(V::splat(1.0).add(exp(V::zero().sub(a))))
}

/// cap * tanh(x / cap) of each lane, with tanh(u) = 1 - 2 / (1 + exp(2u)).
#[cfg_attr(not(target_arch = "wasm32"), inline(always))]
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn softcap<V: Lanes>(x: V, cap: V) -> V {
    let u = x.div(cap);
    let e = exp(u.add(u));
    let tanh = V::splat(1.0).sub(V::splat(2.0).div(V::splat(1.0).add(e)));
    tanh.mul(cap)
}

/// Square root, correctly rounded.
pub fn sqrt(x: f32) -> f32 {
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return crate::kernels::sqrt(x);
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    libm::sqrtf(x)
}

/// 2 / pi, and pi / 2 in two parts: the first has 25 bits, so that its product with a whole number below 2^28 is exact.
const TWO_OVER_PI: f64 = f64::from_bits(0x3fe4_5f30_6dc9_c883);
const HALF_PI_HIGH: f64 = f64::from_bits(0x3ff9_21fb_5000_0000);
const HALF_PI_LOW: f64 = f64::from_bits(0x3e51_10b4_611a_6263);
/// 1.5 * 2^52: adding it rounds to the nearest integer, ties to even, and leaves that integer in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// The polynomials of FreeBSD's `k_sinf.c` and `k_cosf.c` on [-pi/4, pi/4], highest power first.
const SIN: [f64; 4] = [2.718311493989822e-6, -1.9839334836096632e-4, 8.333329385889463e-3, -1.6666666641626524e-1];
const COS: [f64; 4] = [2.439044879627741e-5, -1.388676377460993e-3, 4.166662332373906e-2, -4.99999997251031e-1];

/// Sine and cosine of an angle of magnitude at most 2^28, which the limits of a file keep it to. Computed in f64; equal to
/// libm's but for one value in a million, which is the neighbour, in a quarter of the code.
pub fn sin_cos(x: f32) -> (f32, f32) {
    let x = f64::from(x);
    let quarters = x * TWO_OVER_PI + ROUNDER;
    let n = quarters - ROUNDER;
    let y = (x - n * HALF_PI_HIGH) - n * HALF_PI_LOW;
    let z = y * y;
    let polynomial = |[a, b, c, d]: [f64; 4]| ((a * z + b) * z + c) * z + d;
    let sin = (y + y * (z * polynomial(SIN))) as f32;
    let cos = (1.0 + z * polynomial(COS)) as f32;
    match quarters.to_bits() & 3 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Isa, LANES, Op, Task};
    use core::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};

    struct Exp([f32; LANES]);

    struct OfX;

    impl<V: Lanes> Op<V> for OfX {
        #[inline(always)]
        fn of(&mut self, x: V, _: V) -> V {
            exp(x)
        }
    }

    impl Task for Exp {
        type Out = [f32; LANES];
        #[inline(always)]
        fn run<V: Lanes>(self) -> [f32; LANES] {
            let mut out = self.0;
            V::map(&mut out, &[], &mut OfX);
            out
        }
    }

    /// Every `step`-th float of the range, in units of the last place.
    fn worst(step: usize) -> f64 {
        let mut worst = 0.0f64;
        let positive = 0..=MOST.to_bits();
        let negative = (-0.0f32).to_bits()..=LEAST.to_bits();
        for range in [positive, negative] {
            let mut lanes = [0.0; LANES];
            let mut filled = 0;
            for bits in range.step_by(step) {
                lanes[filled] = f32::from_bits(bits);
                filled += 1;
                if filled == LANES {
                    filled = 0;
                    for (x, y) in lanes.into_iter().zip(Isa::baseline().run(Exp(lanes))) {
                        let exact = libm::exp(f64::from(x));
                        let single = exact as f32;
                        let unit = f64::from(f32::from_bits(single.to_bits() + 1)) - f64::from(single);
                        worst = worst.max((f64::from(y) - exact).abs() / unit);
                    }
                }
            }
        }
        worst
    }

    #[test]
    fn sin_and_cos_agree_with_libm() {
        let mut random = crate::tests::build::Random(41);
        let mut differ = 0;
        for i in 0..2_000_000u32 {
            // Angles as they come, position times frequency, of all magnitudes.
            let freq = libm::powf(1e-6, random.float().abs());
            let x = (i % 131_072) as f32 * freq * if i % 3 == 0 { -1.0 } else { 1.0 };
            let (sin, cos) = sin_cos(x);
            // Adding +0.0: the sine of -0.0 is +0.0 here.
            for (ours, theirs) in [(sin, libm::sinf(x) + 0.0), (cos, libm::cosf(x))] {
                assert!(ours.to_bits().abs_diff(theirs.to_bits()) < 2, "{x}: {ours}, {theirs}");
                differ += u32::from(ours.to_bits() != theirs.to_bits());
            }
        }
        assert!(differ < 8, "{differ} values of four million");
        for x in [0.0, -0.0, 1e-30, FRAC_PI_4, FRAC_PI_2, 3.0 * FRAC_PI_4, PI, 268_435_456.0, 16_777_215.0] {
            let (sin, cos) = sin_cos(x);
            assert_eq!((sin, cos), (libm::sinf(x), libm::cosf(x)), "{x}");
        }
    }

    #[test]
    fn exp_keeps_its_bound() {
        let worst = worst(9973);
        assert!(worst < 1.1, "{worst} units in the last place");
    }

    #[test]
    #[ignore = "every float; minutes in a debug build"]
    fn exp_keeps_its_bound_everywhere() {
        let worst = worst(1);
        assert!(worst < 1.1, "{worst} units in the last place");
    }

    #[test]
    fn exp_at_the_ends() {
        let one = |x: f32| Isa::Scalar.run(Exp([x; LANES]))[0];
        assert_eq!(one(0.0), 1.0);
        assert_eq!(one(-0.0), 1.0);
        assert_eq!(one(f32::NEG_INFINITY), one(-87.0));
        assert_eq!(one(f32::INFINITY), one(88.0));
        assert_eq!(one(f32::NAN), one(-87.0));
        assert!(one(-87.0) >= f32::MIN_POSITIVE && one(88.0).is_finite());
    }
}
