//! Vectors of floats: the unit of the numeric law. Every backend implements the same operations, each of them one IEEE
//! operation per lane, so code written over [`Lanes`] gives the same bits everywhere.
//!
//! Where each element stands alone, the width of a vector changes no bit, and a backend takes the one that suits it. Sums
//! always have sixteen accumulators (`SPEC.md`, 5.1), in however many vectors.

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
use super::Bf16;
use super::Stored;
use super::codes::{Step, encode_block};
use super::prefetch::AHEAD;
use crate::bytes::rows;
use crate::container::directory::BLOCK_COLS;

/// Accumulators of every sum.
pub const LANES: usize = 16;

/// Where scores go: `len` of them from `start` on, in rows of `stride`.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// First place in a row.
    pub start: usize,
    /// Places in a row.
    pub len: usize,
    /// From one row to the next.
    pub stride: usize,
}

/// What [`Lanes::map`] does to each vector. A trait rather than a closure, which may stay outside of what is compiled for an
/// instruction set and then costs a call for each operation.
pub trait Op<V> {
    /// The new `x`. Should be `#[inline(always)]`.
    fn of(&mut self, x: V, y: V) -> V;
}

/// A vector of `WIDTH` floats.
pub trait Lanes: Copy {
    /// Floats of a vector, a divisor of 16.
    const WIDTH: usize;
    /// How far ahead what comes from memory is asked for, in bytes.
    const AHEAD: usize = AHEAD;

    /// `value` in every lane.
    fn splat(value: f32) -> Self;
    /// The first `WIDTH` values; lanes for which there is none are +0.0.
    fn load(from: &[f32]) -> Self;
    /// Stores as many lanes as `to` has places.
    fn store(self, to: &mut [f32]);
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

    /// `sum16` of the products `a[i] * b[i]`, over the shorter length.
    ///
    /// The tail is filled with +0.0: an accumulator is never -0.0, so adding +0.0 leaves it as it is.
    fn dot16(a: &[f32], b: &[f32]) -> f32;
    /// `sum16` of `terms`.
    fn sum16(terms: &[f32]) -> f32;

    /// `dot16` of each row of `queries`, `[heads, dim]`, with each of the first `places.len` keys, which stand `stride`
    /// apart, to its place in the row of `scores`. `cold` keys come from memory rather than from the cache.
    #[inline(always)]
    fn dots(queries: &[f32], dim: usize, keys: &[f32], stride: usize, scores: &mut [f32], places: Places, cold: bool) {
        let _ = cold;
        let mut at = places.start;
        for query in rows(queries, dim) {
            let mut key = keys;
            let scores = scores.get_mut(at..at.wrapping_add(places.len));
            at = at.wrapping_add(places.stride);
            for score in scores.unwrap_or(&mut []) {
                *score = Self::dot16(query, key.get(..dim).unwrap_or(&[]));
                key = key.get(stride..).unwrap_or(&[]);
            }
        }
    }

    /// `x = op(x, y)`, vector after vector and for what is left of them at the end; +0.0 stands for a `y` that is not there.
    #[inline(always)]
    fn map(x: &mut [f32], y: &[f32], op: &mut impl Op<Self>) {
        let mut y = y.chunks(Self::WIDTH);
        for x in x.chunks_mut(Self::WIDTH) {
            op.of(Self::load(x), Self::load(y.next().unwrap_or(&[]))).store(x);
        }
    }

    /// The activation codes of a block, as the products of this instruction set meet them, and their step.
    #[inline(always)]
    fn encode_block(x: &[f32; BLOCK_COLS], codes: &mut [i16; BLOCK_COLS]) -> Step {
        encode_block(x, codes)
    }

    /// The codes of four columns from the four places where [`encode_block`](Lanes::encode_block) put them.
    #[inline(always)]
    fn columns([c0, c2, c1, c3]: [i16; 4]) -> [i16; 4] {
        [c0, c1, c2, c3]
    }

    /// The sum of the codes of a block, of [`Step::sum`].
    #[inline(always)]
    fn sum_of_codes(sum: i32) -> i32 {
        sum
    }

    /// +0.0 in every lane.
    #[inline(always)]
    fn zero() -> Self {
        Self::splat(0.0)
    }

    /// The lanes; the first `WIDTH` count.
    #[inline(always)]
    fn to_array(self) -> [f32; LANES] {
        let mut lanes = [0.0; LANES];
        self.store(&mut lanes);
        lanes
    }

    /// Whether every lane is a zero.
    #[inline(always)]
    fn is_zero(self) -> bool {
        self.to_array().iter().all(|lane| *lane == 0.0)
    }
}

/// A vector that holds all sixteen accumulators.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
pub trait Sixteen: Lanes {
    /// The lanes in order.
    fn whole(from: &[f32; LANES]) -> Self;
    /// The same of bf16, whose bits are the upper ones of the lanes.
    fn widened(from: &[Bf16; LANES]) -> Self;
    /// Stores the lanes in order.
    fn put(self, to: &mut [f32; LANES]);
    /// The tree of `SPEC.md`, 5.1: halves of 8, 4, 2, 1.
    fn sum(self) -> f32;

    #[inline(always)]
    fn load_some<W: Stored>(from: &[W]) -> Self {
        match from.first_chunk() {
            Some(whole) => W::lanes(whole),
            None => W::lanes(&W::filled(from)),
        }
    }

    #[inline(always)]
    fn store_some(self, to: &mut [f32]) {
        match to.first_chunk_mut() {
            Some(whole) => self.put(whole),
            None => {
                let mut whole = [0.0; LANES];
                self.put(&mut whole);
                for (to, from) in to.iter_mut().zip(whole) {
                    *to = from;
                }
            }
        }
    }

    #[inline(always)]
    fn dot(a: &[f32], b: &[f32]) -> f32 {
        let ((a, a_tail), (b, b_tail)) = (a.as_chunks(), b.as_chunks());
        let mut acc = Self::zero();
        for (a, b) in a.iter().zip(b) {
            acc = acc.add(Self::whole(a).mul(Self::whole(b)));
        }
        if !a_tail.is_empty() {
            acc = acc.add(Self::load(a_tail).mul(Self::load(b_tail)));
        }
        acc.sum()
    }

    #[inline(always)]
    fn sum_of(terms: &[f32]) -> f32 {
        let (whole, tail) = terms.as_chunks();
        let mut acc = Self::zero();
        for terms in whole {
            acc = acc.add(Self::whole(terms));
        }
        acc.add(Self::load(tail)).sum()
    }
}

/// The sums of [`Lanes`], for a vector that holds all sixteen accumulators.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
macro_rules! sums_of_sixteen {
    () => {
        #[inline(always)]
        fn dot16(a: &[f32], b: &[f32]) -> f32 {
            Self::dot(a, b)
        }

        #[inline(always)]
        fn sum16(terms: &[f32]) -> f32 {
            Self::sum_of(terms)
        }

        #[inline(always)]
        fn dots(
            queries: &[f32],
            dim: usize,
            keys: &[f32],
            stride: usize,
            scores: &mut [f32],
            places: Places,
            cold: bool,
        ) {
            floats::scores::<Self>(queries, dim, keys, stride, scores, places, cold);
        }
    };
}
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
pub(super) use sums_of_sixteen;

/// The vector of portable code: one float. This file and `scalar.rs` define what every backend has to give.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(all(target_arch = "wasm32", target_feature = "simd128"), allow(dead_code))]
pub struct ScalarLanes(f32);

/// Sixteen accumulators to their sum.
#[cfg_attr(all(target_arch = "wasm32", target_feature = "simd128"), allow(dead_code))]
fn tree(mut acc: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            let upper = acc.get(lane.wrapping_add(half)).copied().unwrap_or(0.0);
            if let Some(acc) = acc.get_mut(lane) {
                *acc += upper;
            }
        }
        half /= 2;
    }
    let [sum, ..] = acc;
    sum
}

/// [`Lanes::dot16`], of anything that widens to floats.
#[cfg_attr(all(target_arch = "wasm32", target_feature = "simd128"), allow(dead_code))]
pub fn dot16<W: Stored>(a: &[W], b: &[f32]) -> f32 {
    let mut acc = [0.0f32; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for ((acc, a), b) in acc.iter_mut().zip(a).zip(b) {
            *acc += a.value() * b;
        }
    }
    tree(acc)
}

impl Lanes for ScalarLanes {
    const WIDTH: usize = 1;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self(value)
    }

    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        Self(from.first().copied().unwrap_or(0.0))
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        if let Some(to) = to.first_mut() {
            *to = self.0;
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(self.0 * other.0)
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self(self.0 / other.0)
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        if self.0 > other.0 { self } else { other }
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        if self.0 < other.0 { self } else { other }
    }

    #[inline(always)]
    fn shift_to_exponent(self) -> Self {
        Self(f32::from_bits(self.0.to_bits() << 23))
    }

    fn dot16(a: &[f32], b: &[f32]) -> f32 {
        dot16(a, b)
    }

    fn sum16(terms: &[f32]) -> f32 {
        let mut acc = [0.0f32; LANES];
        for terms in terms.chunks(LANES) {
            for (acc, term) in acc.iter_mut().zip(terms) {
                *acc += term;
            }
        }
        tree(acc)
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
        assert_eq!(ScalarLanes::dot16(&a, &b).to_bits(), acc[0].to_bits());
    }
}
