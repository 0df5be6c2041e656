//! The checks of a section at the door: what reads it afterwards cannot meet a damaged table.

use super::layout::{Kind, MAX_ID, MAX_RANK, NONE, PAGE, PAGES, field, flag, table, token};
use super::section::{Section, Words};
use crate::bytes::u32_at;
use crate::error::{Code, Error};

/// Table `number` is not as it should be.
pub(super) fn bad(number: usize) -> Error {
    Error::new(Code::TokenizerTable).entry(number as u32)
}

impl Section<'_> {
    /// Position of the first field of the header that is out of range.
    #[inline(never)]
    pub(super) fn broken_field(&self) -> Option<usize> {
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

    /// Checks all tables.
    pub(super) fn check(&self) -> Result<(), Error> {
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
