//! The compiled section, read in place: header, directory of tables, and what stands in them.

use super::check::bad;
pub use super::layout::{Kind, MAX_ID, MAX_RANK, NONE, PAGE, PAGES, field, flag, table, token};
pub(super) use super::layout::{SPACES, WORD_CHARS};
use crate::bytes::{slice, u32_at, u64_at, word};
use crate::error::{Code, Error};

/// The header's numbers, for tools: the core reads them where they stand.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// The model.
    pub kind: Kind,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Ids are below this; not each need exist.
    pub id_count: u32,
    /// Ids left out of visible text.
    pub special_count: u32,
    /// Unicode version of the tables: major << 16 | minor << 8 | patch.
    pub unicode: u32,
    /// The unknown token's id or [`NONE`].
    pub unk: u32,
    /// Classes of code points; the end of the text is one more.
    pub class_count: u32,
    /// Bytes of the longest token.
    pub max_token: u32,
    /// Bytes a byte of text may become on its way to the model.
    pub growth: u32,
    /// Bytes put before a section of text.
    pub growth_fixed: u32,
    /// Units of the model a byte of text may become.
    pub growth_units: u32,
    /// No merge joins this code point to anything before it but itself, or [`NONE`].
    pub split_before: u32,
    /// Id of a merge's result less its rank, or [`NONE`] where a table says it.
    pub merge_base: u32,
    /// Merges.
    pub merge_count: u32,
    /// Characters of the longest word a word-piece model cuts.
    pub max_word_chars: u32,
    /// Bytes put before every unit but the first: length of the string at the start of the strings.
    pub prefix_len: u32,
    /// Bytes put after the last unit: length of the string that follows.
    pub suffix_len: u32,
    /// Score of an unknown unit of a unigram model.
    pub unk_score: f64,
}

/// A little-endian array read in place.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(pub &'a [u8]);

impl<'a> Words<'a> {
    /// Element `i` of 32 bits.
    #[inline]
    pub fn u32(self, i: usize) -> Option<u32> {
        let at = i.checked_mul(4)?;
        let bytes = self.0.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Element `i` of 64 bits.
    #[inline]
    pub fn u64(self, i: usize) -> Option<u64> {
        let at = i.checked_mul(8)?;
        let bytes = self.0.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Element `i` of 16 bits.
    #[inline]
    pub fn u16(self, i: usize) -> Option<u16> {
        let at = i.checked_mul(2)?;
        let bytes = self.0.get(at..at.checked_add(2)?)?;
        Some(u16::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Elements of 32 bits.
    pub fn len32(self) -> usize {
        self.0.len() / 4
    }

    /// All elements of 32 bits.
    pub fn iter32(self) -> impl Iterator<Item = u32> + 'a {
        self.0.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap_or_default()))
    }
}

/// A set of classes: a bit for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask<'a>(&'a [u8]);

impl Mask<'_> {
    /// Whether a class is in the set.
    pub(super) fn has(self, class: u8) -> bool {
        self.0.get(usize::from(class >> 3)).is_some_and(|byte| byte >> (class & 7) & 1 != 0)
    }
}

/// Fields before the directory that can be asked for.
const HEAD: usize = field::RESERVED;

/// A section after its checks: a view of its bytes. Copying is free.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    pub(super) bytes: &'a [u8],
    head: &'a [u8; HEAD],
}

/// What the byte tokenizer would say if it had the header of the others.
static BYTES_HEAD: [u8; HEAD] = {
    let fields = [
        (0, Kind::Bytes as u32),
        (field::FLAGS, flag::BYTE_UNITS),
        (field::ID_COUNT, 260),
        (field::SPECIAL_COUNT, 4),
        (field::UNK, 259),
        (field::CLASS_COUNT, 1),
        (field::MAX_TOKEN, 1),
        (field::GROWTH, 1),
        (field::GROWTH_UNITS, 1),
        (field::SPLIT_BEFORE, NONE),
        (field::MERGE_BASE, NONE),
    ];
    let mut head = [0; HEAD];
    let mut i = 0;
    while i < 4 * fields.len() {
        let (at, value) = fields[i / 4];
        head[at + i % 4] = value.to_le_bytes()[i % 4];
        i += 1;
    }
    head
};

impl<'a> Section<'a> {
    /// Reads and checks a section.
    ///
    /// # Errors
    /// [`Code::TokenizerTooShort`], [`Code::TokenizerMagic`], [`Code::TokenizerVersion`],
    /// [`Code::TokenizerLength`], [`Code::TokenizerHeader`] with the field's offset, [`Code::TokenizerTable`]
    /// with the table's number. Cost: one pass over the section.
    #[inline(never)]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let len = bytes.len();
        // Cut off inside the first field that is not whole: words but for one of eight bytes.
        let cut = if (field::UNK_SCORE..field::RESERVED).contains(&len) { field::UNK_SCORE } else { len & !3 };
        let short = Err(Error::new(Code::TokenizerTooShort).at(cut as u64));
        if len < 4 {
            return short;
        }
        let kind = u32_at(bytes, 0);
        if kind == Kind::Bytes as u32 {
            return Self::parse_bytes(bytes);
        }
        if ![Kind::Bpe, Kind::Unigram, Kind::WordPiece, Kind::WordLevel].iter().any(|known| *known as u32 == kind) {
            return Err(Error::new(Code::TokenizerMagic).at(0));
        }
        if len < 8 {
            return short;
        }
        if u32_at(bytes, 4) != field::VERSION {
            return Err(Error::new(Code::TokenizerVersion).at(4));
        }
        if len < 12 {
            return short;
        }
        if u32_at(bytes, 8) as usize != len {
            return Err(Error::new(Code::TokenizerLength).at(8));
        }
        let Some(head) = bytes.first_chunk().filter(|_| len >= field::DIRECTORY) else { return short };
        let section = Self { bytes, head };
        if let Some(field) = section.broken_field() {
            return Err(Error::new(Code::TokenizerHeader).at(field as u64));
        }
        let mut end = field::HEADER_LEN;
        for number in 0..table::COUNT {
            let (offset, length) = section.place(number);
            if len < field::DIRECTORY.saturating_add(number.saturating_mul(8)).saturating_add(8) {
                return short;
            }
            // Tables stand in order, each at the next multiple of eight.
            if end.checked_next_multiple_of(8) != Some(offset) || slice(bytes, offset as u64, length as u64).is_none() {
                return Err(bad(number));
            }
            end = offset.saturating_add(length);
        }
        if end != len {
            return Err(Error::new(Code::TokenizerLength).at(end as u64));
        }
        section.check()?;
        Ok(section)
    }

    /// The fixed section of the byte tokenizer.
    fn parse_bytes(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.len() != field::BTOK_LEN {
            return Err(Error::new(Code::TokenizerLength).at(0));
        }
        for (at, expected) in (4..).step_by(4).zip([field::VERSION, 260, 256, 257, 258, 259]) {
            if u32_at(bytes, at) != expected {
                return Err(Error::new(Code::TokenizerHeader).at(at as u64));
            }
        }
        Ok(Self { bytes, head: &BYTES_HEAD })
    }

    /// The word at position `at` of the header.
    #[inline(always)]
    pub(super) fn field(&self, at: usize) -> u32 {
        word(self.head, at)
    }

    /// The score of an unknown unit of a unigram model.
    pub(super) fn unk_score(&self) -> f64 {
        f64::from_bits(u64_at(self.head, field::UNK_SCORE))
    }

    /// Whether the section holds a model of this kind.
    #[inline(always)]
    pub(super) fn is(&self, kind: Kind) -> bool {
        self.field(0) == kind as u32
    }

    /// The header as a value.
    pub fn header(&self) -> Header {
        let kinds = [Kind::Unigram, Kind::WordPiece, Kind::WordLevel, Kind::Bytes];
        Header {
            kind: kinds.into_iter().find(|kind| self.is(*kind)).unwrap_or(Kind::Bpe),
            flags: self.field(field::FLAGS),
            id_count: self.field(field::ID_COUNT),
            special_count: self.field(field::SPECIAL_COUNT),
            unicode: self.field(field::UNICODE),
            unk: self.field(field::UNK),
            class_count: self.field(field::CLASS_COUNT),
            max_token: self.field(field::MAX_TOKEN),
            growth: self.field(field::GROWTH),
            growth_fixed: self.field(field::GROWTH_FIXED),
            growth_units: self.field(field::GROWTH_UNITS),
            split_before: self.field(field::SPLIT_BEFORE),
            merge_base: self.field(field::MERGE_BASE),
            merge_count: self.field(field::MERGE_COUNT),
            max_word_chars: self.field(field::MAX_WORD_CHARS),
            prefix_len: self.field(field::PREFIX_LEN),
            suffix_len: self.field(field::SUFFIX_LEN),
            unk_score: self.unk_score(),
        }
    }

    /// Offset and length of a table; beyond the end of the section there is nothing.
    fn place(&self, number: usize) -> (usize, usize) {
        let at = number.saturating_mul(8).saturating_add(field::DIRECTORY);
        (u32_at(self.bytes, at) as usize, u32_at(self.bytes, at.saturating_add(4)) as usize)
    }

    /// A table's bytes.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub fn table(&self, number: usize) -> &'a [u8] {
        let (offset, len) = self.place(number);
        slice(self.bytes, offset as u64, len as u64).unwrap_or(&[])
    }

    /// A table as an array of words.
    #[inline]
    pub fn words(&self, number: usize) -> Words<'a> {
        Words(self.table(number))
    }

    /// Word `i` of a table; 0 beyond its end.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub(super) fn word(&self, number: usize, i: usize) -> u32 {
        self.words(number).u32(i).unwrap_or(0)
    }

    /// Record `number` of a table of records of eight words; zeros beyond its end.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub(super) fn record(&self, table: usize, number: usize) -> [u32; 8] {
        let mut record = [0; 8];
        for (word, at) in record.iter_mut().zip(number.saturating_mul(8)..) {
            *word = self.word(table, at);
        }
        record
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, bit: u32) -> bool {
        self.field(field::FLAGS) & bit != 0
    }

    /// `len` bytes at `offset` of the strings.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub fn string(&self, offset: u32, len: u32) -> &'a [u8] {
        slice(self.table(table::STRINGS), u64::from(offset), u64::from(len)).unwrap_or(&[])
    }

    /// Whether the strings hold `len` bytes of UTF-8 at `offset`.
    pub(super) fn is_text(&self, offset: u32, len: u32) -> bool {
        let string = self.string(offset, len);
        string.len() == len as usize && crate::utf8::is_text(string)
    }

    /// The string before every unit but the first, and that after the last.
    pub(super) fn affixes(&self) -> (&'a [u8], &'a [u8]) {
        let prefix = self.field(field::PREFIX_LEN);
        (self.string(0, prefix), self.string(prefix, self.field(field::SUFFIX_LEN)))
    }

    /// Element `i` of an offsets table and its bytes.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub fn item(&self, offsets: usize, bytes: usize, i: u32) -> &'a [u8] {
        let words = self.words(offsets);
        let i = i as usize;
        let (Some(start), Some(end)) = (words.u32(i), words.u32(i.saturating_add(1))) else { return &[] };
        self.table(bytes).get(start as usize..end as usize).unwrap_or(&[])
    }

    /// A set of classes.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub(super) fn mask(&self, number: u32) -> Mask<'a> {
        let start = u64::from(number).wrapping_mul(32);
        Mask(slice(self.table(table::MASKS), start, 32).unwrap_or(&[]))
    }

    /// Number of records of `size` bytes a table has; `None` where it does not consist of them.
    pub(super) fn records(&self, number: usize, size: usize) -> Option<usize> {
        let len = self.table(number).len();
        if len.is_multiple_of(size) { len.checked_div(size) } else { None }
    }
}
