//! Truth, length, iteration, attributes and items, as Python and the reference's sandbox define them.

use super::Fail;
use super::text::{char_offset, count, decode, part};
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

impl Vm<'_> {
    /// Fails because a value of this kind is of no use here.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&self, item: Value) -> Fail {
        self.blame(match item.kind() {
            value::UNSAFE => Code::TemplateSecurityError,
            value::MISSING | value::UNDEFINED => Code::TemplateUndefinedError,
            _ => Code::TemplateTypeError,
        })
    }

    pub(super) fn truthy(&self, item: Value) -> bool {
        match item.kind() {
            value::MISSING..=value::NONE => false,
            value::BOOL..=value::WIDE => self.int_of(item) != 0,
            value::FLOAT => self.float_of(item) != 0.0,
            value::STR..=value::RANGE => !item.is_empty(),
            value::LOOP => !self.load(item.at().wrapping_add(1)).is_empty(),
            _ => true,
        }
    }

    /// Python's `len`.
    pub(super) fn length(&self, item: Value) -> Result<i64, Fail> {
        Ok(match item.kind() {
            value::UNDEFINED | value::UNSAFE => 0,
            value::STR => {
                self.charge(item.len() / 8)?;
                count(self.text.of(item)) as i64
            }
            value::LIST..=value::RANGE => item.len() as i64,
            value::LOOP => self.load(item.at().wrapping_add(1)).len() as i64,
            _ => return self.fail(Code::TemplateTypeError),
        })
    }

    /// What a loop over a value goes through. A generator is used up by this.
    fn iterable(&mut self, item: Value) -> Result<Value, Fail> {
        match item.kind() {
            value::UNDEFINED | value::UNSAFE => Ok(Value::new(value::LIST, 0, 0)),
            value::GENERATOR => {
                let list = self.load(item.at());
                self.store(item.at(), Value::new(value::LIST, 0, 0));
                Ok(list)
            }
            value::DICT => Ok(item.seen_as(value::KEYS)),
            value::STR..=value::RANGE => Ok(item),
            _ => Err(self.refuse(item)),
        }
    }

    /// Item number `index` of what [`Self::iterable`] gave.
    pub(super) fn entry(&self, source: Value, index: usize) -> Value {
        let (at, pair) = (source.at(), source.at().wrapping_add(2 * index));
        match source.kind() {
            value::LIST | value::TUPLE => self.load(at.wrapping_add(index)),
            value::KEYS | value::DICT => self.load(pair),
            value::VALUES => self.load(pair.wrapping_add(1)),
            value::ITEMS => Value::new(value::TUPLE, pair, 2).flagged(source.flags()),
            value::RANGE => {
                let (start, step) = (self.load(at).inline(), self.load(at.wrapping_add(1)).inline());
                Value::small(start.wrapping_add(step.wrapping_mul(index as i64)))
            }
            value::STR => {
                // When the steps run out here, the next instruction fails.
                let _ = self.charge(source.len() / 8);
                let bytes = self.text.of(source);
                let from = char_offset(bytes, index);
                part(source, from, from.wrapping_add(decode(bytes, from).1))
            }
            _ => Value::of(value::UNDEFINED),
        }
    }

    /// Begins a loop over the top of the stack in three slots: source; next index and length; in a string the next byte,
    /// and a serial number.
    pub(super) fn begin_loop(&mut self, slot: usize) -> Result<(), Fail> {
        let source = self.pop();
        let source = self.iterable(source)?;
        let length = self.length(source)? as usize;
        self.serial = self.serial.wrapping_add(1);
        self.set_slot(slot, source);
        self.set_slot(slot.wrapping_add(1), Value::new(value::MARK, 0, length));
        self.set_slot(slot.wrapping_add(2), Value::new(value::MARK, 0, self.serial));
        Ok(())
    }

    /// The next item of a loop; missing after the last.
    pub(super) fn advance(&mut self, slot: usize) -> Value {
        let (source, cursor) = (self.slot(slot), self.slot(slot.wrapping_add(1)));
        let index = cursor.at();
        if index >= cursor.len() {
            return Value::of(value::MISSING);
        }
        self.set_slot(slot.wrapping_add(1), Value::new(value::MARK, index.wrapping_add(1), cursor.len()));
        if source.kind() != value::STR {
            return self.entry(source, index);
        }
        let position = self.slot(slot.wrapping_add(2));
        let from = position.at();
        let to = from.wrapping_add(decode(self.text.of(source), from).1);
        self.set_slot(slot.wrapping_add(2), Value::new(value::MARK, to, position.len()));
        part(source, from, to)
    }

    /// Of a running loop: index of the current item (0), how many there are (1), or what it goes through.
    pub(super) fn loop_state(&self, object: Value, field: i64) -> Result<Value, Fail> {
        let at = object.at();
        let (cursor, position) = (self.load(at.wrapping_add(1)), self.load(at.wrapping_add(2)));
        if position.kind() != value::MARK || position.len() != object.len() {
            return self.fail(Code::TemplateUnsupported);
        }
        Ok(match field {
            0 => Value::small(cursor.at().saturating_sub(1) as i64),
            1 => Value::small(cursor.len() as i64),
            _ => self.load(at),
        })
    }

    /// Pops a value of exactly `count` items and pushes them, the first on top.
    pub(super) fn unpack(&mut self, count: usize) -> Result<(), Fail> {
        let source = self.pop();
        let source = self.iterable(source)?;
        if self.length(source)? != count as i64 {
            return self.fail(Code::TemplateValueError);
        }
        for index in (0..count).rev() {
            self.push(self.entry(source, index))?;
        }
        Ok(())
    }

    /// Index in the memory of the first of `count` values, each so many apart, that is the same as this.
    pub(super) fn find_same(&self, list: Value, apart: usize, item: Value) -> Option<usize> {
        let mut at = list.at();
        for _ in 0..list.len() {
            if self.same(self.load(at), item) {
                return Some(at);
            }
            at = at.wrapping_add(apart);
        }
        None
    }

    /// Index in the memory of a key's place in a dict; the value stands behind it.
    pub(super) fn dict_find(&self, dict: Value, key: Value) -> Result<Option<usize>, Fail> {
        match key.kind() {
            value::LIST | value::DICT..=value::ITEMS => return Err(self.refuse(key)),
            value::TUPLE => return self.fail(Code::TemplateUnsupported),
            _ => {}
        }
        self.charge(dict.len() / 8)?;
        Ok(self.find_same(dict, 2, key))
    }

    /// The value of a key of a dict or namespace; undefined where there is none.
    fn member(&self, object: Value, key: Value) -> Result<Value, Fail> {
        let dict = if object.kind() == value::NAMESPACE { self.load(object.at()) } else { object };
        if dict.kind() == value::DICT
            && let Some(slot) = self.dict_find(dict, key)?
        {
            return Ok(self.load(slot.wrapping_add(1)));
        }
        Ok(Value::of(value::UNDEFINED))
    }

    /// `object.name`, with the name next in the code: Python's attribute first, then the item.
    pub(super) fn attribute(&mut self, object: Value) -> Result<Value, Fail> {
        let index = self.u16();
        if object.is_undefined() {
            return Err(self.refuse(object));
        }
        let found = self.program.own_attribute(object, self.program.attribute_number(index));
        if found.kind() != value::MISSING { Ok(found) } else { self.member(object, self.program.string(index)) }
    }

    /// `object[key]`: the item first, then Python's attribute.
    pub(super) fn item(&mut self, object: Value, key: Value) -> Result<Value, Fail> {
        if object.is_undefined() {
            return Err(self.refuse(object));
        }
        if matches!(object.kind(), value::STR | value::LIST | value::TUPLE | value::RANGE) && key.is_integer() {
            let length = self.length(object)?;
            let key = self.int_of(key);
            let index = if key < 0 { key.wrapping_add(length) } else { key };
            if (0..length).contains(&index) {
                return Ok(self.entry(object, index as usize));
            }
        }
        // A key that cannot be hashed is no error here.
        if object.kind() == value::DICT && !matches!(key.kind(), value::LIST | value::DICT..=value::ITEMS) {
            let found = self.member(object, key)?;
            if found.kind() != value::UNDEFINED {
                return Ok(found);
            }
        }
        if key.kind() != value::STR {
            return Ok(Value::of(value::UNDEFINED));
        }
        let bytes = self.text.of(key);
        if bytes.starts_with(b"__") && bytes.ends_with(b"__") {
            return Ok(Value::of(value::UNSAFE));
        }
        let mut number = 1;
        while let Some(name) = self.program.name(number) {
            if self.same(name, key) {
                let found = self.program.own_attribute(object, number);
                if found.kind() != value::MISSING {
                    return Ok(found);
                }
            }
            number = number.wrapping_add(1);
        }
        if object.kind() == value::NAMESPACE { self.member(object, key) } else { Ok(Value::of(value::UNDEFINED)) }
    }
}
