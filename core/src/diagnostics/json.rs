//! Writes JSON into a buffer of the caller. Strict for any text: ill-formed bytes become U+FFFD.

use crate::bytes::take_text;
use crate::error::{Code, Error};

/// A writer. What does not fit is counted but not written.
#[derive(Debug)]
pub struct Json<'o> {
    out: &'o mut [u8],
    len: usize,
    /// The next member or element needs no comma before it.
    first: bool,
    /// What is left of the form, and how many objects and arrays are open in the place it has reached.
    form: &'o [u8],
    depth: u32,
}

impl<'o> Json<'o> {
    /// A writer at the start of `out`.
    pub fn new(out: &'o mut [u8]) -> Self {
        Self { out, len: 0, first: true, form: &[], depth: 0 }
    }

    /// The bytes written.
    ///
    /// # Errors
    /// [`Code::OutputBufferExceeded`] with the length needed as index.
    pub fn finish(mut self) -> Result<usize, Error> {
        self.form("");
        if self.len > self.out.len() {
            return Err(Error::new(Code::OutputBufferExceeded).entry(self.len as u32));
        }
        Ok(self.len)
    }

    #[inline(never)]
    fn bytes(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if let Some(slot) = self.out.get_mut(self.len..end) {
            crate::bytes::copy(slot, bytes);
        }
        self.len = end;
    }

    /// Writes the rest of the form begun before and begins another: JSON in which each value that follows takes the
    /// place of a `?`.
    #[inline(never)]
    pub fn form(&mut self, text: &'o str) {
        let rest = core::mem::replace(&mut self.form, text.as_bytes());
        self.bytes(rest);
    }

    /// What stands before a value.
    #[inline(never)]
    fn comma(&mut self) {
        if self.depth == 0
            && let Some(at) = self.form.iter().position(|byte| *byte == b'?')
        {
            let (text, rest) = self.form.split_at_checked(at).unwrap_or((&[], self.form));
            self.bytes(text);
            self.form = rest.get(1..).unwrap_or(&[]);
            return;
        }
        if !core::mem::replace(&mut self.first, false) {
            self.bytes(b",");
        }
    }

    /// `"key":` of an object's next member.
    #[inline(never)]
    pub fn key(&mut self, key: &str) -> &mut Self {
        self.string(key.as_bytes());
        self.bytes(b":");
        self.first = true;
        self
    }

    /// An object; `members` writes its keys and values.
    #[inline(always)]
    pub fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.open(b"{");
        members(self);
        self.close(b"}");
    }

    /// An array; `elements` writes its values.
    #[inline(always)]
    pub fn array(&mut self, elements: impl FnOnce(&mut Self)) {
        self.open(b"[");
        elements(self);
        self.close(b"]");
    }

    #[inline(never)]
    fn open(&mut self, bracket: &[u8]) {
        self.comma();
        self.bytes(bracket);
        self.first = true;
        self.depth = self.depth.wrapping_add(1);
    }

    #[inline(never)]
    fn close(&mut self, bracket: &[u8]) {
        self.bytes(bracket);
        self.first = false;
        self.depth = self.depth.wrapping_sub(1);
    }

    /// `null`, `true` or `false`.
    #[inline(never)]
    pub fn word(&mut self, value: Option<bool>) {
        self.comma();
        self.bytes(match value {
            None => b"null",
            Some(true) => b"true",
            Some(false) => b"false",
        });
    }

    /// An integer. Above 2^53 readers lose digits: use [`Json::hex`].
    #[inline(never)]
    pub fn integer(&mut self, value: u64) {
        self.comma();
        self.digits(value, 1);
    }

    /// An integer or `null`.
    #[inline(never)]
    pub fn maybe(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.integer(value),
            None => self.word(None),
        }
    }

    /// A 64-bit value as a string of 16 hexadecimal digits.
    #[inline(never)]
    pub fn hex(&mut self, value: u64) {
        self.comma();
        self.bytes(b"\"");
        self.hex_digits(value, 16);
        self.bytes(b"\"");
    }

    /// A number with six decimals, rounded half up; `null` when not finite or of magnitude 10^12 and above.
    #[inline(never)]
    pub fn decimal(&mut self, value: f64) {
        let scaled = if value < 0.0 { -value } else { value } * 1e6;
        if scaled.is_nan() || scaled >= 1e18 {
            return self.word(None);
        }
        self.comma();
        let units = (scaled + 0.5) as u64;
        if value < 0.0 && units > 0 {
            self.bytes(b"-");
        }
        self.digits(units / 1_000_000, 1);
        self.bytes(b".");
        self.digits(units % 1_000_000, 6);
    }

    /// A string.
    #[inline(never)]
    pub fn string(&mut self, text: &[u8]) {
        self.comma();
        self.bytes(b"\"");
        let mut rest = text;
        while !rest.is_empty() {
            let (text, ill_formed) = take_text(&mut rest);
            for &byte in text {
                match byte {
                    b'"' => self.bytes(b"\\\""),
                    b'\\' => self.bytes(b"\\\\"),
                    b'\n' => self.bytes(b"\\n"),
                    0..=0x1F | 0x7F => {
                        self.bytes(b"\\u00");
                        self.hex_digits(u64::from(byte), 2);
                    }
                    _ => self.bytes(&[byte]),
                }
            }
            if ill_formed {
                self.bytes("\u{FFFD}".as_bytes());
            }
        }
        self.bytes(b"\"");
    }

    /// At least `least` decimal digits.
    /// A string of the program's own, or `null`.
    #[inline(never)]
    pub fn name(&mut self, name: Option<&str>) {
        match name {
            Some(name) => self.string(name.as_bytes()),
            None => self.word(None),
        }
    }

    fn digits(&mut self, mut value: u64, least: usize) {
        let mut digits = [b'0'; 20];
        let mut used = 0usize;
        for slot in digits.iter_mut().rev() {
            *slot = b'0'.wrapping_add((value % 10) as u8);
            value /= 10;
            used = used.saturating_add(1);
            if value == 0 && used >= least {
                break;
            }
        }
        self.bytes(digits.get(20usize.saturating_sub(used)..).unwrap_or(&[]));
    }

    fn hex_digits(&mut self, value: u64, count: u32) {
        for place in (0..count).rev() {
            let digit = (value >> place.saturating_mul(4) & 15) as u8;
            self.bytes(&[if digit < 10 { b'0' } else { b'a' - 10 }.wrapping_add(digit)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn write(f: impl FnOnce(&mut Json<'_>)) -> String {
        let mut out = [0; 512];
        let mut json = Json::new(&mut out);
        f(&mut json);
        let len = json.finish().unwrap();
        String::from_utf8(out[..len].to_vec()).unwrap()
    }

    #[test]
    fn values_and_nesting() {
        let text = write(|j| {
            j.object(|j| {
                j.key("a").integer(0);
                j.key("b").array(|j| {
                    j.word(None);
                    j.hex(0xABC);
                    j.object(|_| ());
                });
                j.key("c").word(Some(true));
            })
        });
        assert_eq!(text, r#"{"a":0,"b":[null,"0000000000000abc",{}],"c":true}"#);
    }

    #[test]
    fn values_take_the_places_of_a_form() {
        let text = write(|j| {
            j.form(r#"{"a":?,"b":{"c":?}"#);
            j.array(|j| {
                j.integer(1);
                j.object(|j| j.key("?").integer(2));
            });
            j.name(Some("x?"));
            j.form(r#","d":?}"#);
            j.name(None);
        });
        assert_eq!(text, r#"{"a":[1,{"?":2}],"b":{"c":"x?"},"d":null}"#);
    }

    #[test]
    fn decimals_are_fixed_and_never_nan() {
        let texts = [
            (0.0, "0.000000"),
            (-0.0000001, "0.000000"),
            (-1.5, "-1.500000"),
            (0.9999996, "1.000000"),
            (123456789.25, "123456789.250000"),
            (f64::NAN, "null"),
            (f64::NEG_INFINITY, "null"),
            (1e12, "null"),
        ];
        for (value, text) in texts {
            assert_eq!(write(|j| j.decimal(value)), text);
        }
        assert_eq!(write(|j| j.integer(u64::MAX)), "18446744073709551615");
    }

    #[test]
    fn any_text_is_a_string() {
        assert_eq!(write(|j| j.string(b"a\"\\\n\x01\xFFb\xC3\xA9\x7F")), "\"a\\\"\\\\\\n\\u0001\u{FFFD}bé\\u007f\"");
    }

    #[test]
    fn what_does_not_fit_tells_how_much_is_needed() {
        let mut out = [0; 4];
        let mut json = Json::new(&mut out);
        json.string(b"hello");
        assert_eq!(json.finish().unwrap_err().index(), Some(7));
    }
}
