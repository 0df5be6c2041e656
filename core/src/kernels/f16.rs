//! f16 to f32, exact, and back.

/// The value of the f16 with these bits. Infinities and NaN do not occur in a checked model.
#[inline(always)]
pub fn f16_to_f32(bits: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bits));
    // Exponent and mantissa land 112 too low in f32's exponent; the product puts that right, subnormals included.
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((112 + 127) << 23);
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

/// What [`f32_to_f16`] gives for everything that rounds to more than 65504, and for NaN.
pub const F16_INFINITY: [u8; 2] = [0, 0x7c];

/// The bits of the f16 nearest to `x`, which is not negative; ties to even.
pub fn f32_to_f16(x: f32) -> [u8; 2] {
    let bits = x.to_bits();
    let half = if bits >= 0x477f_f000 {
        // From 65520 on.
        return F16_INFINITY;
    } else if bits < 0x3880_0000 {
        // Below 2^-14 the steps are 2^-24, which are those of f32 at 0.5.
        (x + 0.5).to_bits().wrapping_sub(0.5f32.to_bits())
    } else {
        // The exponent moves by 112; half a step, and one more where the step below is odd, round what is cut off.
        bits.wrapping_sub(112 << 23).wrapping_add(0xfff).wrapping_add(bits >> 13 & 1) >> 13
    };
    (half as u16).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back_and_so_does_what_lies_near_it() {
        for bits in 0..0x7c00u16 {
            let value = f16_to_f32(bits.to_le_bytes());
            assert_eq!(u16::from_le_bytes(f32_to_f16(value)), bits);
            let next = f64::from(f16_to_f32((bits + 1).to_le_bytes()).min(65536.0));
            let middle = ((f64::from(value) + next) / 2.0) as f32;
            let even = bits + (bits & 1);
            assert_eq!(u16::from_le_bytes(f32_to_f16(middle)), even);
            assert_eq!(u16::from_le_bytes(f32_to_f16(f32::from_bits(middle.to_bits() - 1))), bits);
            assert_eq!(u16::from_le_bytes(f32_to_f16(f32::from_bits(middle.to_bits() + 1))), bits + 1);
        }
        for huge in [65520.0, f32::MAX, f32::INFINITY, f32::NAN] {
            assert_eq!(f32_to_f16(huge), F16_INFINITY);
        }
    }

    #[test]
    fn every_finite_value() {
        for bits in 0..=u16::MAX {
            let exponent = i32::from(bits >> 10 & 31);
            if exponent == 31 {
                continue;
            }
            let mantissa = f64::from(bits & 1023);
            let value = match exponent {
                0 => mantissa * libm::exp2(-24.0),
                _ => (1024.0 + mantissa) * libm::exp2(f64::from(exponent - 25)),
            };
            let value = if bits >> 15 == 1 { -value } else { value };
            assert_eq!(f16_to_f32(bits.to_le_bytes()).to_bits(), (value as f32).to_bits());
        }
    }
}
