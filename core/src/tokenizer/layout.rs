//! The numbers of a compiled section: fields of the header, flags, tables, pairs.

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
    pub const VERSION: u32 = 2;

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
    pub(in crate::tokenizer) const MERGE_BASE: usize = 52;
    pub(in crate::tokenizer) const MERGE_COUNT: usize = 56;
    pub(in crate::tokenizer) const MAX_WORD_CHARS: usize = 60;
    /// Lengths of the strings with which the strings begin, in the order of [`super::head`].
    pub(in crate::tokenizer) const HEAD_LENS: usize = 64;
    pub(in crate::tokenizer) const DECODE_FLAGS: usize = 84;
    pub(in crate::tokenizer) const STRIP: usize = 88;
    pub(in crate::tokenizer) const STRIP_START: usize = 92;
    pub(in crate::tokenizer) const STRIP_STOP: usize = 96;
    pub(in crate::tokenizer) const RESERVED: usize = 100;
    pub(in crate::tokenizer) const UNK_SCORE: usize = 104;
    /// Offset and length of each table.
    pub(in crate::tokenizer) const DIRECTORY: usize = 112;
}

/// The strings with which the strings begin, one after the other.
pub mod head {
    /// Before every unit but the first.
    pub const PREFIX: usize = 0;
    /// After the last unit.
    pub const SUFFIX: usize = 1;
    /// What is replaced in the text of a run of byte tokens.
    pub const PATTERN: usize = 2;
    /// What it becomes.
    pub const CONTENT: usize = 3;
    /// What it becomes in the first run.
    pub const FIRST: usize = 4;
    /// Number of these strings.
    pub const COUNT: usize = 5;
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

/// Bits of a class's flags.
pub mod class {
    /// White space.
    pub const SPACE: u8 = 1;
    /// Word characters.
    pub const WORD: u8 = 2;
}

/// Steps of the normalizer and stages of the pre-tokenizer: records of six words.
pub mod step {
    /// Cuts at the matches of its automaton.
    pub const SPLIT: u32 = 1;
    /// Matches become strings.
    pub const CHANGE: u32 = 2;
    /// Matches and the character before them become a normal form.
    pub const CANONICAL: u32 = 3;

    /// Words of a record.
    pub const WORDS: usize = 6;
    pub(in crate::tokenizer) const KIND: usize = 0;
    pub(in crate::tokenizer) const AUTOMATON: usize = 1;
    pub(in crate::tokenizer) const FLAGS: usize = 2;
    pub(in crate::tokenizer) const ROOT: usize = 3;
    pub(in crate::tokenizer) const OFFSET: usize = 4;
    pub(in crate::tokenizer) const LEN: usize = 5;
}

/// Bits of a step's flags.
pub mod step_flag {
    /// The automaton reads bytes of the byte-level alphabet.
    pub const BYTES: u32 = 1;
    /// Split: text between matches is dropped. The bit above is that of matches.
    pub const DROP_REST: u32 = 2;
    /// Split: matches are dropped.
    pub const DROP_MATCH: u32 = 4;
    /// Split: text before a match is one piece with it. The bit above is that of matches.
    pub const JOIN_REST: u32 = 8;
    /// Split: a match is one piece with the text after it.
    pub const JOIN_MATCH: u32 = 16;
    /// Change: the string comes before the match and not in its place.
    pub const KEEP: u32 = 32;
    /// Change: only where the match begins in the first character of the whole text.
    pub const FIRST: u32 = 64;
    /// Canonical: characters are composed again.
    pub const COMPOSE: u32 = 128;
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
    pub const CLASS_FLAGS: usize = 12;
    pub const AUTOMATA: usize = 13;
    pub const TRANSITIONS: usize = 14;
    pub const NORMALIZER: usize = 15;
    pub const PRE_TOKENIZER: usize = 16;
    pub const PAIRS: usize = 17;
    pub const STRINGS: usize = 18;
    pub const ADDED_RAW: usize = 19;
    pub const ADDED_NORMALIZED: usize = 20;
    pub const AFFIXES: usize = 21;
    /// Four pairs of offsets and bytes: inner, first, last, only.
    pub const PIECES: usize = 22;
    pub const COUNT: usize = 30;
}

/// The second numbers of pairs that are no characters, and the first node of the tries.
pub mod pair {
    /// The combining class of a character.
    pub const CLASS: u32 = 0x1F_FFF0;
    /// The id of a unit: bit 0 with the prefix, bit 1 with the suffix.
    pub const UNIT: u32 = 0x1F_FFF4;
    /// Nodes are from here to [`CLASS`].
    pub const NODE: u32 = 0x11_0000;
    /// The bit of a result that says: a string ends here, and this is the offset of what it becomes.
    pub const END: u32 = 1 << 21;
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
