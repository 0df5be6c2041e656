//! The machine's own operations, of which the library makes filters, methods and functions.

use super::Fail;
use super::json::parse_int;
use super::op::native;
use super::text::{decode, part};
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

/// Most values an operation takes.
const OPERANDS: usize = 3;

impl Vm<'_> {
    /// Pops the operands of an operation, gives its result.
    pub(super) fn native(&mut self, which: u8, count: usize) -> Result<Value, Fail> {
        let mut operands = [Value::of(value::MISSING); OPERANDS];
        self.sp = self.sp.wrapping_sub(count);
        for (index, operand) in operands.iter_mut().take(count).enumerate() {
            *operand = self.load(self.sp.wrapping_add(index));
        }
        let [item, x, y] = operands;
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
            native::PART => {
                let end = item.len() as i64;
                let (from, to) = (first.clamp(0, end) as usize, second.clamp(0, end) as usize);
                if item.kind() == value::STR {
                    return Ok(part(item, from, to));
                }
                let at = item.at().wrapping_add(from);
                return Ok(Value::new(item.kind(), at, to.saturating_sub(from)).flagged(item.flags()));
            }
            native::MAP => return self.mapped(item, first as usize),
            native::CODE => decode(self.text.of(item), 0).0 as i64,
            native::HAS => {
                let point = decode(self.text.of(item), 0).0;
                return Ok(Value::bool(self.unicode.has(first as usize, point)));
            }
            native::LIKE => return self.text_like(item, x),
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
            native::INTEGER => match parse_int(self.text.of(item)) {
                Some(number) => number,
                None => return Ok(Value::of(value::NONE)),
            },
            native::BITS => self.float_of(item).to_bits() as i64,
            native::FLOAT => return self.float(f64::from_bits(self.int_of(item) as u64)),
            native::RAISE => {
                self.fail_with(item);
                return self.fail(Code::numbered(first as u32).unwrap_or(Code::TemplateDamaged));
            }
            _ => return self.fail(Code::TemplateDamaged),
        };
        self.integer(number)
    }
}
