//! Pre-tokenization: a text is cut by a chain of stages, each cutting the pieces of the one before.

use super::automaton::Automaton;
use super::section::{Section, step, step_flag, table};
use super::text::Classes;

/// Stages of the longest chain.
pub const MAX_STAGES: usize = 12;

/// Number of stages.
pub(super) fn stages(section: &Section<'_>) -> usize {
    section.table(table::PRE_TOKENIZER).len() / (4 * step::WORDS)
}

/// The stage that changes the text; at most one does. Where none does, the number of stages.
pub(super) fn change(section: &Section<'_>) -> usize {
    let count = stages(section);
    (0..count).find(|stage| section.step(table::PRE_TOKENIZER, *stage, step::KIND) != step::SPLIT).unwrap_or(count)
}

/// One stage at work on a piece.
#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    automaton: Automaton<'a>,
    flags: u32,
    /// Where the piece begins.
    low: usize,
    at: usize,
    end: usize,
    /// The next match, looked for where it ends before `at`; at the end of the piece if there is none.
    found: (usize, usize),
}

impl Cursor<'_> {
    /// Whether a match begins here, or else text that is none; `None` at the end of the piece.
    fn kind(&mut self, classes: &Classes<'_>, text: &[u8]) -> Option<bool> {
        if self.at >= self.end {
            return None;
        }
        if self.found.1 <= self.at {
            let piece = text.get(..self.end).unwrap_or(text);
            let bytes = self.flags & step_flag::BYTES != 0;
            self.found =
                self.automaton.find(classes, piece, self.low, self.at, bytes).unwrap_or((self.end, usize::MAX));
        }
        Some(self.found.0 == self.at)
    }

    /// Takes what begins here.
    fn take(&mut self, is_match: bool) {
        self.at = if is_match { self.found.1 } else { self.found.0 };
    }

    #[inline]
    fn next(&mut self, classes: &Classes<'_>, text: &[u8]) -> Option<(usize, usize)> {
        loop {
            let start = self.at;
            let kind = self.kind(classes, text)?;
            self.take(kind);
            if self.flags & step_flag::DROP_REST << u32::from(kind) != 0 {
                continue;
            }
            if self.flags & step_flag::JOIN_REST << u32::from(kind) != 0 && self.kind(classes, text) == Some(!kind) {
                self.take(!kind);
            }
            return Some((start, self.at));
        }
    }
}

/// The pieces of a text after a range of stages.
#[derive(Debug)]
pub struct Pieces<'a, 't> {
    classes: Classes<'a>,
    text: &'t [u8],
    cursors: [Option<Cursor<'a>>; MAX_STAGES],
    count: usize,
    depth: usize,
    whole: bool,
}

impl<'a, 't> Pieces<'a, 't> {
    /// The pieces of `text` after the stages `from..to`, none of which changes the text.
    pub fn new(section: &Section<'a>, from: usize, to: usize, text: &'t [u8]) -> Self {
        let mut cursors = [None; MAX_STAGES];
        for (stage, cursor) in (from..to).zip(cursors.iter_mut()) {
            let word = |i: usize| section.step(table::PRE_TOKENIZER, stage, i);
            *cursor = Some(Cursor {
                automaton: Automaton::new(section, word(step::AUTOMATON)),
                flags: word(step::FLAGS),
                low: 0,
                at: 0,
                end: text.len(),
                found: (0, 0),
            });
        }
        let count = to.saturating_sub(from).min(MAX_STAGES);
        Self { classes: Classes::new(section), text, cursors, count, depth: 0, whole: !text.is_empty() }
    }
}

impl Iterator for Pieces<'_, '_> {
    type Item = (usize, usize);

    /// Start and end of the next piece; never empty.
    fn next(&mut self) -> Option<(usize, usize)> {
        if self.count == 0 {
            return core::mem::take(&mut self.whole).then_some((0, self.text.len()));
        }
        loop {
            let cursor = self.cursors.get_mut(self.depth)?.as_mut()?;
            match cursor.next(&self.classes, self.text) {
                Some(piece) if self.depth.wrapping_add(1) == self.count => return Some(piece),
                Some((start, end)) => {
                    self.depth = self.depth.wrapping_add(1);
                    let below = self.cursors.get_mut(self.depth)?.as_mut()?;
                    (below.low, below.at, below.end, below.found) = (start, start, end, (0, 0));
                }
                None => self.depth = self.depth.checked_sub(1)?,
            }
        }
    }
}
