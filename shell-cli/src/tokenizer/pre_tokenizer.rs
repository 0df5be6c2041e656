//! Pre-tokenizers as stages.

use super::build::Builder;
use super::normalizer::{Growth, search};
use super::pattern::{self, Node};
use super::sets::Set;
use super::{malformed, refuse, unicode};
use crate::failure::Failure;
use serde_json::Value;
use tinyrustlm_core::tokenizer::{MAX_STAGES, behaviour, scheme, split_flag, stage};

/// What GPT-2 cuts words with.
const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Whether pieces reach the model as bytes of the byte-level alphabet.
pub fn has_bytes(value: &Value) -> bool {
    match value["type"].as_str() {
        Some("ByteLevel") => true,
        Some("Sequence") => value["pretokenizers"].as_array().is_some_and(|list| list.iter().any(has_bytes)),
        _ => false,
    }
}

/// Compiles a pre-tokenizer.
pub fn compile(
    value: &Value,
    builder: &mut Builder,
    growth: &mut Growth,
    known: &dyn Fn(char) -> bool,
) -> Result<(), Failure> {
    let mut compiler = Compiler { builder, growth, known, bytes: false, changed: false };
    compiler.pre_tokenizer(value, "pre_tokenizer")?;
    if compiler.builder.stages.len() > MAX_STAGES {
        return Err(refuse("pre_tokenizer", format!("{} stages", compiler.builder.stages.len())));
    }
    Ok(())
}

struct Compiler<'b> {
    builder: &'b mut Builder,
    growth: &'b mut Growth,
    known: &'b dyn Fn(char) -> bool,
    /// Pieces are bytes from here on.
    bytes: bool,
    /// A stage has changed the text.
    changed: bool,
}

impl Compiler<'_> {
    fn pre_tokenizer(&mut self, value: &Value, at: &str) -> Result<(), Failure> {
        if value.is_null() {
            return Ok(());
        }
        let kind = value["type"].as_str().unwrap_or("");
        let flag = |name: &str| value[name].as_bool().ok_or_else(|| malformed(at, format!("{name} is missing")));
        let class = |set: Set| Node::Class(set);
        match kind {
            "Sequence" => {
                let list = value["pretokenizers"].as_array().ok_or_else(|| malformed(at, "no pretokenizers"))?;
                for (i, one) in list.iter().enumerate() {
                    self.pre_tokenizer(one, &format!("{at}.pretokenizers[{i}]"))?;
                }
            }
            "ByteLevel" => {
                if self.bytes {
                    return Err(refuse(at, "a second ByteLevel"));
                }
                if flag("add_prefix_space")? {
                    self.change(at, [stage::PREFIX_SPACE, 0, 0, 0, 0, 0, 0, 0], 2, 2)?;
                }
                if value["use_regex"].as_bool().unwrap_or(true) {
                    let words = pattern::parse(WORDS).map_err(|why| refuse(at, why))?;
                    self.split(words, behaviour::ISOLATED, false);
                }
                self.bytes = true;
            }
            "Split" => {
                let node = search(&value["pattern"], at)?;
                self.split(node, named_behaviour(&value["behavior"], at)?, flag("invert")?);
            }
            "Digits" => {
                let one = if flag("individual_digits")? { behaviour::ISOLATED } else { behaviour::CONTIGUOUS };
                self.split(class(unicode::numeric()), one, false);
            }
            "Punctuation" => {
                let behaviour = match &value["behavior"] {
                    Value::Null => behaviour::ISOLATED,
                    name => named_behaviour(name, at)?,
                };
                self.split(class(unicode::punctuation()), behaviour, false);
            }
            "Whitespace" => {
                let word = unicode::regex_word();
                let rest = word.union(&unicode::white_space()).complement();
                let many = |set: Set| Node::Repeat { node: Box::new(class(set)), min: 1, max: None, greedy: true };
                self.split(Node::Alternation(vec![many(word), many(rest)]), behaviour::REMOVED, true);
            }
            "WhitespaceSplit" => self.split(class(unicode::white_space()), behaviour::REMOVED, false),
            "BertPreTokenizer" => {
                self.split(class(unicode::white_space()), behaviour::REMOVED, false);
                self.split(class(unicode::punctuation()), behaviour::ISOLATED, false);
            }
            "CharDelimiterSplit" => {
                let c = one_char(&value["delimiter"]).ok_or_else(|| malformed(at, "delimiter is no character"))?;
                self.split(class(Set::char(c)), behaviour::REMOVED, false);
            }
            "UnicodeScripts" => self.split(super::scripts::runs(), behaviour::REMOVED, true),
            "FixedLength" => {
                let length = value["length"].as_u64().unwrap_or(5);
                let max = u32::try_from(length).ok().filter(|n| (1..=1000).contains(n));
                let max = max.ok_or_else(|| refuse(at, format!("pieces of {length} characters")))?;
                let node = Node::Repeat { node: Box::new(class(Set::all())), min: 1, max: Some(max), greedy: true };
                self.split(node, behaviour::ISOLATED, false);
            }
            "Metaspace" => self.metaspace(value, at)?,
            other => return Err(refuse(at, format!("pre-tokenizer {other:?}"))),
        }
        Ok(())
    }

    fn split(&mut self, node: Node, behaviour: u32, invert: bool) {
        let automaton = self.builder.pattern(node);
        let flags = if invert { split_flag::INVERT } else { 0 } | if self.bytes { split_flag::BYTES } else { 0 };
        self.builder.stages.push([stage::SPLIT, automaton, behaviour, flags, 0, 0, 0, 0]);
    }

    fn change(&mut self, at: &str, record: [u32; 8], bytes: u32, units: u32) -> Result<(), Failure> {
        if self.changed {
            return Err(refuse(at, "a second stage that changes the text"));
        }
        if self.bytes {
            return Err(refuse(at, "a stage that changes the text after ByteLevel"));
        }
        self.changed = true;
        self.builder.stages.push(record);
        self.growth.bytes *= bytes;
        self.growth.units *= units;
        self.growth.fixed *= bytes;
        Ok(())
    }

    fn metaspace(&mut self, value: &Value, at: &str) -> Result<(), Failure> {
        let mark = one_char(&value["replacement"]).ok_or_else(|| malformed(at, "replacement is no character"))?;
        let scheme = metaspace_scheme(value, at)?;
        let text = mark.to_string();
        let (offset, len) = self.builder.string(text.as_bytes());
        let units = if (self.known)(mark) { 1 } else { len };
        // A piece of one byte may get the mark before it.
        self.change(at, [stage::METASPACE, offset, len, scheme, 0, 0, 0, 0], 1 + len, 1 + units)?;
        if value["split"].as_bool().unwrap_or(true) {
            self.split(Node::Class(Set::char(mark)), behaviour::MERGED_WITH_NEXT, false);
        }
        Ok(())
    }
}

/// Where a Metaspace puts its mark, from the new key or the old one.
pub fn metaspace_scheme(value: &Value, at: &str) -> Result<u32, Failure> {
    let scheme = match value["prepend_scheme"].as_str() {
        None | Some("always") => scheme::ALWAYS,
        Some("first") => scheme::FIRST,
        Some("never") => scheme::NEVER,
        Some(other) => return Err(malformed(at, format!("prepend_scheme {other:?}"))),
    };
    if value["add_prefix_space"].as_bool() == Some(false) {
        if scheme != scheme::NEVER {
            let given = value["prepend_scheme"].as_str().unwrap_or("always");
            if value["prepend_scheme"].is_string() {
                return Err(malformed(at, format!("add_prefix_space false and prepend_scheme {given}")));
            }
            return Err(malformed(at, "add_prefix_space false without prepend_scheme never"));
        }
        return Ok(scheme::NEVER);
    }
    Ok(scheme)
}

/// A string of one character.
pub fn one_char(value: &Value) -> Option<char> {
    let mut chars = value.as_str()?.chars();
    chars.next().filter(|_| chars.next().is_none())
}

fn named_behaviour(value: &Value, at: &str) -> Result<u32, Failure> {
    Ok(match value.as_str() {
        Some("Removed") => behaviour::REMOVED,
        Some("Isolated") => behaviour::ISOLATED,
        Some("MergedWithPrevious") => behaviour::MERGED_WITH_PREVIOUS,
        Some("MergedWithNext") => behaviour::MERGED_WITH_NEXT,
        Some("Contiguous") => behaviour::CONTIGUOUS,
        _ => return Err(malformed(at, format!("behavior {value}"))),
    })
}
