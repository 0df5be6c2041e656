//! Changes of a text, step by step, between two buffers: those of the normalizer, and those of pieces.
//!
//! All steps do one thing: where an automaton matches, other text takes the place of the match.

use super::automaton::Automaton;
use super::section::{Section, pair, step, step_flag, table};
use super::text::{self, Classes};
use super::{canonical, scratch_error};
use crate::error::Error;

/// Matches shorter than this are looked up whole.
const WHOLE: usize = 6;

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
    /// An empty buffer for `len` bytes; marks are kept in what `memory` has behind them.
    pub fn new(memory: &'s mut [u8], len: usize) -> Self {
        let (bytes, marks) = memory.split_at_mut_checked(len).unwrap_or_default();
        Self { bytes, marks, len: 0, first: 0, full: false }
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

    /// Appends a character.
    pub fn push_char(&mut self, code: u32, marked: bool, first: bool) {
        let (bytes, len) = text::encode(code);
        self.push(bytes.get(..len).unwrap_or(&[]), marked, first);
    }
}

/// Steps of the normalizer.
pub fn steps(section: &Section<'_>) -> usize {
    section.table(table::NORMALIZER).len() / (4 * step::WORDS)
}

/// Runs step `number` of table `steps` on `from` into `to`. False: the text stays as it is and `to` is not to be used.
pub fn run(
    section: &Section<'_>,
    steps: usize,
    number: usize,
    from: View<'_>,
    to: &mut Buffer<'_>,
    chars: &mut [u32],
) -> Result<bool, Error> {
    let word = |i: usize| section.step(steps, number, i);
    let (kind, flags, root) = (word(step::KIND), word(step::FLAGS), word(step::ROOT));
    let string = section.string(word(step::OFFSET), word(step::LEN));
    let automaton = Automaton::new(section, word(step::AUTOMATON));
    let classes = Classes::new(section);
    let bytes = flags & step_flag::BYTES != 0;
    to.marks.fill(0);
    (to.len, to.first, to.full) = (0, 0, false);
    let mut at = 0usize;
    while let Some((start, end)) = automaton.find(&classes, from.bytes, 0, at, bytes) {
        let canonical = kind == step::CANONICAL;
        // A mark may compose with the character before it.
        let start = if canonical && start > at { text::previous(from.bytes, start) } else { start };
        copy(from.part(at, start), to);
        at = end;
        let found = from.part(start, end);
        if canonical {
            canonical::form(section, root, flags & step_flag::COMPOSE != 0, found, to, chars)?;
            continue;
        }
        let first = found.first > 0;
        let content = (0..found.bytes.len()).any(|i| found.marked(i));
        if found.bytes.len() < WHOLE
            && let Some(string) = mapped(section, root, found.bytes, bytes)
        {
            to.push(string, content, first);
            continue;
        }
        let keep = flags & step_flag::KEEP != 0;
        if first || flags & step_flag::FIRST == 0 {
            // What replaces a match belongs to the match's last character.
            to.push(string, content && !keep, text::previous(from.bytes, end) < from.first);
        }
        if keep {
            each_char(found, &mut |_, char, marked, first| {
                to.push(mapped(section, root, char, false).unwrap_or(char), marked, first);
            });
        }
    }
    if at == 0 {
        return Ok(false);
    }
    copy(from.part(at, from.bytes.len()), to);
    if to.full { Err(scratch_error()) } else { Ok(true) }
}

/// What the shortest beginning of `text` in the trie of `root` becomes.
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn mapped<'a>(section: &Section<'a>, root: u32, text: &[u8], bytes: bool) -> Option<&'a [u8]> {
    let (mut node, mut at) = (root, 0usize);
    // No step has a trie without a node.
    while root != 0 && at < text.len() {
        let (code, len) = if bytes { (text.get(at).map_or(0, |b| u32::from(*b)), 1) } else { text::decode(text, at) };
        node = section.pair(node, code);
        if node & pair::END != 0 {
            return section.measured(node);
        }
        at = at.wrapping_add(len);
    }
    None
}

/// Takes a character: code point, bytes, content, from the first character.
type OnChar<'f> = &'f mut dyn FnMut(u32, &[u8], bool, bool);

/// Calls `f` with each character.
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn each_char(view: View<'_>, f: OnChar<'_>) {
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
