//! Pre-tokenization: a text is cut by a chain of stages, each cutting the pieces of the one before.

use super::automaton::Automaton;
use super::normalize::{Buffer, View};
use super::section::{Section, table};
use super::text::Classes;
use crate::error::{Code, Error};

/// Stages of the longest chain.
pub const MAX_STAGES: usize = 12;

/// Words of a stage's record.
const RECORD: usize = 8;

/// Kinds of stages, and what the words of their records mean.
pub mod stage {
    /// Cuts at the matches of an automaton: automaton, behaviour, flags.
    pub const SPLIT: u32 = 1;
    /// Replaces U+0020 by a string and puts it before a piece that does not begin with it: string offset, length, scheme.
    pub const METASPACE: u32 = 2;
    /// Puts a space before a piece that does not begin with one.
    pub const PREFIX_SPACE: u32 = 3;
}

/// What becomes of matches.
pub mod behaviour {
    /// Each match and each text between is a piece.
    pub const ISOLATED: u32 = 0;
    /// Matches are dropped.
    pub const REMOVED: u32 = 1;
    /// Neighbouring matches are one piece.
    pub const CONTIGUOUS: u32 = 2;
    /// A match belongs to the text before it.
    pub const MERGED_WITH_PREVIOUS: u32 = 3;
    /// A match belongs to the text after it.
    pub const MERGED_WITH_NEXT: u32 = 4;
}

/// Bits of a stage's flags.
pub mod flag {
    /// What matches and what does not change places.
    pub const INVERT: u32 = 1;
    /// The automaton reads bytes of the byte-level alphabet.
    pub const BYTES: u32 = 2;
}

/// Where a Metaspace stage puts its string.
pub mod scheme {
    /// Nowhere.
    pub const NEVER: u32 = 0;
    /// Before the piece at the start of the text.
    pub const FIRST: u32 = 1;
    /// Before every piece.
    pub const ALWAYS: u32 = 2;
}

/// The stages of a section.
#[derive(Clone, Copy, Debug)]
pub struct Stages<'a> {
    section: Section<'a>,
}

impl<'a> Stages<'a> {
    /// The section's stages.
    pub fn new(section: Section<'a>) -> Self {
        Self { section }
    }

    /// Number of stages.
    pub fn count(&self) -> usize {
        self.section.table(table::PRE_TOKENIZER).len() / (4 * RECORD)
    }

    fn record(&self, number: usize) -> [u32; RECORD] {
        self.section.record(table::PRE_TOKENIZER, number)
    }

    /// Writes what the changing stage `number` makes of `piece`.
    pub fn apply(&self, number: usize, piece: View<'_>, to: &mut Buffer<'_>) -> Result<(), Error> {
        to.clear();
        let [kind, offset, len, scheme, ..] = self.record(number);
        let (string, prefix) = match kind {
            stage::METASPACE => {
                let string = self.section.string(offset, len);
                let wanted = match scheme {
                    scheme::ALWAYS => true,
                    scheme::FIRST => piece.first > 0,
                    _ => false,
                };
                let begins = piece.bytes.starts_with(b" ") || piece.bytes.starts_with(string);
                (string, wanted && !begins)
            }
            _ => (&b" "[..], !piece.bytes.starts_with(b" ")),
        };
        if prefix {
            to.push(string, false, false);
        }
        let mut rest = piece.bytes;
        while let Some(first) = rest.first() {
            let len = rest.iter().take_while(|b| (**b == b' ') == (*first == b' ')).count();
            let (part, after) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            rest = after;
            if part.starts_with(b" ") {
                part.iter().for_each(|_| to.push(string, false, false));
            } else {
                to.push(part, false, false);
            }
        }
        to.done()
    }

    /// The stage that changes the text, if there is one: at most one does.
    pub fn change(&self) -> Option<usize> {
        (0..self.count()).find(|number| self.record(*number)[0] != stage::SPLIT)
    }
}

/// A stretch of text that matched or did not.
#[derive(Clone, Copy, Debug)]
struct Event {
    start: usize,
    end: usize,
    is_match: bool,
}

/// One stage at work on a piece.
#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    automaton: Automaton<'a>,
    behaviour: u32,
    flags: u32,
    low: usize,
    at: usize,
    end: usize,
    /// A match found while giving the text before it.
    found: Option<(usize, usize)>,
    /// An event looked at and put back.
    peeked: Option<Event>,
}

impl Cursor<'_> {
    fn event(&mut self, classes: &Classes<'_>, text: &[u8]) -> Option<Event> {
        if let Some(event) = self.peeked.take() {
            return Some(event);
        }
        let inverted = self.flags & flag::INVERT != 0;
        if let Some((start, end)) = self.found.take() {
            self.at = end;
            return Some(Event { start, end, is_match: !inverted });
        }
        if self.at >= self.end {
            return None;
        }
        let piece = text.get(..self.end).unwrap_or(text);
        let start = self.at;
        match self.automaton.find(classes, piece, self.low, start, self.flags & flag::BYTES != 0) {
            Some((from, to)) if from == start => {
                self.at = to;
                Some(Event { start, end: to, is_match: !inverted })
            }
            found => {
                self.found = found;
                let end = found.map_or(self.end, |(from, _)| from);
                self.at = end;
                Some(Event { start, end, is_match: inverted })
            }
        }
    }

    /// Joins the next event to `event` while `join` says so.
    fn extend(&mut self, classes: &Classes<'_>, text: &[u8], event: &mut Event, join: bool, many: bool) {
        while let Some(next) = self.event(classes, text) {
            if next.is_match != join {
                self.peeked = Some(next);
                return;
            }
            event.end = next.end;
            if !many {
                return;
            }
        }
    }

    #[inline]
    fn next(&mut self, classes: &Classes<'_>, text: &[u8]) -> Option<(usize, usize)> {
        let mut event = self.event(classes, text)?;
        match self.behaviour {
            behaviour::REMOVED => {
                while event.is_match {
                    event = self.event(classes, text)?;
                }
            }
            behaviour::CONTIGUOUS => {
                let is_match = event.is_match;
                self.extend(classes, text, &mut event, is_match, true);
            }
            behaviour::MERGED_WITH_PREVIOUS if !event.is_match => self.extend(classes, text, &mut event, true, false),
            behaviour::MERGED_WITH_NEXT if event.is_match => self.extend(classes, text, &mut event, false, false),
            _ => {}
        }
        Some((event.start, event.end))
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
    pub fn new(stages: &Stages<'a>, from: usize, to: usize, text: &'t [u8]) -> Self {
        let mut cursors = [None; MAX_STAGES];
        for (number, cursor) in (from..to).zip(cursors.iter_mut()) {
            let [_, automaton, behaviour, flags, ..] = stages.record(number);
            *cursor = Some(Cursor {
                automaton: Automaton::new(&stages.section, automaton),
                behaviour,
                flags,
                low: 0,
                at: 0,
                end: 0,
                found: None,
                peeked: None,
            });
        }
        let count = to.saturating_sub(from).min(MAX_STAGES);
        if let Some(Some(first)) = cursors.first_mut() {
            first.end = text.len();
        }
        Self { classes: Classes::new(&stages.section), text, cursors, count, depth: 0, whole: !text.is_empty() }
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
                    (below.low, below.at, below.end) = (start, start, end);
                }
                None => self.depth = self.depth.checked_sub(1)?,
            }
        }
    }
}

/// Checks the stages.
pub fn check(section: &Section<'_>) -> Result<(), Error> {
    let bad = |number: usize| Error::new(Code::TokenizerStage).entry(number as u32);
    let stages = Stages::new(*section);
    if section.records(table::PRE_TOKENIZER, 4 * RECORD).is_none_or(|count| count > MAX_STAGES) {
        return Err(bad(0));
    }
    let automata = (section.table(table::AUTOMATA).len() / 16) as u32;
    let mut changes = 0u32;
    for number in 0..stages.count() {
        let [kind, one, two, three, ..] = stages.record(number);
        let good = match kind {
            stage::SPLIT => one < automata && two <= behaviour::MERGED_WITH_NEXT && three < 4,
            stage::METASPACE => two > 0 && section.is_text(one, two) && three <= scheme::ALWAYS,
            stage::PREFIX_SPACE => true,
            _ => false,
        };
        changes = changes.saturating_add(u32::from(kind != stage::SPLIT));
        if !good || changes > 1 {
            return Err(bad(number));
        }
    }
    Ok(())
}
