//! Operators.

use super::Fail;
use super::op::{binary, compare, hook};
use super::text::find;
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;
use core::cmp::Ordering;

impl Vm<'_> {
    pub(super) fn sign(&mut self, item: Value, negative: bool) -> Result<Value, Fail> {
        let result = match item.kind() {
            value::FLOAT if negative => self.float(-self.float_of(item))?,
            value::FLOAT => item,
            value::BOOL..=value::WIDE => {
                let number = self.int_of(item);
                let negated = self.need(number.checked_neg(), Code::TemplateOverflow)?;
                self.integer(if negative { negated } else { number })?
            }
            _ if item.is_undefined() => return self.fail(Self::misuse(item)),
            _ => return self.fail(Code::TemplateTypeError),
        };
        Ok(result.flagged(item.flags()))
    }

    /// Two values to one, popped and pushed; or the library's function that does it begins.
    pub(super) fn binary(&mut self, which: u8) -> Result<(), Fail> {
        let (b, a) = (self.pop(), self.pop());
        let flags = (a.flags() | b.flags()) & value::CONTENT;
        let (left, right) = (a.kind(), b.kind());
        if left == value::STR && which == binary::MOD {
            return self.hook(hook::PERCENT, a, b);
        }
        if a.is_undefined() || b.is_undefined() {
            return self.fail(Self::misuse(if a.is_undefined() { a } else { b }));
        }
        let result = if a.is_number() && b.is_number() {
            if left == value::FLOAT || right == value::FLOAT {
                self.float_binary(which, self.float_of(a), self.float_of(b))?
            } else {
                self.int_binary(which, self.int_of(a), self.int_of(b))?
            }
        } else if which == binary::MUL && b.is_integer() {
            return self.repeat(a, self.int_of(b));
        } else if which == binary::MUL && a.is_integer() {
            return self.repeat(b, self.int_of(a));
        } else if which != binary::ADD || left != right {
            return self.fail(Code::TemplateTypeError);
        } else if left == value::STR {
            if (a.flags() | b.flags()) & value::MARKUP != 0 {
                return self.hook(hook::ADD_MARKUP, a, b);
            }
            self.charge(b.len() / 4)?;
            self.text.concat(a, b)?
        } else if matches!(left, value::LIST | value::TUPLE) {
            let at = self.alloc(a.len())?;
            let more = self.alloc(b.len())?;
            self.move_heap(a.at(), at, a.len());
            self.move_heap(b.at(), more, b.len());
            Value::new(left, at, a.len().wrapping_add(b.len()))
        } else {
            return self.fail(Code::TemplateTypeError);
        };
        self.push(result.flagged(flags))
    }

    fn repeat(&mut self, item: Value, times: i64) -> Result<(), Fail> {
        // Either memory is shorter than 2^28.
        let times = if item.len() == 0 { 0 } else { times.clamp(0, 1 << value::FIELD) as usize };
        let total = item.len().saturating_mul(times);
        self.charge(total / 4)?;
        let result = match item.kind() {
            value::STR => {
                let mark = self.text.used();
                for _ in 0..times {
                    self.text.push_str(item)?;
                }
                self.text.since(mark)
            }
            value::LIST | value::TUPLE => {
                let at = self.alloc(total)?;
                for time in 0..times {
                    self.move_heap(item.at(), at.wrapping_add(time.wrapping_mul(item.len())), item.len());
                }
                Value::new(item.kind(), at, total)
            }
            _ => return self.fail(Code::TemplateTypeError),
        };
        self.push(result.flagged(item.flags()))
    }

    fn int_binary(&mut self, which: u8, a: i64, b: i64) -> Result<Value, Fail> {
        let whole = match which {
            binary::ADD => a.checked_add(b),
            binary::SUB => a.checked_sub(b),
            binary::MUL => a.checked_mul(b),
            binary::FLOORDIV | binary::MOD | binary::DIV if b == 0 => return self.fail(Code::TemplateZeroDivision),
            binary::DIV => {
                // Python divides exactly; beyond 2^53 the operands would round first.
                if (a.unsigned_abs() | b.unsigned_abs()) >> 53 != 0 {
                    return self.fail(Code::TemplateOverflow);
                }
                return self.float(a as f64 / b as f64);
            }
            binary::FLOORDIV | binary::MOD => a.checked_div(b).zip(a.checked_rem(b)).map(|(quotient, rest)| {
                let down = rest != 0 && (rest < 0) != (b < 0);
                match (which, down) {
                    (binary::FLOORDIV, _) => quotient.wrapping_sub(down as i64),
                    (_, true) => rest.wrapping_add(b),
                    _ => rest,
                }
            }),
            _ => u32::try_from(b).ok().and_then(|exponent| a.checked_pow(exponent)),
        };
        let whole = self.need(whole, Code::TemplateOverflow)?;
        self.integer(whole)
    }

    fn float_binary(&mut self, which: u8, a: f64, b: f64) -> Result<Value, Fail> {
        let result = match which {
            binary::ADD => a + b,
            binary::SUB => a - b,
            binary::MUL => a * b,
            binary::DIV if b == 0.0 => return self.fail(Code::TemplateZeroDivision),
            binary::DIV => a / b,
            _ => return self.fail(Code::TemplateUnsupported),
        };
        self.float(result)
    }

    /// The top `count` values as one string.
    pub(super) fn concat(&mut self, count: usize) -> Result<Value, Fail> {
        let first = self.sp.wrapping_sub(count);
        let mut result = self.text.since(self.text.used());
        for index in first..self.sp {
            let item = self.load(index);
            self.charge(item.weight() / 4)?;
            let item = self.string_of(item)?;
            result = if index == first { item } else { self.text.concat(result, item)? };
        }
        self.sp = first;
        Ok(result.flagged(0))
    }

    /// Python's `str` as a string value.
    pub(super) fn string_of(&mut self, item: Value) -> Result<Value, Fail> {
        if item.kind() == value::STR {
            return Ok(item);
        }
        let mark = self.text.used();
        self.print(item)?;
        Ok(self.text.since(mark))
    }

    /// Equality of two values that hold no others.
    pub(super) fn same(&self, a: Value, b: Value) -> bool {
        match (a.kind(), b.kind()) {
            (value::STR, value::STR) => a.len() == b.len() && self.text.of(a) == self.text.of(b),
            _ if a.is_number() && b.is_number() => self.numeric(a, b) == Some(Ordering::Equal),
            _ => a.flagged(0) == b.flagged(0),
        }
    }

    /// Python's `==`.
    pub(super) fn equal(&mut self, a: Value, b: Value) -> Result<bool, Fail> {
        let floor = self.sp;
        self.push(a)?;
        self.push(b)?;
        let mut equal = true;
        while equal && self.sp > floor {
            self.charge(1)?;
            let (b, a) = (self.pop(), self.pop());
            match (a.kind(), b.kind()) {
                (value::LIST, value::LIST) | (value::TUPLE, value::TUPLE) => {
                    equal = a.len() == b.len();
                    if !equal || a.at() == b.at() {
                        continue;
                    }
                    for index in 0..a.len() {
                        self.push(self.entry(a, index))?;
                        self.push(self.entry(b, index))?;
                    }
                }
                (value::DICT, value::DICT) => {
                    equal = a.len() == b.len();
                    for index in 0..if equal { a.len() } else { 0 } {
                        let key = self.entry(a, index);
                        let Some(slot) = self.dict_find(b, key)? else {
                            equal = false;
                            break;
                        };
                        self.push(self.load(a.at().wrapping_add(2 * index).wrapping_add(1)))?;
                        self.push(self.load(slot.wrapping_add(1)))?;
                    }
                }
                (value::RANGE, value::RANGE) => {
                    let ends = |range: Value| (self.entry(range, 0), self.entry(range, 1));
                    equal = a.len() == b.len() && (a.len() == 0 || ends(a) == ends(b));
                }
                _ => equal = self.same(a, b),
            }
        }
        self.sp = floor;
        Ok(equal)
    }

    /// Order of two values; `None` when one is NaN.
    pub(super) fn order(&mut self, a: Value, b: Value) -> Result<Option<Ordering>, Fail> {
        let (mut a, mut b) = (a, b);
        loop {
            self.charge(1)?;
            if a.is_number() && b.is_number() {
                return Ok(self.numeric(a, b));
            }
            match (a.kind(), b.kind()) {
                (value::STR, value::STR) => {
                    self.charge(a.len().min(b.len()) / 16)?;
                    return Ok(Some(self.text.of(a).cmp(self.text.of(b))));
                }
                (value::LIST, value::LIST) | (value::TUPLE, value::TUPLE) => {
                    let mut differs = None;
                    for index in 0..a.len().min(b.len()) {
                        let (x, y) = (self.entry(a, index), self.entry(b, index));
                        if !self.equal(x, y)? {
                            differs = Some((x, y));
                            break;
                        }
                    }
                    match differs {
                        Some(pair) => (a, b) = pair,
                        None => return Ok(Some(a.len().cmp(&b.len()))),
                    }
                }
                _ if a.is_undefined() || b.is_undefined() => {
                    return self.fail(Self::misuse(if a.is_undefined() { a } else { b }));
                }
                _ => return self.fail(Code::TemplateTypeError),
            }
        }
    }

    pub(super) fn compare(&mut self, which: u8, a: Value, b: Value) -> Result<bool, Fail> {
        match which {
            compare::EQ | compare::NE => {
                self.charge(a.weight() / 64)?;
                Ok(self.equal(a, b)? == (which == compare::EQ))
            }
            compare::IN | compare::NOT_IN => Ok(self.contains(b, a)? == (which == compare::IN)),
            _ => {
                let order = self.order(a, b)?;
                Ok(match which {
                    compare::LT => order == Some(Ordering::Less),
                    compare::LE => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    compare::GT => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                })
            }
        }
    }

    fn contains(&mut self, container: Value, item: Value) -> Result<bool, Fail> {
        match container.kind() {
            value::STR => {
                if item.kind() != value::STR {
                    return self.fail(Code::TemplateTypeError);
                }
                self.charge((container.len() / 32).saturating_mul(item.len() / 16 + 1))?;
                Ok(find(self.text.of(container), self.text.of(item), 0).is_some())
            }
            value::DICT | value::KEYS => Ok(self.dict_find(container, item)?.is_some()),
            _ => {
                let source = self.iterable(container)?;
                for index in 0..self.length(source).unwrap_or(0) {
                    let entry = self.entry(source, index);
                    if self.equal(entry, item)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Order of two numbers, exact also between integers and floats.
    fn numeric(&self, a: Value, b: Value) -> Option<Ordering> {
        match (a.kind() == value::FLOAT, b.kind() == value::FLOAT) {
            (false, false) => Some(self.int_of(a).cmp(&self.int_of(b))),
            (true, true) => self.float_of(a).partial_cmp(&self.float_of(b)),
            (true, false) => int_float(self.int_of(b), self.float_of(a)).map(Ordering::reverse),
            (false, true) => int_float(self.int_of(a), self.float_of(b)),
        }
    }
}

/// Rounding is monotonic, so only equality after it needs a second look, at the integer the float is.
fn int_float(int: i64, float: f64) -> Option<Ordering> {
    match (int as f64).partial_cmp(&float)? {
        Ordering::Equal if float < 9_223_372_036_854_775_808.0 => Some(int.cmp(&(float as i64))),
        Ordering::Equal => Some(Ordering::Less),
        order => Some(order),
    }
}
