//! The machine's own operations, of which the library makes filters, methods and functions.

use super::Fail;
use super::number::{parse_float, parse_int};
use super::op::native;
use super::text::decode;
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

/// Most values an operation takes.
const OPERANDS: usize = 4;

impl Vm<'_> {
    /// Pops the operands of an operation, gives its result.
    pub(super) fn native(&mut self, which: u8, count: usize) -> Result<Value, Fail> {
        let mut operands = [Value::of(value::MISSING); OPERANDS];
        self.sp = self.sp.wrapping_sub(count);
        for (index, operand) in operands.iter_mut().take(count).enumerate() {
            *operand = self.load(self.sp.wrapping_add(index));
        }
        let [item, x, y, z] = operands;
        self.charge(item.weight() / 4)?;
        Ok(match which {
            native::STRING => self.string_of(item)?,
            native::LENGTH => Value::small(self.need(self.length(item), Code::TemplateTypeError)? as i64),
            native::LIST => self.listed(item)?,
            native::GENERATOR => self.generator(item)?,
            native::STRIP => self.strip(item, x, self.int_of(y))?,
            native::CASE => self.case(item, self.int_of(x), y, z)?,
            native::REPLACE => self.replace(item, x, y, z)?,
            native::SPLIT => self.split(item, x, y, self.int_of(z))?,
            native::JOIN => {
                let convert = self.truthy(y);
                self.join(item, x, convert)?
            }
            native::FIND => Value::small(self.search(item, x, self.int_of(y))?),
            native::JSON => self.tojson(item, x, y, z)?,
            native::FLAGS => item.flagged(if x.kind() == value::MISSING { value::MARKUP } else { x.flags() }),
            native::NUMBER => self.parse(item, self.truthy(x))?,
            native::TRUNCATE => {
                let float = self.float_of(item);
                if float.abs() < 9.0e18 {
                    self.integer(float as i64)?
                } else if float.is_finite() {
                    return self.fail(Code::TemplateOverflow);
                } else {
                    Value::of(value::NONE)
                }
            }
            native::RANGE => self.range([item, x, y])?,
            native::DICT => {
                let floor = self.sp;
                for index in 0..item.len() {
                    self.push(self.entry(item, index))?;
                    self.unpack(2)?;
                    let (key, item) = (self.pop(), self.pop());
                    self.push(key)?;
                    self.push(item)?;
                }
                self.make_dict(floor)?
            }
            native::NAMESPACE => {
                for index in 0..item.len() {
                    if self.text.of(self.entry(item, index)).starts_with(b"_") {
                        return self.fail(Code::TemplateSecurityError);
                    }
                }
                let cell = self.alloc(2)?;
                self.store(cell, item);
                self.store(cell.wrapping_add(1), Value::new(value::MARK, 0, item.len()));
                Value::new(value::NAMESPACE, cell, 0)
            }
            native::VIEW => {
                let dict = if item.kind() == value::NAMESPACE { self.load(item.at()) } else { item };
                dict.seen_as(self.int_of(x) as u8)
            }
            native::GET => self.dict_find(item, x)?.map_or(y, |slot| self.load(slot.wrapping_add(1))),
            native::PUT => {
                let at = if item.kind() == value::GENERATOR { 0 } else { self.int_of(x) as usize };
                self.store(item.at().wrapping_add(at), y);
                item
            }
            native::RAISE => {
                let message = self.string_of(item)?;
                self.fail_with(message);
                return self.fail(Code::TemplateRaised);
            }
            native::BYTES => Value::small(item.len() as i64),
            native::HAS => {
                let (point, len) = decode(self.text.of(item), 0);
                Value::bool(len > 0 && self.unicode.has(self.int_of(x) as usize, point))
            }
            native::REPR => {
                let mark = self.text.used();
                self.print_repr(item)?;
                self.text.since(mark)
            }
            _ => return self.fail(Code::TemplateDamaged),
        })
    }

    /// The number a text is: an integer or a float; None when it is none.
    fn parse(&mut self, text: Value, as_float: bool) -> Result<Value, Fail> {
        let bytes = self.text.of(text);
        if let Some(number) = parse_int(bytes).filter(|_| !as_float) {
            let whole = number != i64::MAX && number != i64::MIN;
            return if whole { self.integer(number) } else { self.fail(Code::TemplateOverflow) };
        }
        match parse_float(bytes) {
            Some(number) => self.float(number),
            None => Ok(Value::of(value::NONE)),
        }
    }

    fn range(&mut self, bounds: [Value; 3]) -> Result<Value, Fail> {
        if !bounds.into_iter().all(Value::is_integer) {
            return self.fail(Code::TemplateTypeError);
        }
        let [start, stop, step] = bounds.map(|bound| self.int_of(bound));
        if step == 0 {
            return self.fail(Code::TemplateValueError);
        }
        // Bounds beyond 2^54 would only make ranges longer than the limit, or could not be told apart from it.
        if (start.unsigned_abs() | stop.unsigned_abs() | step.unsigned_abs()) >> 54 != 0 {
            return self.fail(Code::TemplateOverflow);
        }
        let distance = if step > 0 { stop.wrapping_sub(start) } else { start.wrapping_sub(stop) }.max(0) as u64;
        let size = step.unsigned_abs();
        let length = distance.wrapping_add(size).wrapping_sub(1).checked_div(size).unwrap_or(0);
        if length > super::MAX_RANGE {
            return self.fail(Code::TemplateOverflow);
        }
        let at = self.alloc(3)?;
        for (offset, number) in [start, step, stop].into_iter().enumerate() {
            self.store(at.wrapping_add(offset), Value::small(number));
        }
        Ok(Value::new(value::RANGE, at, length as usize))
    }
}
