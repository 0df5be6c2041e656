//! Filters. Their parameters stand on the stack, complete and in order: the compiler sees to that.

use super::Fail;
use super::number::{parse_float, parse_int};
use super::op::{compare, filter};
use super::text::part;
use super::unicode::Case;
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;
use core::cmp::Ordering;

impl Vm<'_> {
    /// A string without regard to case, anything else as it is.
    fn fold(&mut self, item: Value, case_sensitive: bool) -> Result<Value, Fail> {
        if item.kind() == value::STR && !case_sensitive { self.case(item, Case::Lower, false) } else { Ok(item) }
    }

    /// The attribute as filters find it: a number, or names and numbers with dots between. None: the item itself.
    fn path(&mut self, item: Value, path: Value) -> Result<Value, Fail> {
        match path.kind() {
            value::NONE => return Ok(item),
            value::STR => {}
            _ => return self.item(item, path),
        }
        let mut found = item;
        let (mut start, mut at) = (0, 0);
        while at <= path.len() {
            let byte = self.text.of(path).get(at).copied().unwrap_or(b'.');
            at = at.wrapping_add(1);
            if byte == b'.' {
                let name = part(path, start, at.wrapping_sub(1));
                let digits = self.text.of(name);
                let number = if digits.iter().all(u8::is_ascii_digit) { parse_int(digits) } else { None };
                found = self.item(found, number.map_or(name, Value::small))?;
                found = self.bind(found, item)?;
                start = at;
            }
        }
        Ok(found)
    }

    /// Sorts `items` by `keys`, both lists of the heap, stable in either direction.
    fn sort(&mut self, keys: Value, items: Value, reverse: bool) -> Result<(), Fail> {
        for index in 1..items.len() {
            let (key, item) = (self.entry(keys, index), self.entry(items, index));
            // Binary search: after all that are not greater (not less, in reverse).
            let (mut low, mut high) = (0, index);
            while low < high {
                let middle = low.wrapping_add(high.wrapping_sub(low) / 2);
                let other = self.entry(keys, middle);
                let order = if reverse { self.order(other, key)? } else { self.order(key, other)? };
                if order == Some(Ordering::Less) { high = middle } else { low = middle.wrapping_add(1) }
            }
            self.charge(index.wrapping_sub(low) / 8)?;
            for list in [keys, items] {
                let from = list.at().wrapping_add(low);
                self.move_heap(from, from.wrapping_add(1), index.wrapping_sub(low));
            }
            self.set_heap(keys.at().wrapping_add(low), key);
            self.set_heap(items.at().wrapping_add(low), item);
        }
        Ok(())
    }

    /// A copy of a list, and a list of its sort keys.
    fn keyed(&mut self, list: Value, path: Value, case_sensitive: bool) -> Result<(Value, Value), Fail> {
        let length = list.len();
        let (keys, items) = (self.alloc(length)?, self.alloc(length)?);
        for index in 0..length {
            let item = self.entry(list, index);
            let key = self.path(item, path)?;
            let key = self.fold(key, case_sensitive)?;
            self.set_heap(keys.wrapping_add(index), key);
            self.set_heap(items.wrapping_add(index), item);
        }
        let at = |at: usize| Value::new(value::LIST, at, length).flagged(list.flags());
        Ok((at(keys), at(items)))
    }

    /// The dict with its pairs in the order of the keys.
    pub(super) fn sorted_dict(&mut self, dict: Value) -> Result<Value, Fail> {
        let pairs = self.listed(dict.seen_as(value::ITEMS))?;
        let (keys, pairs) = self.keyed(pairs, Value::small(0), true)?;
        self.sort(keys, pairs, false)?;
        let at = self.alloc(2 * dict.len())?;
        for index in 0..dict.len() {
            let pair = self.entry(pairs, index);
            for side in 0..2 {
                self.set_heap(at.wrapping_add(2 * index).wrapping_add(side), self.entry(pair, side));
            }
        }
        Ok(Value::new(value::DICT, at, dict.len()).flagged(dict.flags()))
    }

    fn filter_int(&mut self, item: Value, absent: Value, base: Value) -> Result<Value, Fail> {
        if item.is_undefined() {
            return self.fail(Self::misuse(item));
        }
        let float = match item.kind() {
            value::BOOL..=value::WIDE => return self.sign(item, false),
            value::FLOAT => Some(self.float_of(item)),
            value::STR => {
                // Underscores between digits are Python's, not ours.
                if self.int_of(base) != 10 || self.text.of(item).contains(&b'_') {
                    return self.fail(Code::TemplateUnsupported);
                }
                let trimmed = self.strip(item, Value::of(value::NONE), true, true)?;
                let bytes = self.text.of(trimmed);
                if let Some(number) = parse_int(bytes) {
                    let whole = number != i64::MAX && number != i64::MIN;
                    return if whole { self.integer(number) } else { self.fail(Code::TemplateOverflow) };
                }
                parse_float(bytes)
            }
            _ => None,
        };
        match float {
            Some(float) if float.abs() < 9.0e18 => self.integer(float as i64),
            Some(float) if float.is_finite() => self.fail(Code::TemplateOverflow),
            Some(_) if item.kind() == value::FLOAT && !self.float_of(item).is_nan() => {
                self.fail(Code::TemplateOverflow)
            }
            _ => Ok(absent),
        }
    }

    fn filter_float(&mut self, item: Value, absent: Value) -> Result<Value, Fail> {
        if item.is_undefined() {
            return self.fail(Self::misuse(item));
        }
        let number = match item.kind() {
            value::BOOL..=value::FLOAT => Some(self.float_of(item)),
            value::STR => {
                if self.text.of(item).contains(&b'_') {
                    return self.fail(Code::TemplateUnsupported);
                }
                let trimmed = self.strip(item, Value::of(value::NONE), true, true)?;
                parse_float(self.text.of(trimmed))
            }
            _ => None,
        };
        match number {
            Some(number) => self.float(number),
            None => Ok(absent),
        }
    }

    fn first_or_last(&mut self, item: Value, last: bool) -> Result<Value, Fail> {
        if item.kind() == value::GENERATOR {
            if last {
                return self.fail(Code::TemplateTypeError);
            }
            let list = self.heap_at(item.at());
            if list.len() > 0 {
                let rest = Value::new(value::LIST, list.at().wrapping_add(1), list.len().wrapping_sub(1));
                self.set_heap(item.at(), rest);
                return Ok(self.entry(list, 0));
            }
            return Ok(Value::of(value::UNDEFINED));
        }
        let source = self.iterable(item)?;
        let length = self.length(source).unwrap_or(0);
        if length == 0 {
            return Ok(Value::of(value::UNDEFINED));
        }
        Ok(self.entry(source, if last { length.wrapping_sub(1) } else { 0 }))
    }

    /// Pops value and parameters of a filter, gives its result.
    pub(super) fn filter(&mut self, which: u8) -> Result<Value, Fail> {
        let arity = self.need(filter::ARITY.get(which as usize).copied(), Code::TemplateDamaged)? as usize;
        if which == filter::TOJSON {
            return self.tojson();
        }
        let mut args = [Value::of(value::NONE); 3];
        for slot in args.iter_mut().take(arity).rev() {
            *slot = self.pop()?;
        }
        let [x, y, z] = args;
        let item = self.pop()?;
        self.charge(item.weight() / 4)?;
        Ok(match which {
            filter::TRIM => {
                let text = self.string_of(item)?;
                self.strip(text, x, true, true)?
            }
            filter::LENGTH => Value::small(self.need(self.length(item), Code::TemplateTypeError)? as i64),
            filter::STRING => self.string_of(item)?,
            filter::ITEMS => {
                let list = match item.kind() {
                    value::DICT => self.listed(item.seen_as(value::ITEMS))?,
                    _ if item.is_undefined() => self.listed(item)?,
                    _ => return self.fail(Code::TemplateTypeError),
                };
                self.generator(list)?
            }
            filter::LIST => self.listed(item)?,
            filter::LOWER | filter::UPPER | filter::CAPITALIZE => {
                let text = self.string_of(item)?;
                match which {
                    filter::LOWER => self.case(text, Case::Lower, false)?,
                    filter::UPPER => self.case(text, Case::Upper, false)?,
                    _ => self.case(text, Case::Title, true)?,
                }
            }
            filter::TITLE => {
                let text = self.string_of(item)?;
                self.title(text, false)?
            }
            filter::DEFAULT => {
                if item.is_undefined() || self.truthy(y) && !self.truthy(item) {
                    x
                } else {
                    item
                }
            }
            filter::JOIN => {
                let mut items = item;
                if y.kind() != value::NONE {
                    let list = self.listed(item)?;
                    items = self.keyed(list, y, true)?.0;
                }
                let separator = self.string_of(x)?;
                self.join(separator, items, true)?
            }
            filter::DICTSORT => {
                if item.is_undefined() {
                    return self.fail(Self::misuse(item));
                }
                if item.kind() != value::DICT {
                    return self.fail(Code::TemplateAttributeError);
                }
                let side = match self.text.of(y) {
                    b"key" => 0,
                    b"value" => 1,
                    _ => return self.fail(Code::TemplateRuntimeError),
                };
                let pairs = self.listed(item.seen_as(value::ITEMS))?;
                let case_sensitive = self.truthy(x);
                let (keys, pairs) = self.keyed(pairs, Value::small(side), case_sensitive)?;
                self.sort(keys, pairs, self.truthy(z))?;
                pairs
            }
            filter::REPLACE => {
                let (text, old, new) = (self.string_of(item)?, self.string_of(x)?, self.string_of(y)?);
                let limit = if z.is_integer() { self.int_of(z) } else { -1 };
                let text = text.flagged(text.flags() & !value::MARKUP);
                self.replace(text, old, new, limit)?
            }
            filter::INDENT => self.indent(item, x, self.truthy(y), self.truthy(z))?,
            filter::SORT => {
                let list = self.listed(item)?;
                let case_sensitive = self.truthy(y);
                let (keys, items) = self.keyed(list, z, case_sensitive)?;
                self.sort(keys, items, self.truthy(x))?;
                items
            }
            filter::UNIQUE | filter::MIN | filter::MAX => {
                let list = self.listed(item)?;
                let case_sensitive = self.truthy(x);
                let (keys, items) = self.keyed(list, y, case_sensitive)?;
                if which == filter::UNIQUE { self.unique(keys, items)? } else { self.extreme(keys, items, which)? }
            }
            filter::FIRST | filter::LAST => self.first_or_last(item, which == filter::LAST)?,
            filter::INT => self.filter_int(item, x, y)?,
            filter::FLOAT => self.filter_float(item, x)?,
            filter::SAFE => {
                let text = self.string_of(item)?;
                text.flagged(value::MARKUP)
            }
            filter::ABS => {
                if item.kind() == value::FLOAT {
                    self.float(self.float_of(item).abs())?
                } else {
                    self.sign(item, item.is_integer() && self.int_of(item) < 0)?
                }
            }
            filter::REVERSE => {
                let backwards = Value::small(-1);
                let none = Value::of(value::NONE);
                if item.kind() == value::STR {
                    self.slice(item, none, none, backwards)?
                } else {
                    let list = self.listed(item)?;
                    let list = self.slice(list, none, none, backwards)?;
                    self.generator(list)?
                }
            }
            filter::SUM => {
                let list = self.listed(item)?;
                let list = self.keyed(list, x, true)?.0;
                let mut total = y;
                for index in 0..list.len() {
                    let next = self.entry(list, index);
                    total = self.binary(super::op::binary::ADD, total, next)?;
                }
                total
            }
            filter::ESCAPE => {
                let text = self.string_of(item)?;
                self.escaped(text)?
            }
            filter::ATTRIBUTE => self.path(item, x)?,
            _ => return self.fail(Code::TemplateDamaged),
        })
    }

    fn unique(&mut self, keys: Value, items: Value) -> Result<Value, Fail> {
        let mut kept = 0usize;
        for index in 0..items.len() {
            let (key, item) = (self.entry(keys, index), self.entry(items, index));
            if matches!(key.kind(), value::LIST | value::DICT) {
                return self.fail(Code::TemplateTypeError);
            }
            let mut seen = false;
            for earlier in 0..kept {
                let other = self.entry(keys, earlier);
                seen = seen || self.equal(other, key)?;
            }
            if !seen {
                self.set_heap(keys.at().wrapping_add(kept), key);
                self.set_heap(items.at().wrapping_add(kept), item);
                kept = kept.wrapping_add(1);
            }
        }
        self.generator(Value::new(value::LIST, items.at(), kept))
    }

    fn extreme(&mut self, keys: Value, items: Value, which: u8) -> Result<Value, Fail> {
        let mut best = 0;
        let op = if which == filter::MIN { compare::LT } else { compare::GT };
        for index in 1..items.len() {
            let (key, other) = (self.entry(keys, index), self.entry(keys, best));
            if self.compare(op, key, other)? {
                best = index;
            }
        }
        Ok(if items.len() == 0 { Value::of(value::UNDEFINED) } else { self.entry(items, best) })
    }
}
