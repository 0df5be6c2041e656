//! Characters: which bytes are text, the characters of those that are, and those of bytes that come piece by piece.

use crate::error::{Code, Error};

/// U+FFFD in UTF-8.
pub(crate) const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

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

/// The beginning of a character whose end has not come yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partial {
    bytes: [u8; 4],
    len: usize,
}

/// Takes a character; true: it stands for an ill-formed part.
type OnChar<'f> = &'f mut dyn FnMut(&[u8], bool);

impl Partial {
    /// Nothing has begun.
    pub(crate) const EMPTY: Self = Self { bytes: [0; 4], len: 0 };

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes the next byte of a text and gives out what is certain then: the character it completes, and U+FFFD for each
    /// maximal ill-formed part, as the Unicode standard recommends.
    pub(crate) fn push(&mut self, byte: u8, out: OnChar<'_>) {
        loop {
            let alone = self.len == 0;
            if let Some(slot) = self.bytes.get_mut(self.len) {
                *slot = byte;
                self.len = self.len.wrapping_add(1);
            }
            let bytes = self.bytes.get(..self.len).unwrap_or(&[]);
            if is_text(bytes) {
                out(bytes, false);
                self.len = 0;
                return;
            }
            if ill_formed_len(bytes) == 0 {
                return;
            }
            self.end(out);
            if alone {
                return;
            }
            // What had begun ends before this byte, which begins anew.
        }
    }

    /// Ends the text: what has begun becomes U+FFFD.
    pub(crate) fn end(&mut self, out: OnChar<'_>) {
        if core::mem::take(&mut self.len) > 0 {
            out(REPLACEMENT, true);
        }
    }
}

/// Memory of a caller that text is written to. What does not fit is left out: room was checked before.
pub(crate) struct Out<'o> {
    bytes: &'o mut [u8],
    /// Bytes written.
    pub(crate) len: usize,
}

impl<'o> Out<'o> {
    /// `bytes`, if there are as many as `needed`.
    ///
    /// # Errors
    /// [`Code::OutputBufferExceeded`].
    pub(crate) fn new(bytes: &'o mut [u8], needed: usize) -> Result<Self, Error> {
        if bytes.len() < needed { Err(Error::new(Code::OutputBufferExceeded)) } else { Ok(Self { bytes, len: 0 }) }
    }

    /// Writes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            crate::bytes::copy(room, bytes);
            self.len = end;
        }
    }
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
