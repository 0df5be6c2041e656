//! `@names`: the name of each directory entry, and the hash the directory keeps of it.

use crate::bytes::Reader;
use crate::error::{Code, Error};
use crate::utf8::text_len;

/// Most bytes of a name.
pub const MAX_NAME: usize = 255;

/// A running FNV-1a-64, so that composed names need no buffer.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Fnv {
    /// The hash of nothing.
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// The hash with `bytes` appended.
    pub fn then(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)))
    }

    /// The hash with the decimal digits of `number` appended.
    pub fn then_number(self, number: u32) -> Self {
        let mut digits = [0u8; 10];
        let mut rest = number;
        let mut start = digits.len();
        for digit in digits.iter_mut().rev() {
            *digit = b'0'.wrapping_add((rest % 10) as u8);
            rest /= 10;
            start = start.saturating_sub(1);
            if rest == 0 {
                break;
            }
        }
        self.then(digits.get(start..).unwrap_or(&[]))
    }

    /// The value.
    pub const fn finish(self) -> u64 {
        self.0
    }

    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> u64 {
        Self::new().then(bytes).finish()
    }
}

/// Walks the names in the order of the directory.
#[derive(Clone, Debug)]
pub struct Names<'a> {
    reader: Reader<'a>,
}

impl<'a> Names<'a> {
    pub(super) fn new(record: &'a [u8], base: u64) -> Self {
        Self { reader: Reader::new(record, base, Code::NamesTooShort) }
    }

    /// Offset of the next name in the file.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }

    /// True after the last name.
    pub fn is_at_end(&self) -> bool {
        self.reader.rest().is_empty()
    }

    /// The next name.
    pub(super) fn next_name(&mut self) -> &'a [u8] {
        let r = &mut self.reader;
        let at = r.offset();
        let len = usize::from(r.u16());
        r.require(len != 0 && len <= MAX_NAME, Code::NameLength, at);
        let name = r.take(len);
        let good = text_len(name);
        r.require(good == name.len(), Code::NameUtf8, at.saturating_add(2).saturating_add(good as u64));
        name
    }

    /// The first thing wrong with the names read so far.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.reader.done()
    }
}

impl<'a> Iterator for Names<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.is_at_end() {
            None
        } else {
            core::str::from_utf8(self.next_name()).ok().filter(|name| !name.is_empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        assert_eq!(Fnv::of(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fnv::of(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv::of(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn numbers_hash_as_their_digits() {
        for (number, text) in [(0, "0"), (7, "7"), (10, "10"), (1023, "1023"), (u32::MAX, "4294967295")] {
            assert_eq!(Fnv::new().then_number(number).finish(), Fnv::of(text.as_bytes()));
        }
    }
}
