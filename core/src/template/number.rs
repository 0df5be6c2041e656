//! Decimal text and binary64, both ways exact, with integers of a fixed number of words.

/// Enough for 10^430 and for the largest and smallest binary64 with 100 digits.
const WORDS: usize = 56;
/// Significant digits a number may have in the input.
pub const MAX_DIGITS: usize = 100;

#[derive(Clone, Copy)]
struct Big([u32; WORDS]);

impl Big {
    fn new(value: u64) -> Self {
        let mut words = [0; WORDS];
        for (word, part) in words.iter_mut().zip([value as u32, (value >> 32) as u32]) {
            *word = part;
        }
        Self(words)
    }

    /// self * factor + addend.
    fn mul_add(&mut self, factor: u32, addend: u32) {
        let mut carry = addend as u64;
        for word in &mut self.0 {
            carry += *word as u64 * factor as u64;
            *word = carry as u32;
            carry >>= 32;
        }
    }

    fn mul_pow10(&mut self, exponent: u32) {
        for _ in 0..exponent {
            self.mul_add(10, 0);
        }
    }

    fn shl(&mut self, bits: u32) {
        for _ in 0..bits / 16 {
            self.mul_add(1 << 16, 0);
        }
        self.mul_add(1 << (bits % 16), 0);
    }

    /// self -= other; whether it was at least as large. Otherwise nothing changes.
    fn sub(&mut self, other: &Self) -> bool {
        if self.less(other) {
            return false;
        }
        let mut borrow = 0i64;
        for (word, &take) in self.0.iter_mut().zip(&other.0) {
            let difference = *word as i64 - take as i64 + borrow;
            *word = difference as u32;
            borrow = difference >> 32;
        }
        true
    }

    fn add(mut self, other: &Self) -> Self {
        let mut carry = 0u64;
        for (word, &plus) in self.0.iter_mut().zip(&other.0) {
            carry += *word as u64 + plus as u64;
            *word = carry as u32;
            carry >>= 32;
        }
        self
    }

    fn less(&self, other: &Self) -> bool {
        self.0.iter().rev().lt(other.0.iter().rev())
    }

    fn bits(&self) -> u32 {
        let mut bits = (WORDS * 32) as u32;
        for word in self.0.iter().rev() {
            if *word != 0 {
                return bits - word.leading_zeros();
            }
            bits = bits.saturating_sub(32);
        }
        0
    }
}

/// The shortest decimal digits that read back as `value` (finite, positive), and the exponent of ten of the first one.
/// Of several shortest the nearest: Steele and White, as Burger and Dybvig put it. Returns the number of digits.
pub fn shortest(value: f64, digits: &mut [u8; 17]) -> (usize, i32) {
    let bits = value.to_bits();
    let biased = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
    let even = mantissa % 2 == 0;
    // The gap below a power of two is half the gap above it.
    let narrow = fraction == 0 && biased > 1;
    let extra = narrow as u32 + 1;
    let mut r = Big::new(mantissa);
    let mut s = Big::new(1);
    let mut low = Big::new(1);
    r.shl(extra);
    s.shl(extra);
    if exponent >= 0 {
        r.shl(exponent as u32);
        low.shl(exponent as u32);
    } else {
        s.shl(exponent.unsigned_abs());
    }
    let mut high = low;
    high.shl(narrow as u32);

    // Scale to value in [1, 10) times 10^k: first by estimate, then to the point.
    let log2 = 63 - mantissa.leading_zeros() as i32 + exponent;
    let mut k = (log2 * 1233) >> 12;
    if k >= 0 {
        s.mul_pow10(k as u32);
    } else {
        for big in [&mut r, &mut low, &mut high] {
            big.mul_pow10(k.unsigned_abs());
        }
    }
    let above = |sum: &Big, s: &Big| if even { !sum.less(s) } else { s.less(sum) };
    loop {
        let mut ten = s;
        ten.mul_add(10, 0);
        let sum = r.add(&high);
        if above(&sum, &ten) {
            s = ten;
            k += 1;
        } else if !above(&sum, &s) {
            for big in [&mut r, &mut low, &mut high] {
                big.mul_add(10, 0);
            }
            k -= 1;
        } else {
            break;
        }
    }

    let mut count = 0;
    for slot in digits.iter_mut() {
        let mut digit = 0;
        while digit < 9 && r.sub(&s) {
            digit += 1;
        }
        let small = if even { !low.less(&r) } else { r.less(&low) };
        let large = above(&r.add(&high), &s);
        if large && (!small || { !r.add(&r).less(&s) }) {
            digit += 1;
        }
        *slot = digit;
        count += 1;
        if small || large {
            break;
        }
        for big in [&mut r, &mut low, &mut high] {
            big.mul_add(10, 0);
        }
    }
    (count, k)
}

/// Reads `digits[.digits][e[+-]digits]` with an optional sign, surrounded by nothing. `None` when it is no number or has
/// more than [`MAX_DIGITS`] significant digits. Correctly rounded.
pub fn parse_float(text: &[u8]) -> Option<f64> {
    let (negative, text) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let mut number = Big::new(0);
    let (mut significant, mut scale, mut seen, mut point) = (0usize, 0i32, false, false);
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        match byte {
            b'0'..=b'9' => {
                seen = true;
                if significant > 0 || byte != b'0' {
                    significant += 1;
                    if significant > MAX_DIGITS {
                        return None;
                    }
                    number.mul_add(10, byte.wrapping_sub(b'0') as u32);
                }
                scale = scale.saturating_sub(point as i32);
            }
            b'.' if !point => point = true,
            _ => break,
        }
        rest = tail;
    }
    if !seen {
        return None;
    }
    if let Some((b'e' | b'E', tail)) = rest.split_first() {
        let exponent = parse_int(tail)?;
        scale = scale.saturating_add(exponent.clamp(-1_000_000, 1_000_000) as i32);
    } else if !rest.is_empty() {
        return None;
    }
    let magnitude = compose(number, significant as i32, scale);
    Some(if negative { -magnitude } else { magnitude })
}

/// number * 10^scale, rounded to nearest, ties to even.
fn compose(mut number: Big, significant: i32, scale: i32) -> f64 {
    let top = scale.saturating_add(significant);
    if significant == 0 || top < -330 {
        return 0.0;
    }
    if top > 310 {
        return f64::INFINITY;
    }
    let mut divisor = Big::new(1);
    if scale >= 0 {
        number.mul_pow10(scale.unsigned_abs());
    } else {
        divisor.mul_pow10(scale.unsigned_abs());
    }
    // Bring the quotient into [2^63, 2^65), so that 64 bits and a sticky bit decide every rounding.
    let mut exponent = number.bits() as i32 - divisor.bits() as i32 - 64;
    if exponent < 0 {
        number.shl(exponent.unsigned_abs())
    } else {
        divisor.shl(exponent.unsigned_abs())
    }
    let mut quotient = 0u128;
    let mut shifted = divisor;
    shifted.shl(65);
    for _ in 0..=65 {
        quotient = quotient << 1 | number.sub(&shifted) as u128;
        for i in 0..WORDS {
            let above = shifted.0.get(i + 1).copied().unwrap_or(0);
            if let Some(word) = shifted.0.get_mut(i) {
                *word = *word >> 1 | above << 31;
            }
        }
    }
    let mut sticky = number.bits() != 0;
    let length = 128 - quotient.leading_zeros() as i32;
    // Bits to drop: down to 53, more when the result is subnormal.
    let drop = (length - 53).max(-1074 - exponent);
    if drop > length + 1 {
        return 0.0;
    }
    exponent += drop;
    let kept = quotient >> drop.min(127) as u32;
    let half = 1u128 << (drop - 1).clamp(0, 127) as u32;
    sticky |= quotient & (half - 1) != 0;
    let up = quotient & half != 0 && (sticky || kept & 1 != 0);
    let mantissa = kept as u64 + up as u64;
    // Adding the mantissa lets a carry run into the exponent.
    if mantissa < 1 << 52 {
        return f64::from_bits(mantissa);
    }
    let biased = exponent + 1075;
    if biased + (mantissa >> 53) as i32 >= 2047 {
        return f64::INFINITY;
    }
    f64::from_bits(((biased - 1) as u64) * (1 << 52) + mantissa)
}

/// Reads an optional sign and decimal digits. Values beyond i64 are cut off at its ends.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for byte in digits {
        let digit = (*byte as char).to_digit(10)? as i64;
        value = value.saturating_mul(10);
        value = if negative { value.saturating_sub(digit) } else { value.saturating_add(digit) };
    }
    Some(value)
}

/// Writes an integer's decimal digits at the end of `buffer`; gives where they begin.
pub fn decimal(value: u64, buffer: &mut [u8; 20]) -> usize {
    let mut rest = value;
    let mut at = buffer.len();
    for slot in buffer.iter_mut().rev() {
        *slot = b'0' + (rest % 10) as u8;
        rest /= 10;
        at -= 1;
        if rest == 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};

    fn print(value: f64) -> String {
        let mut digits = [0; 17];
        let (count, exponent) = shortest(value, &mut digits);
        let text: String = digits[..count].iter().map(|d| (b'0' + d) as char).collect();
        std::format!("{}.{}e{}", &text[..1], &text[1..], exponent)
    }

    #[test]
    fn shortest_and_parse_agree_with_the_standard_library() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut values =
            std::vec![0.1, 1.0, 1e16, 5e-324, f64::MAX, f64::MIN_POSITIVE, 1e22, 1e23, 9007199254740993.0, 0.3];
        for _ in 0..if cfg!(miri) { 2 } else { 200 } {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            values.push(f64::from_bits(state & !(1 << 63)));
        }
        for value in values.into_iter().filter(|v| v.is_finite() && *v > 0.0) {
            let expected = std::format!("{value:e}");
            let (mantissa, exponent) = expected.split_once('e').unwrap();
            let mantissa = if mantissa.contains('.') { mantissa.to_string() } else { std::format!("{mantissa}.") };
            assert_eq!(print(value), std::format!("{mantissa}e{exponent}"));
            assert_eq!(parse_float(expected.as_bytes()).map(f64::to_bits), Some(value.to_bits()), "{expected}");
            let long = std::format!("{value:.60e}");
            assert_eq!(parse_float(long.as_bytes()), long.parse().ok(), "{long}");
        }
        for text in ["0", "-0", "1e400", "1e-400", "2.5", "1e5", "2.4703282292062327e-324", "2.4703282292062329e-324"] {
            assert_eq!(parse_float(text.as_bytes()).map(f64::to_bits), text.parse().ok().map(f64::to_bits), "{text}");
        }
        assert_eq!(parse_float(b""), None);
        assert_eq!(parse_float(b"1e"), None);
        assert_eq!(parse_float(b"1x"), None);
    }
}
