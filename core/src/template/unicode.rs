//! Properties of code points, as tables in the template's section: the code carries none.
//!
//! Ranges are a run of LEB128 numbers: gap from the end of the last range, length. A mapping begins with a bit for each
//! ASCII character, set where it changes. Then follow LEB128 numbers, in ascending order of the code points: gap from the
//! last code point of the entry before, and how many code points it becomes; when that is 1, last minus first, stride and
//! zigzag distance, else the code points.

use super::Fail;
use super::text::{Text, bit};

/// The tables, each in the order of the section.
#[derive(Clone, Copy, Debug)]
pub struct Unicode<'a> {
    bytes: &'a [u8],
}

/// Number of tables.
pub const TABLES: usize = 10;
/// Bytes of a mapping's bits for ASCII.
const ASCII: usize = 16;

fn leb(table: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    let mut shift = 0;
    loop {
        let (&byte, rest) = table.split_first()?;
        *table = rest;
        value |= (byte as u32 & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}

impl<'a> Unicode<'a> {
    /// The section's tables: [`TABLES`] lengths as `u16`, then the tables. One that does not fit is empty.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The table with this number.
    pub fn table(&self, index: usize) -> &'a [u8] {
        let length = |index| super::u16_at(self.bytes, index).unwrap_or(0) as usize;
        let at = (0..index.min(TABLES)).fold(2 * TABLES, |at, before| at.wrapping_add(length(before)));
        self.bytes.get(at..at.wrapping_add(length(index))).unwrap_or(&[])
    }

    /// Whether a table of ranges holds the code point.
    pub fn has(&self, table: usize, point: u32) -> bool {
        let mut rest = self.table(table);
        let mut at = 0u32;
        while let (Some(gap), Some(length)) = (leb(&mut rest), leb(&mut rest)) {
            let start = at.wrapping_add(gap);
            at = start.wrapping_add(length);
            if point < at {
                return point >= start;
            }
        }
        false
    }
}

/// Appends what a mapping makes of one code point.
pub(super) fn push_mapped(text: &mut Text<'_>, table: &[u8], point: u32, content: bool) -> Result<(), Fail> {
    let mut rest = table.get(ASCII..).unwrap_or(&[]);
    if point < 0x80 && !bit(table, point as usize) {
        return text.push(point as u8, content);
    }
    let mut at = 0u32;
    while let (Some(gap), Some(count)) = (leb(&mut rest), leb(&mut rest)) {
        at = at.wrapping_add(gap);
        if point < at {
            break;
        }
        let offset = point.wrapping_sub(at);
        if count != 1 {
            for _ in 0..count {
                let to = leb(&mut rest).unwrap_or(point);
                if offset == 0 {
                    text.push_char(to, content)?;
                }
            }
            if offset == 0 {
                return Ok(());
            }
        } else if let (Some(span), Some(stride), Some(zigzag)) = (leb(&mut rest), leb(&mut rest), leb(&mut rest)) {
            at = at.wrapping_add(span);
            if offset <= span && offset.checked_rem(stride) == Some(0) {
                let distance = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
                return text.push_char(point.wrapping_add_signed(distance), content);
            }
        }
    }
    text.push_char(point, content)
}

/// Python's `str.isspace` for one code point.
pub fn is_space(point: u32) -> bool {
    matches!(point, 9..=13 | 28..=32 | 0x85 | 0xa0 | 0x1680 | 0x2000..=0x200a | 0x2028 | 0x2029 | 0x202f | 0x205f | 0x3000)
}

/// Python's line ends, for `splitlines`.
pub fn is_line_end(point: u32) -> bool {
    matches!(point, 10..=13 | 28..=30 | 0x85 | 0x2028 | 0x2029)
}
