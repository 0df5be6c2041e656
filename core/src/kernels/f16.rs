//! f16 to f32, exact.

/// The value of the f16 with these bits. Infinities and NaN do not occur in a checked model.
#[inline(always)]
pub fn f16_to_f32(bits: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bits));
    // Exponent and mantissa land 112 too low in f32's exponent; the product puts that right, subnormals included.
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((112 + 127) << 23);
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

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
