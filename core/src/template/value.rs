//! A value of the template machine: 16 bytes, copied freely. What it refers to stands in the machine's memory.

use bytemuck::{Pod, Zeroable};

/// A parameter or variable that is not there.
pub const MISSING: u8 = 0;
/// Undefined, as the reference's `Undefined`.
pub const UNDEFINED: u8 = 1;
/// Undefined because the sandbox refuses it: any use is a SecurityError.
pub const UNSAFE: u8 = 2;
/// None.
pub const NONE: u8 = 3;
/// `bits` 0 or 1.
pub const BOOL: u8 = 4;
/// `bits` is an i64.
pub const INT: u8 = 5;
/// `bits` is an f64.
pub const FLOAT: u8 = 6;
/// UTF-8: address and length in bytes.
pub const STR: u8 = 7;
/// Items: index in the heap and count.
pub const LIST: u8 = 8;
/// As a list.
pub const TUPLE: u8 = 9;
/// Pairs of key and value: index in the heap and count of pairs.
pub const DICT: u8 = 10;
/// View of a dict.
pub const KEYS: u8 = 11;
/// View of a dict.
pub const VALUES: u8 = 12;
/// View of a dict.
pub const ITEMS: u8 = 13;
/// Index in the heap of (start, step), and count.
pub const RANGE: u8 = 14;
/// Index in the heap of the list that is left; used up by the first who reads it.
pub const GENERATOR: u8 = 15;
/// Index in the heap of its dict.
pub const NAMESPACE: u8 = 16;
/// `len` number of the macro, `bits` serial and base of its function.
pub const MACRO: u8 = 17;
/// `len` serial, `bits` index in the stack of its state.
pub const LOOP: u8 = 18;
/// `len` number of the function.
pub const FUNCTION: u8 = 19;
/// `len` number of the method; the object stands in the heap at `bits`, or below it on the stack.
pub const METHOD: u8 = 20;
/// Frames, loop states, captures; never seen by a template.
pub const MARK: u8 = 21;

/// Flag: the value came from messages, tools or documents. (A string says so per byte.)
pub const CONTENT: u8 = 1;
/// Flag: a string marked safe.
pub const MARKUP: u8 = 2;

/// A value: kind, flags, length and what it refers to.
#[derive(Clone, Copy, Pod, Zeroable, Debug)]
#[repr(C)]
pub struct Value {
    /// One of the kinds above.
    pub kind: u8,
    /// [`CONTENT`], [`MARKUP`].
    pub flags: u8,
    /// A namespace's capacity; the number of an attribute name on constant strings.
    pub extra: u16,
    /// Length or number.
    pub len: u32,
    /// Payload.
    pub bits: u64,
}

impl Value {
    /// A value that only has a kind.
    pub const fn of(kind: u8) -> Self {
        Self::new(kind, 0, 0)
    }

    /// A value with its length and payload.
    pub const fn new(kind: u8, len: u32, bits: u64) -> Self {
        Self { kind, flags: 0, extra: 0, len, bits }
    }

    /// True or false.
    pub const fn bool(value: bool) -> Self {
        Self::new(BOOL, 0, value as u64)
    }

    /// An integer.
    pub const fn int(value: i64) -> Self {
        Self::new(INT, 0, value as u64)
    }

    /// A float.
    pub const fn float(value: f64) -> Self {
        Self::new(FLOAT, 0, value.to_bits())
    }

    /// The integer of an INT or BOOL.
    pub const fn as_int(self) -> i64 {
        self.bits as i64
    }

    /// The float of a FLOAT.
    pub const fn as_float(self) -> f64 {
        f64::from_bits(self.bits)
    }

    /// Where in the heap or text its payload stands.
    pub const fn at(self) -> usize {
        self.bits as u32 as usize
    }

    /// Whether it is undefined in either way.
    pub const fn is_undefined(self) -> bool {
        matches!(self.kind, UNDEFINED | UNSAFE | MISSING)
    }

    /// Whether it counts as an integer: bools do.
    pub const fn is_integer(self) -> bool {
        matches!(self.kind, INT | BOOL)
    }

    /// Whether it is a number: bools are.
    pub const fn is_number(self) -> bool {
        matches!(self.kind, INT | BOOL | FLOAT)
    }

    /// Its number as a float.
    pub const fn to_float(self) -> f64 {
        if self.kind == FLOAT { self.as_float() } else { self.as_int() as f64 }
    }
}
