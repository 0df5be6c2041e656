//! Added tokens: found in the text before anything else happens to it.
//!
//! The leftmost match counts, the longest of those that begin at one place. Whole-word and white-space flags act
//! afterwards, exactly in the reference's order.

use super::normalize::View;
use super::section::{NONE, SPACES, Section, WORD_CHARS, Words, field};
use super::text::{self, Classes};
use crate::error::{Code, Error};

/// Bits of an entry.
pub mod flag {
    /// Only where no word character stands next to it.
    pub const SINGLE_WORD: u32 = 1;
    /// Takes the white space before it.
    pub const LSTRIP: u32 = 2;
    /// Takes the white space after it.
    pub const RSTRIP: u32 = 4;
    /// A special token: not found where it touches content.
    pub const SPECIAL: u32 = 8;
}

/// Bytes before the entries: a bit per first byte.
const HEAD: usize = 32;
/// Words of an entry: string offset, length, id, flags. Entries ascend by their strings.
const ENTRY: usize = 4;

/// A part of the text: a token, or text that is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// An added token.
    Token(u32),
    /// Text from here to there.
    Text(usize, usize),
}

/// Cuts a text at its added tokens.
#[derive(Debug)]
pub struct Parts<'a, 't> {
    section: Section<'a>,
    head: &'a [u8],
    entries: Words<'a>,
    text: View<'t>,
    /// Where the search goes on.
    search: usize,
    /// End of what has been given out.
    done: usize,
    waiting: Option<(u32, usize)>,
}

impl<'a, 't> Parts<'a, 't> {
    /// The parts of `text` by the added tokens of table `number`.
    pub fn new(section: &Section<'a>, number: usize, text: View<'t>) -> Self {
        let bytes = section.table(number);
        let (head, entries) = bytes.split_at_checked(HEAD).unwrap_or((&[], &[]));
        Self { section: *section, head, entries: Words(entries), text, search: 0, done: 0, waiting: None }
    }

    fn field(&self, entry: usize, i: usize) -> u32 {
        self.entries.u32(entry.wrapping_mul(ENTRY).wrapping_add(i)).unwrap_or(0)
    }

    fn string(&self, entry: usize) -> &'a [u8] {
        self.section.string(self.field(entry, 0), self.field(entry, 1))
    }

    /// The longest token that begins at `at`.
    fn longest(&self, at: usize) -> Option<usize> {
        let (mut low, mut high) = (0usize, self.entries.len32() / ENTRY);
        let mut best = None;
        let mut depth = 0usize;
        let mut content = false;
        while low < high {
            if self.string(low).len() == depth {
                if depth > 0 && !(content && self.field(low, 3) & flag::SPECIAL != 0) {
                    best = Some(low);
                }
                low = low.wrapping_add(1);
                continue;
            }
            let here = at.wrapping_add(depth);
            let Some(byte) = self.text.bytes.get(here) else { break };
            content |= self.text.marked(here);
            // Among entries equal so far, those whose next byte is this one.
            let edge = |low: usize, high: usize, before: &dyn Fn(u8) -> bool| {
                let (mut low, mut high) = (low, high);
                while low < high {
                    let middle = low.saturating_add(high) / 2;
                    if before(self.string(middle).get(depth).copied().unwrap_or(0)) {
                        low = middle.saturating_add(1);
                    } else {
                        high = middle;
                    }
                }
                low
            };
            low = edge(low, high, &|b| b < *byte);
            high = edge(low, high, &|b| b <= *byte);
            depth = depth.wrapping_add(1);
        }
        best
    }

    /// The id of the token that is the whole text.
    pub fn whole(&self) -> Option<u32> {
        let count = self.entries.len32() / ENTRY;
        let found = (0..count).find(|entry| self.string(*entry) == self.text.bytes)?;
        Some(self.field(found, 2))
    }

    fn class_at(&self, at: usize) -> u8 {
        Classes::new(&self.section).of(text::decode(self.text.bytes, at).0)
    }

    fn space(&self, at: usize) -> bool {
        self.section.mask(SPACES).has(self.class_at(at))
    }

    fn word(&self, at: usize) -> bool {
        self.section.mask(WORD_CHARS).has(self.class_at(at))
    }

    /// The next match that its flags let stand: id, start, end.
    fn find(&mut self) -> Option<(u32, usize, usize)> {
        let bytes = self.text.bytes;
        while self.search < bytes.len() {
            let rest = bytes.get(self.search..).unwrap_or(&[]);
            let begins = |b: &u8| self.head.get(usize::from(b >> 3)).is_some_and(|bits| bits >> (b & 7) & 1 != 0);
            let Some(skip) = rest.iter().position(begins) else { break };
            let mut start = self.search.wrapping_add(skip);
            let Some(entry) = self.longest(start) else {
                self.search = start.wrapping_add(1);
                continue;
            };
            let flags = self.field(entry, 3);
            let mut end = start.wrapping_add(self.string(entry).len());
            self.search = end;
            if flags & flag::SINGLE_WORD != 0 {
                let before = start > 0 && self.word(text::previous(bytes, start));
                if before || (end < bytes.len() && self.word(end)) {
                    continue;
                }
            }
            while flags & flag::LSTRIP != 0 && start > self.done {
                let previous = text::previous(bytes, start);
                if !self.space(previous) {
                    break;
                }
                start = previous;
            }
            while flags & flag::RSTRIP != 0 && end < bytes.len() && self.space(end) {
                end = end.wrapping_add(text::decode(bytes, end).1);
            }
            return Some((self.field(entry, 2), start, end));
        }
        self.search = bytes.len();
        None
    }
}

impl Iterator for Parts<'_, '_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        if let Some((id, end)) = self.waiting.take() {
            self.done = end;
            return Some(Part::Token(id));
        }
        let done = self.done;
        if let Some((id, start, end)) = self.find() {
            if done < start {
                self.waiting = Some((id, end));
                return Some(Part::Text(done, start));
            }
            self.done = end;
            return Some(Part::Token(id));
        }
        let end = self.text.bytes.len();
        self.done = end;
        (done < end).then_some(Part::Text(done, end))
    }
}

/// Checks a table of added tokens.
pub fn check(section: &Section<'_>, number: usize) -> Result<(), Error> {
    let bad = |entry: usize| Error::new(Code::TokenizerAdded).entry(entry as u32);
    let bytes = section.table(number);
    if bytes.is_empty() {
        return Ok(());
    }
    if bytes.len() < HEAD || !(bytes.len() - HEAD).is_multiple_of(4 * ENTRY) {
        return Err(Error::new(Code::TokenizerTable).entry(number as u32));
    }
    let none = View { bytes: &[], marks: &[], base: 0, first: 0 };
    let parts = Parts::new(section, number, none);
    for entry in 0..parts.entries.len32() / ENTRY {
        let string = parts.string(entry);
        let id = parts.field(entry, 2);
        if string.is_empty() || !crate::utf8::is_text(string) || id == NONE || id >= section.field(field::ID_COUNT) {
            return Err(bad(entry));
        }
        if entry > 0 && parts.string(entry.saturating_sub(1)) >= string {
            return Err(bad(entry));
        }
        if parts.field(entry, 3) > 15 {
            return Err(bad(entry));
        }
    }
    Ok(())
}
