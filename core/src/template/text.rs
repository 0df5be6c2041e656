//! The text of a rendering: one address space over the template's section, the input and an arena that only grows,
//! with one bit per byte of the arena that says whether the byte is content.

use super::Fail;
use super::value::{self, Value};
use crate::error::Code;

/// Text by address: the section first, then the input, then the arena.
#[derive(Debug)]
pub struct Text<'m> {
    section: &'m [u8],
    input: &'m [u8],
    arena: &'m mut [u8],
    bits: &'m mut [u8],
    used: usize,
}

/// Reads one bit.
pub fn bit(bits: &[u8], index: usize) -> bool {
    bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 != 0)
}

/// Writes one bit.
pub fn set_bit(bits: &mut [u8], index: usize, on: bool) {
    if let Some(byte) = bits.get_mut(index / 8) {
        let mask = 1 << (index % 8);
        *byte = if on { *byte | mask } else { *byte & !mask };
    }
}

impl<'m> Text<'m> {
    /// Lays the three parts out. `bits` has one bit per byte of `arena`.
    pub fn new(section: &'m [u8], input: &'m [u8], arena: &'m mut [u8], bits: &'m mut [u8]) -> Result<Self, Code> {
        let total = section.len().checked_add(input.len()).and_then(|n| n.checked_add(arena.len()));
        match total {
            Some(total) if total >> value::FIELD == 0 && bits.len().saturating_mul(8) >= arena.len() => {
                Ok(Self { section, input, arena, bits, used: 0 })
            }
            _ => Err(Code::TemplateMemory),
        }
    }

    /// Address of the first byte of the input.
    pub fn input_base(&self) -> usize {
        self.section.len()
    }

    fn arena_base(&self) -> usize {
        self.section.len().saturating_add(self.input.len())
    }

    /// Bytes of the arena in use.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Gives back what was written after `mark`; nothing may refer to it any more.
    pub fn release(&mut self, mark: usize) {
        self.used = self.used.min(mark);
    }

    /// The bytes at an address; empty when there are none.
    pub fn slice(&self, at: usize, len: usize) -> &[u8] {
        let base = self.arena_base();
        let (part, at) = if at >= base {
            (&*self.arena, at.wrapping_sub(base))
        } else if at >= self.section.len() {
            (self.input, at.wrapping_sub(self.section.len()))
        } else {
            (self.section, at)
        };
        part.get(at..at.wrapping_add(len)).unwrap_or(&[])
    }

    /// The bytes of a string value.
    pub fn of(&self, value: Value) -> &[u8] {
        self.slice(value.at(), value.len())
    }

    /// Whether the byte at an address is content.
    pub fn is_content(&self, at: usize) -> bool {
        if at < self.section.len() {
            return false;
        }
        match at.checked_sub(self.arena_base()) {
            None => true,
            Some(index) => bit(self.bits, index),
        }
    }

    /// Appends one byte. All that can fail here is that the memory is full.
    pub(super) fn push(&mut self, byte: u8, content: bool) -> Result<(), Fail> {
        *self.arena.get_mut(self.used).ok_or(Fail)? = byte;
        set_bit(self.bits, self.used, content);
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// Appends bytes of one provenance.
    pub(super) fn push_all(&mut self, bytes: &[u8], content: bool) -> Result<(), Fail> {
        for &byte in bytes {
            self.push(byte, content)?;
        }
        Ok(())
    }

    /// Appends a code point.
    pub(super) fn push_char(&mut self, point: u32, content: bool) -> Result<(), Fail> {
        let mut buffer = [0; 4];
        let point = char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.push_all(point.encode_utf8(&mut buffer).as_bytes(), content)
    }

    /// Appends what stands at an address, provenance included.
    pub(super) fn push_from(&mut self, at: usize, len: usize) -> Result<(), Fail> {
        self.copy(at, len, None)
    }

    /// Appends what stands at an address, with its own provenance or the one given.
    pub(super) fn copy(&mut self, at: usize, len: usize, content: Option<bool>) -> Result<(), Fail> {
        for from in at..at.wrapping_add(len) {
            let byte = self.slice(from, 1).first().copied().ok_or(Fail)?;
            let content = content.unwrap_or_else(|| self.is_content(from));
            self.push(byte, content)?;
        }
        Ok(())
    }

    /// Appends a string value.
    pub(super) fn push_str(&mut self, text: Value) -> Result<(), Fail> {
        self.push_from(text.at(), text.len())
    }

    /// What was appended since `mark` as a value.
    pub fn since(&self, mark: usize) -> Value {
        let at = self.arena_base().wrapping_add(mark);
        Value::new(value::STR, at, self.used.saturating_sub(mark))
    }

    /// Where in the arena a string begins that ends where the arena does, so that text can grow in its place.
    pub(super) fn start_at_end(&self, text: Value) -> Option<usize> {
        let start = self.used.checked_sub(text.len())?;
        let there = text.is_empty() || text.at() == self.arena_base().wrapping_add(start);
        if there && text.kind() == value::STR { Some(start) } else { None }
    }
}

/// A part of a string value.
pub fn part(text: Value, from: usize, to: usize) -> Value {
    Value::new(value::STR, text.at().wrapping_add(from), to.saturating_sub(from)).flagged(text.flags())
}

pub(super) use crate::utf8::{decode, previous as before};

/// Number of code points.
pub fn count(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

/// Byte index of the code point with this number; the length where there is none.
pub fn char_offset(bytes: &[u8], index: usize) -> usize {
    let mut starts = bytes.iter().enumerate().filter(|(_, byte)| **byte & 0xc0 != 0x80);
    starts.nth(index).map_or(bytes.len(), |(at, _)| at)
}

/// First place of `needle` in `bytes` at or after `from`, or the last one.
pub fn find(bytes: &[u8], needle: &[u8], from: usize, last: bool) -> Option<usize> {
    let end = bytes.len().checked_sub(needle.len())?;
    let places = end.checked_sub(from)?;
    for step in 0..=places {
        let at = if last { end.wrapping_sub(step) } else { from.wrapping_add(step) };
        if bytes.get(at..).is_some_and(|rest| rest.starts_with(needle)) {
            return Some(at);
        }
    }
    None
}
