//! String operations on values: strip, case, split, find, join, replace. Each byte keeps its provenance.

use super::Fail;
use super::op::{find as mode, replace, split};
use super::text::{before, char_offset, count, decode, find, find_last, part};
use super::unicode::{self, CASE_IGNORABLE, CASED, Case};
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

impl Vm<'_> {
    /// Drops characters of a set, or white space without one, at the sides: bit 0 left, bit 1 right.
    pub(super) fn strip(&self, text: Value, set: Value, sides: i64) -> Result<Value, Fail> {
        if !matches!(set.kind(), value::STR | value::NONE) {
            return self.fail(Code::TemplateTypeError);
        }
        let bytes = self.text.of(text);
        let strips = |at: usize| {
            let (point, len) = decode(bytes, at);
            let hit = if set.kind() == value::NONE {
                unicode::is_space(point)
            } else {
                let one = bytes.get(at..at.wrapping_add(len)).unwrap_or(&[]);
                find(self.text.of(set), one, 0).is_some()
            };
            if hit { len } else { 0 }
        };
        let (mut from, mut to) = (0, bytes.len());
        while sides & 1 != 0 && from < to {
            match strips(from) {
                0 => break,
                len => from = from.wrapping_add(len),
            }
        }
        while sides & 2 != 0 && to > from {
            let at = before(bytes, to);
            if strips(at) == 0 {
                break;
            }
            to = at;
        }
        Ok(part(text, from, to))
    }

    /// Whether a letter stands beside `at`, marks skipped. For the final sigma.
    fn cased_beside(&self, bytes: &[u8], at: usize, back: bool) -> bool {
        let mut at = at;
        loop {
            if back {
                if at == 0 {
                    return false;
                }
                at = before(bytes, at);
            } else {
                at = at.wrapping_add(decode(bytes, at).1);
            }
            let (point, len) = decode(bytes, at);
            if len == 0 {
                return false;
            }
            if !self.unicode.has(CASE_IGNORABLE, point) {
                return self.unicode.has(CASED, point);
            }
        }
    }

    /// The characters from `start` to `end`, or all, in lower (0), upper (1) or title (2) case.
    pub(super) fn case(&mut self, text: Value, which: i64, start: Value, end: Value) -> Result<Value, Fail> {
        let bytes = self.text.of(text);
        let (mut at, mut to) = (0, bytes.len());
        if start.is_integer() {
            at = char_offset(bytes, self.int_of(start) as usize);
            to = char_offset(bytes, self.int_of(end) as usize);
        }
        let case = match which {
            0 => Case::Lower,
            1 => Case::Upper,
            _ => Case::Title,
        };
        let mark = self.text.used();
        while at < to {
            let bytes = self.text.of(text);
            let (mut point, len) = decode(bytes, at);
            let content = self.text.is_content(text.at().wrapping_add(at));
            if point == 0x3a3 && case == Case::Lower {
                let last = self.cased_beside(bytes, at, true) && !self.cased_beside(bytes, at, false);
                point = if last { 0x3c2 } else { 0x3c3 };
            }
            if point >= 0x80 {
                self.charge(32)?;
            }
            self.unicode.push_mapped(&mut self.text, case, point, content)?;
            at = at.wrapping_add(len.max(1));
        }
        Ok(self.text.since(mark).flagged(text.flags()))
    }

    /// The pieces of a text between separators, white space or line ends, with at most `limit` cuts. From the right the
    /// pieces come last to first.
    pub(super) fn split(&mut self, text: Value, separator: Value, limit: Value, way: i64) -> Result<Value, Fail> {
        let right = way == split::RIGHT;
        let between = separator.kind() == value::STR;
        let mut left = if limit.is_integer() { self.int_of(limit) } else { -1 };
        let mut rest = text;
        if between {
            if separator.len() == 0 {
                return self.fail(Code::TemplateValueError);
            }
            self.charge((text.len() / 16).saturating_mul(separator.len() / 16 + 1))?;
        } else if way != split::LINES {
            rest = self.strip(text, separator, if right { 2 } else { 1 })?;
        }
        let floor = self.sp;
        while left != 0 {
            let Some((from, to)) = self.cut(rest, separator, way) else { break };
            self.charge(if right { rest.len() / 8 + 1 } else { 1 })?;
            let (head, tail) = (part(rest, 0, from), part(rest, to, rest.len()));
            self.push(if right { tail } else { head })?;
            rest = if right { head } else { tail };
            left = left.wrapping_sub(1);
        }
        // Nothing after the last white space or line end is no piece.
        if between || rest.len() > 0 {
            self.push(rest)?;
        }
        self.make_list(value::LIST, self.sp.saturating_sub(floor))
    }

    /// Where the first (or last) separator begins and ends.
    fn cut(&self, text: Value, separator: Value, way: i64) -> Option<(usize, usize)> {
        let bytes = self.text.of(text);
        if separator.kind() == value::STR {
            let needle = self.text.of(separator);
            let at = if way == split::RIGHT { find_last(bytes, needle) } else { find(bytes, needle, 0) }?;
            return Some((at, at.wrapping_add(needle.len())));
        }
        let (mut at, mut run) = (0, None);
        while at < bytes.len() {
            let (point, len) = decode(bytes, at);
            let next = at.wrapping_add(len.max(1));
            if way == split::LINES {
                if unicode::is_line_end(point) {
                    let pair = bytes.get(at..).is_some_and(|rest| rest.starts_with(b"\r\n"));
                    return Some((at, next.wrapping_add(pair as usize)));
                }
            } else if unicode::is_space(point) {
                // Goes on with the run that ends here, or begins one.
                let start = run.filter(|&(_, end)| end == at).map_or(at, |(start, _)| start);
                run = Some((start, next));
            } else if run.is_some() && way != split::RIGHT {
                break;
            }
            at = next;
        }
        run
    }

    /// The character at which a part stands, or -1.
    pub(super) fn search(&self, text: Value, wanted: Value, way: i64) -> Result<i64, Fail> {
        if text.kind() != value::STR || wanted.kind() != value::STR {
            return self.fail(Code::TemplateTypeError);
        }
        self.charge((text.len() / 16).saturating_mul(wanted.len() / 16 + 1))?;
        let (bytes, needle) = (self.text.of(text), self.text.of(wanted));
        let at = match way {
            mode::FIRST => find(bytes, needle, 0),
            mode::LAST => find_last(bytes, needle),
            mode::START => bytes.starts_with(needle).then_some(0),
            _ => bytes.ends_with(needle).then_some(0),
        };
        Ok(at.map_or(-1, |at| count(bytes.get(..at).unwrap_or(&[])) as i64))
    }

    /// Replaces at most `limit` places; all when negative.
    pub(super) fn replace(&mut self, text: Value, old: Value, new: Value, limit: Value) -> Result<Value, Fail> {
        if old.kind() != value::STR || new.kind() != value::STR {
            return self.fail(Code::TemplateTypeError);
        }
        let mut left = if limit.is_integer() { self.int_of(limit) } else { -1 };
        let inherit = left == replace::INHERIT;
        if inherit && text.flags() & value::MARKUP != 0 {
            return Ok(text);
        }
        self.charge((text.len() / 16).saturating_mul(old.len() / 16 + 1))?;
        let mark = self.text.used();
        let mut at = 0;
        while left != 0 {
            let bytes = self.text.of(text);
            // Without a text to replace: between all characters, and at both ends.
            let hit = if old.len() == 0 { at } else { find(bytes, self.text.of(old), at).unwrap_or(usize::MAX) };
            if hit > text.len() {
                break;
            }
            let here = text.at().wrapping_add(hit);
            self.text.push_from(text.at().wrapping_add(at), hit.wrapping_sub(at))?;
            let like = inherit.then(|| self.text.is_content(here));
            self.text.copy(new.at(), new.len(), like)?;
            at = hit.wrapping_add(old.len());
            if old.len() == 0 {
                let len = decode(self.text.of(text), at).1;
                if len == 0 {
                    break;
                }
                self.text.push_from(here, len)?;
                at = at.wrapping_add(len);
            }
            self.charge(1)?;
            left = left.wrapping_sub(1);
        }
        self.text.push_from(text.at().wrapping_add(at), text.len().saturating_sub(at))?;
        Ok(self.text.since(mark).flagged(text.flags()))
    }

    /// The items with a separator between. Without `convert` an item that is no string is an error.
    pub(super) fn join(&mut self, items: Value, separator: Value, convert: bool) -> Result<Value, Fail> {
        let separator = self.string_of(separator)?;
        let list = self.listed(items)?;
        let mark = self.text.used();
        for index in 0..list.len() {
            let item = self.entry(list, index);
            if !convert && item.kind() != value::STR {
                return self.fail(Code::TemplateTypeError);
            }
            if index > 0 {
                self.text.push_str(separator)?;
            }
            self.charge(1 + item.weight() / 4)?;
            self.print(item)?;
        }
        Ok(self.text.since(mark))
    }
}
