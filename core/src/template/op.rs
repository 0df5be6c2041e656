//! The instruction set of compiled templates, shared by the compiler and the machine.
//!
//! An instruction is one byte, followed by its operands: `u8`, `u16` (index of a constant or a slot), `u32` (address
//! in the code) or 8 bytes (a value, `i64`, `f64`), little-endian, unaligned. What has no instruction is a function of the
//! library.

/// Push constant string: `u16` constant.
pub const STR: u8 = 0;
/// Push a value as it is: `u64`, the word of a [`Value`](super::value::Value).
pub const PUSH: u8 = 1;
/// Push a number that needs 64 bits: `u8` kind, `i64` or `f64`.
pub const WIDE: u8 = 2;
/// Push a variable: `u8` functions outward, `u16` slot. A missing one becomes undefined.
pub const LOAD: u8 = 3;
/// Push a variable as it is, as [`LOAD`].
pub const LOAD_RAW: u8 = 4;
/// Pop into a slot of this function: `u16`.
pub const STORE: u8 = 5;
/// Look a name up, where it is nowhere leave the top: `u16` constant, `u8` 1 when the input itself is looked at.
pub const RESOLVE: u8 = 6;
/// Pop and print.
pub const EMIT: u8 = 7;
/// Drop the top.
pub const POP: u8 = 8;
/// Push the top once more.
pub const DUP: u8 = 9;
/// Go to: `u32`.
pub const JUMP: u8 = 10;
/// Pop, go there when false: `u32`.
pub const JUMP_FALSE: u8 = 11;
/// When the top is false go there and keep it, else pop it: `u32`.
pub const AND: u8 = 12;
/// When the top is true go there and keep it, else pop it: `u32`.
pub const OR: u8 = 13;
/// Logical not.
pub const NOT: u8 = 14;
/// Two values to one: `u8`, one of [`binary`].
pub const BINARY: u8 = 15;
/// The top n values to one: `u8` kind, `u16` n. Items of a list or tuple, keys and values of a dict, pieces of a string.
pub const MAKE: u8 = 16;
/// Attribute of the top: `u16` constant.
pub const ATTR: u8 = 17;
/// Attribute of the top for a call, the object stays below it: `u16` constant.
pub const METHOD: u8 = 18;
/// Item: object, key.
pub const ITEM: u8 = 19;
/// Call: `u8` positional arguments, `u8` pairs of name and value, `u8` 1 when the last positional one is a list of more.
pub const CALL: u8 = 20;
/// Call a function of the library with all its parameters on the stack: `u16`.
pub const LIBRARY: u8 = 21;
/// An operation of the machine: `u8`, one of [`native`], `u8` how many values it takes.
pub const NATIVE: u8 = 22;
/// Test: `u64`, one of [`mod@test`].
pub const TEST: u8 = 23;
/// Pop an iterable, begin a loop in three slots: `u16` the first.
pub const ITER: u8 = 24;
/// Push the next item of a loop or go there: `u16` slot, `u32`.
pub const NEXT: u8 = 25;
/// Push the loop as a template sees it: `u16` slot.
pub const LOOP: u8 = 26;
/// Pop a sequence of n items and push them, the first on top: `u16`.
pub const UNPACK: u8 = 27;
/// Push where the stack and the output end.
pub const MARK: u8 = 28;
/// Pop a mark; what was pushed since it was made becomes one value, as with [`MAKE`]: `u8` kind.
pub const COLLECTED: u8 = 29;
/// Pop a mark; what was printed since it was made becomes a string.
pub const CAPTURED: u8 = 30;
/// Push a macro of this function: `u16`.
pub const MACRO: u8 = 31;
/// End of a function: the top is its value.
pub const RESULT: u8 = 32;
/// End of the template.
pub const HALT: u8 = 33;
/// The top as a string.
pub const TEXT: u8 = 34;

/// Flags in the head of a function: `u16` slots, `u16` parameters, `u8` flags, then a `u16` constant with the name of each
/// parameter, and of a caller. After the parameters' slots come three for a caller, further named and further positional
/// arguments.
pub mod takes {
    /// A caller.
    pub const CALLER: u8 = 1;
    /// Further named arguments.
    pub const KWARGS: u8 = 2;
    /// Further positional arguments.
    pub const VARARGS: u8 = 4;
}

/// Parts of the host's time.
#[allow(missing_docs)]
pub mod now {
    pub const YEAR: u8 = 0;
    pub const MONTH: u8 = 1;
    pub const DAY: u8 = 2;
    pub const HOUR: u8 = 3;
    pub const MINUTE: u8 = 4;
    pub const SECOND: u8 = 5;
}

/// Operands of [`BINARY`]. What the machine does not do itself the library's function for the operator does: the section
/// lists one for each.
#[allow(missing_docs)]
pub mod binary {
    pub const ADD: u8 = 0;
    pub const SUB: u8 = 1;
    pub const MUL: u8 = 2;
    pub const DIV: u8 = 3;
    pub const FLOORDIV: u8 = 4;
    pub const MOD: u8 = 5;
    pub const POW: u8 = 6;
    /// From here on the result is a bool; to [`GE`] it says how two values are ordered.
    pub const EQ: u8 = 7;
    pub const LT: u8 = 8;
    pub const LE: u8 = 9;
    pub const GT: u8 = 10;
    pub const GE: u8 = 11;
    pub const IN: u8 = 12;
    /// Number of operators.
    pub const COUNT: usize = 13;
}

/// Further functions of the library that the machine calls, listed behind those of the operators.
pub mod hook {
    /// x, neither string nor integer: its `str`
    pub const TEXT: u8 = super::binary::COUNT as u8;
    /// text: the float that JSON writes so, or None
    pub const NUMBER: u8 = TEXT + 1;
    /// Number of functions in the list.
    pub const COUNT: usize = super::binary::COUNT + 2;
}

/// Operands of [`NATIVE`], with what stands on the stack. A parameter that is not there is missing. Places in texts are
/// numbers of bytes.
pub mod native {
    /// text: its first character's code point
    pub const CODE: u8 = 0;
    /// x: its characters or items
    pub const LENGTH: u8 = 1;
    /// text: its bytes
    pub const BYTES: u8 = 2;
    /// text, character: where it stands; a negative one counts from the end
    pub const OFFSET: u8 = 3;
    /// text or list, from, to
    pub const PART: u8 = 4;
    /// text, part, from: where it is, or -1; with a negative `from` the last one
    pub const FIND: u8 = 5;
    /// text, characters, one of [`span`](mod@super::span): where the run of such characters ends
    pub const SPAN: u8 = 6;
    /// text, number of a mapping: with each character mapped
    pub const MAP: u8 = 7;
    /// text, number of a table of ranges: whether it has the first character
    pub const HAS: u8 = 8;
    /// text, like: its bytes are content when the second is, of a string its first
    pub const LIKE: u8 = 9;
    /// x, like, like: with the flags of the second and third; alone marked safe
    pub const FLAGS: u8 = 10;
    /// x, kind, length: as a value of another kind; without a length with the one it has
    pub const AS: u8 = 11;
    /// x, index: the value that stands there in what it holds
    pub const PEEK: u8 = 12;
    /// x, index, item: puts it there
    pub const PUT: u8 = 13;
    /// dict, key: index of the key's value in what the dict holds, or -1
    pub const SLOT: u8 = 14;
    /// loop, 0 index from 0, 1 length, 2 source
    pub const LOOP: u8 = 15;
    /// text: the integer it is, or None; cut off at the ends of 64 bits
    pub const INTEGER: u8 = 16;
    /// float: its bits as an integer
    pub const BITS: u8 = 17;
    /// integer: the float of these bits
    pub const FLOAT: u8 = 18;
    /// one of [`now`](mod@super::now): that part of the host's time
    pub const NOW: u8 = 19;
    /// message, a string, and number of the error
    pub const RAISE: u8 = 20;
}

/// Ways of [`native::SPAN`], added up.
pub mod span {
    /// From the end to the front.
    pub const BACK: i64 = 1;
    /// Of characters that are not among those given.
    pub const OTHERS: i64 = 2;
}

/// Operands of [`TEST`]: a set of kinds, and what the value must be beside. Comparisons by name compile to [`BINARY`].
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
    /// Bit of the operand: the value must be marked safe as well.
    pub const SAFE: u64 = 1 << 58;
    /// Not given.
    pub const MISSING: u64 = set(&[super::super::value::MISSING]);
    /// Undefined in either way.
    pub const UNDEFINED: u64 = MISSING | REFUSED | set(&[super::super::value::UNDEFINED]);
    /// Undefined because the sandbox refuses it.
    pub const REFUSED: u64 = set(&[UNSAFE]);
    /// Everything.
    pub const ANY: u64 = !0 >> 8;
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
    /// Ranges.
    pub const RANGES: u64 = set(&[RANGE]);
    /// Generators.
    pub const GENERATORS: u64 = set(&[GENERATOR]);
    /// Namespaces.
    pub const NAMESPACES: u64 = set(&[NAMESPACE]);
    /// Loops.
    pub const LOOPS: u64 = set(&[LOOP]);
    /// Dicts.
    pub const MAPPING: u64 = set(&[DICT]);
    /// What can be called.
    pub const CALLABLE: u64 = UNDEFINED | set(&[MACRO, FUNCTION, METHOD, LOOP]);
}
