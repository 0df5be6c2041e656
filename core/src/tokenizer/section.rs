//! The compiled section: header, directory of tables, and the checks at the door.

use crate::bytes::Reader;
use crate::error::{Code, Error};

/// Positions of the header's fields.
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
    pub const HEADER_LEN: usize = 88 + 8 * super::table::COUNT;
    /// The header's version.
    pub const VERSION: u32 = 1;
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

/// Which model the section holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Byte-pair encoding.
    Bpe,
    /// Unigram language model.
    Unigram,
    /// Greedy longest match.
    WordPiece,
    /// Whole words.
    WordLevel,
    /// Bytes 0-255 and four special ids.
    Bytes,
}

/// The header's numbers.
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

/// The section after its checks: numbers and tables.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// The numbers.
    pub header: Header,
    tables: [&'a [u8]; table::COUNT],
}

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
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, 0, Code::TokenizerTooShort);
        let magic: [u8; 4] = r.array()?;
        let kind = match magic {
            field::BPE => Kind::Bpe,
            field::UNIGRAM => Kind::Unigram,
            field::WORD_PIECE => Kind::WordPiece,
            field::WORD_LEVEL => Kind::WordLevel,
            field::BYTES => return Self::parse_bytes(bytes),
            _ => return Err(Error::new(Code::TokenizerMagic).at(0)),
        };
        if r.u32()? != field::VERSION {
            return Err(Error::new(Code::TokenizerVersion).at(4));
        }
        if r.u32()? as usize != bytes.len() {
            return Err(Error::new(Code::TokenizerLength).at(8));
        }
        let mut number = || r.u32();
        let header = Header {
            kind,
            flags: number()?,
            id_count: number()?,
            special_count: number()?,
            unicode: number()?,
            unk: number()?,
            class_count: number()?,
            max_token: number()?,
            growth: number()?,
            growth_fixed: number()?,
            growth_units: number()?,
            split_before: number()?,
            merge_base: number()?,
            merge_count: number()?,
            max_word_chars: number()?,
            prefix_len: number()?,
            suffix_len: number()?,
            unk_score: r.f64()?,
        };
        if r.u32()? != 0 {
            return Err(Error::new(Code::TokenizerHeader).at(84));
        }
        header.check()?;
        let mut tables: [&[u8]; table::COUNT] = [&[]; table::COUNT];
        let mut end = field::HEADER_LEN;
        for (number, slot) in tables.iter_mut().enumerate() {
            let (offset, len) = (r.u32()?, r.u32()?);
            // Tables stand in order, each at the next multiple of eight.
            let expected = end.checked_next_multiple_of(8).ok_or(bad(number))?;
            if offset as usize != expected {
                return Err(bad(number));
            }
            *slot = crate::bytes::slice(bytes, u64::from(offset), u64::from(len)).ok_or(bad(number))?;
            end = expected.saturating_add(len as usize);
        }
        if end != bytes.len() {
            return Err(Error::new(Code::TokenizerLength).at(end as u64));
        }
        let section = Self { header, tables };
        section.check()?;
        Ok(section)
    }

    /// The fixed section of the byte tokenizer.
    fn parse_bytes(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.len() != field::BTOK_LEN {
            return Err(Error::new(Code::TokenizerLength).at(0));
        }
        for (i, expected) in [field::VERSION, 260, 256, 257, 258, 259].into_iter().enumerate() {
            if Words(bytes).u32(i.saturating_add(1)) != Some(expected) {
                return Err(Error::new(Code::TokenizerHeader).at(4 + 4 * i as u64));
            }
        }
        let header = Header {
            kind: Kind::Bytes,
            flags: flag::BYTE_UNITS,
            id_count: 260,
            special_count: 4,
            unicode: 0,
            unk: 259,
            class_count: 1,
            max_token: 1,
            growth: 1,
            growth_fixed: 0,
            growth_units: 1,
            split_before: NONE,
            merge_base: NONE,
            merge_count: 0,
            max_word_chars: 0,
            prefix_len: 0,
            suffix_len: 0,
            unk_score: 0.0,
        };
        Ok(Self { header, tables: [&[]; table::COUNT] })
    }

    /// A table's bytes.
    #[inline]
    pub fn table(&self, number: usize) -> &'a [u8] {
        self.tables.get(number).copied().unwrap_or(&[])
    }

    /// A table as an array of words.
    #[inline]
    pub fn words(&self, number: usize) -> Words<'a> {
        Words(self.table(number))
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, bit: u32) -> bool {
        self.header.flags & bit != 0
    }

    /// `len` bytes at `offset` of the strings.
    pub fn string(&self, offset: u32, len: u32) -> &'a [u8] {
        crate::bytes::slice(self.table(table::STRINGS), u64::from(offset), u64::from(len)).unwrap_or(&[])
    }

    /// Element `i` of an offsets table and its bytes.
    #[inline]
    pub fn item(&self, offsets: usize, bytes: usize, i: u32) -> &'a [u8] {
        let words = self.words(offsets);
        let i = i as usize;
        let (Some(start), Some(end)) = (words.u32(i), words.u32(i.saturating_add(1))) else { return &[] };
        self.table(bytes).get(start as usize..end as usize).unwrap_or(&[])
    }

    /// Whether bit `class` of mask `mask` is set.
    #[inline]
    pub fn in_mask(&self, mask: u32, class: u8) -> bool {
        let at = (mask as usize).saturating_mul(32).saturating_add(usize::from(class >> 3));
        self.table(table::MASKS).get(at).is_some_and(|byte| byte >> (class & 7) & 1 != 0)
    }

    fn check(&self) -> Result<(), Error> {
        use table::*;
        let h = &self.header;
        let n = h.id_count as usize;
        let sized = |number: usize, len: usize| -> Result<(), Error> {
            if self.table(number).len() == len { Ok(()) } else { Err(bad(number)) }
        };
        let ids = |number: usize, none: bool| -> Result<(), Error> {
            let words = self.words(number);
            let good = words.iter32().all(|id| id < h.id_count || (none && id == NONE));
            if words.0.len().is_multiple_of(4) && good { Ok(()) } else { Err(bad(number)) }
        };
        let spans = |offsets: usize, bytes: usize| -> Result<(), Error> {
            let end = self.table(bytes).len();
            let mut last = 0u32;
            for (i, at) in self.words(offsets).iter32().enumerate() {
                if at < last || at as usize > end || (i == 0 && at != 0) {
                    return Err(bad(offsets));
                }
                last = at;
            }
            if last as usize == end { Ok(()) } else { Err(bad(offsets)) }
        };
        sized(OFFSETS, n.saturating_add(1).saturating_mul(4))?;
        spans(OFFSETS, BYTES)?;
        sized(FLAGS, n)?;
        let flags = self.table(FLAGS);
        if flags.iter().any(|f| f & !token::ALL != 0)
            || flags.iter().filter(|f| **f & token::SPECIAL != 0).count() != h.special_count as usize
        {
            return Err(bad(FLAGS));
        }
        let vocab = self.words(VOCAB);
        if !vocab.0.len().is_multiple_of(4) || vocab.iter32().any(|s| s != NONE && s & MAX_ID >= h.id_count) {
            return Err(bad(VOCAB));
        }
        // A table without an empty slot would let a search run through all of it.
        if !vocab.0.is_empty() && vocab.iter32().all(|s| s != NONE) {
            return Err(bad(VOCAB));
        }
        let merges = self.words(MERGES);
        let mut empty = merges.0.is_empty();
        for chunk in merges.0.chunks_exact(8) {
            let entry = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
            if entry == u64::MAX {
                empty = true;
                continue;
            }
            let (left, right) = ((entry >> 21) as u32 & MAX_ID, entry as u32 & MAX_ID);
            if left >= h.id_count || right >= h.id_count || (entry >> 42) as u32 >= h.merge_count {
                return Err(bad(MERGES));
            }
        }
        if !merges.0.len().is_multiple_of(8) || !empty {
            return Err(bad(MERGES));
        }
        if h.merge_base == NONE {
            sized(MERGE_IDS, (h.merge_count as usize).saturating_mul(4))?;
        } else {
            sized(MERGE_IDS, 0)?;
            if h.merge_base.checked_add(h.merge_count).is_none_or(|end| end > h.id_count) {
                return Err(bad(MERGE_IDS));
            }
        }
        ids(MERGE_IDS, false)?;
        sized(SCORES, if h.kind == Kind::Unigram { n.saturating_mul(8) } else { 0 })?;
        sized(UNIT_IDS, 1024)?;
        ids(UNIT_IDS, true)?;
        sized(FALLBACK_IDS, if self.has(flag::BYTE_FALLBACK) { 1024 } else { 0 })?;
        ids(FALLBACK_IDS, false)?;
        sized(CLASS_INDEX, PAGES * 2)?;
        let pages = self.table(CLASS_PAGES);
        if !pages.len().is_multiple_of(PAGE) || pages.iter().any(|class| u32::from(*class) >= h.class_count) {
            return Err(bad(CLASS_PAGES));
        }
        let index = self.words(CLASS_INDEX);
        if (0..PAGES).any(|i| usize::from(index.u16(i).unwrap_or(u16::MAX)) >= pages.len() / PAGE) {
            return Err(bad(CLASS_INDEX));
        }
        sized(BYTE_CLASSES, 256)?;
        if self.table(BYTE_CLASSES).iter().any(|class| u32::from(*class) >= h.class_count) {
            return Err(bad(BYTE_CLASSES));
        }
        super::automaton::check(self)?;
        if !self.table(MASKS).len().is_multiple_of(32) || self.table(MASKS).len() < 64 {
            return Err(bad(MASKS));
        }
        super::normalize::check(self)?;
        super::split::check(self)?;
        super::added::check(self, ADDED_RAW)?;
        super::added::check(self, ADDED_NORMALIZED)?;
        let affixes = self.words(AFFIXES);
        let prefix = affixes.u32(0).ok_or(bad(AFFIXES))?;
        if !affixes.0.len().is_multiple_of(4)
            || prefix as usize >= affixes.len32()
            || affixes.iter32().skip(1).any(|id| id >= h.id_count)
        {
            return Err(bad(AFFIXES));
        }
        let strings = self.table(STRINGS).len() as u64;
        if u64::from(h.prefix_len).saturating_add(u64::from(h.suffix_len)) > strings {
            return Err(bad(STRINGS));
        }
        for variant in 0..4 {
            let (offsets, bytes) = (PIECES + 2 * variant, PIECES + 2 * variant + 1);
            // An absent table of the inner pieces means the tokens themselves, any other the inner pieces.
            if !self.table(offsets).is_empty() || !self.table(bytes).is_empty() {
                sized(offsets, n.saturating_add(1).saturating_mul(4))?;
                spans(offsets, bytes)?;
            }
        }
        super::decode::check(self)
    }
}

impl Header {
    fn check(&self) -> Result<(), Error> {
        let field = |at: u64| Error::new(Code::TokenizerHeader).at(at);
        if self.flags & !flag::ALL != 0 {
            return Err(field(12));
        }
        if self.id_count == 0 || self.id_count > MAX_ID {
            return Err(field(16));
        }
        if self.unk != NONE && self.unk >= self.id_count {
            return Err(field(28));
        }
        if self.class_count == 0 || self.class_count > 255 {
            return Err(field(32));
        }
        // Bounds keep every product of a text's length and a growth inside 64 bits, and scratch sizes honest.
        if self.growth == 0 || self.growth > 4096 {
            return Err(field(40));
        }
        if self.growth_fixed > 4096 {
            return Err(field(44));
        }
        if self.growth_units == 0 || self.growth_units > 4096 {
            return Err(field(48));
        }
        if self.split_before != NONE && char::from_u32(self.split_before).is_none() {
            return Err(field(52));
        }
        if self.merge_count > MAX_RANK {
            return Err(field(60));
        }
        if !self.unk_score.is_finite() {
            return Err(field(76));
        }
        Ok(())
    }
}
