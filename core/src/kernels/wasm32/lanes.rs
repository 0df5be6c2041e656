//! Four floats in a register.

use super::load;
use crate::kernels::{Bf16, LANES, Lanes, Op, Stored};
use core::arch::wasm32::*;

/// The lanes of 128-bit SIMD.
#[derive(Clone, Copy, Debug)]
pub struct SimdLanes(v128);

/// Up to three values, the rest +0.0.
#[inline(never)]
fn load_tail(from: &[f32]) -> v128 {
    let [first, ..] = tail_registers(from);
    first
}

#[inline(never)]
fn store_tail(lanes: v128, to: &mut [f32]) {
    let lanes = [
        f32x4_extract_lane::<0>(lanes),
        f32x4_extract_lane::<1>(lanes),
        f32x4_extract_lane::<2>(lanes),
        f32x4_extract_lane::<3>(lanes),
    ];
    for (to, from) in to.iter_mut().zip(lanes) {
        *to = from;
    }
}

/// The tree over sixteen accumulators: halves of 8, then of 4: lanes 0 to 3. Then of 2 and of 1.
#[inline(always)]
fn tree([a0, a1, a2, a3]: [v128; 4]) -> f32 {
    let four = f32x4_add(f32x4_add(a0, a2), f32x4_add(a1, a3));
    let two = f32x4_add(four, i32x4_shuffle::<2, 3, 2, 3>(four, four));
    f32x4_extract_lane::<0>(two) + f32x4_extract_lane::<1>(two)
}

/// Sixteen accumulators. A repeat expression would be a loop over memory.
#[inline(always)]
fn zeros() -> [v128; 4] {
    let zero = f32x4_splat(0.0);
    [zero, zero, zero, zero]
}

/// The four registers of sixteen values.
#[inline(always)]
pub fn registers(from: &[f32; LANES]) -> [v128; 4] {
    match from.as_chunks::<4>().0 {
        [a, b, c, d] => [load(a), load(b), load(c), load(d)],
        _ => zeros(),
    }
}

/// The same of bf16, whose bits are the upper ones of a float.
#[inline(always)]
pub fn widened(from: &[Bf16; LANES]) -> [v128; 4] {
    let [low, high] = match from.as_chunks::<8>().0 {
        [low, high] => [load(low), load(high)],
        _ => return zeros(),
    };
    [
        u32x4_shl(u32x4_extend_low_u16x8(low), 16),
        u32x4_shl(u32x4_extend_high_u16x8(low), 16),
        u32x4_shl(u32x4_extend_low_u16x8(high), 16),
        u32x4_shl(u32x4_extend_high_u16x8(high), 16),
    ]
}

/// [`Lanes::dot16`], of anything that widens to floats.
#[inline(never)]
pub fn dot16<W: Stored>(a: &[W], b: &[f32]) -> f32 {
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks(), b.as_chunks());
    let mut acc = zeros();
    for (a, b) in a.iter().zip(b) {
        acc = add(acc, multiply(W::registers(a), registers(b)));
    }
    if !a_tail.is_empty() {
        acc = add(acc, multiply(W::registers(&W::filled(a_tail)), tail_registers(b_tail)));
    }
    tree(acc)
}

/// The same of fewer values, the rest +0.0.
#[inline(never)]
fn tail_registers(from: &[f32]) -> [v128; 4] {
    registers(&f32::filled(from))
}

#[inline(always)]
fn add([s0, s1, s2, s3]: [v128; 4], [t0, t1, t2, t3]: [v128; 4]) -> [v128; 4] {
    [f32x4_add(s0, t0), f32x4_add(s1, t1), f32x4_add(s2, t2), f32x4_add(s3, t3)]
}

#[inline(always)]
fn multiply([a0, a1, a2, a3]: [v128; 4], [b0, b1, b2, b3]: [v128; 4]) -> [v128; 4] {
    [f32x4_mul(a0, b0), f32x4_mul(a1, b1), f32x4_mul(a2, b2), f32x4_mul(a3, b3)]
}

/// Square root, correctly rounded.
pub fn sqrt(x: f32) -> f32 {
    f32x4_extract_lane::<0>(f32x4_sqrt(f32x4_splat(x)))
}

/// [`Lanes::map`], once for all operators: they are no part of the loops that take the time.
#[inline(never)]
fn for_each(x: &mut [f32], mut y: &[f32], op: &mut dyn Op<SimdLanes>) {
    for x in x.chunks_mut(SimdLanes::WIDTH) {
        let (first, rest) = y.split_at_checked(SimdLanes::WIDTH).unwrap_or((y, &[]));
        op.of(SimdLanes::load(x), SimdLanes::load(first)).store(x);
        y = rest;
    }
}

impl Lanes for SimdLanes {
    const WIDTH: usize = 4;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self(f32x4_splat(value))
    }

    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        Self(match from.first_chunk::<4>() {
            Some(whole) => load(whole),
            None => load_tail(from),
        })
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    fn store(self, to: &mut [f32]) {
        match to.first_chunk_mut::<4>() {
            // SAFETY: the reference covers the 16 bytes written; the instruction needs no alignment.
            Some(whole) => unsafe { v128_store(whole.as_mut_ptr().cast(), self.0) },
            None => store_tail(self.0, to),
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(f32x4_add(self.0, other.0))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(f32x4_sub(self.0, other.0))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(f32x4_mul(self.0, other.0))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self(f32x4_div(self.0, other.0))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // pmax(a, b) is `if a < b { b } else { a }`: with the operands exchanged, the definition to the letter.
        Self(f32x4_pmax(other.0, self.0))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        // pmin(a, b) is `if b < a { b } else { a }`.
        Self(f32x4_pmin(other.0, self.0))
    }

    #[inline(always)]
    fn shift_to_exponent(self) -> Self {
        Self(u32x4_shl(self.0, 23))
    }

    #[inline(always)]
    fn dot16(a: &[f32], b: &[f32]) -> f32 {
        dot16(a, b)
    }

    #[inline(never)]
    fn sum16(terms: &[f32]) -> f32 {
        let (whole, tail) = terms.as_chunks();
        let mut acc = zeros();
        for terms in whole {
            acc = add(acc, registers(terms));
        }
        tree(add(acc, tail_registers(tail)))
    }

    #[inline(always)]
    fn map(x: &mut [f32], y: &[f32], op: &mut impl Op<Self>) {
        for_each(x, y, op);
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        !v128_any_true(f32x4_ne(self.0, f32x4_splat(0.0)))
    }
}
