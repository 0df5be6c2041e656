//! The compiled section: header, directory of tables, and the checks at the door.

use crate::bytes::{slice, u32_at, u64_at, word};
use crate::error::{Code, Error};

/// Positions of the header's fields, and what stands there.
pub mod field {
    /// Magic of a byte-pair model.
    pub const BPE: [u8; 4] = *b"BPE1";
    /// Magic of a unigram model.
    pub const UNIGRAM: [u8; 4] = *b"UNI1";
    /// Magic of a word-piece model.
    pub const WORD_PIECE: [u8; 4] = *b"WPC1";
    /// Magic of a word-level model.
    pub const WORD_LEVEL: [u8; 4] = *b"WLV1";
    /// Magic of the byte tokenizer.
    pub const BYTES: [u8; 4] = *b"BTOK";
    /// Length of a `BTOK` section.
    pub const BTOK_LEN: usize = 28;
    /// Length of the header and the directory of the other sections.
    pub const HEADER_LEN: usize = DIRECTORY + 8 * super::table::COUNT;
    /// The header's version.
    pub const VERSION: u32 = 1;

    pub(in crate::tokenizer) const FLAGS: usize = 12;
    pub(in crate::tokenizer) const ID_COUNT: usize = 16;
    pub(in crate::tokenizer) const SPECIAL_COUNT: usize = 20;
    pub(in crate::tokenizer) const UNICODE: usize = 24;
    pub(in crate::tokenizer) const UNK: usize = 28;
    pub(in crate::tokenizer) const CLASS_COUNT: usize = 32;
    pub(in crate::tokenizer) const MAX_TOKEN: usize = 36;
    pub(in crate::tokenizer) const GROWTH: usize = 40;
    pub(in crate::tokenizer) const GROWTH_FIXED: usize = 44;
    pub(in crate::tokenizer) const GROWTH_UNITS: usize = 48;
    pub(in crate::tokenizer) const SPLIT_BEFORE: usize = 52;
    pub(in crate::tokenizer) const MERGE_BASE: usize = 56;
    pub(in crate::tokenizer) const MERGE_COUNT: usize = 60;
    pub(in crate::tokenizer) const MAX_WORD_CHARS: usize = 64;
    pub(in crate::tokenizer) const PREFIX_LEN: usize = 68;
    pub(in crate::tokenizer) const SUFFIX_LEN: usize = 72;
    pub(in crate::tokenizer) const UNK_SCORE: usize = 76;
    pub(in crate::tokenizer) const RESERVED: usize = 84;
    /// Offset and length of each table.
    pub(in crate::tokenizer) const DIRECTORY: usize = 88;
}

/// Bits of the header's flags.
pub mod flag {
    /// A unit is one byte and pieces need not be UTF-8 (byte-level alphabet).
    pub const BYTE_UNITS: u32 = 1;
    /// A piece that is a token is that token, whatever the merges say.
    pub const IGNORE_MERGES: u32 = 2;
    /// Neighbouring unknown units become one.
    pub const FUSE_UNK: u32 = 4;
    /// Unknown units are spelled with byte tokens.
    pub const BYTE_FALLBACK: u32 = 8;
    /// The model declares an unknown token (its id may still be missing).
    pub const HAS_UNK: u32 = 16;
    /// All bits that have a meaning.
    pub const ALL: u32 = 31;
}

/// Bits of a token's flags.
pub mod token {
    /// The id has a text.
    pub const EXISTS: u8 = 1;
    /// Left out of visible text.
    pub const SPECIAL: u8 = 2;
    /// Spells one byte in the decoder; its only byte is the value.
    pub const BYTE: u8 = 4;
    /// All bits that have a meaning.
    pub const ALL: u8 = 7;
}

/// Numbers of the tables.
#[allow(missing_docs)]
pub mod table {
    pub const OFFSETS: usize = 0;
    pub const BYTES: usize = 1;
    pub const FLAGS: usize = 2;
    pub const VOCAB: usize = 3;
    pub const MERGES: usize = 4;
    pub const MERGE_IDS: usize = 5;
    pub const SCORES: usize = 6;
    pub const UNIT_IDS: usize = 7;
    pub const FALLBACK_IDS: usize = 8;
    pub const CLASS_INDEX: usize = 9;
    pub const CLASS_PAGES: usize = 10;
    pub const BYTE_CLASSES: usize = 11;
    pub const AUTOMATA: usize = 12;
    pub const TRANSITIONS: usize = 13;
    pub const MASKS: usize = 14;
    pub const NORMALIZER: usize = 15;
    pub const NORMALIZER_DATA: usize = 16;
    pub const PRE_TOKENIZER: usize = 17;
    pub const STRINGS: usize = 18;
    pub const ADDED_RAW: usize = 19;
    pub const ADDED_NORMALIZED: usize = 20;
    pub const AFFIXES: usize = 21;
    pub const DECODER: usize = 22;
    /// Four pairs of offsets and bytes: inner, first, last, only.
    pub const PIECES: usize = 23;
    pub const COUNT: usize = 31;
}

/// "None" of ids, code points and ranks.
pub const NONE: u32 = u32::MAX;
/// Ids are below this.
pub const MAX_ID: u32 = (1 << 21) - 1;
/// Ranks are below this.
pub const MAX_RANK: u32 = (1 << 22) - 1;
/// Code points of one class page.
pub const PAGE: usize = 128;
/// Pages of the class index.
pub const PAGES: usize = 0x11_0000 / PAGE;

/// Which model the section holds; the number is its magic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// Byte-pair encoding.
    Bpe = u32::from_le_bytes(field::BPE),
    /// Unigram language model.
    Unigram = u32::from_le_bytes(field::UNIGRAM),
    /// Greedy longest match.
    WordPiece = u32::from_le_bytes(field::WORD_PIECE),
    /// Whole words.
    WordLevel = u32::from_le_bytes(field::WORD_LEVEL),
    /// Bytes 0-255 and four special ids.
    Bytes = u32::from_le_bytes(field::BYTES),
}

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

/// Number of the mask of white space.
pub(super) const SPACES: u32 = 0;
/// Number of the mask of word characters.
pub(super) const WORD_CHARS: u32 = 1;

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
    bytes: &'a [u8],
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

fn bad(number: usize) -> Error {
    Error::new(Code::TokenizerTable).entry(number as u32)
}

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

    /// Position of the first field of the header that is out of range.
    #[inline(never)]
    fn broken_field(&self) -> Option<usize> {
        let word = |at| self.field(at);
        let grows = 1..=4096;
        Some(match () {
            () if u32_at(self.bytes, field::RESERVED) != 0 => field::RESERVED,
            () if word(field::FLAGS) & !flag::ALL != 0 => field::FLAGS,
            () if !(1..=MAX_ID).contains(&word(field::ID_COUNT)) => field::ID_COUNT,
            () if word(field::UNK) != NONE && word(field::UNK) >= word(field::ID_COUNT) => field::UNK,
            () if !(1..=255).contains(&word(field::CLASS_COUNT)) => field::CLASS_COUNT,
            // Bounds keep every product of a text's length and a growth inside 64 bits, and scratch sizes honest.
            () if !grows.contains(&word(field::GROWTH)) => field::GROWTH,
            () if word(field::GROWTH_FIXED) > 4096 => field::GROWTH_FIXED,
            () if !grows.contains(&word(field::GROWTH_UNITS)) => field::GROWTH_UNITS,
            () if word(field::SPLIT_BEFORE) != NONE && char::from_u32(word(field::SPLIT_BEFORE)).is_none() => {
                field::SPLIT_BEFORE
            }
            () if word(field::MERGE_COUNT) > MAX_RANK => field::MERGE_COUNT,
            () if !self.unk_score().is_finite() => field::UNK_SCORE,
            () => return None,
        })
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
        string.len() == len as usize && core::str::from_utf8(string).is_ok()
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

    /// Whether a table has `len` bytes.
    #[inline(never)]
    fn sized(&self, number: usize, len: usize) -> bool {
        self.table(number).len() == len
    }

    /// Whether an offsets table has an entry for each id and for the end, and they cut up all of `bytes` in order.
    #[inline(never)]
    fn spans(&self, offsets: usize, bytes: usize) -> bool {
        let count = (self.field(field::ID_COUNT) as usize).saturating_add(1);
        let mut last = 0u32;
        let ascends = |at: u32| core::mem::replace(&mut last, at) <= at;
        self.sized(offsets, count.saturating_mul(4))
            && self.word(offsets, 0) == 0
            && self.words(offsets).iter32().all(ascends)
            && last as usize == self.table(bytes).len()
    }

    /// Whether all words are ids under `mask`, or [`NONE`] where that may be.
    #[inline(never)]
    fn ids(&self, words: Words<'_>, mask: u32, none: bool) -> bool {
        let id = |word: u32| word & mask < self.field(field::ID_COUNT) || (none && word == NONE);
        words.0.len().is_multiple_of(4) && words.iter32().all(id)
    }

    /// Whether all bytes of a table are classes.
    #[inline(never)]
    fn classes(&self, number: usize) -> bool {
        self.table(number).iter().all(|class| u32::from(*class) < self.field(field::CLASS_COUNT))
    }

    fn check(&self) -> Result<(), Error> {
        use table::*;
        self.check_vocabulary()?;
        self.check_classes()?;
        super::automaton::check(self)?;
        if self.records(MASKS, 32).is_none_or(|masks| masks < 2) {
            return Err(bad(MASKS));
        }
        super::normalize::check(self)?;
        super::split::check(self)?;
        super::added::check(self, ADDED_RAW)?;
        super::added::check(self, ADDED_NORMALIZED)?;
        let affixes = self.words(AFFIXES);
        let (Some(prefix), Some(rest)) = (affixes.u32(0), affixes.0.get(4..)) else { return Err(bad(AFFIXES)) };
        if prefix as usize >= affixes.len32() || !self.ids(Words(rest), u32::MAX, false) {
            return Err(bad(AFFIXES));
        }
        let strings = self.table(STRINGS).len() as u64;
        let affixes_len =
            u64::from(self.field(field::PREFIX_LEN)).saturating_add(u64::from(self.field(field::SUFFIX_LEN)));
        if affixes_len > strings {
            return Err(bad(STRINGS));
        }
        for offsets in (PIECES..COUNT).step_by(2) {
            let bytes = offsets.saturating_add(1);
            // An absent table of the inner pieces means the tokens themselves, any other the inner pieces.
            let absent = self.sized(offsets, 0) && self.sized(bytes, 0);
            if !absent && !self.spans(offsets, bytes) {
                return Err(bad(offsets));
            }
        }
        super::decode::check(self)
    }

    /// Checks tokens, vocabulary and merges.
    #[inline(never)]
    fn check_vocabulary(&self) -> Result<(), Error> {
        use table::*;
        let id_count = self.field(field::ID_COUNT);
        let n = id_count as usize;
        if !self.spans(OFFSETS, BYTES) {
            return Err(bad(OFFSETS));
        }
        let flags = self.table(FLAGS);
        let special = flags.iter().filter(|f| **f & token::SPECIAL != 0).count();
        let known = flags.iter().all(|f| f & !token::ALL == 0);
        if flags.len() != n || !known || special != self.field(field::SPECIAL_COUNT) as usize {
            return Err(bad(FLAGS));
        }
        // A table without an empty slot would let a search run through all of it.
        let vocab = self.words(VOCAB);
        let roomy = vocab.0.is_empty() || vocab.iter32().any(|slot| slot == NONE);
        if !self.ids(vocab, MAX_ID, true) || !roomy {
            return Err(bad(VOCAB));
        }
        let (merge_base, merge_count) = (self.field(field::MERGE_BASE), self.field(field::MERGE_COUNT));
        let merges = self.table(MERGES);
        let mut empty = merges.is_empty();
        for chunk in merges.as_chunks::<8>().0 {
            let entry = u64::from_le_bytes(*chunk);
            if entry == u64::MAX {
                empty = true;
                continue;
            }
            let (left, right) = ((entry >> 21) as u32 & MAX_ID, entry as u32 & MAX_ID);
            if left >= id_count || right >= id_count || (entry >> 42) as u32 >= merge_count {
                return Err(bad(MERGES));
            }
        }
        if !merges.len().is_multiple_of(8) || !empty {
            return Err(bad(MERGES));
        }
        let listed = if merge_base == NONE { merge_count as usize } else { 0 };
        let based = merge_base == NONE || u64::from(merge_base).saturating_add(u64::from(merge_count)) <= n as u64;
        if !self.sized(MERGE_IDS, listed.saturating_mul(4))
            || !based
            || !self.ids(self.words(MERGE_IDS), u32::MAX, false)
        {
            return Err(bad(MERGE_IDS));
        }
        if !self.sized(SCORES, if self.is(Kind::Unigram) { n.saturating_mul(8) } else { 0 }) {
            return Err(bad(SCORES));
        }
        if !self.sized(UNIT_IDS, 1024) || !self.ids(self.words(UNIT_IDS), u32::MAX, true) {
            return Err(bad(UNIT_IDS));
        }
        let fallback = if self.has(flag::BYTE_FALLBACK) { 1024 } else { 0 };
        if !self.sized(FALLBACK_IDS, fallback) || !self.ids(self.words(FALLBACK_IDS), u32::MAX, false) {
            return Err(bad(FALLBACK_IDS));
        }
        Ok(())
    }

    /// Checks the partition of the code points.
    fn check_classes(&self) -> Result<(), Error> {
        use table::*;
        if !self.sized(CLASS_INDEX, PAGES * 2) {
            return Err(bad(CLASS_INDEX));
        }
        let Some(pages) = self.records(CLASS_PAGES, PAGE).filter(|_| self.classes(CLASS_PAGES)) else {
            return Err(bad(CLASS_PAGES));
        };
        let index = self.table(CLASS_INDEX).as_chunks::<2>().0;
        if index.iter().any(|page| usize::from(u16::from_le_bytes(*page)) >= pages) {
            return Err(bad(CLASS_INDEX));
        }
        if !self.sized(BYTE_CLASSES, 256) || !self.classes(BYTE_CLASSES) {
            return Err(bad(BYTE_CLASSES));
        }
        Ok(())
    }
}
