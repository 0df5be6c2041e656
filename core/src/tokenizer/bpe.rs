//! Byte-pair encoding of one piece.
//!
//! The lowest rank merges first, the leftmost of equal ranks first. Short pieces are searched linearly; long ones keep
//! a heap in the caller's scratch, so that the cost is O(n log n) in the worst case.

use super::section::{MAX_ID, NONE, Section, field, flag, table};
use super::text::char_len;
use super::vocab::{Hash, Merges, Vocab, WHOLE};
use super::{Ids, scratch_error};
use crate::error::{Code, Error};
use core::cell::Cell;

/// Units up to which pieces are merged by linear search, on the stack.
const SHORT: usize = 48;

/// Words of scratch per unit of a long piece.
pub const SCRATCH_PER_UNIT: usize = 7;

/// A byte-pair model.
#[derive(Clone, Copy, Debug)]
pub struct Bpe<'a> {
    section: Section<'a>,
    vocab: Vocab<'a>,
    merges: Merges<'a>,
    prefix: &'a [u8],
    suffix: &'a [u8],
    split: [u8; 4],
    split_len: usize,
}

impl<'a> Bpe<'a> {
    /// The section's model.
    pub fn new(section: &Section<'a>) -> Self {
        let before = section.field(field::SPLIT_BEFORE);
        let (split, split_len) = if before == NONE { ([0; 4], 0) } else { super::text::encode(before) };
        let (prefix, suffix) = section.affixes();
        Self {
            section: *section,
            vocab: Vocab::new(section),
            merges: Merges::new(section),
            prefix,
            suffix,
            split,
            split_len,
        }
    }

    /// Appends the ids of `piece`.
    pub fn encode(&self, piece: &[u8], scratch: &mut [u32], ids: &mut Ids<'_>) -> Result<(), Error> {
        if self.split_len == 0 || self.section.has(flag::IGNORE_MERGES) {
            return self.word(piece, scratch, ids);
        }
        // No merge crosses the boundary before the marked character, so the parts are encoded one by one.
        let mark = self.split.get(..self.split_len).unwrap_or(&[]);
        let mut start = 0usize;
        while start < piece.len() {
            let rest = piece.get(start..).unwrap_or(&[]);
            let mut end = 0usize;
            while rest.get(end..).is_some_and(|r| r.starts_with(mark)) {
                end = end.wrapping_add(self.split_len);
            }
            while end < rest.len() && !rest.get(end..).is_some_and(|r| r.starts_with(mark)) {
                end = end.wrapping_add(char_len(rest.get(end).copied().unwrap_or(0)));
            }
            self.word(rest.get(..end).unwrap_or(rest), scratch, ids)?;
            start = start.saturating_add(end.max(1));
        }
        Ok(())
    }

    fn word(&self, word: &[u8], scratch: &mut [u32], ids: &mut Ids<'_>) -> Result<(), Error> {
        let hash = Hash::EMPTY.with(word);
        if self.section.has(flag::IGNORE_MERGES) {
            if let Some(slot) = self.vocab.find(hash, [word, &[], &[]]) {
                ids.push(slot & MAX_ID);
                return Ok(());
            }
        } else if let Some(slot) = self.vocab.find(hash.with(self.suffix), [word, self.suffix, &[]])
            && slot & WHOLE != 0
        {
            ids.push(slot & MAX_ID);
            return Ok(());
        }
        self.merge(word, scratch, ids)
    }

    /// The ids of `word` by merges alone.
    pub fn merge(&self, word: &[u8], scratch: &mut [u32], ids: &mut Ids<'_>) -> Result<(), Error> {
        if word.len() <= SHORT {
            let mut units = [0u32; SHORT];
            let count = self.units(word, &mut units)?;
            self.merge_short(units.get_mut(..count).unwrap_or(&mut []), ids);
            return Ok(());
        }
        let units = word.len().min(scratch.len() / SCRATCH_PER_UNIT);
        let (symbols, rest) = scratch.split_at_mut_checked(units).ok_or(scratch_error())?;
        let count = self.units(word, symbols)?;
        let (next, rest) = rest.split_at_mut_checked(count).ok_or(scratch_error())?;
        let (previous, heap) = rest.split_at_mut_checked(count).ok_or(scratch_error())?;
        let symbols = symbols.get_mut(..count).unwrap_or(&mut []);
        self.merge_long(Links { symbols, next, previous }, heap, ids)
    }

    /// The ids of the single units of `word`; unknown units follow the model's rules.
    fn units(&self, word: &[u8], out: &mut [u32]) -> Result<usize, Error> {
        let byte_units = self.section.has(flag::BYTE_UNITS);
        let plain = self.prefix.is_empty() && self.suffix.is_empty();
        let table = self.section.words(table::UNIT_IDS);
        let unk = self.section.field(field::UNK);
        let mut count = 0usize;
        let mut push = |id: u32| -> Result<(), Error> {
            *out.get_mut(count).ok_or(scratch_error())? = id;
            count = count.wrapping_add(1);
            Ok(())
        };
        let mut unknown = false;
        let mut at = 0usize;
        while at < word.len() {
            let first = word.get(at).copied().unwrap_or(0);
            let len = if byte_units { 1 } else { char_len(first) };
            let end = at.wrapping_add(len);
            let unit = word.get(at..end).unwrap_or(&[]);
            let (prefix, suffix): (&[u8], &[u8]) =
                (if at == 0 { &[] } else { self.prefix }, if end < word.len() { &[] } else { self.suffix });
            let known = if plain && len == 1 {
                table.u32(usize::from(first)).filter(|id| *id != NONE)
            } else {
                let hash = Hash::EMPTY.with(prefix).with(unit).with(suffix);
                self.vocab.find(hash, [prefix, unit, suffix]).map(|slot| slot & MAX_ID)
            };
            at = end;
            if let Some(id) = known {
                if core::mem::take(&mut unknown) {
                    push(unk)?;
                }
                push(id)?;
            } else if self.section.has(flag::BYTE_FALLBACK) {
                for byte in prefix.iter().chain(unit).chain(suffix) {
                    push(self.section.word(table::FALLBACK_IDS, usize::from(*byte)))?;
                }
            } else if self.section.has(flag::HAS_UNK) {
                if unk == NONE {
                    return Err(Error::new(Code::MissingUnknownToken));
                }
                if unknown && !self.section.has(flag::FUSE_UNK) {
                    push(unk)?;
                }
                unknown = true;
            }
        }
        if unknown {
            push(unk)?;
        }
        Ok(count)
    }

    fn merge_short(&self, units: &mut [u32], ids: &mut Ids<'_>) {
        let mut count = units.len();
        let mut ranks = [NONE; SHORT];
        let pair = |units: &[u32], i: usize| match (units.get(i), units.get(i.wrapping_add(1))) {
            (Some(left), Some(right)) => self.merges.rank(*left, *right),
            _ => NONE,
        };
        for (i, rank) in ranks.iter_mut().enumerate().take(count.saturating_sub(1)) {
            *rank = pair(units, i);
        }
        loop {
            let (mut best, mut at) = (NONE, 0usize);
            for (i, rank) in ranks.iter().enumerate().take(count.saturating_sub(1)) {
                if *rank < best {
                    (best, at) = (*rank, i);
                }
            }
            if best == NONE {
                break;
            }
            let after = at.wrapping_add(1);
            if let Some(unit) = units.get_mut(at) {
                *unit = self.merges.id(best);
            }
            remove(units, after, count);
            remove(&mut ranks, after, count);
            count = count.wrapping_sub(1);
            let units = units.get(..count).unwrap_or(&[]);
            if let Some(rank) = ranks.get_mut(at) {
                *rank = pair(units, at);
            }
            if let Some(before) = at.checked_sub(1)
                && let Some(rank) = ranks.get_mut(before)
            {
                *rank = pair(units, before);
            }
        }
        units.iter().take(count).for_each(|id| ids.push(*id));
    }

    fn merge_long(&self, mut links: Links<'_>, heap: &mut [u32], ids: &mut Ids<'_>) -> Result<(), Error> {
        let count = links.symbols.len();
        let mut heap = Heap::new(heap);
        for i in 0..count {
            let after = i.wrapping_add(1);
            links.set(i, if after < count { after as u32 } else { NONE }, (i as u32).wrapping_sub(1));
        }
        for i in 0..count {
            let rank = links.rank(&self.merges, i as u32);
            if rank != NONE {
                heap.append(rank, i as u32)?;
            }
        }
        heap.order();
        while let Some((rank, at)) = heap.pop() {
            // The entry may be older than its pair; what counts is the token it would make.
            let now = links.rank(&self.merges, at);
            let id = self.merges.id(rank);
            if now == NONE || self.merges.id(now) != id {
                continue;
            }
            links.join(at, id);
            for i in [links.previous(at), at] {
                let rank = links.rank(&self.merges, i);
                if rank != NONE {
                    heap.push(rank, i)?;
                }
            }
        }
        links.symbols.iter().filter(|id| **id != NONE).for_each(|id| ids.push(*id));
        Ok(())
    }
}

/// The symbols of a long piece as a doubly linked list. A joined symbol is [`NONE`].
struct Links<'s> {
    symbols: &'s mut [u32],
    next: &'s mut [u32],
    previous: &'s mut [u32],
}

impl Links<'_> {
    fn set(&mut self, i: usize, next: u32, previous: u32) {
        if let (Some(n), Some(p)) = (self.next.get_mut(i), self.previous.get_mut(i)) {
            (*n, *p) = (next, previous);
        }
    }

    fn symbol(&self, i: u32) -> u32 {
        self.symbols.get(i as usize).copied().unwrap_or(NONE)
    }

    fn next(&self, i: u32) -> u32 {
        self.next.get(i as usize).copied().unwrap_or(NONE)
    }

    fn previous(&self, i: u32) -> u32 {
        self.previous.get(i as usize).copied().unwrap_or(NONE)
    }

    #[inline]
    fn rank(&self, merges: &Merges<'_>, i: u32) -> u32 {
        let (left, right) = (self.symbol(i), self.symbol(self.next(i)));
        if left == NONE || right == NONE { NONE } else { merges.rank(left, right) }
    }

    fn join(&mut self, i: u32, id: u32) {
        let gone = self.next(i);
        let after = self.next(gone);
        if let Some(symbol) = self.symbols.get_mut(gone as usize) {
            *symbol = NONE;
        }
        if let Some(symbol) = self.symbols.get_mut(i as usize) {
            *symbol = id;
        }
        if let Some(next) = self.next.get_mut(i as usize) {
            *next = after;
        }
        if let Some(previous) = self.previous.get_mut(after as usize) {
            *previous = i;
        }
    }
}

/// A binary heap of (rank, position), smallest first, in the caller's memory.
struct Heap<'s> {
    entries: &'s mut [[u32; 2]],
    len: usize,
}

impl<'s> Heap<'s> {
    fn new(memory: &'s mut [u32]) -> Self {
        let even = memory.len() & !1;
        let entries = bytemuck::try_cast_slice_mut(memory.get_mut(..even).unwrap_or(&mut [])).unwrap_or(&mut []);
        Self { entries, len: 0 }
    }

    fn entry(&self, i: usize) -> [u32; 2] {
        self.entries.get(i).copied().unwrap_or([NONE; 2])
    }

    fn put(&mut self, i: usize, entry: [u32; 2]) {
        if let Some(slot) = self.entries.get_mut(i) {
            *slot = entry;
        }
    }

    fn append(&mut self, rank: u32, position: u32) -> Result<(), Error> {
        *self.entries.get_mut(self.len).ok_or(scratch_error())? = [rank, position];
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    fn order(&mut self) {
        for i in (0..self.len / 2).rev() {
            self.sink(i);
        }
    }

    fn push(&mut self, rank: u32, position: u32) -> Result<(), Error> {
        self.append(rank, position)?;
        let entry = [rank, position];
        let mut i = self.len.wrapping_sub(1);
        while i > 0 {
            let parent = i.wrapping_sub(1) / 2;
            if self.entry(parent) <= entry {
                break;
            }
            self.put(i, self.entry(parent));
            i = parent;
        }
        self.put(i, entry);
        Ok(())
    }

    fn pop(&mut self) -> Option<(u32, u32)> {
        let last = self.len.checked_sub(1)?;
        let [rank, position] = self.entry(0);
        self.put(0, self.entry(last));
        self.len = last;
        self.sink(0);
        Some((rank, position))
    }

    fn sink(&mut self, start: usize) {
        let entry = self.entry(start);
        let mut i = start;
        loop {
            let mut child = i.wrapping_mul(2).wrapping_add(1);
            if child >= self.len {
                break;
            }
            let right = child.wrapping_add(1);
            if right < self.len && self.entry(right) < self.entry(child) {
                child = right;
            }
            if entry <= self.entry(child) {
                break;
            }
            self.put(i, self.entry(child));
            i = child;
        }
        self.put(i, entry);
    }
}

/// Takes `items[at]` out of the first `count`.
fn remove(items: &mut [u32], at: usize, count: usize) {
    let cells = Cell::from_mut(items.get_mut(at..count).unwrap_or(&mut [])).as_slice_of_cells();
    for (to, from) in cells.iter().zip(cells.iter().skip(1)) {
        to.set(from.get());
    }
}
