//! The compiled section, read in place: header, directory of tables, and what stands in them.

use super::check::bad;
pub use super::layout::{
    Kind, MAX_ID, MAX_RANK, NONE, PAGE, PAGES, class, field, flag, head, pair, step, step_flag, table, token,
};
use super::vocab::Pairs;
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
    /// Id of a merge's result less its rank, or [`NONE`] where a table says it.
    pub merge_base: u32,
    /// Merges.
    pub merge_count: u32,
    /// Characters of the longest word a word-piece model cuts.
    pub max_word_chars: u32,
    /// Lengths of the strings of [`head`].
    pub head_lens: [u32; head::COUNT],
    /// Bits of [`super::decoder_flag`].
    pub decode_flags: u32,
    /// The character stripped from the ends of a text.
    pub strip: u32,
    /// How many are stripped from its start.
    pub strip_start: u32,
    /// How many are stripped from its end.
    pub strip_stop: u32,
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

/// Fields before the directory that can be asked for.
const HEAD: usize = field::DIRECTORY;

/// A section after its checks: a view of its bytes. Copying is free.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    pub(super) bytes: &'a [u8],
    head: &'a [u8; HEAD],
}

/// The whole section of the byte tokenizer: magic, version, ids, and those of the special tokens.
static BTOK: &[u8] = b"BTOK\x01\0\0\0\x04\x01\0\0\0\x01\0\0\x01\x01\0\0\x02\x01\0\0\x03\x01\0\0";

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
        (field::MERGE_BASE, NONE),
        (field::DECODE_FLAGS, super::decode::flag::LOSSY),
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
        let kind = u32_at(bytes, 0);
        if kind == Kind::Bytes as u32 {
            return Self::parse_bytes(bytes);
        }
        let known = [Kind::Bpe, Kind::Unigram, Kind::WordPiece, Kind::WordLevel].iter().any(|k| *k as u32 == kind);
        if len >= 4 && !known {
            return Err(Error::new(Code::TokenizerMagic).at(0));
        }
        if len >= 8 && u32_at(bytes, 4) != field::VERSION {
            return Err(Error::new(Code::TokenizerVersion).at(4));
        }
        let head = bytes.first_chunk().filter(|_| len >= field::HEADER_LEN);
        let head = head.ok_or(Error::new(Code::TokenizerTooShort).at(len as u64))?;
        if u32_at(bytes, 8) as usize != len {
            return Err(Error::new(Code::TokenizerLength).at(8));
        }
        let section = Self { bytes, head };
        section.check_head()?;
        let mut end = field::HEADER_LEN;
        for number in 0..table::COUNT {
            let (offset, length) = section.place(number);
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
        if bytes.len() != BTOK.len() {
            return Err(Error::new(Code::TokenizerLength).at(0));
        }
        match bytes.iter().zip(BTOK).position(|(byte, expected)| byte != expected) {
            Some(at) => Err(Error::new(Code::TokenizerHeader).at(at as u64 & !3)),
            None => Ok(Self { bytes, head: &BYTES_HEAD }),
        }
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
            merge_base: self.field(field::MERGE_BASE),
            merge_count: self.field(field::MERGE_COUNT),
            max_word_chars: self.field(field::MAX_WORD_CHARS),
            head_lens: core::array::from_fn(|i| self.head_len(i)),
            decode_flags: self.field(field::DECODE_FLAGS),
            strip: self.field(field::STRIP),
            strip_start: self.field(field::STRIP_START),
            strip_stop: self.field(field::STRIP_STOP),
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

    /// A word of step `number` of the normalizer or stage of the pre-tokenizer; 0 where there is none.
    pub(super) fn step(&self, table: usize, number: usize, word: usize) -> u32 {
        self.word(table, number.saturating_mul(step::WORDS).saturating_add(word))
    }

    /// The number of a pair, [`NONE`] where there is none.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub(super) fn pair(&self, left: u32, right: u32) -> u32 {
        Pairs::new(self.words(table::PAIRS)).get(left, right)
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

    /// The string at an offset of the strings that says its length, one byte, itself.
    pub(super) fn measured(&self, offset: u32) -> Option<&'a [u8]> {
        let rest = self.table(table::STRINGS).get((offset & MAX_ID) as usize..)?;
        let (len, rest) = rest.split_first()?;
        rest.get(..usize::from(*len))
    }

    pub(super) fn head_len(&self, number: usize) -> u32 {
        u32_at(self.head, field::HEAD_LENS.saturating_add(number.saturating_mul(4)))
    }

    /// String `number` of [`head`].
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub fn head(&self, number: usize) -> &'a [u8] {
        let start = (0..number).fold(0u32, |start, i| start.saturating_add(self.head_len(i)));
        self.string(start, self.head_len(number))
    }

    /// Element `i` of an offsets table: its bytes are in the next table.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub fn item(&self, offsets: usize, i: u32) -> &'a [u8] {
        let words = self.words(offsets);
        let i = i as usize;
        let (Some(start), Some(end)) = (words.u32(i), words.u32(i.saturating_add(1))) else { return &[] };
        self.table(offsets.saturating_add(1)).get(start as usize..end as usize).unwrap_or(&[])
    }

    /// Whether a class has a flag of [`class`].
    pub(super) fn class_has(&self, class: u8, flag: u8) -> bool {
        self.table(table::CLASS_FLAGS).get(usize::from(class)).is_some_and(|flags| flags & flag != 0)
    }
}
