//! Added tokens: found in the text before anything else happens to it.
//!
//! The leftmost match counts, the longest of those that begin at one place. Whole-word and white-space flags act
//! afterwards, exactly in the reference's order.

use super::normalize::View;
use super::section::{MAX_ID, NONE, Section, class};
use super::text::{self, Classes};
use crate::bytes::u32_at;

/// Bits of an entry, above the id.
pub mod flag {
    /// Only where no word character stands next to it.
    pub const SINGLE_WORD: u32 = 1 << 21;
    /// Takes the white space before it.
    pub const LSTRIP: u32 = 2 << 21;
    /// Takes the white space after it.
    pub const RSTRIP: u32 = 4 << 21;
    /// A special token: not found where it touches content.
    pub const SPECIAL: u32 = 8 << 21;
}

/// Position of the trie's root, behind a bit per first byte.
const ROOT: usize = 32;
/// Position of the entries: those of the nodes behind the root where tokens end.
pub(super) const ENTRIES: usize = 36;

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
    table: &'a [u8],
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
        Self { section: *section, table: section.table(number), text, search: 0, done: 0, waiting: None }
    }

    /// Entry and end of the longest token that begins at `at`.
    pub fn longest(&self, at: usize) -> Option<(u32, usize)> {
        let root = u32_at(self.table, ROOT);
        let mut node = root;
        let mut best = None;
        let mut content = false;
        for here in at..self.text.bytes.len() {
            let byte = self.text.bytes.get(here).copied().unwrap_or(0);
            node = self.section.pair(node, u32::from(byte));
            if node == NONE {
                break;
            }
            content |= self.text.marked(here);
            let number = node.wrapping_sub(root).wrapping_sub(1) as usize;
            let entry = number.saturating_mul(4).saturating_add(ENTRIES);
            if entry < self.table.len() {
                let entry = u32_at(self.table, entry);
                if !content || entry & flag::SPECIAL == 0 {
                    best = Some((entry, here.wrapping_add(1)));
                }
            }
        }
        best
    }

    /// Whether the character at `at` has the flag.
    fn is(&self, flag: u8, at: usize) -> bool {
        let class = Classes::new(&self.section).of(text::decode(self.text.bytes, at).0);
        self.section.class_has(class, flag)
    }

    /// The next match that its flags let stand: id, start, end.
    fn find(&mut self) -> Option<(u32, usize, usize)> {
        let bytes = self.text.bytes;
        while self.search < bytes.len() {
            let rest = bytes.get(self.search..).unwrap_or(&[]);
            let begins = |b: &u8| self.table.get(usize::from(b >> 3)).is_some_and(|bits| bits >> (b & 7) & 1 != 0);
            let Some(skip) = rest.iter().position(begins) else { break };
            let mut start = self.search.wrapping_add(skip);
            let Some((entry, mut end)) = self.longest(start) else {
                self.search = start.wrapping_add(1);
                continue;
            };
            self.search = end;
            if entry & flag::SINGLE_WORD != 0
                && (start > 0 && self.is(class::WORD, text::previous(bytes, start))
                    || end < bytes.len() && self.is(class::WORD, end))
            {
                continue;
            }
            while entry & flag::LSTRIP != 0 && start > self.done {
                let previous = text::previous(bytes, start);
                if !self.is(class::SPACE, previous) {
                    break;
                }
                start = previous;
            }
            while entry & flag::RSTRIP != 0 && end < bytes.len() && self.is(class::SPACE, end) {
                end = end.wrapping_add(text::decode(bytes, end).1);
            }
            return Some((entry & MAX_ID, start, end));
        }
        self.search = bytes.len();
        None
    }
}

impl Iterator for Parts<'_, '_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let done = self.done;
        let (id, start, end) = match self.waiting.take() {
            Some((id, end)) => (id, done, end),
            None => self.find().unwrap_or((NONE, self.text.bytes.len(), NONE as usize)),
        };
        if done < start {
            self.done = start;
            self.waiting = Some((id, end)).filter(|_| id != NONE);
            return Some(Part::Text(done, start));
        }
        if id == NONE {
            return None;
        }
        self.done = end;
        Some(Part::Token(id))
    }
}
