//! Canonical decomposition, order and composition of a line of characters.

use super::scratch_error;
use super::section::Words;
use crate::error::Error;
use core::cmp::Ordering;

/// The tables of one normal form.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// (code point, string offset, string length): full decompositions, Hangul excepted.
    pub map: Words<'a>,
    /// (code point, combining class), classes other than 0.
    pub class: Words<'a>,
    /// (first, second, composite); empty where the form does not compose.
    pub pair: Words<'a>,
}

const CODE: u32 = 0x1F_FFFF;
const CLASS_SHIFT: u32 = 21;
const MARKED: u32 = 1 << 29;
const FIRST: u32 = 1 << 30;

/// First word of the entry of `size` words that compares equal, among ascending entries.
pub fn search(entries: Words<'_>, size: usize, compare: impl Fn(usize) -> Ordering) -> Option<usize> {
    let (mut low, mut high) = (0usize, entries.len32().checked_div(size)?);
    while low < high {
        let middle = low.saturating_add(high) / 2;
        let at = middle.saturating_mul(size);
        match compare(at) {
            Ordering::Less => low = middle.saturating_add(1),
            Ordering::Greater => high = middle,
            Ordering::Equal => return Some(at),
        }
    }
    None
}

const S: u32 = 0xAC00;
const L: u32 = 0x1100;
const V: u32 = 0x1161;
const T: u32 = 0x11A7;

/// The two or three letters of a Hangul syllable.
pub fn hangul(code: u32) -> Option<[Option<u32>; 3]> {
    let index = code.checked_sub(S).filter(|i| *i < 11_172)?;
    let tail = index % 28;
    Some([
        Some(L.wrapping_add(index / 588)),
        Some(V.wrapping_add(index % 588 / 28)),
        (tail != 0).then(|| T.wrapping_add(tail)),
    ])
}

impl Tables<'_> {
    fn class(&self, code: u32) -> u32 {
        let found = search(self.class, 2, |at| self.class.u32(at).unwrap_or(0).cmp(&code));
        found.and_then(|at| self.class.u32(at.wrapping_add(1))).unwrap_or(0) & 0xFF
    }

    fn compose(&self, first: u32, second: u32) -> Option<u32> {
        let (l, v, t) = (first.wrapping_sub(L), second.wrapping_sub(V), second.wrapping_sub(T));
        if l < 19 && v < 21 {
            return Some(l.wrapping_mul(588).wrapping_add(v.wrapping_mul(28)).wrapping_add(S));
        }
        let s = first.wrapping_sub(S);
        if s < 11_172 && s.is_multiple_of(28) && t < 28 && t != 0 {
            return Some(first.wrapping_add(t));
        }
        let word = |at: usize| self.pair.u32(at).unwrap_or(0);
        let at = search(self.pair, 3, |at| (word(at), word(at.wrapping_add(1))).cmp(&(first, second)))?;
        self.pair.u32(at.wrapping_add(2))
    }
}

/// Decomposed characters in the caller's memory: code point, combining class, content, from the first character.
#[derive(Debug)]
pub struct Line<'s> {
    chars: &'s mut [u32],
    len: usize,
    full: bool,
}

impl<'s> Line<'s> {
    /// An empty line. Half of `memory` holds characters, half serves reordering.
    pub fn new(memory: &'s mut [u32]) -> Self {
        Self { chars: memory, len: 0, full: false }
    }

    /// Appends a decomposed character.
    pub fn push(&mut self, tables: &Tables<'_>, code: u32, marked: bool, first: bool) {
        let class = if code < 0x300 { 0 } else { tables.class(code) };
        let flags = (u32::from(marked) * MARKED) | (u32::from(first) * FIRST);
        let half = self.chars.len() / 2;
        match self.chars.get_mut(..half).and_then(|chars| chars.get_mut(self.len)) {
            Some(slot) => *slot = code & CODE | class << CLASS_SHIFT | flags,
            None => self.full = true,
        }
        self.len = self.len.saturating_add(1);
    }

    /// Orders marks, composes, and gives the characters.
    pub fn finish(self, tables: &Tables<'_>) -> Result<impl Iterator<Item = (u32, bool, bool)> + use<'s>, Error> {
        if self.full {
            return Err(scratch_error());
        }
        let half = self.chars.len() / 2;
        let (chars, spare) = self.chars.split_at_mut_checked(half).ok_or(scratch_error())?;
        let chars = chars.get_mut(..self.len).ok_or(scratch_error())?;
        order(chars, spare);
        let len = if tables.pair.0.is_empty() { self.len } else { compose(chars, tables) };
        let chars: &'s [u32] = chars;
        Ok(chars.iter().take(len).map(|c| (c & CODE, c & MARKED != 0, c & FIRST != 0)))
    }
}

fn class(c: u32) -> u32 {
    c >> CLASS_SHIFT & 0xFF
}

/// Sorts each run of marks by class and keeps the order of equals: one pass per class that occurs.
fn order(chars: &mut [u32], spare: &mut [u32]) {
    let mut rest = chars;
    while !rest.is_empty() {
        let marks = |pair: &&[u32]| pair.iter().all(|c| class(*c) != 0);
        let len = rest.windows(2).take_while(marks).count().saturating_add(1);
        let (run, after) = core::mem::take(&mut rest).split_at_mut_checked(len).unwrap_or_default();
        rest = after;
        if run.is_sorted_by_key(|c| class(*c)) {
            continue;
        }
        let mut present = [0u32; 8];
        for c in run.iter() {
            if let Some(bits) = present.get_mut((class(*c) / 32) as usize) {
                *bits |= 1 << (class(*c) % 32);
            }
        }
        let mut to = spare.iter_mut();
        for wanted in 0..256u32 {
            if present.get((wanted / 32) as usize).is_some_and(|bits| bits >> (wanted % 32) & 1 != 0) {
                for c in run.iter().filter(|c| class(**c) == wanted) {
                    if let Some(slot) = to.next() {
                        *slot = *c;
                    }
                }
            }
        }
        for (c, sorted) in run.iter_mut().zip(spare.iter()) {
            *c = *sorted;
        }
    }
}

/// Joins what composes, in place; returns the new length.
fn compose(chars: &mut [u32], tables: &Tables<'_>) -> usize {
    let mut starter: Option<usize> = None;
    let mut len = 0usize;
    let mut last = 0u32;
    for at in 0..chars.len() {
        let c = chars.get(at).copied().unwrap_or(0);
        if let Some(s) = starter
            && (s.wrapping_add(1) == len || last < class(c))
            && let Some(base) = chars.get_mut(s)
            && let Some(whole) = tables.compose(*base & CODE, c & CODE)
        {
            *base = *base & !CODE | whole | c & MARKED;
            continue;
        }
        last = class(c);
        if last == 0 {
            starter = Some(len);
        }
        if let Some(slot) = chars.get_mut(len) {
            *slot = c;
        }
        len = len.wrapping_add(1);
    }
    len
}
