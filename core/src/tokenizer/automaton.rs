//! Split patterns as automata over classes of code points.
//!
//! A pattern is a deterministic automaton. Each transition says the next state and whether a match ends *before* the
//! unit it reads, so a pattern may look one unit ahead (`\s+(?!\S)`) at no cost; the end of the text is a class of its
//! own. The start state depends on the class before the match, for patterns that look one unit back.

use super::section::{Section, Words, field, table};
use super::text::Classes;

/// The bit of a transition that says a match ends before the unit read.
const MATCH: u16 = 0x8000;

/// One automaton. What a table does not have reads as 0: no start, or a state that has failed.
#[derive(Clone, Copy, Debug)]
pub struct Automaton<'a> {
    /// [states, classes + 1] behind the flags; the row of state 0, which has failed, are the start states by the class
    /// before the match, the last for the start of the text.
    transitions: Words<'a>,
    width: usize,
    looks_back: bool,
}

impl<'a> Automaton<'a> {
    /// Automaton `number` of the section.
    pub fn new(section: &Section<'a>, number: u32) -> Self {
        let (flags, transitions) = section.item(table::AUTOMATA, number).split_at_checked(2).unwrap_or_default();
        Self {
            transitions: Words(transitions),
            width: (section.field(field::CLASS_COUNT) as usize).saturating_add(1),
            looks_back: flags.starts_with(&[1]),
        }
    }

    #[inline]
    fn step(&self, state: usize, class: usize) -> u16 {
        self.transitions.u16(state.wrapping_mul(self.width).wrapping_add(class)).unwrap_or(0)
    }

    /// End of the match that goes on from `state` at `from`, if there is one.
    #[inline]
    fn run(&self, classes: &Classes<'_>, text: &[u8], state: usize, from: usize, bytes: bool) -> Option<usize> {
        let (mut state, mut at) = (state, from);
        let mut found = None;
        loop {
            let (class, len) = if at < text.len() {
                let (class, len) = classes.at(text, at, bytes);
                (usize::from(class), len)
            } else {
                (self.width.wrapping_sub(1), 0)
            };
            let next = self.step(state, class);
            if next & MATCH != 0 {
                found = Some(at);
            }
            state = usize::from(next & !MATCH);
            if state == 0 || len == 0 {
                return found;
            }
            at = at.wrapping_add(len);
        }
    }

    /// The leftmost match at or after `from`, by the pattern's own priorities. Matches are never empty.
    ///
    /// The text begins at `low`: nothing before it is looked at.
    #[inline]
    pub fn find(
        &self,
        classes: &Classes<'_>,
        text: &[u8],
        low: usize,
        from: usize,
        bytes: bool,
    ) -> Option<(usize, usize)> {
        let mut at = from;
        let mut before = self.width.wrapping_sub(1);
        if self.looks_back && at > low {
            let previous = if bytes { at.wrapping_sub(1) } else { super::text::previous(text, at) };
            before = usize::from(classes.at(text, previous, bytes).0);
        }
        let mut start = usize::from(self.transitions.u16(before).unwrap_or(0));
        // The state in which an earlier attempt, known to fail, would be here. An attempt that reaches the same state
        // fails as well, so that a long run which leads to no match is read once and not once from each place.
        let mut failed = 0usize;
        while at < text.len() {
            let (class, len) = classes.at(text, at, bytes);
            let class = usize::from(class);
            let after = at.wrapping_add(len);
            let state = usize::from(self.step(start, class) & !MATCH);
            if failed != 0 {
                failed = usize::from(self.step(failed, class) & !MATCH);
            }
            if state != 0 && state != failed {
                if let Some(end) = self.run(classes, text, state, after, bytes) {
                    return Some((at, end));
                }
                failed = state;
            }
            at = after;
            if self.looks_back {
                start = usize::from(self.transitions.u16(class).unwrap_or(0));
            }
        }
        None
    }
}
