//! Values to text. What the machine writes by itself is strings and integers; the library writes the others.

use super::Fail;
use super::op::hook;
use super::unicode;
use super::value::{self, Value};
use super::vm::Vm;

impl Vm<'_> {
    /// Python's `str` of a value that the machine can write; of another the library's function for it begins, and what
    /// it returns comes next on the stack.
    pub(super) fn text_of(&mut self, item: Value) -> Result<Option<Value>, Fail> {
        let mark = self.text.used();
        match item.kind() {
            value::STR => return Ok(Some(item)),
            value::INT | value::WIDE => self.write_int(self.int_of(item), item.is_content())?,
            value::MISSING | value::UNDEFINED | value::UNSAFE => {}
            _ => {
                self.push(item)?;
                self.operator(hook::TEXT)?;
                return Ok(None);
            }
        }
        Ok(Some(self.text.since(mark)))
    }

    /// Appends a decimal integer.
    fn write_int(&mut self, number: i64, content: bool) -> Result<(), Fail> {
        if number < 0 {
            self.text.push(b'-', content)?;
        }
        let mut digits = [0; 20];
        let mut from = digits.len();
        let mut rest = number.unsigned_abs();
        for slot in digits.iter_mut().rev() {
            *slot = b'0'.wrapping_add((rest % 10) as u8);
            from = from.wrapping_sub(1);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.text.push_all(digits.get(from..).unwrap_or(&[]), content)
    }

    /// Whether what stands around a value, such as quotes and brackets, counts as content.
    fn holds_content(&self, item: Value) -> bool {
        if item.kind() == value::STR { !item.is_empty() && self.text.is_content(item.at()) } else { item.is_content() }
    }

    /// A text again, as content where the value `like` is.
    pub(super) fn text_like(&mut self, text: Value, like: Value) -> Result<Value, Fail> {
        let mark = self.text.used();
        self.text.copy(text.at(), text.len(), Some(self.holds_content(like)))?;
        Ok(self.text.since(mark))
    }

    /// A text with each character mapped by a table. What a character becomes is content where the character is.
    pub(super) fn mapped(&mut self, text: Value, table: usize) -> Result<Value, Fail> {
        let mark = self.text.used();
        let table = self.unicode.table(table);
        let mut index = 0;
        while index < text.len() {
            let (point, len) = super::text::decode(self.text.of(text), index);
            let content = self.text.is_content(text.at().wrapping_add(index));
            unicode::push_mapped(&mut self.text, table, point, content)?;
            if point > 0x7f {
                self.charge(32)?;
            }
            index = index.wrapping_add(len.max(1));
        }
        Ok(self.text.since(mark).flagged(text.flags()))
    }
}
