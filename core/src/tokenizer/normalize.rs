//! Normalisation of a section of text, step by step, between two buffers.

use super::automaton::Automaton;
use super::canonical;
use super::scratch_error;
use super::section::{Mask, SPACES, Section, Words, table};
use super::text::{self, Classes};
use crate::error::{Code, Error};

/// Words of a step's record.
const RECORD: usize = 8;

/// Kinds of steps, and what the words of their records mean.
pub mod step {
    /// Code points to strings: mask, data, count. Data: (code point, string offset, string length), ascending.
    pub const MAP: u32 = 1;
    /// Canonical order, decomposition and composition: mask, map data, map count, class data, class count, pair data,
    /// pair count (0: no composition).
    pub const CANONICAL: u32 = 2;
    /// Matches of an automaton become a string: automaton, string offset, string length.
    pub const REPLACE: u32 = 3;
    /// Puts a string before a text that is not empty: string offset, string length.
    pub const PREPEND: u32 = 4;
    /// Drops white space: bit 0 left, bit 1 right.
    pub const STRIP: u32 = 5;
    /// A precompiled character map: automaton of grapheme clusters, data of the trie, units, string offset, length.
    pub const PRECOMPILED: u32 = 6;
    /// Each byte becomes a character: data of 256 code points.
    pub const BYTES: u32 = 7;
}

/// Text with a mark per byte for content, and the length of what came from the text's first character.
#[derive(Clone, Copy, Debug)]
pub struct View<'t> {
    /// UTF-8.
    pub bytes: &'t [u8],
    /// A bit per byte from `base` on, lowest first; bytes beyond it are not marked.
    pub marks: &'t [u8],
    /// Bit of the first byte.
    pub base: usize,
    /// Bytes that came from the first character of the whole text.
    pub first: usize,
}

impl<'t> View<'t> {
    /// Whether a byte is content.
    pub fn marked(&self, at: usize) -> bool {
        let bit = self.base.wrapping_add(at);
        self.marks.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 != 0)
    }

    /// A part of the view.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub fn part(&self, start: usize, end: usize) -> Self {
        Self {
            bytes: self.bytes.get(start..end).unwrap_or(&[]),
            marks: self.marks,
            base: self.base.wrapping_add(start),
            first: self.first.saturating_sub(start),
        }
    }
}

/// A buffer that text is appended to.
#[derive(Debug)]
pub struct Buffer<'s> {
    bytes: &'s mut [u8],
    marks: &'s mut [u8],
    len: usize,
    first: usize,
    full: bool,
}

impl<'s> Buffer<'s> {
    /// An empty buffer. No marks are kept when `marks` is empty.
    pub fn new(bytes: &'s mut [u8], marks: &'s mut [u8]) -> Self {
        Self { bytes, marks, len: 0, first: 0, full: false }
    }

    /// Empties the buffer.
    pub fn clear(&mut self) {
        self.marks.fill(0);
        (self.len, self.first, self.full) = (0, 0, false);
    }

    /// What the buffer holds.
    pub fn view(&self) -> View<'_> {
        View { bytes: self.bytes.get(..self.len).unwrap_or(&[]), marks: self.marks, base: 0, first: self.first }
    }

    /// Appends `bytes`; `marked`: content; `first`: from the first character.
    pub fn push(&mut self, bytes: &[u8], marked: bool, first: bool) {
        let end = self.len.saturating_add(bytes.len());
        let Some(room) = self.bytes.get_mut(self.len..end) else {
            self.full = true;
            return;
        };
        crate::bytes::copy(room, bytes);
        if marked {
            for bit in self.len..end {
                if let Some(byte) = self.marks.get_mut(bit / 8) {
                    *byte |= 1 << (bit % 8);
                }
            }
        }
        self.len = end;
        if first {
            self.first = end;
        }
    }

    fn push_char(&mut self, code: u32, marked: bool, first: bool) {
        let (bytes, len) = text::encode(code);
        self.push(bytes.get(..len).unwrap_or(&[]), marked, first);
    }

    /// Fails when something did not fit.
    pub fn done(&self) -> Result<(), Error> {
        if self.full { Err(scratch_error()) } else { Ok(()) }
    }
}

/// Steps of the normalizer.
pub fn steps(section: &Section<'_>) -> usize {
    section.table(table::NORMALIZER).len() / (4 * RECORD)
}

/// Runs step `number` of `from` into `to`. False: the text stays as it is and `to` is not to be used.
pub fn run(
    section: &Section<'_>,
    number: usize,
    from: View<'_>,
    to: &mut Buffer<'_>,
    chars: &mut [u32],
) -> Result<bool, Error> {
    let [kind, one, two, three, four, five, six, seven] = section.record(table::NORMALIZER, number);
    let classes = Classes::new(section);
    to.clear();
    match kind {
        step::MAP => {
            let entries = entries(section, two, three, 3);
            let mask = section.mask(one);
            if !affected(mask, &classes, from.bytes) {
                return Ok(false);
            }
            each_char(from, &mut |code, bytes, marked, first| {
                let entry = mask.has(classes.of(code)).then(|| search(entries, code)).flatten();
                match entry {
                    Some(at) => {
                        let field = |i: usize| entries.u32(at.saturating_add(i)).unwrap_or(0);
                        to.push(section.string(field(1), field(2)), marked, first);
                    }
                    None => to.push(bytes, marked, first),
                }
            });
        }
        step::CANONICAL => {
            let mask = section.mask(one);
            if !affected(mask, &classes, from.bytes) {
                return Ok(false);
            }
            let tables = canonical::Tables {
                map: entries(section, two, three, 3),
                class: entries(section, four, five, 2),
                pair: entries(section, six, seven, 3),
            };
            let mut line = canonical::Line::new(chars);
            each_char(from, &mut |code, _, marked, first| {
                if let Some(hangul) = canonical::hangul(code) {
                    hangul.into_iter().flatten().for_each(|code| line.push(&tables, code, marked, first));
                } else if let Some(at) = search(tables.map, code) {
                    let field = |i: usize| tables.map.u32(at.saturating_add(i)).unwrap_or(0);
                    let view = View { bytes: section.string(field(1), field(2)), marks: &[], base: 0, first: 0 };
                    each_char(view, &mut |code, _, _, _| line.push(&tables, code, marked, first));
                } else {
                    line.push(&tables, code, marked, first);
                }
            });
            for (code, marked, first) in line.finish(&tables)? {
                to.push_char(code, marked, first);
            }
        }
        step::REPLACE => {
            let automaton = Automaton::new(section, one);
            let mut at = 0usize;
            while let Some((start, end)) = automaton.find(&classes, from.bytes, 0, at, false) {
                copy(from.part(at, start), to);
                // What replaces a match belongs to the match's last character.
                let last = text::previous(from.bytes, end);
                to.push(section.string(two, three), (start..end).any(|i| from.marked(i)), last < from.first);
                at = end;
            }
            if at == 0 {
                return Ok(false);
            }
            copy(from.part(at, from.bytes.len()), to);
        }
        step::PREPEND => {
            if from.bytes.is_empty() {
                return Ok(false);
            }
            to.push(section.string(one, two), false, from.first > 0);
            copy(from, to);
        }
        step::STRIP => {
            let spaces = section.mask(SPACES);
            let space = |at: usize| spaces.has(classes.of(text::decode(from.bytes, at).0));
            let (mut start, mut end) = (0usize, from.bytes.len());
            if one & 1 != 0 {
                while start < end && space(start) {
                    start = start.wrapping_add(text::decode(from.bytes, start).1);
                }
            }
            while one & 2 != 0 && end > start {
                let last = text::previous(from.bytes, end);
                if !space(last) {
                    break;
                }
                end = last;
            }
            copy(from.part(start, end), to);
        }
        step::PRECOMPILED => {
            let map = Precompiled { units: entries(section, two, three, 1), strings: section.string(four, five) };
            let clusters = Automaton::new(section, one);
            let mut at = 0usize;
            while let Some((start, end)) = clusters.find(&classes, from.bytes, 0, at, false) {
                let cluster = from.part(start, end);
                at = end;
                // Short clusters are looked up whole, and only their beginning need be in the map.
                if cluster.bytes.len() < 6
                    && let Some(string) = map.find(cluster.bytes)
                {
                    to.push(string, cluster.marked(0), cluster.first > 0);
                    continue;
                }
                each_char(cluster, &mut |_, bytes, marked, first| {
                    to.push(map.find(bytes).unwrap_or(bytes), marked, first);
                });
            }
        }
        step::BYTES => {
            let table = entries(section, one, 256, 1);
            for (at, byte) in from.bytes.iter().enumerate() {
                to.push_char(table.u32(usize::from(*byte)).unwrap_or(0), from.marked(at), at < from.first);
            }
        }
        _ => return Ok(false),
    }
    to.done()?;
    Ok(true)
}

/// `count` entries of `size` words at word `start` of the normalizer's data.
fn entries<'a>(section: &Section<'a>, start: u32, count: u32, size: u32) -> Words<'a> {
    let data = section.table(table::NORMALIZER_DATA);
    let (start, len) =
        (u64::from(start).saturating_mul(4), u64::from(count).saturating_mul(u64::from(size)).saturating_mul(4));
    Words(crate::bytes::slice(data, start, len).unwrap_or(&[]))
}

/// First word of the entry of three words that begins with `code`.
fn search(entries: Words<'_>, code: u32) -> Option<usize> {
    canonical::search(entries, 3, |at| entries.u32(at).unwrap_or(0).cmp(&code))
}

/// Whether any character is in a mask.
fn affected(mask: Mask<'_>, classes: &Classes<'_>, bytes: &[u8]) -> bool {
    let mut at = 0usize;
    while at < bytes.len() {
        let (class, len) = classes.at(bytes, at, false);
        if mask.has(class) {
            return true;
        }
        at = at.wrapping_add(len);
    }
    false
}

/// Takes a character: code point, bytes, content, from the first character.
type OnChar<'f> = &'f mut dyn FnMut(u32, &[u8], bool, bool);

/// Calls `f` with each character.
#[cfg_attr(target_arch = "wasm32", inline(never))]
fn each_char(view: View<'_>, f: OnChar<'_>) {
    let mut at = 0usize;
    while at < view.bytes.len() {
        let (code, len) = text::decode(view.bytes, at);
        let end = at.wrapping_add(len);
        f(code, view.bytes.get(at..end).unwrap_or(&[]), view.marked(at), at < view.first);
        at = end;
    }
}

fn copy(view: View<'_>, to: &mut Buffer<'_>) {
    if view.marks.is_empty() {
        let (first, rest) = view.bytes.split_at_checked(view.first).unwrap_or((view.bytes, &[]));
        if !first.is_empty() {
            to.push(first, false, true);
        }
        to.push(rest, false, false);
        return;
    }
    each_char(view, &mut |_, bytes, marked, first| to.push(bytes, marked, first));
}

/// A character map as `sentencepiece` writes it: a double array over bytes, and zero-terminated strings.
struct Precompiled<'a> {
    units: Words<'a>,
    strings: &'a [u8],
}

impl<'a> Precompiled<'a> {
    /// What the shortest beginning of `key` in the map becomes.
    fn find(&self, key: &[u8]) -> Option<&'a [u8]> {
        let offset = |unit: u32| (unit >> 10) << ((unit & 1 << 9) >> 6);
        let mut at = offset(self.units.u32(0)?);
        for byte in key {
            if *byte == 0 {
                return None;
            }
            at ^= u32::from(*byte);
            let unit = self.units.u32(at as usize)?;
            if unit & (1 << 31 | 0xFF) != u32::from(*byte) {
                return None;
            }
            at ^= offset(unit);
            if unit >> 8 & 1 != 0 {
                let start = self.units.u32(at as usize)? & 0x7FFF_FFFF;
                let rest = self.strings.get(start as usize..)?;
                return rest.get(..rest.iter().position(|b| *b == 0).unwrap_or(rest.len()));
            }
        }
        None
    }
}

/// Checks the steps: kinds, and what they refer to.
pub fn check(section: &Section<'_>) -> Result<(), Error> {
    let bad = |number: usize| Error::new(Code::TokenizerStep).entry(number as u32);
    if section.records(table::NORMALIZER, 4 * RECORD).is_none() || section.records(table::NORMALIZER_DATA, 4).is_none()
    {
        return Err(bad(0));
    }
    let masks = (section.table(table::MASKS).len() / 32) as u32;
    let automata = (section.table(table::AUTOMATA).len() / 16) as u32;
    let text = |offset: u32, len: u32| section.is_text(offset, len);
    let data = |start: u32, count: u32, size: u32| {
        let words = entries(section, start, count, size);
        words.len32() as u64 == u64::from(count).saturating_mul(u64::from(size))
    };
    let map = |start: u32, count: u32| {
        let words = entries(section, start, count, 3);
        data(start, count, 3)
            && (0..count as usize).all(|i| {
                let field = |k: usize| words.u32(i.saturating_mul(3).saturating_add(k)).unwrap_or(0);
                text(field(1), field(2))
            })
    };
    for number in 0..steps(section) {
        let [kind, one, two, three, four, five, six, seven] = section.record(table::NORMALIZER, number);
        let good = match kind {
            step::MAP => one < masks && map(two, three),
            step::CANONICAL => one < masks && map(two, three) && data(four, five, 2) && data(six, seven, 3),
            step::REPLACE => one < automata && text(two, three),
            step::PREPEND => text(one, two),
            step::STRIP => one < 4,
            step::PRECOMPILED => one < automata && data(two, three, 1) && text(four, five),
            step::BYTES => data(one, 256, 1),
            _ => false,
        };
        if !good {
            return Err(bad(number));
        }
    }
    Ok(())
}
