//! Properties of code points, as tables in the template's section: the code carries none.
//!
//! Each table is a run of LEB128 numbers. Ranges: gap from the end of the last range, length. Mappings: gap, length - 1,
//! stride, zigzag distance; strings: code point, count, code points, in ascending order of the first.

use super::Fail;
use super::text::Text;

/// The tables, each in the order of the section.
#[derive(Clone, Copy, Debug)]
pub struct Unicode<'a> {
    tables: [&'a [u8]; TABLES],
}

/// Number of tables.
pub const TABLES: usize = 8;
/// Ranges of code points that `repr` prints as they are.
pub const PRINTABLE: usize = 0;
/// Ranges of cased code points.
pub const CASED: usize = 1;
/// Ranges of code points that case rules skip.
pub const CASE_IGNORABLE: usize = 2;
/// Mapping to lower case.
pub const LOWER: usize = 3;
/// Mapping to upper case.
pub const UPPER: usize = 4;
/// Code points whose upper case is a string.
pub const UPPER_STRINGS: usize = 5;
/// Mapping to title case, only where it differs from upper case.
pub const TITLE: usize = 6;
/// Code points whose title case is a string.
pub const TITLE_STRINGS: usize = 7;

/// Which way to map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// To lower case.
    Lower,
    /// To upper case.
    Upper,
    /// To title case: what begins a word.
    Title,
}

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
    /// Cuts the section's tables: [`TABLES`] lengths as `u16`, then the tables. `None` when a length does not fit.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (lengths, mut rest) = bytes.split_at_checked(2 * TABLES)?;
        let mut tables = [&[][..]; TABLES];
        let mut lengths = lengths;
        for table in &mut tables {
            let (length, more) = lengths.split_first_chunk::<2>()?;
            lengths = more;
            let length = u16::from_le_bytes(*length) as usize;
            (*table, rest) = rest.split_at_checked(length)?;
        }
        Some(Self { tables })
    }

    fn table(&self, index: usize) -> &'a [u8] {
        self.tables.get(index).copied().unwrap_or(&[])
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

    fn mapped(&self, table: usize, point: u32) -> Option<u32> {
        let mut rest = self.table(table);
        let mut at = 0u32;
        while let (Some(gap), Some(span), Some(stride), Some(zigzag)) =
            (leb(&mut rest), leb(&mut rest), leb(&mut rest), leb(&mut rest))
        {
            let start = at.wrapping_add(gap);
            at = start.wrapping_add(span);
            if point < start {
                return None;
            }
            if point <= at {
                let offset = point.wrapping_sub(start);
                if offset.checked_rem(stride) == Some(0) {
                    let distance = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
                    return Some(point.wrapping_add_signed(distance));
                }
            }
        }
        None
    }

    /// Appends the mapping of one code point.
    pub(super) fn push_mapped(&self, text: &mut Text<'_>, case: Case, point: u32, content: bool) -> Result<(), Fail> {
        if point < 0x80 {
            let byte = point as u8;
            let mapped = if case == Case::Lower { byte.to_ascii_lowercase() } else { byte.to_ascii_uppercase() };
            return text.push(mapped, content);
        }
        if case == Case::Lower && point == 0x130 {
            text.push_char(0x69, content)?;
            return text.push_char(0x307, content);
        }
        if case == Case::Lower {
            return text.push_char(self.mapped(LOWER, point).unwrap_or(point), content);
        }
        let tables: &[(usize, usize)] = if case == Case::Title {
            &[(TITLE_STRINGS, TITLE), (UPPER_STRINGS, UPPER)]
        } else {
            &[(UPPER_STRINGS, UPPER)]
        };
        for &(strings, mapping) in tables {
            let mut rest = self.table(strings);
            while let (Some(from), Some(count)) = (leb(&mut rest), leb(&mut rest)) {
                for _ in 0..count {
                    let to = leb(&mut rest).unwrap_or(point);
                    if from == point {
                        text.push_char(to, content)?;
                    }
                }
                if from == point {
                    return Ok(());
                }
            }
            if let Some(to) = self.mapped(mapping, point) {
                return text.push_char(to, content);
            }
        }
        text.push_char(point, content)
    }
}

/// Python's `str.isspace` for one code point.
pub fn is_space(point: u32) -> bool {
    matches!(point, 9..=13 | 28..=32 | 0x85 | 0xa0 | 0x1680 | 0x2000..=0x200a | 0x2028 | 0x2029 | 0x202f | 0x205f | 0x3000)
}

/// Python's line ends, for `splitlines`.
pub fn is_line_end(point: u32) -> bool {
    matches!(point, 10..=13 | 28..=30 | 0x85 | 0x2028 | 0x2029)
}
