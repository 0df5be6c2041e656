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
/// Look a name up in the input: `u16` constant, `u16` slot.
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
/// Filter with all its parameters on the stack: `u8`, one of [`filter`].
pub const FILTER: u8 = 32;
/// Test: `u64`, one of [`test`].
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
/// End of a macro.
pub const RETURN: u8 = 45;
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

/// Operands of [`FILTER`]; the parameters stand in this order on the stack, after the value.
pub mod filter {
    /// chars
    pub const TRIM: u8 = 0;
    /// -
    pub const LENGTH: u8 = 1;
    /// -
    pub const STRING: u8 = 2;
    /// -
    pub const ITEMS: u8 = 3;
    /// -
    pub const LIST: u8 = 4;
    /// -
    pub const LOWER: u8 = 5;
    /// -
    pub const UPPER: u8 = 6;
    /// default_value, boolean
    pub const DEFAULT: u8 = 7;
    /// d, attribute
    pub const JOIN: u8 = 8;
    /// case_sensitive, by, reverse
    pub const DICTSORT: u8 = 9;
    /// old, new, count
    pub const REPLACE: u8 = 10;
    /// -
    pub const CAPITALIZE: u8 = 11;
    /// -
    pub const TITLE: u8 = 12;
    /// width, first, blank
    pub const INDENT: u8 = 13;
    /// reverse, case_sensitive, attribute
    pub const SORT: u8 = 14;
    /// case_sensitive, attribute
    pub const UNIQUE: u8 = 15;
    /// case_sensitive, attribute
    pub const MIN: u8 = 16;
    /// case_sensitive, attribute
    pub const MAX: u8 = 17;
    /// -
    pub const FIRST: u8 = 18;
    /// -
    pub const LAST: u8 = 19;
    /// default, base
    pub const INT: u8 = 20;
    /// default
    pub const FLOAT: u8 = 21;
    /// -
    pub const SAFE: u8 = 22;
    /// ensure_ascii, indent, separators, sort_keys
    pub const TOJSON: u8 = 23;
    /// -
    pub const ABS: u8 = 24;
    /// -
    pub const REVERSE: u8 = 25;
    /// attribute, start
    pub const SUM: u8 = 26;
    /// -
    pub const ESCAPE: u8 = 27;
    /// name: the attribute as `selectattr` and `map(attribute=..)` find it, dots included
    pub const ATTRIBUTE: u8 = 28;
    /// How many parameters each filter has beside the value.
    pub const ARITY: [u8; 29] = [1, 0, 0, 0, 0, 0, 0, 2, 2, 3, 3, 0, 0, 3, 3, 2, 2, 2, 0, 0, 2, 1, 0, 4, 0, 0, 2, 0, 1];
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
    /// Dicts.
    pub const MAPPING: u64 = set(&[DICT]);
    /// What can be called.
    pub const CALLABLE: u64 = UNDEFINED | set(&[MACRO, FUNCTION, METHOD, LOOP]);
}

/// Functions every template sees unless the input has a variable of that name.
pub mod function {
    /// Their names; the index is the function.
    pub const NAMES: [&str; 5] = ["namespace", "raise_exception", "strftime_now", "range", "dict"];
    /// `namespace(**kw)`
    pub const NAMESPACE: usize = 0;
    /// `raise_exception(message)`
    pub const RAISE_EXCEPTION: usize = 1;
    /// `strftime_now(format)`: calls compile to [`NOW`](super::NOW), this one fails.
    pub const STRFTIME_NOW: usize = 2;
    /// `range(start, stop, step)`
    pub const RANGE: usize = 3;
    /// `dict(**kw)`
    pub const DICT: usize = 4;
}
