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

/// `[:name:]` of patterns.
pub fn posix(name: &str) -> Result<Set, String> {
    if name == "punct" { Ok(property("P")?.union(&property("S")?)) } else { property(name) }
}

/// `\p{name}` of patterns.
pub fn property(name: &str) -> Result<Set, String> {
    let plain: String = name.chars().filter(|c| !matches!(c, ' ' | '_' | '-')).collect::<String>().to_lowercase();
    Ok(match plain.as_str() {
        "punct" => property("P")?,
        "alpha" => property("Alphabetic")?,
        "upper" => property("Uppercase")?,
        "lower" => property("Lowercase")?,
        "digit" => property("Nd")?,
        "alnum" => property("Alphabetic")?.union(&property("Nd")?),
        "space" => white_space(),
        "blank" => property("Zs")?.union(&Set::char('\t')),
        "cntrl" => property("Cc")?,
        "xdigit" => Set::of(|c| c.is_ascii_hexdigit()),
        "word" => word(),
        _ => set(&parsed(&format!("\\p{{{name}}}"))?),
    })
}

/// White space: `\s` everywhere in the reference, and `char::is_whitespace`.
pub fn white_space() -> Set {
    Set::of(char::is_whitespace)
}

/// `\w` of Oniguruma: it counts the raised digits and the fractions of Latin-1 as word characters.
pub fn word() -> Set {
    let latin = Set::new([(0xB2, 0xB3), (0xB9, 0xB9), (0xBC, 0xBE)]);
    let names = ["Alphabetic", "M", "Nd", "Pc"];
    names.into_iter().filter_map(|name| property(name).ok()).fold(latin, |a, b| a.union(&b))
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

/// Scripts of Unicode 9.0, as the UnicodeScripts pre-tokenizer has them.
pub fn scripts() -> Vec<(&'static str, Set)> {
    // Since then scripts have grown, and four characters have moved: (from now, to then, first, last).
    const MOVED: [(&str, &str, u32, u32); 3] = [
        ("Armenian", "Common", 0x589, 0x589),
        ("Arabic", "Common", 0x61C, 0x61C),
        ("Inherited", "Devanagari", 0x953, 0x954),
    ];
    let old = property("Age=9.0").unwrap_or_default();
    SCRIPTS
        .iter()
        .map(|name| {
            let mut set = property(&format!("Script={name}")).unwrap_or_default().intersection(&old);
            for (now, then, first, last) in MOVED {
                let moved = Set::new([(first, last)]);
                if now == *name {
                    set = set.intersection(&moved.complement());
                } else if then == *name {
                    set = set.union(&moved);
                }
            }
            (*name, set)
        })
        .collect()
}

/// Names of the scripts.
const SCRIPTS: &[&str] = &[
    "Adlam",
    "Ahom",
    "AnatolianHieroglyphs",
    "Arabic",
    "Armenian",
    "Avestan",
    "Balinese",
    "Bamum",
    "BassaVah",
    "Batak",
    "Bengali",
    "Bhaiksuki",
    "Bopomofo",
    "Brahmi",
    "Braille",
    "Buginese",
    "Buhid",
    "CanadianAboriginal",
    "Carian",
    "CaucasianAlbanian",
    "Chakma",
    "Cham",
    "Cherokee",
    "Common",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Cyrillic",
    "Deseret",
    "Devanagari",
    "Duployan",
    "EgyptianHieroglyphs",
    "Elbasan",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Gothic",
    "Grantha",
    "Greek",
    "Gujarati",
    "Gurmukhi",
    "Han",
    "Hangul",
    "Hanunoo",
    "Hatran",
    "Hebrew",
    "Hiragana",
    "ImperialAramaic",
    "Inherited",
    "InscriptionalPahlavi",
    "InscriptionalParthian",
    "Javanese",
    "Kaithi",
    "Kannada",
    "Katakana",
    "KayahLi",
    "Kharoshthi",
    "Khmer",
    "Khojki",
    "Khudawadi",
    "Lao",
    "Latin",
    "Lepcha",
    "Limbu",
    "LinearA",
    "LinearB",
    "Lisu",
    "Lycian",
    "Lydian",
    "Mahajani",
    "Malayalam",
    "Mandaic",
    "Manichaean",
    "Marchen",
    "MeeteiMayek",
    "MendeKikakui",
    "MeroiticCursive",
    "MeroiticHieroglyphs",
    "Miao",
    "Modi",
    "Mongolian",
    "Mro",
    "Multani",
    "Myanmar",
    "Nabataean",
    "NewTaiLue",
    "Newa",
    "Nko",
    "Ogham",
    "OlChiki",
    "OldHungarian",
    "OldItalic",
    "OldNorthArabian",
    "OldPermic",
    "OldPersian",
    "OldSouthArabian",
    "OldTurkic",
    "Oriya",
    "Osage",
    "Osmanya",
    "PahawhHmong",
    "Palmyrene",
    "PauCinHau",
    "PhagsPa",
    "Phoenician",
    "PsalterPahlavi",
    "Rejang",
    "Runic",
    "Samaritan",
    "Saurashtra",
    "Sharada",
    "Shavian",
    "Siddham",
    "SignWriting",
    "Sinhala",
    "SoraSompeng",
    "Sundanese",
    "SylotiNagri",
    "Syriac",
    "Tagalog",
    "Tagbanwa",
    "TaiLe",
    "TaiTham",
    "TaiViet",
    "Takri",
    "Tamil",
    "Tangut",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Tirhuta",
    "Ugaritic",
    "Vai",
    "WarangCiti",
    "Yi",
];
