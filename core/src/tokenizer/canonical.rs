//! Canonical decomposition, order and composition of characters.

use super::normalize::{Buffer, View, each_char, mapped};
use super::scratch_error;
use super::section::{MAX_ID, NONE, Section, pair};
use crate::error::Error;

/// A character of a line: code point, combining class, content, from the first character.
const CODE: u32 = 0x1F_FFFF;
const CLASS_SHIFT: u32 = 21;
const MARKED: u32 = 1 << 29;
const FIRST: u32 = 1 << 30;

const S: u32 = 0xAC00;
const L: u32 = 0x1100;
const V: u32 = 0x1161;
const T: u32 = 0x11A7;

/// Appends the normal form of `text`, whose decompositions are in the trie of `root`. Half of `memory` holds characters,
/// half serves reordering.
pub fn form(
    section: &Section<'_>,
    root: u32,
    composes: bool,
    text: View<'_>,
    to: &mut Buffer<'_>,
    memory: &mut [u32],
) -> Result<(), Error> {
    let (chars, spare) = memory.split_at_mut_checked(memory.len() / 2).ok_or(scratch_error())?;
    let mut len = 0usize;
    each_char(text, &mut |code, char, marked, first| {
        let flags = (u32::from(marked) * MARKED) | (u32::from(first) * FIRST);
        let mut push = |code: u32| {
            let class = match section.pair(code, pair::CLASS) {
                NONE => 0,
                class => class & 0xFF,
            };
            if let Some(slot) = chars.get_mut(len) {
                *slot = code & CODE | class << CLASS_SHIFT | flags;
            }
            len = len.saturating_add(1);
        };
        let index = code.wrapping_sub(S);
        if index < 11_172 {
            push(L.wrapping_add(index / 588));
            push(V.wrapping_add(index % 588 / 28));
            if !index.is_multiple_of(28) {
                push(T.wrapping_add(index % 28));
            }
            return;
        }
        let string = mapped(section, root, char, false).unwrap_or(char);
        each_char(View { bytes: string, marks: &[], base: 0, first: 0 }, &mut |code, _, _, _| push(code));
    });
    let chars = chars.get_mut(..len).ok_or(scratch_error())?;
    order(chars, spare);
    if composes {
        len = compose(section, chars);
    }
    for c in chars.iter().take(len) {
        to.push_char(c & CODE, c & MARKED != 0, c & FIRST != 0);
    }
    Ok(())
}

fn class(c: u32) -> u32 {
    c >> CLASS_SHIFT & 0xFF
}

/// Sorts each run of marks by class and keeps the order of equals: a pass per bit.
fn order(chars: &mut [u32], spare: &mut [u32]) {
    let mut rest = chars;
    while !rest.is_empty() {
        let len = rest.iter().skip(1).take_while(|c| class(**c) != 0).count().saturating_add(1);
        let (run, after) = core::mem::take(&mut rest).split_at_mut_checked(len).unwrap_or_default();
        rest = after;
        // A run begins with what is no mark, or at the start of the line.
        if run.is_sorted_by_key(|c| class(*c)) {
            continue;
        }
        for bit in CLASS_SHIFT..CLASS_SHIFT.wrapping_add(8) {
            let mut to = spare.iter_mut();
            for wanted in [0, 1] {
                for c in run.iter().filter(|c| **c >> bit & 1 == wanted) {
                    if let Some(slot) = to.next() {
                        *slot = *c;
                    }
                }
            }
            for (c, sorted) in run.iter_mut().zip(spare.iter()) {
                *c = *sorted;
            }
        }
    }
}

/// The composite of two characters, or [`NONE`].
fn composite(section: &Section<'_>, first: u32, second: u32) -> u32 {
    let (l, v, t) = (first.wrapping_sub(L), second.wrapping_sub(V), second.wrapping_sub(T));
    if l < 19 && v < 21 {
        return l.wrapping_mul(588).wrapping_add(v.wrapping_mul(28)).wrapping_add(S);
    }
    let s = first.wrapping_sub(S);
    if s < 11_172 && s.is_multiple_of(28) && t < 28 && t != 0 {
        return first.wrapping_add(t);
    }
    section.pair(first, second)
}

/// Joins what composes, in place; returns the new length.
fn compose(section: &Section<'_>, chars: &mut [u32]) -> usize {
    let mut starter: Option<usize> = None;
    let mut len = 0usize;
    let mut last = 0u32;
    for at in 0..chars.len() {
        let c = chars.get(at).copied().unwrap_or(0);
        if let Some(s) = starter
            && (s.wrapping_add(1) == len || last < class(c))
            && let Some(base) = chars.get_mut(s)
        {
            let whole = composite(section, *base & CODE, c & CODE);
            if whole != NONE {
                *base = *base & !CODE | whole & MAX_ID | c & MARKED;
                continue;
            }
        }
        last = class(c);
        if last == 0 {
            starter = Some(len);
        }
        if let Some(slot) = chars.get_mut(len) {
            *slot = c;
        }
        len = len.wrapping_add(1);
    }
    len
}
