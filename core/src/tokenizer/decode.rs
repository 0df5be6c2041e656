//! From ids back to text, one id at a time.
//!
//! Everything the decoder does to single tokens was done when the section was compiled: a token has up to four texts,
//! for the inner, first, last and only place. What is left joins them: runs of byte tokens, replacement of ill-formed
//! bytes, and white space stripped at the ends. Feeding the ids one by one gives what feeding them at once gives.

use super::section::{Kind, NONE, Section, field, head, table, token};
use crate::error::Error;
use crate::utf8::{Out, Partial, REPLACEMENT, is_text};

/// Bytes of the longest run of byte tokens held back. A longer run is decided in parts of this length.
pub const MAX_RUN: usize = 1024;

/// Bits of the decoder's flags.
pub mod flag {
    /// Tokens are bytes; ill-formed ones become U+FFFD once everything is joined.
    pub const LOSSY: u32 = 1;
    /// The last token has a text of its own.
    pub const HOLD: u32 = 2;
    /// A token equal to the one before it is dropped.
    pub const DEDUP: u32 = 4;
    /// Runs of byte tokens become text.
    pub const BYTE_RUNS: u32 = 8;
    /// All bits that have a meaning.
    pub const ALL: u32 = 15;
}

/// Which tokens show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeMode {
    /// All of them.
    Raw,
    /// All but special tokens.
    Visible,
}

/// A decoder and what it holds back. It is a plain value: a copy is a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    section: Section<'a>,
    visible: bool,
    /// Ill-formed bytes become U+FFFD; false: true bytes come out.
    replace: bool,
    begun: bool,
    held: u32,
    previous: u32,
    run: [u8; MAX_RUN],
    run_len: usize,
    text: Text,
}

impl<'a> Decoder<'a> {
    /// A decoder at the start of a text.
    pub(super) fn new(section: &Section<'a>, mode: DecodeMode, replace: bool) -> Self {
        Self {
            section: *section,
            visible: mode == DecodeMode::Visible,
            replace,
            begun: false,
            held: NONE,
            previous: NONE,
            run: [0; MAX_RUN],
            run_len: 0,
            text: Text::new(section, replace),
        }
    }

    fn has(&self, bit: u32) -> bool {
        self.section.field(field::DECODE_FLAGS) & bit != 0
    }

    /// Whether bytes are held back that a later id, or the end, will bring out.
    pub fn is_holding(&self) -> bool {
        self.run_len > 0 || self.text.partial.len() > 0 || self.held != NONE
    }

    /// Takes an id and writes what is certain from then on. Ids without a text write nothing.
    ///
    /// # Errors
    /// [`Code::OutputBufferExceeded`](crate::error::Code::OutputBufferExceeded): `out` may be too short; nothing was taken.
    /// Enough for any id is [`Tokenizer::max_push_bytes`](super::Tokenizer::max_push_bytes).
    pub fn push(&mut self, id: u32, out: &mut [u8]) -> Result<usize, Error> {
        let flags = token_flags(&self.section, id);
        let bytes_kind = self.section.is(Kind::Bytes);
        if !bytes_kind && flags & token::EXISTS == 0 || self.visible && flags & token::SPECIAL != 0 {
            return Ok(0);
        }
        let mut out = self.room(out, longest(&self.section, id).max(longest(&self.section, self.held)))?;
        if bytes_kind {
            // Bytes stand for themselves; the unknown id is a question mark and the others are nothing.
            match u8::try_from(id) {
                Ok(byte) => self.text.push(&[byte], &mut out),
                Err(_) if id == self.section.field(field::UNK) => self.text.push(b"?", &mut out),
                Err(_) => {}
            }
        } else if !self.has(flag::DEDUP) || core::mem::replace(&mut self.previous, id) != id {
            let now = if self.has(flag::HOLD) { core::mem::replace(&mut self.held, id) } else { id };
            self.token(now, false, &mut out);
        }
        Ok(out.len)
    }

    /// Ends the text: writes what was held back, and is at the start of a text again.
    ///
    /// # Errors
    /// [`Code::OutputBufferExceeded`](crate::error::Code::OutputBufferExceeded): `out` may be too short; nothing was taken.
    pub fn finish(&mut self, out: &mut [u8]) -> Result<usize, Error> {
        let mut out = self.room(out, longest(&self.section, self.held))?;
        self.token(self.held, true, &mut out);
        self.end_run(&mut out);
        self.text.end(&mut out);
        (self.begun, self.held, self.previous) = (false, NONE, NONE);
        self.text = Text::new(&self.section, self.replace);
        Ok(out.len)
    }

    /// The output, if all that may come is sure to fit.
    fn room<'o>(&self, out: &'o mut [u8], piece: usize) -> Result<Out<'o>, Error> {
        let held = self.run_len.saturating_add(self.text.partial.len()).saturating_add(piece).saturating_add(1);
        let strip = (self.text.held as usize).saturating_mul(4);
        Out::new(out, held.saturating_mul(3).saturating_add(strip))
    }

    /// Takes a token whose place is certain, if it is one.
    fn token(&mut self, id: u32, last: bool, out: &mut Out<'_>) {
        if id == NONE {
            return;
        }
        if self.has(flag::BYTE_RUNS) && token_flags(&self.section, id) & token::BYTE != 0 {
            if self.run_len == MAX_RUN {
                self.end_run(out);
            }
            if let (Some(slot), Some(byte)) = (self.run.get_mut(self.run_len), piece(&self.section, id, 0).first()) {
                *slot = *byte;
                self.run_len = self.run_len.wrapping_add(1);
            }
            return;
        }
        self.end_run(out);
        let place = usize::from(!self.begun) | usize::from(last) << 1;
        self.begun = true;
        self.text.push(piece(&self.section, id, place), out);
    }

    /// Ends a run of byte tokens: text if it is UTF-8, in which a string may become another one; else one U+FFFD for each
    /// byte.
    fn end_run(&mut self, out: &mut Out<'_>) {
        let mut rest = self.run.get(..core::mem::take(&mut self.run_len)).unwrap_or(&[]);
        if rest.is_empty() {
            return;
        }
        let first = !core::mem::replace(&mut self.begun, true);
        let well_formed = is_text(rest);
        let pattern = self.section.head(head::PATTERN);
        let content = self.section.head(if first { head::FIRST } else { head::CONTENT });
        while let Some((byte, after)) = rest.split_first() {
            let matches = well_formed && !pattern.is_empty() && rest.starts_with(pattern);
            let ill_formed = self.replace && !well_formed;
            rest = after;
            if matches {
                rest = rest.get(pattern.len().wrapping_sub(1)..).unwrap_or(&[]);
                self.text.push(content, out);
            } else {
                self.text.push(if ill_formed { REPLACEMENT } else { core::slice::from_ref(byte) }, out);
            }
        }
    }
}

/// The end of the text so far: tokens joined, its ends stripped.
#[derive(Clone, Copy, Debug)]
struct Text {
    /// Ill-formed bytes become U+FFFD.
    lossy: bool,
    partial: Partial,
    /// The character that is stripped, as UTF-8.
    content: [u8; 4],
    content_len: usize,
    /// How many may still be stripped from the start, and how many from the end.
    start: u32,
    stop: u32,
    /// Strippable characters at the end that are held back.
    held: u32,
}

impl Text {
    fn new(section: &Section<'_>, replace: bool) -> Self {
        let (content, content_len) = super::text::encode(section.field(field::STRIP));
        Self {
            lossy: replace && section.field(field::DECODE_FLAGS) & flag::LOSSY != 0,
            partial: Partial::EMPTY,
            content,
            content_len,
            start: section.field(field::STRIP_START),
            stop: section.field(field::STRIP_STOP),
            held: 0,
        }
    }

    /// Joins a token's bytes to the text.
    fn push(&mut self, bytes: &[u8], out: &mut Out<'_>) {
        if !self.lossy || self.partial.len() == 0 && is_text(bytes) {
            return self.strip(bytes, out);
        }
        let mut partial = self.partial;
        bytes.iter().for_each(|byte| partial.push(*byte, &mut |char, _| self.strip(char, out)));
        self.partial = partial;
    }

    fn end(&mut self, out: &mut Out<'_>) {
        let mut partial = self.partial;
        partial.end(&mut |char, _| self.strip(char, out));
    }

    /// Strips the ends of the whole text.
    fn strip(&mut self, bytes: &[u8], out: &mut Out<'_>) {
        if self.start == 0 && self.stop == 0 {
            return out.push(bytes);
        }
        let content = self.content;
        let content = content.get(..self.content_len).unwrap_or(&[]);
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            if let Some(after) = rest.strip_prefix(content) {
                rest = after;
                if self.start > 0 {
                    self.start = self.start.wrapping_sub(1);
                } else if self.held < self.stop {
                    self.held = self.held.wrapping_add(1);
                } else {
                    out.push(content);
                }
                continue;
            }
            self.start = 0;
            (0..core::mem::take(&mut self.held)).for_each(|_| out.push(content));
            out.push(core::slice::from_ref(byte));
            rest = after;
        }
    }
}

/// A token's flags; none where there is no such token.
pub(super) fn token_flags(section: &Section<'_>, id: u32) -> u8 {
    section.table(table::FLAGS).get(id as usize).copied().unwrap_or(0)
}

/// Bytes of a token's longest text.
pub(super) fn longest(section: &Section<'_>, id: u32) -> usize {
    (0..4).fold(0, |longest, place| piece(section, id, place).len().max(longest))
}

/// A token's text in a place: bit 0 first, bit 1 last.
pub(super) fn piece<'a>(section: &Section<'a>, id: u32, place: usize) -> &'a [u8] {
    let mut offsets = table::PIECES.saturating_add(place.saturating_mul(2));
    for instead in [table::PIECES, table::OFFSETS] {
        if section.table(offsets).is_empty() {
            offsets = instead;
        }
    }
    section.item(offsets, id)
}
