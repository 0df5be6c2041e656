//! Pre-tokenizers as stages.

use super::build::{Builder, Step};
use super::normalizer::{Growth, many, search, start};
use super::pattern::{self, Node};
use super::sets::Set;
use super::{malformed, refuse, unicode};
use crate::failure::Failure;
use serde_json::Value;
use tinyrustlm_core::tokenizer::MAX_STAGES;
use tinyrustlm_core::tokenizer::section::{step, step_flag};

/// What becomes of matches.
#[derive(Clone, Copy)]
enum Behaviour {
    /// Each match and each text between is a piece.
    Isolated,
    /// Matches are dropped.
    Removed,
    /// Neighbouring matches are one piece.
    Contiguous,
    /// A match belongs to the text before it.
    MergedWithPrevious,
    /// A match belongs to the text after it.
    MergedWithNext,
}

/// Where a Metaspace puts its mark.
#[derive(Clone, Copy, PartialEq)]
pub enum Scheme {
    /// Nowhere.
    Never,
    /// Before the piece at the start of the text.
    First,
    /// Before every piece.
    Always,
}

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

/// Compiles a pre-tokenizer. `split_before`: a character before which pieces are cut in any case.
pub fn compile(
    value: &Value,
    builder: &mut Builder,
    growth: &mut Growth,
    known: &dyn Fn(char) -> bool,
    split_before: Option<char>,
) -> Result<(), Failure> {
    let mut compiler = Compiler { builder, growth, known, bytes: false, changed: false };
    compiler.pre_tokenizer(value, "pre_tokenizer")?;
    // The model's own cut is a shortcut that may be left out.
    if let Some(mark) = split_before.filter(|_| compiler.builder.stages.len() < MAX_STAGES) {
        let mark = Set::char(mark);
        let rest = Node::Repeat { node: Box::new(Node::Class(mark.complement())), min: 0, max: None, greedy: true };
        compiler.split(Node::Concat(vec![many(Node::Class(mark)), rest]), Behaviour::Isolated, false);
    }
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
                    let others = Node::Class(Set::char(' ').complement());
                    let step = Step {
                        kind: step::CHANGE,
                        automaton: self.builder.pattern(Node::Concat(vec![start(), others])),
                        flags: step_flag::KEEP,
                        root: 0,
                        string: self.builder.string(b" "),
                    };
                    self.change(at, step, 2, 2)?;
                }
                if value["use_regex"].as_bool().unwrap_or(true) {
                    let words = pattern::parse(WORDS).map_err(|why| refuse(at, why))?;
                    self.split(words, Behaviour::Isolated, false);
                }
                self.bytes = true;
            }
            "Split" => {
                let node = search(&value["pattern"], at)?;
                self.split(node, named_behaviour(&value["behavior"], at)?, flag("invert")?);
            }
            "Digits" => {
                let one = if flag("individual_digits")? { Behaviour::Isolated } else { Behaviour::Contiguous };
                self.split(class(unicode::numeric()), one, false);
            }
            "Punctuation" => {
                let behaviour = match &value["behavior"] {
                    Value::Null => Behaviour::Isolated,
                    name => named_behaviour(name, at)?,
                };
                self.split(class(unicode::punctuation()), behaviour, false);
            }
            "Whitespace" => {
                let word = unicode::regex_word();
                let rest = word.union(&unicode::white_space()).complement();
                self.split(Node::Alternation(vec![many(class(word)), many(class(rest))]), Behaviour::Removed, true);
            }
            "WhitespaceSplit" => self.split(class(unicode::white_space()), Behaviour::Removed, false),
            "BertPreTokenizer" => {
                self.split(class(unicode::white_space()), Behaviour::Removed, false);
                self.split(class(unicode::punctuation()), Behaviour::Isolated, false);
            }
            "CharDelimiterSplit" => {
                let c = one_char(&value["delimiter"]).ok_or_else(|| malformed(at, "delimiter is no character"))?;
                self.split(class(Set::char(c)), Behaviour::Removed, false);
            }
            "UnicodeScripts" => self.split(super::scripts::runs(), Behaviour::Removed, true),
            "FixedLength" => {
                let length = value["length"].as_u64().unwrap_or(5);
                let max = u32::try_from(length).ok().filter(|n| (1..=1000).contains(n));
                let max = max.ok_or_else(|| refuse(at, format!("pieces of {length} characters")))?;
                let node = Node::Repeat { node: Box::new(class(Set::all())), min: 1, max: Some(max), greedy: true };
                self.split(node, Behaviour::Isolated, false);
            }
            "Metaspace" => self.metaspace(value, at)?,
            other => return Err(refuse(at, format!("pre-tokenizer {other:?}"))),
        }
        Ok(())
    }

    fn split(&mut self, node: Node, behaviour: Behaviour, invert: bool) {
        // What matches and what does not change places with `invert`.
        let kind = |is_match: bool, flag: u32| if is_match != invert { flag << 1 } else { flag };
        let (node, flags) = match behaviour {
            Behaviour::Isolated => (node, 0),
            Behaviour::Removed => (node, kind(true, step_flag::DROP_REST)),
            Behaviour::Contiguous => (many(node), 0),
            Behaviour::MergedWithPrevious => (node, kind(false, step_flag::JOIN_REST)),
            Behaviour::MergedWithNext => (node, kind(true, step_flag::JOIN_REST)),
        };
        let flags = flags | if self.bytes { step_flag::BYTES } else { 0 };
        let automaton = self.builder.pattern(node);
        self.builder.stages.push(Step { kind: step::SPLIT, automaton, flags, ..Step::default() });
    }

    fn change(&mut self, at: &str, step: Step, bytes: u32, units: u32) -> Result<(), Failure> {
        if self.changed {
            return Err(refuse(at, "a second stage that changes the text"));
        }
        if self.bytes {
            return Err(refuse(at, "a stage that changes the text after ByteLevel"));
        }
        self.changed = true;
        self.builder.stages.push(step);
        self.growth.bytes *= bytes;
        self.growth.units *= units;
        self.growth.fixed *= bytes;
        Ok(())
    }

    fn metaspace(&mut self, value: &Value, at: &str) -> Result<(), Failure> {
        let mark = one_char(&value["replacement"]).ok_or_else(|| malformed(at, "replacement is no character"))?;
        let scheme = metaspace_scheme(value, at)?;
        let text = mark.to_string();
        let root = self.builder.node();
        let _ = self.builder.becomes(root, &[u32::from(b' ')], text.as_bytes());
        let space = Node::Class(Set::char(' '));
        let others = Node::Class(Set::char(' ').union(&Set::char(mark)).complement());
        let node = match scheme {
            Scheme::Never => space,
            _ => Node::Alternation(vec![space, Node::Concat(vec![start(), others])]),
        };
        let step = Step {
            kind: step::CHANGE,
            automaton: self.builder.pattern(node),
            flags: step_flag::KEEP | if scheme == Scheme::First { step_flag::FIRST } else { 0 },
            root,
            string: self.builder.string(text.as_bytes()),
        };
        let len = text.len() as u32;
        let units = if (self.known)(mark) { 1 } else { len };
        // A piece of one byte may get the mark before it.
        self.change(at, step, 1 + len, 1 + units)?;
        if value["split"].as_bool().unwrap_or(true) {
            self.split(Node::Class(Set::char(mark)), Behaviour::MergedWithNext, false);
        }
        Ok(())
    }
}

/// Where a Metaspace puts its mark, from the new key or the old one.
pub fn metaspace_scheme(value: &Value, at: &str) -> Result<Scheme, Failure> {
    let scheme = match value["prepend_scheme"].as_str() {
        None | Some("always") => Scheme::Always,
        Some("first") => Scheme::First,
        Some("never") => Scheme::Never,
        Some(other) => return Err(malformed(at, format!("prepend_scheme {other:?}"))),
    };
    if value["add_prefix_space"].as_bool() == Some(false) {
        if scheme != Scheme::Never {
            let given = value["prepend_scheme"].as_str().unwrap_or("always");
            if value["prepend_scheme"].is_string() {
                return Err(malformed(at, format!("add_prefix_space false and prepend_scheme {given}")));
            }
            return Err(malformed(at, "add_prefix_space false without prepend_scheme never"));
        }
        return Ok(Scheme::Never);
    }
    Ok(scheme)
}

/// A string of one character.
pub fn one_char(value: &Value) -> Option<char> {
    let mut chars = value.as_str()?.chars();
    chars.next().filter(|_| chars.next().is_none())
}

fn named_behaviour(value: &Value, at: &str) -> Result<Behaviour, Failure> {
    Ok(match value.as_str() {
        Some("Removed") => Behaviour::Removed,
        Some("Isolated") => Behaviour::Isolated,
        Some("MergedWithPrevious") => Behaviour::MergedWithPrevious,
        Some("MergedWithNext") => Behaviour::MergedWithNext,
        Some("Contiguous") => Behaviour::Contiguous,
        _ => return Err(malformed(at, format!("behavior {value}"))),
    })
}
