//! Values to text: Python's `str` and `repr`, and its `json.dumps`.

use super::Fail;
use super::number::{Decimal, POINT, decimal};
use super::text::decode;
use super::unicode::PRINTABLE;
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

/// How nested values are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    json: bool,
    ascii: bool,
    /// Between items, and between key and value; `None`: the usual ones.
    separators: Option<(Value, Value)>,
    /// One level of indentation.
    indent: Option<Value>,
}

const REPR: Style = Style { json: false, ascii: false, separators: None, indent: None };

impl Vm<'_> {
    /// Appends Python's `str` of a value.
    pub(super) fn print(&mut self, item: Value) -> Result<(), Fail> {
        match item.kind() {
            value::STR => self.text.push_str(item),
            value::MISSING | value::UNDEFINED | value::UNSAFE => Ok(()),
            _ => self.write(item, REPR),
        }
    }

    /// Appends Python's `repr` of a value.
    pub(super) fn print_repr(&mut self, item: Value) -> Result<(), Fail> {
        self.write(item, REPR)
    }

    /// Python's `json.dumps` as the reference's filter calls it.
    pub(super) fn tojson(
        &mut self,
        item: Value,
        ascii: Value,
        indent: Value,
        separators: Value,
    ) -> Result<Value, Fail> {
        let mark = self.text.used();
        let indent = match indent.kind() {
            value::NONE | value::MISSING => None,
            value::STR => Some(indent),
            value::INT | value::BOOL => {
                for _ in 0..self.int_of(indent).clamp(0, super::MAX_WIDTH as i64) {
                    self.text.push(b' ', false)?;
                }
                Some(self.text.since(mark))
            }
            _ => return self.fail(Code::TemplateTypeError),
        };
        let separators = match separators.kind() {
            value::NONE | value::MISSING => None,
            value::LIST | value::TUPLE if separators.len() == 2 => {
                let (item, key) = (self.entry(separators, 0), self.entry(separators, 1));
                if item.kind() != value::STR || key.kind() != value::STR {
                    return self.fail(Code::TemplateTypeError);
                }
                Some((item, key))
            }
            value::LIST | value::TUPLE => return self.fail(Code::TemplateValueError),
            _ => return self.fail(Code::TemplateTypeError),
        };
        let style = Style { json: true, ascii: self.truthy(ascii), separators, indent };
        let start = self.text.used();
        self.write(item, style)?;
        Ok(self.text.since(start))
    }

    fn newline(&mut self, style: Style, depth: usize, content: bool) -> Result<(), Fail> {
        let Some(indent) = style.indent else { return Ok(()) };
        self.text.push(b'\n', content)?;
        for _ in 0..depth {
            self.text.push_str(indent)?;
        }
        Ok(())
    }

    /// Writes a value with all it holds. What is open stands on the stack: container and next index.
    fn write(&mut self, item: Value, style: Style) -> Result<(), Fail> {
        let floor = self.sp;
        self.begin(item, style)?;
        while self.sp > floor {
            self.charge(1)?;
            let (position, container) = (self.pop(), self.pop());
            let index = position.at();
            let content = container.is_content();
            let dict = container.kind() == value::DICT;
            let total = (container.len()) << dict as u32;
            let depth = (self.sp.saturating_sub(floor) / 2).wrapping_add(1);
            if index >= total {
                if total > 0 {
                    self.newline(style, depth.wrapping_sub(1), content)?;
                }
                if container.kind() == value::TUPLE && total == 1 && !style.json {
                    self.text.push(b',', content)?;
                }
                self.text.push(Self::bracket(container.kind(), style, false), content)?;
                continue;
            }
            let value_of_pair = dict && index % 2 == 1;
            match style.separators {
                _ if index == 0 => {}
                Some((_, key)) if value_of_pair => self.text.push_str(key)?,
                Some((item, _)) => self.text.push_str(item)?,
                None if value_of_pair => self.text.push_all(b": ", content)?,
                None => self.text.push_all(if style.indent.is_some() { b"," } else { b", " }, content)?,
            }
            if !value_of_pair {
                self.newline(style, depth, content)?;
            }
            let entry = match container.kind() {
                value::RANGE => self.entry(container, index),
                _ => self.load(container.at().wrapping_add(index)),
            };
            self.push(container)?;
            self.push(Value::new(value::MARK, index.wrapping_add(1), 0))?;
            if style.json && dict && !value_of_pair {
                self.json_key(entry, style)?;
            } else {
                self.begin(entry, style)?;
            }
        }
        Ok(())
    }

    fn bracket(kind: u8, style: Style, open: bool) -> u8 {
        match (kind, open) {
            (value::DICT, true) => b'{',
            (value::DICT, false) => b'}',
            (value::TUPLE, true) if !style.json => b'(',
            (value::TUPLE, false) if !style.json => b')',
            (_, true) => b'[',
            (_, false) => b']',
        }
    }

    /// Writes a leaf, or opens a container.
    fn begin(&mut self, item: Value, style: Style) -> Result<(), Fail> {
        let content = item.is_content();
        match item.kind() {
            value::NONE => self.text.push_all(if style.json { b"null" } else { b"None" }, content),
            value::BOOL => {
                let words: [&[u8]; 2] = if style.json { [b"false", b"true"] } else { [b"False", b"True"] };
                self.text.push_all(if item.at() != 0 { words[1] } else { words[0] }, content)
            }
            value::INT | value::WIDE => self.write_int(self.int_of(item), content),
            value::FLOAT => self.write_float(self.float_of(item), style.json, content),
            value::STR if style.json => self.json_text(item, style.ascii),
            value::STR => self.repr_text(item),
            value::LIST | value::TUPLE | value::DICT => {
                self.text.push(Self::bracket(item.kind(), style, true), content)?;
                self.push(item)?;
                self.push(Value::new(value::MARK, 0, 0))
            }
            _ if style.json => self.fail(Code::TemplateTypeError),
            value::UNDEFINED | value::UNSAFE => self.text.push_all(b"Undefined", false),
            value::RANGE => {
                let (start, step) = (self.load(item.at()).inline(), self.load(item.at().wrapping_add(1)).inline());
                let stop = self.load(item.at().wrapping_add(2)).inline();
                self.text.push_all(b"range(", false)?;
                self.write_int(start, false)?;
                self.text.push_all(b", ", false)?;
                self.write_int(stop, false)?;
                if step != 1 {
                    self.text.push_all(b", ", false)?;
                    self.write_int(step, false)?;
                }
                self.text.push(b')', false)
            }
            // What Python prints for the others holds an address of memory.
            _ => self.fail(Code::TemplateUnsupported),
        }
    }

    fn json_key(&mut self, key: Value, style: Style) -> Result<(), Fail> {
        match key.kind() {
            value::STR => self.json_text(key, style.ascii),
            value::NONE..=value::FLOAT => {
                let content = key.is_content();
                self.text.push(b'"', content)?;
                self.begin(key, style)?;
                self.text.push(b'"', content)
            }
            _ => self.fail(Code::TemplateTypeError),
        }
    }

    /// Appends a decimal integer.
    pub(super) fn write_int(&mut self, number: i64, content: bool) -> Result<(), Fail> {
        if number < 0 {
            self.text.push(b'-', content)?;
        }
        let mut buffer = [0; 20];
        let start = decimal(number.unsigned_abs(), &mut buffer);
        self.text.push_all(buffer.get(start..).unwrap_or(&[]), content)
    }

    /// Appends Python's `repr` of a float: the shortest digits that read back, an exponent below 1e-4 and from 1e16 on.
    pub(super) fn write_float(&mut self, number: f64, json: bool, content: bool) -> Result<(), Fail> {
        if number.is_nan() {
            return self.text.push_all(if json { b"NaN" } else { b"nan" }, content);
        }
        if number.is_sign_negative() {
            self.text.push(b'-', content)?;
        }
        if number.is_infinite() {
            return self.text.push_all(if json { b"Infinity" } else { b"inf" }, content);
        }
        if number == 0.0 {
            return self.text.push_all(b"0.0", content);
        }
        let decimal = Decimal::shortest(number.abs());
        let exponent = (POINT as i32).wrapping_sub(1).wrapping_sub(decimal.from as i32);
        let plain = (-4..16).contains(&exponent);
        let (mut place, mut end, mut point) = (decimal.from, decimal.to, decimal.from);
        if plain {
            point = POINT - 1;
            place = place.min(point);
            end = end.max(POINT + 1);
        }
        while place < end {
            self.text.push(decimal.digit(place), content)?;
            if place == point && place.wrapping_add(1) < end {
                self.text.push(b'.', content)?;
            }
            place = place.wrapping_add(1);
        }
        if plain {
            return Ok(());
        }
        self.text.push_all(if exponent < 0 { b"e-" } else { b"e+" }, content)?;
        if exponent.unsigned_abs() < 10 {
            self.text.push(b'0', content)?;
        }
        self.write_int(exponent.unsigned_abs() as i64, content)
    }

    fn hex(&mut self, prefix: u8, value: u32, digits: u32, content: bool) -> Result<(), Fail> {
        self.text.push(b'\\', content)?;
        self.text.push(prefix, content)?;
        for digit in (0..digits).rev() {
            let nibble = (value >> (4 * digit) & 15) as u8;
            self.text.push(if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble }, content)?;
        }
        Ok(())
    }

    fn json_text(&mut self, item: Value, ascii: bool) -> Result<(), Fail> {
        self.charge(item.len() / 8)?;
        let quotes = !item.is_empty() && self.text.is_content(item.at());
        self.text.push(b'"', quotes)?;
        let mut index = 0;
        while index < item.len() {
            let at = item.at().wrapping_add(index);
            let (point, len) = decode(self.text.of(item), index);
            let content = self.text.is_content(at);
            let short = match point {
                0x22 => b'"',
                0x5c => b'\\',
                0x0a => b'n',
                0x0d => b'r',
                0x09 => b't',
                0x08 => b'b',
                0x0c => b'f',
                _ => 0,
            };
            if short != 0 {
                self.text.push(b'\\', content)?;
                self.text.push(short, content)?;
            } else if point < 0x20 || ascii && (0x7f..=0xffff).contains(&point) {
                self.hex(b'u', point, 4, content)?;
            } else if ascii && point > 0xffff {
                let point = point.wrapping_sub(0x10000);
                self.hex(b'u', 0xd800 | point >> 10 & 0x3ff, 4, content)?;
                self.hex(b'u', 0xdc00 | point & 0x3ff, 4, content)?;
            } else {
                self.text.push_from(at, len)?;
            }
            index = index.wrapping_add(len.max(1));
        }
        self.text.push(b'"', quotes)
    }

    fn repr_text(&mut self, item: Value) -> Result<(), Fail> {
        self.charge(item.len() / 4)?;
        let bytes = self.text.of(item);
        let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { b'"' } else { b'\'' };
        let quotes = !item.is_empty() && self.text.is_content(item.at());
        if item.flags() & value::MARKUP != 0 {
            self.text.push_all(b"Markup(", false)?;
        }
        self.text.push(quote, quotes)?;
        let mut index = 0;
        while index < item.len() {
            let at = item.at().wrapping_add(index);
            let (point, len) = decode(self.text.of(item), index);
            let content = self.text.is_content(at);
            let short = match point {
                0x0a => b'n',
                0x0d => b'r',
                0x09 => b't',
                0x5c => b'\\',
                _ if point == quote as u32 => quote,
                _ => 0,
            };
            if short != 0 {
                self.text.push(b'\\', content)?;
                self.text.push(short, content)?;
            } else if self.unicode.has(PRINTABLE, point) {
                self.text.push_from(at, len)?;
            } else if point <= 0xff {
                self.hex(b'x', point, 2, content)?;
            } else if point <= 0xffff {
                self.hex(b'u', point, 4, content)?;
            } else {
                self.hex(b'U', point, 8, content)?;
            }
            if point > 0x7f {
                self.charge(32)?;
            }
            index = index.wrapping_add(len.max(1));
        }
        self.text.push(quote, quotes)?;
        if item.flags() & value::MARKUP != 0 {
            self.text.push(b')', false)?;
        }
        Ok(())
    }
}
