//! The exponential of the sampler: f64, the same operations on every backend, many at a time.
//!
//! x = n ln 2 + r with n the integer nearest to x / ln 2; exp(r) = 1 + r + r^2 p(r) with p of degree 9; the result is that
//! times 2^n. Within 1 unit in the last place. No operation depends on the value of another lane and none is a branch,
//! so a compiler may take several lanes at once without changing a bit.

use super::scores::RUN;

/// Arguments below give the value here, a normal number: every weight is above 0.
pub(super) const LEAST: f64 = -708.0;

/// log2(e), then ln 2 in two parts; products of the first with integers below 2^20 are exact.
const LOG2_E: f64 = f64::from_bits(0x3ff7_1547_652b_82fe);
const LN2_HI: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LO: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
/// 1.5 * 2^52 + 1023: adding it rounds to an integer n and leaves n + 1023 in the low bits.
const EXPONENT: f64 = 6_755_399_441_056_767.0;
/// (exp(r) - 1 - r) / r^2 on |r| <= ln 2 / 2, highest power first; Chebyshev's fit, to 2^-55 of exp.
const COEFFICIENTS: [f64; 10] = [
    f64::from_bits(0x3e5a_f389_ecfc_4b9c),
    f64::from_bits(0x3e92_8917_c89a_43a7),
    f64::from_bits(0x3ec7_1de0_db2f_6b19),
    f64::from_bits(0x3efa_019b_9149_a41c),
    f64::from_bits(0x3f2a_01a0_1a7c_2efe),
    f64::from_bits(0x3f56_c16c_1788_9ef1),
    f64::from_bits(0x3f81_1111_1111_09b5),
    f64::from_bits(0x3fa5_5555_5555_3d68),
    f64::from_bits(0x3fc5_5555_5555_5556),
    f64::from_bits(0x3fe0_0000_0000_0001),
];

/// exp of each value, from [`LEAST`] to 709.
#[inline(never)]
pub(super) fn exp(values: &mut [f64; RUN]) {
    for value in values.iter_mut() {
        let x = *value;
        let t = x * LOG2_E + EXPONENT;
        let n = t - EXPONENT;
        let r = x - n * LN2_HI - n * LN2_LO;
        let [mut p, rest @ ..] = COEFFICIENTS;
        for c in rest {
            p = p * r + c;
        }
        let y = p * r * r + r + 1.0;
        *value = y * f64::from_bits(t.to_bits() << 52);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_a_unit_and_exact_where_it_must_be() {
        let mut state = 1u64;
        let mut worst = 0f64;
        for _ in 0..20_000 {
            let mut values = [0.0; RUN];
            for value in &mut values {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
                *value = if state & 1 == 0 { LEAST * unit } else { 709.0 * unit * unit * unit };
            }
            let arguments = values;
            exp(&mut values);
            for (x, y) in arguments.into_iter().zip(values) {
                let exact = libm::exp(x);
                let unit = f64::from_bits(exact.to_bits() + 1) - exact;
                worst = worst.max((y - exact).abs() / unit);
            }
        }
        assert!(worst <= 1.0, "{worst} units in the last place");
        let mut values = [0.0; RUN];
        values[1] = LEAST;
        values[2] = -0.0;
        exp(&mut values);
        assert_eq!((values[0], values[2]), (1.0, 1.0));
        assert!(values[1] >= f64::MIN_POSITIVE);
    }
}
