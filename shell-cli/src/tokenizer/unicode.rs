//! Unicode data, as each component of the reference has it.
//!
//! The reference takes its data from several places: Oniguruma for patterns, the standard library for white space,
//! numerics and lower case, and crates of older Unicode versions for normal forms and categories. The same crates
//! are used here, so that the versions are theirs.

use super::sets::Set;
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange, HirKind};

/// Unicode version of the pattern classes: major << 16 | minor << 8.
pub const VERSION: u32 = 16 << 16;

fn parsed(pattern: &str) -> Result<ClassUnicode, String> {
    let hir = regex_syntax::Parser::new().parse(pattern).map_err(|_| format!("unknown property {pattern}"))?;
    match hir.into_kind() {
        HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => Ok(class),
        HirKind::Literal(text) => {
            let c = std::str::from_utf8(&text.0).ok().and_then(|s| s.chars().next()).ok_or("empty property")?;
            Ok(ClassUnicode::new([ClassUnicodeRange::new(c, c)]))
        }
        _ => Err(format!("unknown property {pattern}")),
    }
}

fn set(class: &ClassUnicode) -> Set {
    Set::new(class.ranges().iter().map(|r| (r.start() as u32, r.end() as u32)))
}

/// `\p{name}` and `[:name:]` of patterns.
pub fn property(name: &str) -> Result<Set, String> {
    let plain: String = name.chars().filter(|c| !matches!(c, ' ' | '_' | '-')).collect::<String>().to_lowercase();
    Ok(match plain.as_str() {
        "alpha" => property("Alphabetic")?,
        "upper" => property("Uppercase")?,
        "lower" => property("Lowercase")?,
        "digit" => property("Nd")?,
        "alnum" => property("Alphabetic")?.union(&property("Nd")?),
        "space" => white_space(),
        "blank" => property("Zs")?.union(&Set::char('\t')),
        "cntrl" => property("Cc")?,
        "punct" => property("P")?.union(&Set::new("$+<=>^`|~".chars().map(|c| (c as u32, c as u32)))),
        "xdigit" => Set::of(|c| c.is_ascii_hexdigit()),
        "word" => word(),
        _ => set(&parsed(&format!("\\p{{{name}}}"))?),
    })
}

/// White space: `\s` everywhere in the reference, and `char::is_whitespace`.
pub fn white_space() -> Set {
    Set::of(char::is_whitespace)
}

/// `\w` of Oniguruma.
pub fn word() -> Set {
    ["Alphabetic", "M", "Nd", "Pc"]
        .into_iter()
        .filter_map(|name| property(name).ok())
        .fold(Set::default(), |a, b| a.union(&b))
}

/// `\w` of the `regex` crate, which the reference uses for the Whitespace pre-tokenizer and whole-word added tokens.
pub fn regex_word() -> Set {
    parsed("\\w").map(|class| set(&class)).unwrap_or_default()
}

/// The set with every character that folds to a member.
pub fn fold(set_: &Set) -> Set {
    let char = |code: u32| char::from_u32(code);
    let ranges = set_.ranges().iter().flat_map(|&(a, b)| {
        // Surrogates are no characters and have no case.
        [(a, b.min(0xD7FF)), (a.max(0xE000), b)]
    });
    let mut class = ClassUnicode::new(
        ranges.filter(|(a, b)| a <= b).filter_map(|(a, b)| Some(ClassUnicodeRange::new(char(a)?, char(b)?))),
    );
    if class.try_case_fold_simple().is_err() {
        return set_.clone();
    }
    set(&class).union(set_)
}

/// Numerics of the Digits pre-tokenizer.
pub fn numeric() -> Set {
    Set::of(char::is_numeric)
}

/// Punctuation of the Punctuation and Bert pre-tokenizers.
pub fn punctuation() -> Set {
    use unicode_categories::UnicodeCategories;
    Set::of(|c| c.is_ascii_punctuation() || c.is_punctuation())
}

/// Lower case of one character.
pub fn lowercase(c: char) -> String {
    c.to_lowercase().collect()
}

/// Scripts of the UnicodeScripts pre-tokenizer.
pub const SCRIPTS: &[&str] = &["Latin", "Han", "Hiragana", "Katakana"];

/// Characters of a script.
pub fn script(name: &str) -> Result<Set, String> {
    property(&format!("Script={name}"))
}
