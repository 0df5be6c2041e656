//! What the machine does with texts itself; the library makes Python's methods of it. Places are numbers of bytes.

use super::Fail;
use super::op::span;
use super::text::{before, char_offset, decode, find};
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

impl Vm<'_> {
    /// Where the run of characters of a set, at the begin or the end of a text, is over.
    pub(super) fn span(&self, text: Value, set: Value, way: i64) -> Result<i64, Fail> {
        let (bytes, set) = (self.text.of(text), self.text.of(set));
        let (back, others) = (way & span::BACK != 0, way & span::OTHERS != 0);
        let (mut from, mut to) = (0, bytes.len());
        while from < to {
            let at = if back { before(bytes, to) } else { from };
            let next = at.wrapping_add(decode(bytes, at).1.max(1));
            let one = bytes.get(at..next).unwrap_or(&[]);
            if find(set, one, 0, false).is_some() == others {
                break;
            }
            if back {
                to = at;
            } else {
                from = next;
            }
            self.charge(1)?;
        }
        Ok(if back { to } else { from } as i64)
    }

    /// Where a character stands; a negative number counts from the end.
    pub(super) fn offset(&self, text: Value, index: i64) -> Result<i64, Fail> {
        let bytes = self.text.of(text);
        let mut at = bytes.len();
        if index >= 0 {
            at = char_offset(bytes, index as usize);
            self.charge(at / 8)?;
        }
        let mut index = index;
        while index < 0 && at > 0 {
            self.charge(1)?;
            at = before(bytes, at);
            index = index.wrapping_add(1);
        }
        Ok(at as i64)
    }

    /// Where a part first stands at or after `from`, or the last time with a negative `from`; else -1.
    pub(super) fn search(&self, text: Value, wanted: Value, from: i64) -> Result<i64, Fail> {
        if text.kind() != value::STR || wanted.kind() != value::STR {
            return self.fail(Code::TemplateTypeError);
        }
        let start = from.max(0) as usize;
        let found = find(self.text.of(text), self.text.of(wanted), start, from < 0);
        let scanned = match found {
            Some(at) if from >= 0 => at.saturating_sub(start),
            _ => text.len(),
        };
        self.charge((scanned / 16).saturating_mul(wanted.len() / 16 + 1))?;
        Ok(found.map_or(-1, |at| at as i64))
    }
}
