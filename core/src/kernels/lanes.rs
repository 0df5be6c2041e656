//! Sixteen floats side by side: the unit of the numeric law. Every backend implements the same operations, each of
//! them one IEEE operation per lane, so code written over [`Lanes`] gives the same bits everywhere.

/// Lanes of every sum.
pub const LANES: usize = 16;

/// Sixteen f32.
pub trait Lanes: Copy {
    /// `value` in every lane.
    fn splat(value: f32) -> Self;
    /// The lanes in order.
    fn load(from: &[f32; LANES]) -> Self;
    /// Stores the lanes in order.
    fn store(self, to: &mut [f32; LANES]);
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// `self / other`.
    fn div(self, other: Self) -> Self;
    /// `if self > other { self } else { other }`.
    fn max(self, other: Self) -> Self;
    /// `if self < other { self } else { other }`.
    fn min(self, other: Self) -> Self;
    /// The bits of each lane shifted left by 23: an integer n + 127 in the low bits becomes 2^n.
    fn shift_to_exponent(self) -> Self;
    /// The tree of `SPEC.md`, 5.1: halves of 8, 4, 2, 1.
    fn sum(self) -> f32;

    /// +0.0 in every lane.
    #[inline(always)]
    fn zero() -> Self {
        Self::splat(0.0)
    }

    /// Up to 16 values, the rest +0.0.
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    fn load_part(from: &[f32]) -> Self {
        let mut whole = [0.0; LANES];
        for (to, from) in whole.iter_mut().zip(from) {
            *to = *from;
        }
        Self::load(&whole)
    }

    /// Stores as many lanes as `to` has places, at most 16.
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    fn store_part(self, to: &mut [f32]) {
        let mut whole = [0.0; LANES];
        self.store(&mut whole);
        for (to, from) in to.iter_mut().zip(whole) {
            *to = from;
        }
    }
}

/// `sum16` of the products `a[i] * b[i]`, over the shorter length.
///
/// The tail is filled with +0.0: an accumulator is never -0.0, so adding +0.0 leaves it as it is.
#[cfg_attr(not(target_arch = "wasm32"), inline(always))]
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn dot16<V: Lanes>(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks(), b.as_chunks());
    let mut acc = V::zero();
    for (a, b) in a.iter().zip(b) {
        acc = acc.add(V::load(a).mul(V::load(b)));
    }
    if !a_tail.is_empty() {
        acc = acc.add(V::load_part(a_tail).mul(V::load_part(b_tail)));
    }
    acc.sum()
}

/// The lanes of portable code. This file and `scalar.rs` define what every backend has to give.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(all(target_arch = "wasm32", target_feature = "simd128"), allow(dead_code))]
pub struct ScalarLanes([f32; LANES]);

impl ScalarLanes {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let mut out = self.0;
        for (a, b) in out.iter_mut().zip(other.0) {
            *a = f(*a, b);
        }
        Self(out)
    }
}

impl Lanes for ScalarLanes {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        Self(*from)
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        *to = self.0;
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn shift_to_exponent(self) -> Self {
        Self(self.0.map(|a| f32::from_bits(a.to_bits() << 23)))
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15] = self.0;
        let (b0, b1, b2, b3) = (a0 + a8, a1 + a9, a2 + a10, a3 + a11);
        let (b4, b5, b6, b7) = (a4 + a12, a5 + a13, a6 + a14, a7 + a15);
        let (c0, c1, c2, c3) = (b0 + b4, b1 + b5, b2 + b6, b3 + b7);
        (c0 + c2) + (c1 + c3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_changes_no_bit() {
        // Three terms in the tail, one of them a product of -0.0.
        let a = [1.5f32; 19];
        let mut b = [0.3f32; 19];
        b[17] = -0.0;
        let mut acc = [0.0f32; 16];
        for i in 0..19 {
            acc[i % 16] += a[i] * b[i];
        }
        for h in [8, 4, 2, 1] {
            for j in 0..h {
                acc[j] += acc[j + h];
            }
        }
        assert_eq!(dot16::<ScalarLanes>(&a, &b).to_bits(), acc[0].to_bits());
    }
}
