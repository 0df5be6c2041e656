//! Words for numbered errors.

use std::fmt::Write;
use tinyrustlm_core::container::Container;
use tinyrustlm_core::{Code, Error};

/// One sentence for `error`: its name in words, its number, and where the fault is. With the bytes of the model file
/// and an error of the file, the tensor's name.
pub fn describe(error: Error, file: Option<&[u8]>) -> String {
    let mut words = String::new();
    let name = error.code().name();
    for (i, letter) in name.char_indices() {
        // A capital begins a word, unless the one before is a capital too.
        let before = name[..i].chars().next_back();
        if letter.is_ascii_uppercase() && before.is_some_and(|b| !b.is_ascii_uppercase()) {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    let _ = write!(words, " (error {})", error.number());
    let of_file = (15..100).contains(&error.number());
    if let Some(index) = error.index() {
        let tensor = file.filter(|_| of_file).and_then(|bytes| {
            // Names can be told only when the structure around them is sound.
            Some(Container::parse(bytes).ok()?.names().nth(index as usize)?.to_owned())
        });
        let _ = match (tensor, error.code()) {
            (Some(tensor), _) => write!(words, ", tensor {tensor}"),
            (None, Code::NonFiniteAttention | Code::NonFiniteFfn) => write!(words, ", layer {index}"),
            (None, _) if of_file => write!(words, ", directory entry {index}"),
            (None, _) => write!(words, ", index {index}"),
        };
    }
    if let Some(offset) = error.offset() {
        let _ = write!(words, ", at byte {offset}");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_words() {
        let error = Error::new(Code::NonFiniteFfn).entry(3);
        assert_eq!(describe(error, None), "non finite ffn (error 308), layer 3");
        let error = Error::new(Code::UnknownDType).at(712).entry(9);
        assert_eq!(describe(error, None), "unknown dtype (error 39), directory entry 9, at byte 712");
    }
}
