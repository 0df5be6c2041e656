//! The machine's own operations, of which the library makes filters, methods and functions.

use super::Fail;
use super::number::{parse_float, parse_int};
use super::op::native;
use super::text::{decode, part};
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
        let (first, second) = (self.int_of(x), self.int_of(y));
        // What a value holds.
        let place = item.at().wrapping_add(first as usize);
        let number = match which {
            native::LENGTH => self.length(item)?,
            native::BYTES => item.len() as i64,
            native::OFFSET => self.offset(item, first)?,
            native::FIND => self.search(item, x, second)?,
            native::SPAN => self.span(item, x, second)?,
            native::SLOT => match self.dict_find(item, x)? {
                Some(slot) => slot.wrapping_sub(item.at()).wrapping_add(1) as i64,
                None => -1,
            },
            native::NOW => self.now.field(self.int_of(item) as u8) as i64,
            native::STRING => return self.string_of(item),
            native::PART => {
                let end = item.len() as i64;
                let (from, to) = (first.clamp(0, end) as usize, second.clamp(0, end) as usize);
                if item.kind() == value::STR {
                    return Ok(part(item, from, to));
                }
                let at = item.at().wrapping_add(from);
                return Ok(Value::new(item.kind(), at, to.saturating_sub(from)).flagged(item.flags()));
            }
            native::CASE => return self.case(item, first),
            native::HAS => {
                let (point, len) = decode(self.text.of(item), 0);
                return Ok(Value::bool(len > 0 && self.unicode.has(first as usize, point)));
            }
            native::LIKE => {
                let (mark, content) = (self.text.used(), self.text.is_content(x.at()));
                self.text.copy(item.at(), item.len(), Some(content))?;
                return Ok(self.text.since(mark));
            }
            native::FLAGS if count == 1 => return Ok(item.flagged(value::MARKUP)),
            native::FLAGS => return Ok(item.flagged(x.flags() | y.flags())),
            native::AS => {
                let len = if count < 3 { item.len() } else { second as usize };
                return Ok(Value::new(first as u8, item.at(), len).flagged(item.flags()));
            }
            native::PEEK => return Ok(self.load(place)),
            native::PUT => {
                self.store(place, y);
                return Ok(item);
            }
            native::LOOP => return self.loop_state(item, first),
            native::NUMBER => return self.parse(item, self.truthy(x)),
            native::TRUNCATE => {
                let float = self.float_of(item);
                if !float.is_finite() {
                    return Ok(Value::of(value::NONE));
                }
                if float.abs() >= 9.0e18 {
                    return self.fail(Code::TemplateOverflow);
                }
                float as i64
            }
            native::JSON => {
                self.charge(item.weight() / 4)?;
                return self.tojson(item, x, y, z);
            }
            native::REPR => {
                let mark = self.text.used();
                self.print_repr(item)?;
                return Ok(self.text.since(mark));
            }
            native::RAISE => {
                let message = self.string_of(item)?;
                self.fail_with(message);
                return self.fail(Code::numbered(first as u32).unwrap_or(Code::TemplateDamaged));
            }
            _ => return self.fail(Code::TemplateDamaged),
        };
        self.integer(number)
    }

    /// The number a text is: an integer or a float; None when it is none.
    fn parse(&mut self, text: Value, as_float: bool) -> Result<Value, Fail> {
        self.charge(text.len() / 4)?;
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
}
