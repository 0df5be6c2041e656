//! Decimal text and binary64, both ways exact, with decimal digits alone.

/// Places before the point: the largest binary64 has 309.
pub const POINT: usize = 320;
/// All places: the smallest binary64 has 1,074 after the point, a number of [`MAX_DIGITS`] that is halved 971 times fewer.
const PLACES: usize = 1472;
/// Significant digits a number may have in the input.
pub const MAX_DIGITS: usize = 100;

/// A decimal number with a fixed point. Digits outside of `from..to` are zero.
#[derive(Debug)]
pub struct Decimal {
    digits: [u8; PLACES],
    /// Place of the first digit.
    pub from: usize,
    /// After the last digit.
    pub to: usize,
}

impl Decimal {
    fn new(from: usize) -> Self {
        Self { digits: [0; PLACES], from, to: from }
    }

    /// mantissa * 2^exponent.
    fn of(mantissa: u64, exponent: i32) -> Self {
        let mut number = Self::new(POINT);
        let mut rest = mantissa;
        while rest > 0 {
            number.from = number.from.wrapping_sub(1);
            number.put(number.from, (rest % 10) as u8);
            rest /= 10;
        }
        number.scale(exponent);
        number
    }

    fn value(&self, place: usize) -> u8 {
        self.digits.get(place).copied().unwrap_or(0)
    }

    fn put(&mut self, place: usize, digit: u8) {
        if let Some(slot) = self.digits.get_mut(place) {
            *slot = digit;
        }
    }

    /// The digit at a place as text.
    pub fn digit(&self, place: usize) -> u8 {
        b'0'.wrapping_add(self.value(place))
    }

    /// Halves and doubles leave no zero at either end.
    fn trim(&mut self) {
        while self.from < self.to && self.value(self.from) == 0 {
            self.from = self.from.wrapping_add(1);
        }
        while self.from < self.to && self.value(self.to.wrapping_sub(1)) == 0 {
            self.to = self.to.wrapping_sub(1);
        }
    }

    /// Times 2^exponent.
    fn scale(&mut self, exponent: i32) {
        for _ in 0..exponent.unsigned_abs() {
            let mut carry = 0;
            if exponent < 0 {
                self.to = self.to.wrapping_add(1);
                for place in self.from..self.to {
                    let sum = self.value(place).wrapping_add(carry * 10);
                    self.put(place, sum / 2);
                    carry = sum % 2;
                }
            } else {
                self.from = self.from.wrapping_sub(1);
                for place in (self.from..self.to).rev() {
                    let sum = self.value(place).wrapping_mul(2).wrapping_add(carry);
                    self.put(place, sum % 10);
                    carry = sum / 10;
                }
            }
            self.trim();
        }
    }

    /// The part before the point, as far as it goes.
    fn whole(&self) -> u64 {
        let places = self.from.min(POINT)..POINT;
        places.fold(0u64, |sum, place| sum.saturating_mul(10).saturating_add(self.value(place) as u64))
    }

    /// The shortest number that reads back as `value` (finite, positive); of several the nearest.
    pub fn shortest(value: f64) -> Self {
        let bits = value.to_bits();
        let biased = (bits >> 52) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let (mantissa, exponent) = if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
        let mut exact = Self::of(mantissa, exponent);
        // Half way to the neighbours. The gap below a power of two is half the gap above it.
        let narrow = (fraction == 0 && biased > 1) as u32;
        let upper = Self::of(2 * mantissa + 1, exponent - 1);
        let lower = Self::of((2 << narrow) * mantissa - 1, exponent - 1 - narrow as i32);
        let even = mantissa % 2 == 0;
        // Digit by digit, until what stands so far, or one more in the last place, lies between the two.
        let mut above = 0;
        for place in upper.from..upper.to {
            let (low, digit, high) = (lower.value(place), exact.value(place), upper.value(place));
            let end = place.wrapping_add(1);
            let down = low != digit || even && end >= lower.to;
            if above == 0 && digit != high {
                above = if digit + 1 < high { 2 } else { 1 };
            } else if above == 1 && (digit != 9 || high != 0) {
                above = 2;
            }
            let up = above > 0 && (even || above > 1 || end < upper.to);
            if down || up {
                let nearest_up = exact.value(end) >= 5;
                exact.digits.iter_mut().skip(end).for_each(|digit| *digit = 0);
                exact.to = end;
                if up && (nearest_up || !down) {
                    exact.from = exact.from.min(place);
                    let mut at = place;
                    while exact.value(at) == 9 {
                        exact.put(at, 0);
                        at = at.wrapping_sub(1);
                    }
                    exact.put(at, exact.value(at) + 1);
                    exact.from = exact.from.min(at);
                }
                break;
            }
        }
        exact.trim();
        exact
    }

    /// The nearest binary64, of two the even one.
    fn nearest(mut self) -> f64 {
        let mut exponent = 0;
        while self.whole() >> 53 != 0 {
            self.scale(-1);
            exponent += 1;
        }
        while self.whole() >> 52 == 0 && exponent > -1074 {
            self.scale(1);
            exponent -= 1;
        }
        let whole = self.whole();
        let half = self.value(POINT);
        let more = self.to > POINT + 1 || whole % 2 == 1;
        let mantissa = whole + (half > 5 || half == 5 && more) as u64;
        if mantissa >> 52 == 0 {
            return f64::from_bits(mantissa);
        }
        // Adding the mantissa lets a carry run into the exponent.
        let bits = ((exponent + 1074) as u64) * (1 << 52) + mantissa;
        f64::from_bits(bits.min(f64::INFINITY.to_bits()))
    }
}

/// Splits a sign off.
fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    }
}

/// Reads `digits[.digits][e[+-]digits]` with an optional sign, surrounded by nothing. `None` when it is no number or has
/// more than [`MAX_DIGITS`] significant digits. Correctly rounded.
pub fn parse_float(text: &[u8]) -> Option<f64> {
    let (negative, mut rest) = signed(text);
    // The digits stand from the point on until the exponent is known.
    let mut number = Decimal::new(POINT);
    let (mut scale, mut seen, mut point) = (0i32, false, false);
    while let Some((&byte, tail)) = rest.split_first() {
        match byte {
            b'0'..=b'9' => {
                seen = true;
                scale = scale.saturating_add(!point as i32);
                if number.to == POINT && byte == b'0' {
                    scale = scale.saturating_sub(1);
                } else if number.to >= POINT + MAX_DIGITS {
                    return None;
                } else {
                    number.put(number.to, byte.wrapping_sub(b'0'));
                    number.to = number.to.wrapping_add(1);
                }
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
    let magnitude = if number.to == POINT || scale < -330 {
        0.0
    } else if scale > 310 {
        f64::INFINITY
    } else {
        let mut moved = Decimal::new((POINT as i32 - scale) as usize);
        for place in number.from..number.to {
            moved.put(moved.to, number.value(place));
            moved.to = moved.to.wrapping_add(1);
        }
        moved.trim();
        moved.nearest()
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Reads an optional sign and decimal digits. Values beyond i64 are cut off at its ends.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = signed(text);
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
        let number = Decimal::shortest(value);
        let text: String = (number.from..number.to).map(|place| number.digit(place) as char).collect();
        std::format!("{}.{}e{}", &text[..1], &text[1..], POINT as i32 - 1 - number.from as i32)
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
