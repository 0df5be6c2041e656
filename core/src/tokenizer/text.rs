//! Code points of well-formed text, and their classes.

use super::section::{PAGE, Section, Words, table};
pub(super) use crate::utf8::{decode, previous};

/// Bytes of the character that begins with `first`.
#[inline]
pub fn char_len(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    }
}

/// A code point's UTF-8 and its length.
pub fn encode(code: u32) -> ([u8; 4], usize) {
    let mut bytes = [0; 4];
    let len = char::from_u32(code).unwrap_or('\u{FFFD}').encode_utf8(&mut bytes).len();
    (bytes, len)
}

/// The partition of the code points, and of the bytes where pieces are bytes.
#[derive(Clone, Copy, Debug)]
pub struct Classes<'a> {
    index: Words<'a>,
    pages: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Classes<'a> {
    /// The section's classes.
    pub fn new(section: &Section<'a>) -> Self {
        Self {
            index: section.words(table::CLASS_INDEX),
            pages: section.table(table::CLASS_PAGES),
            bytes: section.table(table::BYTE_CLASSES),
        }
    }

    /// A code point's class.
    #[inline]
    pub fn of(&self, code: u32) -> u8 {
        let page = if code < PAGE as u32 { 0 } else { self.page(code) };
        self.pages.get(page.wrapping_add(code as usize % PAGE)).copied().unwrap_or(0)
    }

    #[inline]
    fn page(&self, code: u32) -> usize {
        usize::from(self.index.u16(code as usize / PAGE).unwrap_or(0)).wrapping_mul(PAGE)
    }

    /// Class and length of the unit at `at`: a byte or a character.
    #[inline]
    pub fn at(&self, text: &[u8], at: usize, byte_units: bool) -> (u8, usize) {
        if byte_units {
            let byte = text.get(at).copied().unwrap_or(0);
            return (self.bytes.get(usize::from(byte)).copied().unwrap_or(0), 1);
        }
        let (code, len) = decode(text, at);
        (self.of(code), len)
    }
}
