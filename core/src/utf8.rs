//! Characters of well-formed text.

/// The code point at a boundary and its length in bytes; length 0 at the end.
#[inline]
pub(crate) fn decode(text: &[u8], at: usize) -> (u32, usize) {
    let Some(first) = text.get(at).map(|byte| u32::from(*byte)) else { return (0, 0) };
    let tail = |i: usize| text.get(at.wrapping_add(i)).map_or(0, |byte| u32::from(*byte) & 0x3F);
    if first < 0xC0 {
        (first, 1)
    } else if first < 0xE0 {
        ((first & 0x1F) << 6 | tail(1), 2)
    } else if first < 0xF0 {
        ((first & 0x0F) << 12 | tail(1) << 6 | tail(2), 3)
    } else {
        ((first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4)
    }
}

/// Start of the character that ends at `end`, a boundary.
pub(crate) fn previous(text: &[u8], end: usize) -> usize {
    let mut at = end.saturating_sub(1);
    while at > 0 && text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80) {
        at = at.wrapping_sub(1);
    }
    at
}
