//! The byte-level alphabet: a visible character for each byte.

/// The character that stands for a byte.
pub fn to_char(byte: u8) -> char {
    let visible = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if visible(byte) {
        return char::from(byte);
    }
    let hidden = (0..byte).filter(|b| !visible(*b)).count() as u32;
    char::from_u32(0x100 + hidden).unwrap_or_default()
}

/// The byte a character stands for.
pub fn from_char(c: char) -> Option<u8> {
    static BYTES: std::sync::LazyLock<std::collections::HashMap<char, u8>> =
        std::sync::LazyLock::new(|| (0..=255).map(|b| (to_char(b), b)).collect());
    BYTES.get(&c).copied()
}

/// The bytes a string of the alphabet stands for, or `None` where a character is not of the alphabet.
pub fn from_str(text: &str) -> Option<Vec<u8>> {
    text.chars().map(from_char).collect()
}
