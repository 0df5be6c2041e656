//! Byte-pair encoding of one piece.
//!
//! The lowest rank merges first, the leftmost of equal ranks first. The ranks of all neighbours are the leaves of a tree
//! whose nodes hold the lowest rank below them, so that n units cost O(n log n).

use super::section::{MAX_ID, NONE, Section, Words, field, flag, head, pair, table};
use super::text::decode;
use super::vocab::{Hash, Pairs, Vocab, WHOLE};
use super::{Ids, scratch_error};
use crate::error::{Code, Error};

/// Words of scratch per unit: the unit, its length, and four of the tree.
pub const SCRATCH_PER_UNIT: usize = 6;

/// A byte-pair model. A word-level model is one whose pieces are tokens or all of them unknown.
#[derive(Clone, Copy, Debug)]
pub struct Bpe<'a> {
    section: Section<'a>,
    vocab: Vocab<'a>,
    merges: Pairs<'a>,
    merge_ids: Words<'a>,
    suffix: &'a [u8],
}

impl<'a> Bpe<'a> {
    /// The section's model.
    pub fn new(section: &Section<'a>) -> Self {
        Self {
            section: *section,
            vocab: Vocab::new(section),
            merges: Pairs::new(section.words(table::MERGES)),
            merge_ids: section.words(table::MERGE_IDS),
            suffix: section.head(head::SUFFIX),
        }
    }

    /// Appends the ids of `piece`.
    pub fn encode(&self, piece: &[u8], scratch: &mut [u32], ids: &mut Ids<'_>) -> Result<(), Error> {
        let always = self.section.has(flag::IGNORE_MERGES);
        let suffix = if always { &[] } else { self.suffix };
        let hash = Hash::EMPTY.with(piece).with(suffix);
        if let Some(slot) = self.vocab.find(hash, [piece, suffix])
            && (always || slot & WHOLE != 0)
        {
            ids.push(slot & MAX_ID);
            return Ok(());
        }
        self.merge(piece, scratch, ids)
    }

    /// The ids of `word` by merges alone.
    pub fn merge(&self, word: &[u8], scratch: &mut [u32], ids: &mut Ids<'_>) -> Result<(), Error> {
        let most = word.len().min(scratch.len() / SCRATCH_PER_UNIT);
        let (units, rest) = scratch.split_at_mut_checked(most).ok_or(scratch_error())?;
        let count = self.units(word, units)?;
        let leaves = count.next_power_of_two();
        let (lens, tree) = rest.split_at_mut_checked(count).ok_or(scratch_error())?;
        lens.fill(1);
        let units = units.get_mut(..count).ok_or(scratch_error())?;
        let ranks = tree.get_mut(..leaves.wrapping_mul(2)).ok_or(scratch_error())?;
        ranks.fill(NONE);
        let mut line = Line { units, lens, ranks, leaves };
        for at in 1..count {
            let at = at.wrapping_sub(1);
            put(line.ranks, leaves.wrapping_add(at), self.rank(&line, at));
        }
        for node in (1..leaves).rev() {
            line.lowest_below(node);
        }
        while get(line.ranks, 1) != NONE {
            let (at, rank) = line.first_of_lowest();
            let base = self.section.field(field::MERGE_BASE);
            let id = if base == NONE { get_word(self.merge_ids, rank) } else { base.wrapping_add(rank) };
            line.join(at, id);
            line.set_rank(at, self.rank(&line, at));
            if let Some(end) = at.checked_sub(1) {
                let before = at.wrapping_sub(get(line.lens, end) as usize);
                line.set_rank(before, self.rank(&line, before));
            }
        }
        let mut at = 0usize;
        while let Some(id) = line.units.get(at) {
            ids.push(*id);
            at = line.next(at);
        }
        Ok(())
    }

    /// Rank of the merge of the symbol at `at` and the next one.
    #[inline]
    fn rank(&self, line: &Line<'_>, at: usize) -> u32 {
        match (line.units.get(at), line.units.get(line.next(at))) {
            (Some(left), Some(right)) => self.merges.get(*left, *right),
            _ => NONE,
        }
    }

    /// The ids of the single units of `word`; unknown units follow the model's rules.
    fn units(&self, word: &[u8], out: &mut [u32]) -> Result<usize, Error> {
        let section = &self.section;
        let prefix = section.head(head::PREFIX);
        let table = section.words(table::UNIT_IDS);
        let unk = section.field(field::UNK);
        let mut out = Ids::new(out);
        let mut unknown = false;
        let mut at = 0usize;
        while at < word.len() {
            let first = word.get(at).copied().unwrap_or(0);
            let (code, len) = if section.has(flag::BYTE_UNITS) { (u32::from(first), 1) } else { decode(word, at) };
            let end = at.wrapping_add(len);
            let before: &[u8] = if at == 0 { &[] } else { prefix };
            let after: &[u8] = if end < word.len() { &[] } else { self.suffix };
            let place = u32::from(!before.is_empty()) | u32::from(!after.is_empty()) << 1;
            let id = if place == 0 && len == 1 {
                get_word(table, code)
            } else {
                section.pair(code, pair::UNIT.wrapping_add(place))
            };
            if id != NONE {
                if core::mem::take(&mut unknown) {
                    out.push(unk);
                }
                out.push(id);
            } else if section.has(flag::BYTE_FALLBACK) {
                for part in [before, word.get(at..end).unwrap_or(&[]), after] {
                    part.iter().for_each(|byte| out.push(section.word(table::FALLBACK_IDS, usize::from(*byte))));
                }
            } else if section.has(flag::HAS_UNK) {
                if unk == NONE {
                    return Err(Error::new(Code::MissingUnknownToken));
                }
                if unknown && !section.has(flag::FUSE_UNK) {
                    out.push(unk);
                }
                unknown = true;
            }
            at = end;
        }
        if unknown {
            out.push(unk);
        }
        if out.full { Err(scratch_error()) } else { Ok(out.len) }
    }
}

/// The symbols of a piece. A symbol stands where its first unit stood.
struct Line<'s> {
    units: &'s mut [u32],
    /// Units of a symbol, at its first unit and at its last.
    lens: &'s mut [u32],
    /// Nodes 1 to `leaves - 1`, each the lower of nodes 2n and 2n + 1; then the ranks.
    ranks: &'s mut [u32],
    leaves: usize,
}

impl Line<'_> {
    fn next(&self, at: usize) -> usize {
        at.wrapping_add(get(self.lens, at) as usize)
    }

    /// Whether the node's rank is another one than before.
    fn lowest_below(&mut self, node: usize) -> bool {
        let left = node.wrapping_mul(2);
        let (rank, before) = (get(self.ranks, left).min(get(self.ranks, left.wrapping_add(1))), get(self.ranks, node));
        put(self.ranks, node, rank);
        rank != before
    }

    fn set_rank(&mut self, at: usize, rank: u32) {
        let mut node = self.leaves.wrapping_add(at);
        put(self.ranks, node, rank);
        while node > 1 {
            node /= 2;
            if !self.lowest_below(node) {
                break;
            }
        }
    }

    /// The first symbol of lowest rank, and the rank.
    fn first_of_lowest(&self) -> (usize, u32) {
        let rank = get(self.ranks, 1);
        let mut node = 1usize;
        while node < self.leaves {
            node = node.wrapping_mul(2);
            if get(self.ranks, node) != rank {
                node = node.wrapping_add(1);
            }
        }
        (node.wrapping_sub(self.leaves), rank)
    }

    /// The symbol at `at` and the next one become `id`.
    fn join(&mut self, at: usize, id: u32) {
        let gone = self.next(at);
        let end = self.next(gone);
        let len = end.wrapping_sub(at) as u32;
        put(self.units, at, id);
        put(self.lens, at, len);
        put(self.lens, end.wrapping_sub(1), len);
        self.set_rank(gone, NONE);
    }
}

#[inline]
fn get(words: &[u32], at: usize) -> u32 {
    words.get(at).copied().unwrap_or(NONE)
}

#[inline]
fn put(words: &mut [u32], at: usize, word: u32) {
    if let Some(slot) = words.get_mut(at) {
        *slot = word;
    }
}

fn get_word(words: Words<'_>, at: u32) -> u32 {
    words.u32(at as usize).unwrap_or(NONE)
}
