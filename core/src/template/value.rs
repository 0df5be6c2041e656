//! A value of the template machine: one word, copied freely. What it refers to stands in the machine's memory.

use core::num::NonZeroU64;

/// A parameter or variable that is not there.
pub const MISSING: u8 = 1;
/// Undefined, as the reference's `Undefined`.
pub const UNDEFINED: u8 = 3;
/// Undefined because the sandbox refuses it: any use is a SecurityError.
pub const UNSAFE: u8 = 5;
/// None.
pub const NONE: u8 = 7;
/// `at` 0 or 1.
pub const BOOL: u8 = 9;
/// An integer of 56 bits.
pub const INT: u8 = 11;
/// Index in the heap of an i64 that needs more.
pub const WIDE: u8 = 13;
/// Index in the heap of an f64.
pub const FLOAT: u8 = 15;
/// UTF-8: address and length in bytes.
pub const STR: u8 = 17;
/// Items: index in the heap and count.
pub const LIST: u8 = 19;
/// As a list.
pub const TUPLE: u8 = 21;
/// Pairs of key and value: index in the heap and count of pairs.
pub const DICT: u8 = 23;
/// View of a dict.
pub const KEYS: u8 = 25;
/// View of a dict.
pub const VALUES: u8 = 27;
/// View of a dict.
pub const ITEMS: u8 = 29;
/// Index in the heap of start, step and stop, and count.
pub const RANGE: u8 = 31;
/// Index in the heap of the list that is left; used up by the first who reads it.
pub const GENERATOR: u8 = 33;
/// Index in the heap of its dict.
pub const NAMESPACE: u8 = 35;
/// `at` base of its function, `len` number of the macro and serial of the function.
pub const MACRO: u8 = 37;
/// `at` index in the memory of its state, `len` serial.
pub const LOOP: u8 = 39;
/// `len` number of the function.
pub const FUNCTION: u8 = 41;
/// `len` number of the function; the object stands in the heap at `at`, or with 0 below it on the stack.
pub const METHOD: u8 = 43;
/// Frames, loop states, captures; never seen by a template.
pub const MARK: u8 = 45;
/// `len` number of the function that gives the attribute of the loop; never seen by a template.
pub const GETTER: u8 = 47;

/// Flag: the value came from messages, tools or documents. (A string says so per byte.)
pub const CONTENT: u8 = 1;
/// Flag: a string marked safe.
pub const MARKUP: u8 = 2;

/// Bits of `at`: no memory of a rendering is longer.
pub const FIELD: u32 = 24;

/// A value. From the lowest bit: kind (6, always odd), flags (2), `at` (24), `len` (32); an INT has its number in the upper
/// 56 bits. The fields lie so that each takes one or two instructions to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value(NonZeroU64);

impl Value {
    /// A value that only has a kind.
    pub fn of(kind: u8) -> Self {
        Self::new(kind, 0, 0)
    }

    /// A value with its two fields.
    pub fn new(kind: u8, at: usize, len: usize) -> Self {
        let bits = kind as u64 | ((at as u32) << 8) as u64 | (len as u64) << 32;
        Self(NonZeroU64::MIN | bits)
    }

    /// What a word of memory holds.
    pub fn from_word(word: u64) -> Self {
        Self(NonZeroU64::MIN | word)
    }

    /// The word.
    pub const fn word(self) -> u64 {
        self.0.get()
    }

    /// True or false.
    pub fn bool(value: bool) -> Self {
        Self::new(BOOL, value as usize, 0)
    }

    /// An integer of 56 bits.
    pub fn small(value: i64) -> Self {
        Self(NonZeroU64::MIN | INT as u64 | (value as u64) << 8)
    }

    /// One of the kinds above.
    pub const fn kind(self) -> u8 {
        self.word() as u8 & 63
    }

    /// [`CONTENT`] and [`MARKUP`].
    pub const fn flags(self) -> u8 {
        (self.word() >> 6) as u8 & 3
    }

    /// Where in the heap, text or stack its payload stands.
    pub const fn at(self) -> usize {
        (self.word() as u32 >> 8) as usize
    }

    /// Length or number.
    pub const fn len(self) -> usize {
        (self.word() >> 32) as usize
    }

    /// Whether it holds nothing.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Length of what can be long, for the count of steps.
    pub const fn weight(self) -> usize {
        if matches!(self.kind(), STR..=DICT) { self.len() } else { 0 }
    }

    /// The number of an INT.
    pub const fn inline(self) -> i64 {
        self.word() as i64 >> 8
    }

    /// The same with other flags.
    pub fn flagged(self, flags: u8) -> Self {
        let bits = self.word() & !(3 << 6) | (flags as u64 & 3) << 6;
        Self(NonZeroU64::MIN | bits)
    }

    /// The same of another kind.
    pub fn seen_as(self, kind: u8) -> Self {
        let bits = self.word() & !63 | kind as u64;
        Self(NonZeroU64::MIN | bits)
    }

    /// Whether it came from messages, tools or documents.
    pub const fn is_content(self) -> bool {
        self.flags() & CONTENT != 0
    }

    /// Whether it is undefined in either way.
    pub const fn is_undefined(self) -> bool {
        self.kind() <= UNSAFE
    }

    /// Whether it counts as an integer: bools do.
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), BOOL..=WIDE)
    }

    /// Whether it is a number: bools are.
    pub const fn is_number(self) -> bool {
        matches!(self.kind(), BOOL..=FLOAT)
    }
}
