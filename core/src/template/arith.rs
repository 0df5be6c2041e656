//! Operators on numbers and texts. On all else the library's functions do them.

use super::Fail;
use super::op::binary;
use super::text::find;
use super::value::{self, Value};
use super::vm::Vm;
use core::cmp::Ordering;

/// Orderings (1 less, 2 equal, 4 greater) for which a comparison holds, from `binary::EQ` to `binary::GE`.
const HOLDS: [u8; 5] = [2, 1, 3, 4, 6];

impl Vm<'_> {
    /// Two values to one; missing when the machine does not do it itself.
    pub(super) fn binary(&mut self, which: u8, a: Value, b: Value) -> Result<Value, Fail> {
        let (left, right) = (a.kind(), b.kind());
        let numbers = a.is_number() && b.is_number();
        let texts = left == value::STR && right == value::STR;
        if let Some(holds) = HOLDS.get(which.wrapping_sub(binary::EQ) as usize).filter(|_| which >= binary::EQ) {
            let order = if numbers {
                self.numeric(a, b)
            } else if texts {
                self.charge(a.len().min(b.len()) / 16)?;
                Some(self.text.of(a).cmp(self.text.of(b)))
            } else if which == binary::EQ {
                let alike = a.flagged(0) == b.flagged(0);
                if !alike && left == right && matches!(left, value::LIST | value::TUPLE | value::DICT | value::RANGE) {
                    return Ok(Value::of(value::MISSING));
                }
                return Ok(Value::bool(alike));
            } else {
                return Ok(Value::of(value::MISSING));
            };
            // Nothing holds between a NaN and a number.
            return Ok(Value::bool(order.is_some_and(|order| holds >> (order as i8 + 1) & 1 != 0)));
        }
        if which == binary::IN {
            return self.contains(b, a);
        }
        let result = if texts && which == binary::ADD && (a.flags() | b.flags()) & value::MARKUP == 0 {
            self.concat(2)?
        } else if !numbers {
            Value::of(value::MISSING)
        } else if left == value::FLOAT || right == value::FLOAT {
            let (x, y) = (self.float_of(a), self.float_of(b));
            let result = match which {
                binary::ADD => x + y,
                binary::SUB => x - y,
                binary::MUL => x * y,
                binary::DIV if y != 0.0 => x / y,
                _ => return Ok(Value::of(value::MISSING)),
            };
            self.float(result)?
        } else {
            let (x, y) = (self.int_of(a), self.int_of(b));
            let whole = match which {
                binary::ADD => x.checked_add(y),
                binary::SUB => x.checked_sub(y),
                binary::MUL => x.checked_mul(y),
                binary::FLOORDIV | binary::MOD => x.checked_div(y).map(|quotient| {
                    let rest = x.wrapping_sub(quotient.wrapping_mul(y));
                    // Python rounds down, so that the rest has the sign of the divisor.
                    let down = rest != 0 && (rest ^ y) < 0;
                    match which {
                        binary::FLOORDIV => quotient.wrapping_sub(down as i64),
                        _ if down => rest.wrapping_add(y),
                        _ => rest,
                    }
                }),
                _ => None,
            };
            match whole {
                Some(whole) => self.integer(whole)?,
                None => return Ok(Value::of(value::MISSING)),
            }
        };
        Ok(result.flagged((a.flags() | b.flags()) & value::CONTENT))
    }

    /// The top `count` strings of the stack, where they stay, as one.
    pub(super) fn concat(&mut self, count: usize) -> Result<Value, Fail> {
        let first = self.sp.wrapping_sub(count);
        let mut mark = self.text.used();
        for index in first..self.sp {
            let item = self.load(index);
            self.charge(item.weight() / 4)?;
            // What already stands at the end stays there, so that text grown piece by piece costs what it is long.
            match self.text.start_at_end(item) {
                Some(start) if index == first => mark = start,
                _ => self.text.push_str(item)?,
            }
        }
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

    /// Whether a container holds an item; missing when the machine does not know itself.
    fn contains(&mut self, container: Value, item: Value) -> Result<Value, Fail> {
        let found = match container.kind() {
            value::STR if item.kind() == value::STR => {
                self.charge((container.len() / 32).saturating_mul(item.len() / 16 + 1))?;
                find(self.text.of(container), self.text.of(item), 0, false)
            }
            value::DICT | value::KEYS => self.dict_find(container, item)?,
            value::LIST | value::TUPLE if item.kind() <= value::STR => {
                self.charge(container.len() / 8)?;
                self.find_same(container, 1, item)
            }
            _ => return Ok(Value::of(value::MISSING)),
        };
        Ok(Value::bool(found.is_some()))
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
