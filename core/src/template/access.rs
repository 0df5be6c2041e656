//! Truth, length, iteration, attributes, items and slices, as Python and the reference's sandbox define them.

use super::Fail;
use super::names::{self, loop_item};
use super::text::{char_offset, count, decode, part};
use super::value::{self, Value};
use super::vm::{STATE, Vm};
use crate::error::Code;

impl Vm<'_> {
    /// The error that using an undefined value gives.
    pub(super) fn misuse(item: Value) -> Code {
        if item.kind() == value::UNSAFE { Code::TemplateSecurityError } else { Code::TemplateUndefinedError }
    }

    pub(super) fn truthy(&self, item: Value) -> bool {
        match item.kind() {
            value::MISSING | value::UNDEFINED | value::UNSAFE | value::NONE => false,
            value::BOOL | value::INT | value::WIDE => self.int_of(item) != 0,
            value::FLOAT => self.float_of(item) != 0.0,
            value::GENERATOR => true,
            value::STR => item.len() > 0,
            _ => self.length(item).is_none_or(|length| length > 0),
        }
    }

    /// Python's `len`, where there is one.
    pub(super) fn length(&self, item: Value) -> Option<usize> {
        match item.kind() {
            value::UNDEFINED | value::UNSAFE => Some(0),
            value::STR => Some(count(self.text.of(item))),
            value::LIST | value::TUPLE | value::DICT | value::KEYS | value::VALUES | value::ITEMS | value::RANGE => {
                Some(item.len())
            }
            value::LOOP => Some(self.load(item.at().wrapping_add(1)).len()),
            _ => None,
        }
    }

    /// What a loop over a value goes through. A generator is used up by this.
    pub(super) fn iterable(&mut self, item: Value) -> Result<Value, Fail> {
        match item.kind() {
            value::UNDEFINED | value::UNSAFE => Ok(Value::new(value::LIST, 0, 0)),
            value::GENERATOR => {
                let list = self.load(item.at());
                self.store(item.at(), Value::new(value::LIST, 0, 0));
                Ok(list)
            }
            value::STR | value::LIST | value::TUPLE | value::KEYS | value::VALUES | value::ITEMS | value::RANGE => {
                Ok(item)
            }
            value::DICT => Ok(item.seen_as(value::KEYS)),
            _ => self.fail(Code::TemplateTypeError),
        }
    }

    /// Item number `index` of what [`Self::iterable`] gave, or of a dict's keys.
    pub(super) fn entry(&self, source: Value, index: usize) -> Value {
        let at = source.at();
        match source.kind() {
            value::LIST | value::TUPLE => self.load(at.wrapping_add(index)),
            value::KEYS | value::DICT => self.load(at.wrapping_add(2 * index)),
            value::VALUES => self.load(at.wrapping_add(2 * index).wrapping_add(1)),
            value::ITEMS => Value::new(value::TUPLE, at.wrapping_add(2 * index), 2).flagged(source.flags()),
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

    /// The next item of the loop state on top of the stack. A string is walked by bytes, which stand in the state.
    pub(super) fn advance(&mut self) -> Result<Option<Value>, Fail> {
        let state = self.sp.wrapping_sub(STATE);
        let (source, cursor) = (self.load(state), self.load(state.wrapping_add(1)));
        let index = cursor.at();
        if index >= cursor.len() {
            return Ok(None);
        }
        let item = if source.kind() == value::STR {
            let from = self.peek(0).at();
            let to = from.wrapping_add(decode(self.text.of(source), from).1);
            self.store(self.sp.wrapping_sub(1), Value::new(value::MARK, to, 0));
            part(source, from, to)
        } else {
            self.entry(source, index)
        };
        self.store(state.wrapping_add(1), Value::new(value::MARK, index.wrapping_add(1), cursor.len()));
        Ok(Some(item))
    }

    /// Pops a value of exactly `count` items and pushes them, the first on top.
    pub(super) fn unpack(&mut self, count: usize) -> Result<(), Fail> {
        let source = self.pop();
        let source = self.iterable(source)?;
        if self.length(source) != Some(count) {
            return self.fail(Code::TemplateValueError);
        }
        for index in (0..count).rev() {
            self.push(self.entry(source, index))?;
        }
        Ok(())
    }

    /// All items of an iterable as a list.
    pub(super) fn listed(&mut self, item: Value) -> Result<Value, Fail> {
        let source = self.iterable(item)?;
        if matches!(source.kind(), value::LIST | value::TUPLE) {
            return Ok(source.seen_as(value::LIST));
        }
        let length = self.length(source).unwrap_or(0);
        let at = self.alloc(length)?;
        let mut byte = 0usize;
        for index in 0..length {
            let item = if source.kind() == value::STR {
                let from = byte;
                byte = from.wrapping_add(decode(self.text.of(source), from).1);
                part(source, from, byte)
            } else {
                self.entry(source, index)
            };
            self.store(at.wrapping_add(index), item);
        }
        Ok(Value::new(value::LIST, at, length).flagged(source.flags() & value::CONTENT))
    }

    /// A list that is read once.
    pub(super) fn generator(&mut self, list: Value) -> Result<Value, Fail> {
        let cell = self.alloc(1)?;
        self.store(cell, list);
        Ok(Value::new(value::GENERATOR, cell, 0))
    }

    /// Index in the heap of a key's place in a dict; the value stands behind it.
    pub(super) fn dict_find(&mut self, dict: Value, key: Value) -> Result<Option<usize>, Fail> {
        match key.kind() {
            value::LIST | value::DICT | value::KEYS | value::VALUES | value::ITEMS => {
                return self.fail(Code::TemplateTypeError);
            }
            value::TUPLE => return self.fail(Code::TemplateUnsupported),
            _ => {}
        }
        self.charge(dict.len() / 8)?;
        for index in 0..dict.len() {
            let at = dict.at().wrapping_add(2 * index);
            if self.same(self.load(at), key) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// The attribute that Python's own type gives, methods not bound.
    fn own_attribute(&self, object: Value, name: Value, number: usize) -> Result<Option<Value>, Fail> {
        let bytes = self.text.of(name);
        if bytes.starts_with(b"__") && bytes.ends_with(b"__") {
            return Ok(Some(Value::of(value::UNSAFE)));
        }
        let kind = match object.kind() {
            value::STR => names::STR,
            value::LIST => names::LIST,
            value::TUPLE | value::RANGE => names::TUPLE,
            value::DICT => names::DICT,
            value::LOOP => names::LOOP,
            _ => 0,
        };
        let Some(entry) = self.program.name(number).filter(|entry| entry.mask & kind != 0) else { return Ok(None) };
        if entry.mask & names::MUTATING != 0 {
            return Ok(Some(Value::of(value::UNSAFE)));
        }
        if kind == names::LOOP && entry.of_loop != loop_item::METHOD {
            return self.loop_attribute(object, entry.of_loop).map(Some);
        }
        Ok(Some(Value::new(value::METHOD, 0, entry.function)))
    }

    /// Index of the running loop's current item, its source, and how many items there are.
    fn loop_state(&self, object: Value) -> Result<(usize, Value, usize), Fail> {
        let at = object.at();
        let (source, cursor, aux) = (self.load(at), self.load(at.wrapping_add(1)), self.load(at.wrapping_add(2)));
        if aux.kind() != value::MARK || aux.at() != object.len() {
            return self.fail(Code::TemplateUnsupported);
        }
        Ok((cursor.at().saturating_sub(1), source, cursor.len()))
    }

    fn loop_attribute(&self, object: Value, number: u8) -> Result<Value, Fail> {
        let (index, source, length) = self.loop_state(object)?;
        let result = match number {
            loop_item::INDEX0 => index,
            loop_item::INDEX => index.wrapping_add(1),
            loop_item::LENGTH => length,
            loop_item::REVINDEX => length.saturating_sub(index),
            loop_item::REVINDEX0 => length.saturating_sub(index).saturating_sub(1),
            loop_item::DEPTH => 1,
            loop_item::DEPTH0 => 0,
            loop_item::FIRST => return Ok(Value::bool(index == 0)),
            loop_item::LAST => return Ok(Value::bool(index.wrapping_add(1) >= length)),
            loop_item::PREVITEM if index > 0 => return Ok(self.entry(source, index.wrapping_sub(1))),
            loop_item::NEXTITEM if index.wrapping_add(1) < length => {
                return Ok(self.entry(source, index.wrapping_add(1)));
            }
            _ => return Ok(Value::of(value::UNDEFINED)),
        };
        Ok(Value::small(result as i64))
    }

    fn namespace_attribute(&mut self, object: Value, name: Value) -> Result<Option<Value>, Fail> {
        let slot = self.dict_find(self.load(object.at()), name)?;
        Ok(slot.map(|slot| self.load(slot.wrapping_add(1))))
    }

    /// `object.name`: Python's attribute first, then the item.
    pub(super) fn named_attribute(&mut self, object: Value, name: Value, number: usize) -> Result<Value, Fail> {
        if object.is_undefined() {
            return self.fail(Self::misuse(object));
        }
        if let Some(found) = self.own_attribute(object, name, number)? {
            return Ok(found);
        }
        let found = match object.kind() {
            value::DICT => self.dict_find(object, name)?.map(|slot| self.load(slot.wrapping_add(1))),
            value::NAMESPACE => self.namespace_attribute(object, name)?,
            _ => None,
        };
        Ok(found.unwrap_or(Value::of(value::UNDEFINED)))
    }

    /// `object[key]`: the item first, then Python's attribute.
    pub(super) fn item(&mut self, object: Value, key: Value) -> Result<Value, Fail> {
        if object.is_undefined() {
            return self.fail(Self::misuse(object));
        }
        match object.kind() {
            // A key that cannot be hashed is no error here.
            value::DICT if !matches!(key.kind(), value::LIST | value::DICT..=value::ITEMS) => {
                if let Some(slot) = self.dict_find(object, key)? {
                    return Ok(self.load(slot.wrapping_add(1)));
                }
            }
            value::STR | value::LIST | value::TUPLE | value::RANGE if key.is_integer() => {
                let length = self.length(object).unwrap_or(0) as i64;
                let key = self.int_of(key);
                let index = if key < 0 { key.saturating_add(length) } else { key };
                if (0..length).contains(&index) {
                    return Ok(self.entry(object, index as usize));
                }
            }
            _ => {}
        }
        if key.kind() == value::STR {
            let mut number = 1;
            while let Some(entry) = self.program.name(number)
                && self.text.of(self.program.string(entry.text)) != self.text.of(key)
            {
                number = number.wrapping_add(1);
            }
            if let Some(found) = self.own_attribute(object, key, number)? {
                return Ok(found);
            }
            if let (value::NAMESPACE, Some(found)) = (object.kind(), self.namespace_attribute(object, key)?) {
                return Ok(found);
            }
        }
        Ok(Value::of(value::UNDEFINED))
    }

    /// A method that is not called at once takes its object along.
    pub(super) fn bind(&mut self, found: Value, object: Value) -> Result<Value, Fail> {
        if found.kind() != value::METHOD || found.at() != 0 {
            return Ok(found);
        }
        let cell = self.alloc(1)?;
        self.store(cell, object);
        Ok(Value::new(value::METHOD, cell.wrapping_add(1), found.len()))
    }

    /// `namespace.name = item`.
    pub(super) fn set_attribute(&mut self, namespace: Value, name: Value, item: Value) -> Result<(), Fail> {
        if namespace.kind() != value::NAMESPACE {
            return self.fail(Code::TemplateRuntimeError);
        }
        if self.text.of(name).starts_with(b"_") {
            return self.fail(Code::TemplateSecurityError);
        }
        let cell = namespace.at();
        let dict = self.load(cell);
        let slot = match self.dict_find(dict, name)? {
            Some(slot) => slot,
            None => {
                let (mut at, count) = (dict.at(), dict.len());
                if count >= self.load(cell.wrapping_add(1)).len() {
                    let capacity = (2 * count).max(4);
                    at = self.alloc(2 * capacity)?;
                    self.move_heap(dict.at(), at, 2 * count);
                    self.store(cell.wrapping_add(1), Value::new(value::MARK, 0, capacity));
                }
                let slot = at.wrapping_add(2 * count);
                self.store(slot, name);
                self.store(cell, Value::new(value::DICT, at, count.wrapping_add(1)));
                slot
            }
        };
        self.store(slot.wrapping_add(1), item);
        Ok(())
    }

    /// `object[start:stop:step]`, by items or code points.
    pub(super) fn slice(&mut self, object: Value, start: Value, stop: Value, step: Value) -> Result<Value, Fail> {
        if object.is_undefined() {
            return self.fail(Self::misuse(object));
        }
        if !matches!(object.kind(), value::STR | value::LIST | value::TUPLE | value::RANGE) {
            return self.fail(Code::TemplateTypeError);
        }
        self.charge(object.weight() / 8)?;
        for bound in [start, stop, step] {
            if bound.kind() != value::NONE && !bound.is_integer() {
                return self.fail(Code::TemplateTypeError);
            }
        }
        let length = self.length(object).unwrap_or(0) as i64;
        let step = if step.kind() == value::NONE { 1 } else { self.int_of(step) };
        if step == 0 {
            return self.fail(Code::TemplateValueError);
        }
        let (low, high) = if step > 0 { (0, length) } else { (-1, length.saturating_sub(1)) };
        let bound = |item: Value, absent: i64| match item.kind() {
            value::NONE => absent,
            _ if self.int_of(item) < 0 => self.int_of(item).saturating_add(length).max(low),
            _ => self.int_of(item).min(high),
        };
        let (from, to) =
            if step > 0 { (bound(start, low), bound(stop, high)) } else { (bound(start, high), bound(stop, low)) };
        if step == 1 && object.kind() != value::RANGE {
            let (from, to) = (from as usize, to.max(from) as usize);
            if object.kind() == value::STR {
                let bytes = self.text.of(object);
                return Ok(part(object, char_offset(bytes, from), char_offset(bytes, to)));
            }
            let at = object.at().wrapping_add(from);
            return Ok(Value::new(object.kind(), at, to.saturating_sub(from)).flagged(object.flags()));
        }
        let source = if object.kind() == value::STR { self.listed(object)? } else { object };
        let floor = self.sp;
        let mut index = from;
        while if step > 0 { index < to } else { index > to } {
            self.charge(1)?;
            self.push(self.entry(source, index as usize))?;
            index = index.saturating_add(step);
        }
        let count = self.sp.saturating_sub(floor);
        if object.kind() == value::STR {
            let result = self.concat(count)?;
            return Ok(result.flagged(object.flags()));
        }
        let kind = if object.kind() == value::TUPLE { value::TUPLE } else { value::LIST };
        let result = self.make_list(kind, count)?;
        Ok(result.flagged(object.flags()))
    }
}
