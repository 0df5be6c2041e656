//! The instruction set of compiled templates, shared by the compiler and the machine.
//!
//! An instruction is one byte, followed by its operands: `u8`, `u16` (index of a constant or a slot), `u32` (address
//! in the code) or 8 bytes (`i64`, `f64`), little-endian, unaligned.

/// Push constant string: `u16` constant.
pub const STR: u8 = 0;
/// Push an integer: `i64`.
pub const INT: u8 = 1;
/// Push a float: `f64`.
pub const FLOAT: u8 = 2;
/// Push a literal: `u8`, one of [`literal`].
pub const LITERAL: u8 = 3;
/// Push a variable: `u8` functions outward, `u16` slot. A missing one becomes undefined.
pub const LOAD: u8 = 4;
/// Pop into a slot of this function: `u16`.
pub const STORE: u8 = 5;
/// Look a name up: `u16` constant, `u16` slot, `u8` 1 when the input itself is looked at, `u16` one of [`absent`].
pub const RESOLVE: u8 = 6;
/// Copy a slot as it is: `u8` functions outward, `u16` from, `u16` to.
pub const ALIAS: u8 = 7;
/// Make a slot missing: `u16`.
pub const CLEAR: u8 = 8;
/// Pop and print.
pub const EMIT: u8 = 9;
/// Print a constant: `u16`.
pub const EMIT_STR: u8 = 10;
/// Drop the top.
pub const POP: u8 = 11;
/// Go to: `u32`.
pub const JUMP: u8 = 12;
/// Pop, go there when false: `u32`.
pub const JUMP_FALSE: u8 = 13;
/// When the top is false go there and keep it, else pop it: `u32`.
pub const AND: u8 = 14;
/// When the top is true go there and keep it, else pop it: `u32`.
pub const OR: u8 = 15;
/// Go there when the slot is not missing: `u16`, `u32`.
pub const JUMP_GIVEN: u8 = 16;
/// Logical not.
pub const NOT: u8 = 17;
/// Unary minus.
pub const NEG: u8 = 18;
/// Unary plus.
pub const POS: u8 = 19;
/// Two values to one: `u8`, one of [`binary`].
pub const BINARY: u8 = 20;
/// Compare two values: `u8`, one of [`compare`].
pub const COMPARE: u8 = 21;
/// Part of a chain: compare, keep the right side when true, else leave false and go there: `u8`, `u32`.
pub const COMPARE_CHAIN: u8 = 22;
/// Join the top n values as strings: `u16`.
pub const CONCAT: u8 = 23;
/// n values to a list: `u16`.
pub const LIST: u8 = 24;
/// n values to a tuple: `u16`.
pub const TUPLE: u8 = 25;
/// n pairs of key and value to a dict: `u16`.
pub const DICT: u8 = 26;
/// Attribute of the top: `u16` constant.
pub const ATTR: u8 = 27;
/// Item: object, key.
pub const ITEM: u8 = 28;
/// Slice: object, start, stop, step.
pub const SLICE: u8 = 29;
/// Attribute of the top for a call, the object stays below it: `u16` constant.
pub const METHOD: u8 = 30;
/// Call: `u8` positional arguments, `u8` pairs of name and value, `u8` 1 when the last positional one is spread.
pub const CALL: u8 = 31;
/// An operation of the machine: `u8`, one of [`native`], `u8` how many values it takes.
pub const NATIVE: u8 = 32;
/// Test: `u64`, one of [`mod@test`].
pub const TEST: u8 = 33;
/// Pop an iterable, push a loop state.
pub const ITER: u8 = 34;
/// Push the next item or go there: `u32`.
pub const NEXT: u8 = 35;
/// Drop the loop state.
pub const ITER_END: u8 = 36;
/// Pop a sequence of n items and push them, the first on top: `u16`.
pub const UNPACK: u8 = 37;
/// The loop state on top as the variable `loop`: `u16` slot.
pub const LOOP: u8 = 38;
/// Pop a value and put it among those collected under the loop state.
pub const COLLECT: u8 = 39;
/// Drop the loop state, what was collected becomes a value: `u8` 0 list, 1 generator.
pub const COLLECTED: u8 = 40;
/// Begin to capture what is printed.
pub const CAPTURE: u8 = 41;
/// What was captured becomes a string.
pub const CAPTURED: u8 = 42;
/// Drop what was captured.
pub const CAPTURE_DROP: u8 = 43;
/// Push a macro of this function: `u16`.
pub const MACRO: u8 = 44;
/// End of a function: the top is its value.
pub const RESULT: u8 = 45;
/// Pop into an attribute of a namespace: `u8` functions outward, `u16` slot, `u16` constant.
pub const SET_ATTR: u8 = 46;
/// Fail unless the variable is a namespace: `u8` functions outward, `u16` slot.
pub const NAMESPACE: u8 = 47;
/// Fail: `u16` number of the error, `u16` constant with the message.
pub const FAIL: u8 = 48;
/// End of the template.
pub const HALT: u8 = 49;
/// Push the top once more.
pub const DUP: u8 = 50;
/// Push a part of the time the host gave: `u8`, one of [`now`].
pub const NOW: u8 = 51;
/// Call a function of the library with all its parameters on the stack: `u16`.
pub const LIBRARY: u8 = 52;

/// Operands of [`LITERAL`].
pub mod literal {
    /// Undefined.
    pub const UNDEFINED: u8 = 0;
    /// None.
    pub const NONE: u8 = 1;
    /// True.
    pub const TRUE: u8 = 2;
    /// False.
    pub const FALSE: u8 = 3;
    /// A parameter that was not given.
    pub const MISSING: u8 = 4;
}

/// Operands of [`NOW`].
#[allow(missing_docs)]
pub mod now {
    pub const YEAR: u8 = 0;
    pub const MONTH: u8 = 1;
    pub const DAY: u8 = 2;
    pub const HOUR: u8 = 3;
    pub const MINUTE: u8 = 4;
    pub const SECOND: u8 = 5;
    /// Sunday is 0.
    pub const WEEKDAY: u8 = 6;
    /// From 1.
    pub const DAY_OF_YEAR: u8 = 7;
}

/// Operands of [`BINARY`].
#[allow(missing_docs)]
pub mod binary {
    pub const ADD: u8 = 0;
    pub const SUB: u8 = 1;
    pub const MUL: u8 = 2;
    pub const DIV: u8 = 3;
    pub const FLOORDIV: u8 = 4;
    pub const MOD: u8 = 5;
    pub const POW: u8 = 6;
}

/// Operands of [`COMPARE`] and [`COMPARE_CHAIN`].
#[allow(missing_docs)]
pub mod compare {
    pub const EQ: u8 = 0;
    pub const NE: u8 = 1;
    pub const LT: u8 = 2;
    pub const LE: u8 = 3;
    pub const GT: u8 = 4;
    pub const GE: u8 = 5;
    pub const IN: u8 = 6;
    pub const NOT_IN: u8 = 7;
}

/// Operands of [`NATIVE`], with what stands on the stack. A parameter that is not there is missing.
pub mod native {
    /// x: as a string
    pub const STRING: u8 = 0;
    /// x
    pub const LENGTH: u8 = 1;
    /// x: its items
    pub const LIST: u8 = 2;
    /// list: as what is read once
    pub const GENERATOR: u8 = 3;
    /// text, characters or None, sides (bit 0 left, 1 right)
    pub const STRIP: u8 = 4;
    /// text, 0 lower 1 upper 2 title, first character, end; without these all of it
    pub const CASE: u8 = 5;
    /// text, old, new, how often; [`INHERIT`](super::replace::INHERIT): everywhere
    pub const REPLACE: u8 = 6;
    /// text, separator or None, how often, one of [`split`](mod@super::split); from the right pieces come last to first
    pub const SPLIT: u8 = 7;
    /// items, separator, whether items are converted
    pub const JOIN: u8 = 8;
    /// text, part, one of [`find`](mod@super::find): the character where it is, or -1
    pub const FIND: u8 = 9;
    /// x, ensure_ascii, indent, separators
    pub const JSON: u8 = 10;
    /// x, like: with the flags of the second; without it marked safe
    pub const FLAGS: u8 = 11;
    /// text, whether only as a float: the number it is, or None
    pub const NUMBER: u8 = 12;
    /// float: without its fraction; None when it is no number
    pub const TRUNCATE: u8 = 13;
    /// start, stop, step
    pub const RANGE: u8 = 14;
    /// pairs
    pub const DICT: u8 = 15;
    /// dict
    pub const NAMESPACE: u8 = 16;
    /// dict or namespace, kind of view
    pub const VIEW: u8 = 17;
    /// dict, key, default
    pub const GET: u8 = 18;
    /// list, index, item: puts it there; generator, any, list: replaces what is left
    pub const PUT: u8 = 19;
    /// message
    pub const RAISE: u8 = 20;
    /// text: its bytes
    pub const BYTES: u8 = 21;
    /// text, number of a Unicode table: whether it has the first character
    pub const HAS: u8 = 22;
    /// x: its `repr`
    pub const REPR: u8 = 23;
}

/// Special numbers of places for [`native::REPLACE`].
pub mod replace {
    /// Everywhere; what is put in is content where what it replaces is, and a text marked safe stays as it is.
    pub const INHERIT: i64 = -2;
}

/// Ways to split.
pub mod split {
    /// From the left.
    pub const LEFT: i64 = 0;
    /// From the right.
    pub const RIGHT: i64 = 1;
    /// At line ends.
    pub const LINES: i64 = 2;
}

/// Ways to find.
pub mod find {
    /// The first place.
    pub const FIRST: i64 = 0;
    /// The last place.
    pub const LAST: i64 = 1;
    /// Only at the start.
    pub const START: i64 = 2;
    /// Only at the end.
    pub const END: i64 = 3;
}

/// What [`RESOLVE`] gives for a name that is nowhere; other numbers are functions.
pub mod absent {
    /// Missing.
    pub const MISSING: u16 = 0xffff;
    /// None.
    pub const NONE: u16 = 0xfffe;
    /// False.
    pub const FALSE: u16 = 0xfffd;
    /// A function that cannot be called.
    pub const UNSUPPORTED: u16 = 0xfffc;
}

/// Functions of the library that operators call: their places in the header.
pub mod hook {
    /// format, values: string % values
    pub const PERCENT: usize = 0;
    /// a, b: strings of which one is marked safe
    pub const ADD_MARKUP: usize = 1;
}

/// Operands of [`TEST`]: a set of kinds, and what the value must be beside. Comparisons by name compile to [`COMPARE`].
pub mod test {
    use super::super::value::*;

    const fn set(kinds: &[u8]) -> u64 {
        let (mut set, mut index) = (0, 0);
        while index < kinds.len() {
            set |= 1 << kinds[index];
            index += 1;
        }
        set
    }

    /// Bit of the operand: the value must be true as well.
    pub const TRUE: u64 = 1 << 62;
    /// Bit of the operand: the value must be false as well.
    pub const FALSE: u64 = 1 << 60;
    /// Undefined in either way.
    pub const UNDEFINED: u64 = set(&[MISSING, super::super::value::UNDEFINED, UNSAFE]);
    /// Everything.
    pub const ANY: u64 = !0 >> 4;
    /// None.
    pub const NONE: u64 = set(&[super::super::value::NONE]);
    /// Strings.
    pub const STRING: u64 = set(&[STR]);
    /// Integers, bools not.
    pub const INTEGER: u64 = set(&[INT, WIDE]);
    /// Floats.
    pub const FLOAT: u64 = set(&[super::super::value::FLOAT]);
    /// Bools.
    pub const BOOLEAN: u64 = set(&[BOOL]);
    /// Numbers, bools too.
    pub const NUMBER: u64 = INTEGER | FLOAT | BOOLEAN;
    /// What has a length and items.
    pub const SEQUENCE: u64 = UNDEFINED | set(&[STR, LIST, TUPLE, DICT, RANGE]);
    /// What a loop goes through.
    pub const ITERABLE: u64 = SEQUENCE | set(&[KEYS, VALUES, ITEMS, GENERATOR, LOOP]);
    /// Lists.
    pub const LISTS: u64 = set(&[LIST]);
    /// Tuples.
    pub const TUPLES: u64 = set(&[TUPLE]);
    /// Generators.
    pub const GENERATORS: u64 = set(&[GENERATOR]);
    /// Namespaces.
    pub const NAMESPACES: u64 = set(&[NAMESPACE]);
    /// Dicts.
    pub const MAPPING: u64 = set(&[DICT]);
    /// What can be called.
    pub const CALLABLE: u64 = UNDEFINED | set(&[MACRO, FUNCTION, METHOD, LOOP]);
}
