//! The checks of a section at the door. What they do not promise reads as 0 or as nothing where it is read.

use super::layout::{Kind, MAX_ID, MAX_RANK, NONE, PAGE, PAGES, field, flag, head, step, table::*, token};
use super::section::Section;
use super::split::MAX_STAGES;
use super::{added, decode};
use crate::bytes::{Bound, bound, check_bounds};
use crate::error::{Code, Error};
use crate::utf8::is_text;

/// Table `number` is not as it should be.
pub(super) fn bad(number: usize) -> Error {
    Error::new(Code::TokenizerTable).entry(number as u32)
}

const fn header(at: usize, low: u32, high: u32) -> Bound {
    bound(at, low, high, Code::TokenizerHeader)
}

/// Ranges of the header's fields. Those of growth keep every product with a text's length inside 64 bits, and scratch
/// sizes honest.
static HEADER: [Bound; 12] = [
    header(field::FLAGS, 0, flag::ALL),
    header(field::ID_COUNT, 1, MAX_ID),
    header(field::CLASS_COUNT, 1, 255),
    header(field::GROWTH, 1, 4096),
    header(field::GROWTH_FIXED, 0, 4096),
    header(field::GROWTH_UNITS, 1, 4096),
    header(field::MERGE_COUNT, 0, MAX_RANK),
    header(field::DECODE_FLAGS, 0, decode::flag::ALL),
    header(field::STRIP, 0, char::MAX as u32),
    header(field::STRIP_START, 0, 64),
    header(field::STRIP_STOP, 0, 64),
    header(field::RESERVED, 0, 0),
];

/// A number that depends on the section: how many elements a table has, or what its elements are below.
#[derive(Clone, Copy)]
enum Of {
    Any,
    Ids,
    Scores,
    Bytes,
    Fallback,
    Listed,
    Pages,
    PagesHeld,
    Classes,
    Merges,
    Flags,
}

/// What the elements of a table are.
struct Rule {
    table: u8,
    /// Bytes before the elements, and of an element.
    skip: u8,
    size: u8,
    count: Of,
    /// Bits of an element that count: above the shift, and so many.
    shift: u8,
    bits: u8,
    below: Of,
    /// Whether all ones are allowed; in a hash table there must be such an element.
    empty: u8,
}

const NEVER: u8 = 0;
const MAY: u8 = 1;
const MUST: u8 = 2;

const fn rule(table: usize, size: u8, count: Of, below: Of) -> Rule {
    Rule { table: table as u8, skip: 0, size, count, shift: 0, bits: 32, below, empty: NEVER }
}

static RULES: [Rule; 16] = [
    rule(FLAGS, 1, Of::Ids, Of::Flags),
    // A hash table without an empty slot would let a search run through all of it.
    Rule { bits: 21, empty: MUST, ..rule(VOCAB, 4, Of::Any, Of::Ids) },
    Rule { shift: 42, empty: MUST, ..rule(MERGES, 8, Of::Any, Of::Merges) },
    rule(MERGE_IDS, 4, Of::Listed, Of::Ids),
    rule(SCORES, 8, Of::Scores, Of::Any),
    Rule { empty: MAY, ..rule(UNIT_IDS, 4, Of::Bytes, Of::Ids) },
    rule(FALLBACK_IDS, 4, Of::Fallback, Of::Ids),
    rule(CLASS_PAGES, 1, Of::Any, Of::Classes),
    rule(CLASS_INDEX, 2, Of::Pages, Of::PagesHeld),
    rule(BYTE_CLASSES, 1, Of::Bytes, Of::Classes),
    rule(CLASS_FLAGS, 1, Of::Bytes, Of::Any),
    rule(TRANSITIONS, 2, Of::Any, Of::Any),
    Rule { empty: MUST, ..rule(PAIRS, 8, Of::Any, Of::Any) },
    Rule { skip: added::ENTRIES as u8, bits: 21, ..rule(ADDED_RAW, 4, Of::Any, Of::Ids) },
    Rule { skip: added::ENTRIES as u8, bits: 21, ..rule(ADDED_NORMALIZED, 4, Of::Any, Of::Ids) },
    Rule { skip: 4, ..rule(AFFIXES, 4, Of::Any, Of::Ids) },
];

impl Section<'_> {
    /// Checks the header's fields.
    pub(super) fn check_head(&self) -> Result<(), Error> {
        check_bounds(self.bytes, 0, &HEADER)?;
        let ids = u64::from(self.field(field::ID_COUNT));
        let merge_base = self.field(field::MERGE_BASE);
        let merges_end = u64::from(merge_base).saturating_add(u64::from(self.field(field::MERGE_COUNT)));
        let unk = self.field(field::UNK);
        let broken = if unk != NONE && u64::from(unk) >= ids {
            field::UNK
        } else if merge_base != NONE && merges_end > ids {
            field::MERGE_BASE
        } else if !self.unk_score().is_finite() {
            field::UNK_SCORE
        } else {
            return Ok(());
        };
        Err(Error::new(Code::TokenizerHeader).at(broken as u64))
    }

    /// A number of the rules, [`NONE`] where any will do.
    fn number(&self, of: Of) -> u32 {
        let ids = self.field(field::ID_COUNT);
        let only = |holds: bool, number: u32| if holds { number } else { 0 };
        match of {
            Of::Any => NONE,
            Of::Ids => ids,
            Of::Scores => only(self.is(Kind::Unigram), ids),
            Of::Bytes => 256,
            Of::Fallback => only(self.has(flag::BYTE_FALLBACK), 256),
            Of::Listed => only(self.field(field::MERGE_BASE) == NONE, self.field(field::MERGE_COUNT)),
            Of::Pages => PAGES as u32,
            Of::PagesHeld => (self.table(CLASS_PAGES).len() / PAGE) as u32,
            Of::Classes => self.field(field::CLASS_COUNT),
            Of::Merges => self.field(field::MERGE_COUNT),
            Of::Flags => u32::from(token::ALL) + 1,
        }
    }

    /// Whether a table is as its rule says.
    fn obeys(&self, rule: &Rule) -> bool {
        let (skip, size) = (usize::from(rule.skip), usize::from(rule.size));
        let bytes = self.table(usize::from(rule.table));
        let Some(elements) = bytes.get(skip..) else { return bytes.is_empty() };
        let (count, below) = (self.number(rule.count), self.number(rule.below));
        let ones = u64::MAX >> 64u32.saturating_sub(u32::from(rule.size).saturating_mul(8));
        let mask = u64::MAX >> 64u32.saturating_sub(u32::from(rule.bits));
        let mut empty = elements.is_empty();
        let mut seen = 0u32;
        let mut rest = elements;
        while !rest.is_empty() {
            let Some((element, after)) = rest.split_at_checked(size) else { return false };
            let element = element.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            let none = rule.empty != NEVER && element == ones;
            if !none && element >> rule.shift & mask >= u64::from(below) && below != NONE {
                return false;
            }
            empty |= none;
            seen = seen.saturating_add(1);
            rest = after;
        }
        (count == NONE || count == seen) && (empty || rule.empty != MUST)
    }

    /// Whether an offsets table cuts up all of the next table in order, into a token for each id or any number of automata.
    fn cuts(&self, offsets: usize) -> bool {
        let (words, bytes) = (self.words(offsets), self.table(offsets.saturating_add(1)));
        if words.0.is_empty() && bytes.is_empty() {
            // Absent texts of a place are those of another place.
            return offsets != OFFSETS;
        }
        let mut last = 0u32;
        let ascends = |at: u32| core::mem::replace(&mut last, at) <= at;
        words.0.len().is_multiple_of(4)
            && (offsets == AUTOMATA || words.len32() == (self.field(field::ID_COUNT) as usize).saturating_add(1))
            && words.u32(0) == Some(0)
            && words.iter32().all(ascends)
            && last as usize == bytes.len()
    }

    /// Checks all tables.
    pub(super) fn check(&self) -> Result<(), Error> {
        for rule in &RULES {
            if !self.obeys(rule) {
                let table = usize::from(rule.table);
                let added = matches!(table, ADDED_RAW | ADDED_NORMALIZED);
                return Err(if added { Error::new(Code::TokenizerAdded).entry(table as u32) } else { bad(table) });
            }
        }
        for offsets in [OFFSETS, AUTOMATA, PIECES, PIECES + 2, PIECES + 4, PIECES + 6] {
            if !self.cuts(offsets) {
                return Err(bad(offsets));
            }
        }
        let special = self.table(FLAGS).iter().filter(|flags| **flags & token::SPECIAL != 0).count();
        if special != self.field(field::SPECIAL_COUNT) as usize {
            return Err(bad(FLAGS));
        }
        let heads = (0..head::COUNT).fold(0usize, |len, number| len.saturating_add(self.head(number).len()));
        let said = (0..head::COUNT).fold(0usize, |len, number| len.saturating_add(self.head_len(number) as usize));
        if heads != said || !is_text(self.table(STRINGS)) {
            return Err(bad(STRINGS));
        }
        self.check_steps(NORMALIZER, usize::MAX, Code::TokenizerStep)?;
        self.check_steps(PRE_TOKENIZER, MAX_STAGES, Code::TokenizerStage)?;
        self.check_texts()
    }

    /// Checks a table of steps, of which there may be `most`.
    fn check_steps(&self, table: usize, most: usize, code: Code) -> Result<(), Error> {
        let len = self.table(table).len();
        let automata = (self.table(AUTOMATA).len() / 4) as u32;
        // The words that the last record lacks read as 0, and there is no such kind.
        for number in 0..len.div_ceil(4 * step::WORDS) {
            let word = |i: usize| self.step(table, number, i);
            if number >= most
                || !(step::SPLIT..=step::CANONICAL).contains(&word(step::KIND))
                || word(step::AUTOMATON).saturating_add(1) >= automata
                || self.string(word(step::OFFSET), word(step::LEN)).len() != word(step::LEN) as usize
            {
                return Err(Error::new(code).entry(number as u32));
            }
        }
        Ok(())
    }

    /// Checks the tokens' texts: a byte token has one byte, and without the byte-level join all others are characters.
    fn check_texts(&self) -> Result<(), Error> {
        let lossy = self.field(field::DECODE_FLAGS) & decode::flag::LOSSY != 0;
        for (id, flags) in (0u32..).zip(self.table(FLAGS)) {
            for place in 0..4 {
                let text = decode::piece(self, id, place);
                let good = if flags & token::BYTE != 0 { text.len() == 1 } else { lossy || is_text(text) };
                if !good {
                    return Err(Error::new(Code::TokenizerToken).entry(id));
                }
            }
        }
        Ok(())
    }
}
