//! Attribute names of Python's own types. The section lists them: an attribute of a value is found by its number, which is
//! its place in that list, from 1.

use super::Program;

/// Which types have the attribute.
pub const STR: u8 = 1;
/// A list's.
pub const LIST: u8 = 2;
/// A tuple's.
pub const TUPLE: u8 = 4;
/// A dict's.
pub const DICT: u8 = 8;
/// The loop variable's.
pub const LOOP: u8 = 16;
/// Changes the value: the reference's sandbox refuses it on lists and dicts.
pub const MUTATING: u8 = 32;

/// Bytes of an entry.
pub const ENTRY: usize = 6;
/// The function of what the reference has and this machine cannot call.
pub const UNSUPPORTED: u16 = u16::MAX;

/// What the loop variable gives under a name.
pub mod loop_item {
    /// Index from 0.
    pub const INDEX0: u8 = 0;
    /// Index from 1.
    pub const INDEX: u8 = 1;
    /// Number of items.
    pub const LENGTH: u8 = 2;
    /// Items left, this one included.
    pub const REVINDEX: u8 = 3;
    /// Items left after this one.
    pub const REVINDEX0: u8 = 4;
    /// Always 1.
    pub const DEPTH: u8 = 5;
    /// Always 0.
    pub const DEPTH0: u8 = 6;
    /// Whether it is the first.
    pub const FIRST: u8 = 7;
    /// Whether it is the last.
    pub const LAST: u8 = 8;
    /// The item before.
    pub const PREVITEM: u8 = 9;
    /// The item after.
    pub const NEXTITEM: u8 = 10;
    /// A method.
    pub const METHOD: u8 = 11;
}

/// An entry of the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    /// Constant with the text.
    pub text: usize,
    /// Which types have it.
    pub mask: u8,
    /// What it is of a loop: one of [`loop_item`].
    pub of_loop: u8,
    /// Number of the function that is called, the object first.
    pub function: usize,
}

impl Program<'_> {
    /// The name with this number.
    pub(super) fn name(&self, number: usize) -> Option<Name> {
        let at = number.checked_sub(1)?.checked_mul(ENTRY)?;
        let &[a, b, mask, of_loop, c, d] = self.names.get(at..)?.first_chunk::<ENTRY>()?;
        let half = |low: u8, high: u8| u16::from_le_bytes([low, high]) as usize;
        Some(Name { text: half(a, b), mask, of_loop, function: half(c, d) })
    }
}
