//! String operations on values: strip, case, split, join, replace. Each byte keeps its provenance.

use super::Fail;
use super::text::{decode, find, find_last, part};
use super::unicode::{self, CASE_IGNORABLE, CASED, Case};
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

impl Vm<'_> {
    /// `strip`, `lstrip`, `rstrip`: without a set of characters, white space.
    pub(super) fn strip(&self, text: Value, set: Value, left: bool, right: bool) -> Result<Value, Fail> {
        let chars = match set.kind() {
            value::STR => Some(self.text.of(set)),
            value::NONE | value::MISSING => None,
            _ => return self.fail(Code::TemplateTypeError),
        };
        let bytes = self.text.of(text);
        let strips = |at: usize| {
            let (point, len) = decode(bytes, at);
            let hit = match chars {
                None => unicode::is_space(point),
                Some(set) => bytes.get(at..at.wrapping_add(len)).is_some_and(|one| find(set, one, 0).is_some()),
            };
            if hit { len } else { 0 }
        };
        let (mut from, mut to) = (0, bytes.len());
        while left && from < to {
            match strips(from) {
                0 => break,
                len => from = from.wrapping_add(len),
            }
        }
        while right && to > from {
            let mut at = to.wrapping_sub(1);
            while at > from && bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80) {
                at = at.wrapping_sub(1);
            }
            if strips(at) == 0 {
                break;
            }
            to = at;
        }
        Ok(part(text, from, to))
    }

    /// Whether a letter stands beside `at`, marks skipped, before it no farther than `start`. For the final sigma.
    fn cased_beside(&self, bytes: &[u8], start: usize, at: usize, back: bool) -> bool {
        let mut at = at;
        loop {
            if back {
                if at <= start {
                    return false;
                }
                at = at.wrapping_sub(1);
                while at > 0 && bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80) {
                    at = at.wrapping_sub(1);
                }
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

    fn push_case(&mut self, text: Value, start: usize, at: usize, case: Case) -> Result<usize, Fail> {
        let bytes = self.text.of(text);
        let (point, len) = decode(bytes, at);
        let content = self.text.is_content(text.at().wrapping_add(at));
        if point < 0x80 {
            let byte = point as u8;
            self.text.push(
                if case == Case::Lower { byte.to_ascii_lowercase() } else { byte.to_ascii_uppercase() },
                content,
            )?;
        } else if point == 0x3a3 && case == Case::Lower {
            let last = self.cased_beside(bytes, start, at, true) && !self.cased_beside(bytes, start, at, false);
            self.text.push_char(if last { 0x3c2 } else { 0x3c3 }, content)?;
        } else {
            self.charge(32)?;
            self.unicode.push_mapped(&mut self.text, case, point, content)?;
        }
        Ok(at.wrapping_add(len.max(1)))
    }

    /// `upper`, `lower`; with `first` only the first character in that case and the rest lower.
    pub(super) fn case(&mut self, text: Value, case: Case, first: bool) -> Result<Value, Fail> {
        self.charge(text.len() / 4)?;
        let mark = self.text.used();
        let mut at = 0;
        while at < text.len() {
            at = self.push_case(text, 0, at, if first && at > 0 { Case::Lower } else { case })?;
        }
        Ok(self.text.since(mark).flagged(text.flags()))
    }

    /// The method `title` (a word begins after what is no letter) or the filter (after blanks, dashes and brackets).
    pub(super) fn title(&mut self, text: Value, method: bool) -> Result<Value, Fail> {
        self.charge(text.len() / 4)?;
        let mark = self.text.used();
        let (mut at, mut inside, mut start) = (0, false, 0);
        while at < text.len() {
            let (point, _) = decode(self.text.of(text), at);
            let case = match (inside, method) {
                (true, _) => Case::Lower,
                (false, true) => Case::Title,
                (false, false) => Case::Upper,
            };
            at = self.push_case(text, start, at, case)?;
            if !inside && !method {
                // The filter maps the rest of a word by itself.
                start = at;
            }
            inside = if method {
                if point < 0x80 { (point as u8).is_ascii_alphabetic() } else { self.unicode.has(CASED, point) }
            } else {
                !unicode::is_space(point) && !matches!(point, 0x2d | 0x28 | 0x7b | 0x5b | 0x3c)
            };
        }
        Ok(self.text.since(mark).flagged(text.flags() & !value::MARKUP))
    }

    /// `split` and `rsplit`, at white space without a separator. `limit` is the largest number of cuts.
    pub(super) fn split(&mut self, text: Value, separator: Value, limit: i64, from_right: bool) -> Result<Value, Fail> {
        let floor = self.sp;
        let mut left = if limit < 0 { i64::MAX } else { limit };
        self.charge(text.len() / 8)?;
        match separator.kind() {
            value::NONE | value::MISSING => {
                let mut rest = self.strip(text, separator, !from_right, from_right)?;
                while rest.len() > 0 {
                    self.charge(if from_right { rest.len() / 8 } else { 1 })?;
                    let cut = if left > 0 { self.word(rest, from_right) } else { None };
                    left = left.saturating_sub(1);
                    match cut {
                        Some((before, after)) => {
                            let (head, tail) = (part(rest, 0, before), part(rest, after, rest.len()));
                            self.push(if from_right { tail } else { head })?;
                            rest =
                                self.strip(if from_right { head } else { tail }, separator, !from_right, from_right)?;
                        }
                        None => {
                            self.push(rest)?;
                            rest = part(rest, 0, 0);
                        }
                    }
                }
            }
            value::STR if separator.len() == 0 => return self.fail(Code::TemplateValueError),
            value::STR => {
                let mut rest = text;
                loop {
                    let (bytes, needle) = (self.text.of(rest), self.text.of(separator));
                    let hit = if from_right { find_last(bytes, needle) } else { find(bytes, needle, 0) };
                    match hit.filter(|_| left > 0) {
                        Some(at) => {
                            let after = at.wrapping_add(separator.len());
                            let (head, tail) = (part(rest, 0, at), part(rest, after, rest.len()));
                            self.push(if from_right { tail } else { head })?;
                            rest = if from_right { head } else { tail };
                        }
                        None => {
                            self.push(rest)?;
                            break;
                        }
                    }
                    self.charge(1)?;
                    left = left.saturating_sub(1);
                }
            }
            _ => return self.fail(Code::TemplateTypeError),
        }
        let list = self.make_list(value::LIST, self.sp.saturating_sub(floor))?;
        let count = list.len();
        for index in 0..if from_right { count / 2 } else { 0 } {
            let (low, high) =
                (list.at().wrapping_add(index), list.at().wrapping_add(count).wrapping_sub(index).wrapping_sub(1));
            let (first, last) = (self.heap_at(low), self.heap_at(high));
            self.set_heap(low, last);
            self.set_heap(high, first);
        }
        Ok(list)
    }

    /// Where the first (or last) run of white space begins and ends.
    fn word(&self, text: Value, from_right: bool) -> Option<(usize, usize)> {
        let bytes = self.text.of(text);
        let (mut at, mut run) = (0, None);
        while at < bytes.len() {
            let (point, len) = decode(bytes, at);
            let next = at.wrapping_add(len.max(1));
            match (unicode::is_space(point), run) {
                (true, Some((start, end))) if end == at => run = Some((start, next)),
                (true, Some(_)) if !from_right => break,
                (true, _) => run = Some((at, next)),
                (false, Some(_)) if !from_right => break,
                _ => {}
            }
            at = next;
        }
        run
    }

    /// Python's `splitlines()`.
    pub(super) fn split_lines(&mut self, text: Value) -> Result<Value, Fail> {
        self.charge(text.len() / 8)?;
        let floor = self.sp;
        let (mut start, mut at) = (0, 0);
        while at < text.len() {
            let bytes = self.text.of(text);
            let (point, len) = decode(bytes, at);
            let mut next = at.wrapping_add(len.max(1));
            if unicode::is_line_end(point) {
                if point == 13 && bytes.get(next) == Some(&b'\n') {
                    next = next.wrapping_add(1);
                }
                self.push(part(text, start, at))?;
                start = next;
            }
            at = next;
        }
        if start < text.len() {
            self.push(part(text, start, text.len()))?;
        }
        self.make_list(value::LIST, self.sp.saturating_sub(floor))
    }

    /// `replace` of at most `limit` places; all when negative.
    pub(super) fn replace(&mut self, text: Value, old: Value, new: Value, limit: i64) -> Result<Value, Fail> {
        if old.kind() != value::STR || new.kind() != value::STR {
            return self.fail(Code::TemplateTypeError);
        }
        self.charge((text.len() / 16).saturating_mul(old.len() / 16 + 1))?;
        let mark = self.text.used();
        let mut left = if limit < 0 { i64::MAX } else { limit };
        let mut at = 0;
        while left > 0 {
            let bytes = self.text.of(text);
            if old.len() == 0 {
                // Between all characters, and at both ends.
                let (_, len) = decode(bytes, at);
                self.text.push_str(new)?;
                if len == 0 {
                    break;
                }
                self.text.push_from(text.at().wrapping_add(at), len)?;
                at = at.wrapping_add(len);
            } else {
                let Some(hit) = find(bytes, self.text.of(old), at) else { break };
                self.text.push_from(text.at().wrapping_add(at), hit.wrapping_sub(at))?;
                self.text.push_str(new)?;
                at = hit.wrapping_add(old.len());
            }
            self.charge(1)?;
            left = left.saturating_sub(1);
        }
        self.text.push_from(text.at().wrapping_add(at), (text.len()).saturating_sub(at))?;
        Ok(self.text.since(mark).flagged(text.flags()))
    }

    /// `separator.join(items)`. Without `convert` an item that is no string is an error.
    pub(super) fn join(&mut self, separator: Value, items: Value, convert: bool) -> Result<Value, Fail> {
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

    /// The filter `indent`.
    pub(super) fn indent(&mut self, text: Value, width: Value, first: bool, blank: bool) -> Result<Value, Fail> {
        if text.is_undefined() {
            return self.fail(Self::misuse(text));
        }
        if text.kind() != value::STR {
            return self.fail(Code::TemplateTypeError);
        }
        let indent = match width.kind() {
            value::STR => width,
            value::INT | value::BOOL => {
                let mark = self.text.used();
                for _ in 0..self.int_of(width).clamp(0, super::MAX_WIDTH as i64) {
                    self.text.push(b' ', false)?;
                }
                self.text.since(mark)
            }
            _ => return self.fail(Code::TemplateTypeError),
        };
        // The reference appends a line end, so that an empty last line counts.
        let mark = self.text.used();
        self.text.push_str(text)?;
        self.text.push(b'\n', false)?;
        let closed = self.text.since(mark);
        let lines = self.split_lines(closed)?;
        let mark = self.text.used();
        for index in 0..lines.len() {
            let line = self.entry(lines, index);
            if index > 0 {
                self.text.push(b'\n', false)?;
            }
            if index == 0 && first || index > 0 && (blank || line.len() > 0) {
                self.text.push_str(indent)?;
            }
            self.text.push_str(line)?;
        }
        Ok(self.text.since(mark).flagged(text.flags()))
    }
}
