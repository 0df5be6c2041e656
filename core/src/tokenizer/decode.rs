//! From ids back to text, one id at a time.
//!
//! Everything the decoder does to single tokens was done when the section was compiled: a token has up to four texts,
//! for the inner, first, last and only place. What is left joins them: runs of byte tokens, replacement of ill-formed
//! bytes, and white space stripped at the ends. Feeding the ids one by one gives what feeding them at once gives.

use super::section::{Kind, NONE, Section, field, table, token};
use crate::bytes::copy;
use crate::error::{Code, Error};
use crate::utf8::{ill_formed_len, is_text, text_len};

/// Bytes of the longest run of byte tokens held back. A longer run is decided in parts of this length.
pub const MAX_RUN: usize = 1024;

/// Words of the decoder's record.
mod word {
    pub const FLAGS: usize = 0;
    pub const STRIP: usize = 1;
    pub const STRIP_START: usize = 2;
    pub const STRIP_STOP: usize = 3;
    pub const RULES: usize = 4;
    /// Words before the rules.
    pub const COUNT: usize = 5;
}

/// Words of a rule: pattern, what it becomes, what it becomes in the first token; offset and length of each.
const RULE: usize = 6;

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
    /// Words of the record that every token asks for.
    flags: u32,
    strip_stop: u32,
    visible: bool,
    /// Ill-formed bytes become U+FFFD; false: true bytes come out.
    replace: bool,
    begun: bool,
    held: u32,
    previous: u32,
    run: [u8; MAX_RUN],
    run_len: usize,
    tail: [u8; 4],
    tail_len: usize,
    strip_start: u32,
    /// Strippable characters at the end that are held back.
    strip_held: u32,
}

/// The caller's output.
struct Out<'o> {
    bytes: &'o mut [u8],
    len: usize,
}

impl Out<'_> {
    fn push(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            copy(room, bytes);
            self.len = end;
        }
    }
}

const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

impl<'a> Decoder<'a> {
    /// A decoder at the start of a text.
    pub(super) fn new(section: &Section<'a>, mode: DecodeMode, replace: bool) -> Self {
        Self {
            section: *section,
            flags: section.word(table::DECODER, word::FLAGS),
            strip_stop: section.word(table::DECODER, word::STRIP_STOP),
            visible: mode == DecodeMode::Visible,
            replace,
            begun: false,
            held: NONE,
            previous: NONE,
            run: [0; MAX_RUN],
            run_len: 0,
            tail: [0; 4],
            tail_len: 0,
            strip_start: section.word(table::DECODER, word::STRIP_START),
            strip_held: 0,
        }
    }

    fn word(&self, i: usize) -> u32 {
        self.section.word(table::DECODER, i)
    }

    fn has(&self, bit: u32) -> bool {
        self.section.is(Kind::Bytes) && bit == flag::LOSSY || self.flags & bit != 0
    }

    /// Whether bytes are held back that a later id, or the end, will bring out.
    pub fn is_holding(&self) -> bool {
        self.run_len > 0 || self.tail_len > 0 || self.held != NONE
    }

    /// Takes an id and writes what is certain from then on. Ids without a text write nothing.
    ///
    /// # Errors
    /// [`Code::OutputBufferExceeded`]: `out` may be too short; nothing was taken. Enough for any id is
    /// [`Tokenizer::max_push_bytes`](super::Tokenizer::max_push_bytes).
    pub fn push(&mut self, id: u32, out: &mut [u8]) -> Result<usize, Error> {
        let flags = self.section.table(table::FLAGS).get(id as usize).copied().unwrap_or(0);
        let bytes_kind = self.section.is(Kind::Bytes);
        if !bytes_kind && flags & token::EXISTS == 0 || self.visible && flags & token::SPECIAL != 0 {
            return Ok(0);
        }
        let mut out = self.room(out, longest(&self.section, id).max(longest(&self.section, self.held)))?;
        if bytes_kind {
            // Bytes stand for themselves; the unknown id is a question mark and the others are nothing.
            match u8::try_from(id) {
                Ok(byte) => self.join(&[byte], &mut out),
                Err(_) if id == self.section.field(field::UNK) => self.join(b"?", &mut out),
                Err(_) => {}
            }
            return Ok(out.len);
        }
        if self.has(flag::DEDUP) && core::mem::replace(&mut self.previous, id) == id {
            return Ok(0);
        }
        if !self.has(flag::HOLD) {
            self.token(id, false, &mut out);
        } else {
            let before = core::mem::replace(&mut self.held, id);
            if before != NONE {
                self.token(before, false, &mut out);
            }
        }
        Ok(out.len)
    }

    /// Ends the text: writes what was held back, and is at the start of a text again.
    ///
    /// # Errors
    /// [`Code::OutputBufferExceeded`]: `out` may be too short; nothing was taken.
    pub fn finish(&mut self, out: &mut [u8]) -> Result<usize, Error> {
        let mut out = self.room(out, longest(&self.section, self.held))?;
        if self.held != NONE {
            self.token(self.held, true, &mut out);
        }
        self.end_run(&mut out);
        if self.tail_len > 0 {
            self.text(REPLACEMENT, &mut out);
        }
        let mode = if self.visible { DecodeMode::Visible } else { DecodeMode::Raw };
        *self = Self::new(&self.section, mode, self.replace);
        Ok(out.len)
    }

    /// The output, if all that may come is sure to fit.
    fn room<'o>(&self, out: &'o mut [u8], piece: usize) -> Result<Out<'o>, Error> {
        let held = self.run_len.saturating_add(self.tail_len).saturating_add(piece).saturating_add(1);
        let strip = (self.strip_held as usize).saturating_mul(4);
        if out.len() < held.saturating_mul(3).saturating_add(strip) {
            return Err(Error::new(Code::OutputBufferExceeded));
        }
        Ok(Out { bytes: out, len: 0 })
    }

    fn token(&mut self, id: u32, last: bool, out: &mut Out<'_>) {
        let flags = self.section.table(table::FLAGS).get(id as usize).copied().unwrap_or(0);
        if self.has(flag::BYTE_RUNS) && flags & token::BYTE != 0 {
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
        self.join(piece(&self.section, id, place), out);
    }

    /// Ends a run of byte tokens: text if it is UTF-8, else one U+FFFD for each byte.
    fn end_run(&mut self, out: &mut Out<'_>) {
        if self.run_len == 0 {
            return;
        }
        let run = self.run;
        let run = run.get(..core::mem::take(&mut self.run_len)).unwrap_or(&[]);
        let first = !core::mem::replace(&mut self.begun, true);
        if is_text(run) {
            self.ruled(run, first, out);
        } else if self.replace {
            run.iter().for_each(|_| self.join(REPLACEMENT, out));
        } else {
            self.join(run, out);
        }
    }

    /// Applies the rules for single tokens to the text of a run.
    fn ruled(&mut self, run: &[u8], first: bool, out: &mut Out<'_>) {
        let mut at = 0usize;
        'text: while let Some(rest) = run.get(at..).filter(|rest| !rest.is_empty()) {
            for rule in 0..self.word(word::RULES) as usize {
                let base = rule.saturating_mul(RULE).saturating_add(word::COUNT);
                let string = |i: usize| {
                    let i = base.saturating_add(i);
                    self.section.string(self.word(i), self.word(i.saturating_add(1)))
                };
                let pattern = string(0);
                if rest.starts_with(pattern) {
                    let becomes = if first { string(4) } else { string(2) };
                    self.join(becomes, out);
                    at = at.saturating_add(pattern.len().max(1));
                    continue 'text;
                }
            }
            let len = super::text::char_len(rest.first().copied().unwrap_or(0)).min(rest.len());
            self.join(rest.get(..len).unwrap_or(rest), out);
            at = at.saturating_add(len);
        }
    }

    /// Joins a token's bytes to the text.
    fn join(&mut self, bytes: &[u8], out: &mut Out<'_>) {
        if !self.replace || !self.has(flag::LOSSY) {
            return self.text(bytes, out);
        }
        let mut rest = bytes;
        // Finish the character that has begun.
        while self.tail_len > 0 {
            let Some((byte, after)) = rest.split_first() else { return };
            if let Some(slot) = self.tail.get_mut(self.tail_len) {
                *slot = *byte;
            }
            let tail = self.tail;
            let tail = tail.get(..self.tail_len.wrapping_add(1)).unwrap_or(&[]);
            if ill_formed_len(tail) > 0 {
                // What had begun ends here; the byte begins anew.
                self.text(REPLACEMENT, out);
                self.tail_len = 0;
                break;
            }
            rest = after;
            self.tail_len = self.tail_len.wrapping_add(1);
            if is_text(tail) {
                self.text(tail, out);
                self.tail_len = 0;
            }
        }
        loop {
            let (good, bad) = rest.split_at_checked(text_len(rest)).unwrap_or((rest, &[]));
            self.text(good, out);
            let len = ill_formed_len(bad);
            if len == 0 {
                // All is said, or a character has begun.
                copy(&mut self.tail, bad);
                self.tail_len = bad.len().min(3);
                return;
            }
            self.text(REPLACEMENT, out);
            rest = bad.get(len..).unwrap_or(&[]);
        }
    }

    /// Strips the ends of the whole text.
    fn text(&mut self, bytes: &[u8], out: &mut Out<'_>) {
        if self.strip_start == 0 && self.strip_stop == 0 {
            return out.push(bytes);
        }
        let (content, len) = super::text::encode(self.word(word::STRIP));
        let content = content.get(..len).unwrap_or(&[]);
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if let Some(after) = rest.strip_prefix(content) {
                rest = after;
                if self.strip_start > 0 {
                    self.strip_start = self.strip_start.wrapping_sub(1);
                } else if self.strip_held < self.strip_stop {
                    self.strip_held = self.strip_held.wrapping_add(1);
                } else {
                    out.push(content);
                }
                continue;
            }
            self.strip_start = 0;
            for _ in 0..core::mem::take(&mut self.strip_held) {
                out.push(content);
            }
            let len = super::text::char_len(*first).min(rest.len());
            let (char, after) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            out.push(char);
            rest = after;
        }
    }
}

/// Bytes of a token's longest text.
pub(super) fn longest(section: &Section<'_>, id: u32) -> usize {
    (0..4).fold(0, |longest, place| piece(section, id, place).len().max(longest))
}

/// A token's text in a place: bit 0 first, bit 1 last.
pub(super) fn piece<'a>(section: &Section<'a>, id: u32, place: usize) -> &'a [u8] {
    let own = |place: usize| table::PIECES.saturating_add(place.saturating_mul(2));
    for place in [place, 0] {
        let offsets = own(place);
        if !section.table(offsets).is_empty() {
            return section.item(offsets, offsets.saturating_add(1), id);
        }
    }
    section.item(table::OFFSETS, table::BYTES, id)
}

/// Checks the decoder's record and the byte tokens.
pub(super) fn check(section: &Section<'_>) -> Result<(), Error> {
    let bad = || Error::new(Code::TokenizerTable).entry(table::DECODER as u32);
    let word = |i: usize| section.word(table::DECODER, i);
    let expected = (word(word::RULES) as usize).saturating_mul(RULE).saturating_add(word::COUNT);
    if section.table(table::DECODER).len() != expected.saturating_mul(4)
        || word(word::FLAGS) & !flag::ALL != 0
        || char::from_u32(word(word::STRIP)).is_none()
    {
        return Err(bad());
    }
    for at in (word::COUNT..expected).step_by(2) {
        let len = word(at.saturating_add(1));
        // The first string of a rule is its pattern.
        let pattern = at.saturating_sub(word::COUNT).is_multiple_of(RULE);
        if !section.is_text(word(at), len) || pattern && len == 0 {
            return Err(bad());
        }
    }
    let lossy = word(word::FLAGS) & flag::LOSSY != 0;
    for (id, flags) in section.table(table::FLAGS).iter().enumerate() {
        let byte = flags & token::BYTE != 0;
        for place in 0..4 {
            let text = piece(section, id as u32, place);
            // Without the byte-level join, only byte tokens may hold anything but whole characters.
            if byte && text.len() != 1 || !byte && !lossy && !is_text(text) {
                return Err(Error::new(Code::TokenizerToken).entry(id as u32));
            }
        }
    }
    Ok(())
}
