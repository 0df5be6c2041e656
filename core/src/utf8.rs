//! Characters: which bytes are text, and the characters of those that are.

/// Whether all of it is UTF-8.
pub fn is_text(bytes: &[u8]) -> bool {
    text_len(bytes) == bytes.len()
}

/// Bytes of the longest beginning that is UTF-8.
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn text_len(bytes: &[u8]) -> usize {
    let mut at = 0usize;
    loop {
        let next = character(bytes, at);
        if next <= 0 {
            return at;
        }
        at = at.wrapping_add(next as usize);
    }
}

/// Bytes that are ill-formed at the start, as short as the Unicode standard recommends; 0 where there are none, or where
/// more bytes could make them a character.
pub fn ill_formed_len(bytes: &[u8]) -> usize {
    character(bytes, 0).min(0).unsigned_abs() as usize
}

/// Length of the character at `at`; below 0 that of an ill-formed part, and 0 where the bytes end before the character.
#[cfg_attr(target_arch = "wasm32", inline(never))]
fn character(bytes: &[u8], at: usize) -> i32 {
    let Some(&first) = bytes.get(at) else { return 0 };
    // What the second byte may be keeps out overlong forms, surrogates and what is beyond U+10FFFF.
    let (len, low, high) = match first {
        0..=0x7F => return 1,
        0xC2..=0xDF => (2, 0x80, 0xBF),
        0xE0 => (3, 0xA0, 0xBF),
        0xED => (3, 0x80, 0x9F),
        0xE1..=0xEF => (3, 0x80, 0xBF),
        0xF0 => (4, 0x90, 0xBF),
        0xF4 => (4, 0x80, 0x8F),
        0xF1..=0xF3 => (4, 0x80, 0xBF),
        _ => return -1,
    };
    let mut range = low..=high;
    for place in 1..len {
        match bytes.get(at.wrapping_add(place as usize)) {
            None => return 0,
            Some(byte) if range.contains(byte) => range = 0x80..=0xBF,
            Some(_) => return -place,
        }
    }
    len
}

/// The code point at a boundary and its length in bytes; length 0 at the end.
#[inline]
pub(crate) fn decode(text: &[u8], at: usize) -> (u32, usize) {
    let Some(first) = text.get(at).map(|byte| u32::from(*byte)) else { return (0, 0) };
    let tail = |i: usize| text.get(at.wrapping_add(i)).map_or(0, |byte| u32::from(*byte) & 0x3F);
    if first < 0xC0 {
        (first, 1)
    } else if first < 0xE0 {
        ((first & 0x1F) << 6 | tail(1), 2)
    } else if first < 0xF0 {
        ((first & 0x0F) << 12 | tail(1) << 6 | tail(2), 3)
    } else {
        ((first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4)
    }
}

/// Start of the character that ends at `end`, a boundary.
pub(crate) fn previous(text: &[u8], end: usize) -> usize {
    let mut at = end.saturating_sub(1);
    while at > 0 && text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80) {
        at = at.wrapping_sub(1);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_what_the_standard_library_says() {
        let bytes = [
            0, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4,
            0xF5,
        ];
        let mut text = [0; 5];
        for number in 0..bytes.len().pow(5) {
            let mut rest = number;
            for byte in &mut text {
                *byte = bytes[rest % bytes.len()];
                rest /= bytes.len();
            }
            let (valid, ill_formed) = match core::str::from_utf8(&text) {
                Ok(_) => (text.len(), 0),
                Err(error) => (error.valid_up_to(), error.error_len().unwrap_or(0)),
            };
            assert_eq!((text_len(&text), ill_formed_len(&text[valid..])), (valid, ill_formed), "{text:x?}");
        }
        assert_eq!((text_len(&[]), ill_formed_len(&[])), (0, 0));
    }
}
