//! The only place that slices input. Every offset is checked; `usize` has 32 bits on wasm.

use crate::error::{Code, Error};
use crate::utf8::{ill_formed_len, text_len};

/// A cursor over little-endian bytes.
///
/// What is not there reads as nothing or 0, and the first thing found wrong is remembered: a caller reads a whole
/// record and asks once, with [`Reader::done`].
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Offset of `rest` in the file, for error messages.
    offset: u64,
    short: Code,
    failure: Option<Error>,
}

impl<'a> Reader<'a> {
    /// Reads `data`, which stands at `base` in the file. `short` is the error given at its end.
    pub const fn new(data: &'a [u8], base: u64, short: Code) -> Self {
        Self { rest: data, offset: base, short, failure: None }
    }

    /// Offset of the next byte in the file.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes not read yet; none after a failure.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether anything was wrong so far.
    pub const fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The first thing found wrong.
    pub fn done(&self) -> Result<(), Error> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Ends reading because of what stands at offset `at`.
    #[cold]
    #[inline(never)]
    pub fn fail(&mut self, code: Code, at: u64) {
        self.failure = self.failure.or(Some(Error::new(code).at(at)));
        self.rest = &[];
    }

    /// Fails unless a rule holds.
    pub fn require(&mut self, holds: bool, code: Code, at: u64) {
        if !holds {
            self.fail(code, at);
        }
    }

    /// The next `len` bytes.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else {
            self.fail(self.short, self.offset);
            return &[];
        };
        self.rest = rest;
        self.offset = self.offset.saturating_add(len as u64);
        bytes
    }

    /// The next two bytes as an integer.
    pub fn u16(&mut self) -> u16 {
        self.take(2).first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    /// The next four bytes as an integer.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub fn u32(&mut self) -> u32 {
        u32_at(self.take(4), 0)
    }

    /// A string behind its length, four bytes.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub fn string(&mut self) -> &'a [u8] {
        let len = self.u32();
        self.take(len as usize)
    }
}

/// A rule of a record: the word at position `at` lies in `low..=high`, or the error is `code` with its offset.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    at: u16,
    code: Code,
    low: u32,
    high: u32,
}

/// The rule of a table of rules.
pub const fn bound(at: usize, low: u32, high: u32, code: Code) -> Bound {
    Bound { at: at as u16, code, low, high }
}

/// Checks rules one after the other. The record stands at `base` in the file.
///
/// # Errors
/// That of the first rule that does not hold.
#[inline(never)]
pub fn check_bounds(record: &[u8], base: u64, bounds: &[Bound]) -> Result<(), Error> {
    for rule in bounds {
        if !(rule.low..=rule.high).contains(&u32_at(record, usize::from(rule.at))) {
            return Err(Error::new(rule.code).at(base.saturating_add(u64::from(rule.at))));
        }
    }
    Ok(())
}

/// The little-endian integer at `at`; 0 beyond the end.
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn u32_at(record: &[u8], at: usize) -> u32 {
    record.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The same of eight bytes.
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn u64_at(record: &[u8], at: usize) -> u64 {
    record.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The same as [`u32_at`] of a record of fixed length: at a fixed place nothing but a load is left.
#[inline(always)]
pub fn word<const N: usize>(record: &[u8; N], at: usize) -> u32 {
    record.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Takes the longest beginning that is UTF-8 off `text`, and with it an ill-formed part behind it. Says whether there
/// was one, as short as the Unicode standard recommends.
pub fn take_text<'a>(text: &mut &'a [u8]) -> (&'a [u8], bool) {
    let (head, rest) = text.split_at_checked(text_len(text)).unwrap_or((text, &[]));
    // What breaks off is ill-formed to its end.
    let bad = match ill_formed_len(rest) {
        0 => rest.len(),
        bad => bad,
    };
    *text = rest.get(bad..).unwrap_or(&[]);
    (head, bad > 0)
}

/// Line `index` of a text whose every line ends; empty beyond the last.
pub fn line(text: &'static str, index: usize) -> &'static str {
    let (mut start, mut seen) = (0, 0usize);
    for (at, byte) in text.bytes().enumerate() {
        if byte == b'\n' {
            if seen == index {
                return text.get(start..at).unwrap_or("");
            }
            (start, seen) = (at.wrapping_add(1), seen.wrapping_add(1));
        }
    }
    ""
}

/// `data[start..start + len]`, or `None` when that is no range of `data`.
pub fn slice(data: &[u8], start: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    data.get(start..end)
}

/// `slice[start..start + len]`; empty where that is no range of it.
pub fn part<T>(slice: &[T], start: usize, len: usize) -> &[T] {
    slice.get(start..start.wrapping_add(len)).unwrap_or(&[])
}

/// The same, to write to.
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn part_mut<T>(slice: &mut [T], start: usize, len: usize) -> &mut [T] {
    slice.get_mut(start..start.wrapping_add(len)).unwrap_or(&mut [])
}

/// The whole rows of `len` elements; none for 0. Unlike `chunks_exact` it divides nothing, so nothing can panic.
pub fn rows<T>(slice: &[T], len: usize) -> impl Iterator<Item = &[T]> {
    let mut rest = slice;
    core::iter::from_fn(move || {
        let (row, tail) = rest.split_at_checked(len)?;
        rest = tail;
        (len > 0).then_some(row)
    })
}

/// The same, to write to.
pub fn rows_mut<T>(slice: &mut [T], len: usize) -> impl Iterator<Item = &mut [T]> {
    let mut rest = slice;
    core::iter::from_fn(move || {
        let (row, tail) = core::mem::take(&mut rest).split_at_mut_checked(len)?;
        rest = tail;
        (len > 0).then_some(row)
    })
}

/// Moves everything behind the first `by` bytes to the front. Unlike `copy_within` it has nothing to assert.
pub fn shift(bytes: &mut [u8], by: usize) {
    for at in by..bytes.len() {
        let byte = bytes.get(at).copied().unwrap_or(0);
        if let Some(to) = bytes.get_mut(at.wrapping_sub(by)) {
            *to = byte;
        }
    }
}

/// Copies as many bytes as both have. Unlike `copy_from_slice` it has nothing to assert.
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
