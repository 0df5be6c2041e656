//! `tokenizer.json` as it stands in the file.

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// The whole file. Unknown keys are ignored, as the reference does.
#[derive(Deserialize, Debug)]
pub struct File {
    /// Must be `1.0` when present.
    pub version: Option<String>,
    /// Switched off; recorded.
    #[serde(default)]
    pub truncation: Value,
    /// Switched off; recorded.
    #[serde(default)]
    pub padding: Value,
    /// Added tokens in order.
    #[serde(default)]
    pub added_tokens: Vec<AddedToken>,
    /// The normalizer.
    #[serde(default)]
    pub normalizer: Value,
    /// The pre-tokenizer.
    #[serde(default)]
    pub pre_tokenizer: Value,
    /// The post-processor.
    #[serde(default)]
    pub post_processor: Value,
    /// The decoder.
    #[serde(default)]
    pub decoder: Value,
    /// The model.
    pub model: Model,
}

/// One added token.
#[derive(Deserialize, Clone, PartialEq, Debug)]
pub struct AddedToken {
    /// The id the file declares.
    pub id: u32,
    /// The text.
    pub content: String,
    /// Only as a whole word.
    pub single_word: bool,
    /// Takes white space before it.
    pub lstrip: bool,
    /// Takes white space after it.
    pub rstrip: bool,
    /// Found in the normalised text.
    pub normalized: bool,
    /// Left out of visible text.
    pub special: bool,
}

/// The model, all kinds in one.
#[derive(Deserialize, Debug)]
pub struct Model {
    /// BPE, Unigram, WordPiece or WordLevel; older files leave it out.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Random merges; must be off.
    pub dropout: Option<f64>,
    /// The unknown token.
    pub unk_token: Option<String>,
    /// The unknown token of a unigram model.
    pub unk_id: Option<u64>,
    /// Before every unit but the first.
    pub continuing_subword_prefix: Option<String>,
    /// After the last unit.
    pub end_of_word_suffix: Option<String>,
    /// Neighbouring unknown units become one.
    pub fuse_unk: Option<bool>,
    /// Unknown units are spelled with byte tokens.
    pub byte_fallback: Option<bool>,
    /// A piece in the vocabulary is not merged.
    pub ignore_merges: Option<bool>,
    /// Longest word of a word-piece model.
    pub max_input_chars_per_word: Option<u64>,
    /// The tokens.
    pub vocab: Vocab,
    /// The merges in order of rank.
    pub merges: Option<Vec<Merge>>,
}

/// The tokens, as a map or as a list.
#[derive(Debug)]
pub enum Vocab {
    /// Token and id, in the order of the file, repetitions kept.
    Ids(Vec<(String, u64)>),
    /// Token and score; the id is the place.
    Scores(Vec<(String, f64)>),
}

/// Two parts to be merged.
#[derive(Debug)]
pub enum Merge {
    /// `"a b"`.
    Line(String),
    /// `["a", "b"]`.
    Pair(String, String),
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Vocab;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tokens to ids or a list of tokens with scores")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Vocab::Ids(all))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocab, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = list.next_element()? {
                    all.push(entry);
                }
                Ok(Vocab::Scores(all))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Merge;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge")
            }
            fn visit_str<E: Error>(self, line: &str) -> Result<Merge, E> {
                Ok(Merge::Line(line.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge, A::Error> {
                let mut part = || list.next_element::<String>()?.ok_or_else(|| A::Error::custom("a merge of one part"));
                let pair = Merge::Pair(part()?, part()?);
                match list.next_element::<String>()? {
                    None => Ok(pair),
                    Some(_) => Err(A::Error::custom("a merge of three parts")),
                }
            }
        }
        deserializer.deserialize_any(Any)
    }
}
