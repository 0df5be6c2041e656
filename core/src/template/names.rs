//! Attribute names of Python's own types. The section lists them: an attribute of a value is found by its number, which is
//! its place in that list, from 1.

use super::value::{self, Value};
use super::{Program, u16_at, u32_at};

/// Number of a name that no value gives away: two underscores at both ends.
pub const REFUSED_NAME: usize = 255;
/// Bit beside the kinds that have an attribute: it changes the value, which the reference's sandbox refuses.
pub const MUTATING: u32 = 1 << 31;
/// Bit beside the kinds that have an attribute: reading it of a loop calls the function.
pub const GETTER: u32 = 1 << 30;
/// The function of what the reference has and this machine cannot call.
pub const UNSUPPORTED: u16 = u16::MAX;

/// The bit of a kind of values.
pub const fn bit(kind: u8) -> u32 {
    1 << (kind / 2)
}

impl Program<'_> {
    /// What a value has under the name with this number: a method, its object not bound; missing when there is none.
    ///
    /// An entry is a `u32` with the bits of the kinds that have it, a `u16` constant with the text, and the `u16` function
    /// that is called, the object first.
    pub(super) fn own_attribute(&self, object: Value, number: usize) -> Value {
        let entry = number.wrapping_sub(1);
        let kinds = u32_at(self.names, entry.wrapping_mul(2)).unwrap_or(0);
        if number == REFUSED_NAME {
            return Value::of(value::UNSAFE);
        }
        if kinds & bit(object.kind()) == 0 {
            return Value::of(value::MISSING);
        }
        if kinds & MUTATING != 0 {
            return Value::of(value::UNSAFE);
        }
        let getter = object.kind() == value::LOOP && kinds & GETTER != 0;
        let function = u16_at(self.names, entry.wrapping_mul(4).wrapping_add(3)).unwrap_or(UNSUPPORTED);
        Value::new(if getter { value::GETTER } else { value::METHOD }, 0, function as usize)
    }

    /// The text of the name with this number.
    pub(super) fn name(&self, number: usize) -> Option<Value> {
        let entry = number.wrapping_sub(1);
        u16_at(self.names, entry.wrapping_mul(4).wrapping_add(2)).map(|constant| self.string(constant as usize))
    }
}
