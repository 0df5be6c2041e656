//! The only place that slices input. Every offset is checked; `usize` has 32 bits on wasm.

use crate::error::{Code, Error};

/// A cursor over little-endian bytes. Reading past the end is an error that carries the offset.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    /// Offset of `data[0]` in the file, for error messages.
    base: u64,
    short: Code,
}

impl<'a> Reader<'a> {
    /// Reads `data`, which stands at `base` in the file. `short` is the error given at its end.
    pub const fn new(data: &'a [u8], base: u64, short: Code) -> Self {
        Self { data, at: 0, base, short }
    }

    /// Offset of the next byte in the file.
    pub const fn offset(&self) -> u64 {
        self.base.saturating_add(self.at as u64)
    }

    /// Bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or(&[])
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let bytes = self.at.checked_add(len).and_then(|end| self.data.get(self.at..end));
        let Some(bytes) = bytes else {
            return Err(Error::new(self.short).at(self.offset()));
        };
        self.at = self.at.saturating_add(len);
        Ok(bytes)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let at = self.offset();
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| Error::new(self.short).at(at))
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, Error> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// The next two bytes as an integer.
    pub fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next four bytes as an integer.
    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next eight bytes as an integer.
    pub fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The next four bytes as an f32, any bit pattern.
    pub fn f32(&mut self) -> Result<f32, Error> {
        Ok(f32::from_le_bytes(self.array()?))
    }

    /// The next eight bytes as an f64, any bit pattern.
    pub fn f64(&mut self) -> Result<f64, Error> {
        Ok(f64::from_le_bytes(self.array()?))
    }
}

/// The little-endian integer at `at` of a record; 0 beyond its end. Of a record of fixed length nothing but a load is left.
#[inline(always)]
pub fn u32_at(record: &[u8], at: usize) -> u32 {
    record.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The same of eight bytes.
#[inline(always)]
pub fn u64_at(record: &[u8], at: usize) -> u64 {
    record.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// `data[start..start + len]`, or `None` when that is no range of `data`.
pub fn slice(data: &[u8], start: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    data.get(start..end)
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
pub fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
