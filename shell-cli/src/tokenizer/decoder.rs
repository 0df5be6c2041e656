//! Decoders: everything done to single tokens is done here, the rest becomes the decoder's record.

use super::automaton;
use super::normalizer::search;
use super::pattern::{self, Node};
use super::pre_tokenizer::{Scheme, metaspace_scheme, one_char};
use super::sets::Partition;
use super::{bytes, malformed, refuse};
use crate::failure::Failure;
use serde_json::Value;
use tinyrustlm_core::tokenizer::decoder_flag;

/// A token's text while the chain works on it.
#[derive(Clone, PartialEq, Debug)]
pub enum Text {
    /// Characters.
    Chars(String),
    /// Bytes, after the byte-level alphabet.
    Bytes(Vec<u8>),
}

impl Text {
    /// Its bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Chars(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// One thing done to single tokens.
enum Step {
    Replace(Matcher, String),
    Metaspace(char, bool),
    WordPiece(String, bool),
    Suffix(String),
    Strip(char, usize, usize),
    Ctc(String, String, bool),
    ByteLevel,
    Spaces,
}

/// A compiled chain.
pub struct Decoder {
    steps: Vec<Step>,
    /// Steps before this one come before byte tokens are found.
    bytes_at: usize,
    /// Flags, the character stripped from the ends of the text, how often from its start, how often from its end.
    pub record: [u32; 4],
    /// What is replaced in the text of runs, what it becomes, and what it becomes in the first one.
    pub rule: Option<[String; 3]>,
    by_first: bool,
    by_last: bool,
}

/// Where a stage of the chain stands.
#[derive(PartialEq, Clone, Copy)]
enum Phase {
    Tokens,
    Runs,
    Joined,
    Bytes,
}

/// Compiles a decoder.
pub fn compile(value: &Value) -> Result<Decoder, Failure> {
    let mut chain = Vec::new();
    flatten(value, "decoder", &mut chain)?;
    let mut decoder = Decoder {
        steps: Vec::new(),
        bytes_at: usize::MAX,
        record: [0; 4],
        rule: None,
        by_first: false,
        by_last: false,
    };
    if value.is_null() {
        // Without a decoder the reference puts spaces between tokens.
        decoder.steps.push(Step::Spaces);
        decoder.by_first = true;
        return Ok(decoder);
    }
    let mut phase = Phase::Tokens;
    for (one, at) in &chain {
        phase = decoder.add(one, at, phase)?;
    }
    Ok(decoder)
}

fn flatten<'v>(value: &'v Value, at: &str, out: &mut Vec<(&'v Value, String)>) -> Result<(), Failure> {
    if value["type"].as_str() != Some("Sequence") {
        if !value.is_null() {
            out.push((value, at.to_owned()));
        }
        return Ok(());
    }
    let list = value["decoders"].as_array().ok_or_else(|| malformed(at, "no decoders"))?;
    list.iter().enumerate().try_for_each(|(i, one)| flatten(one, &format!("{at}.decoders[{i}]"), out))
}

impl Decoder {
    fn add(&mut self, value: &Value, at: &str, phase: Phase) -> Result<Phase, Failure> {
        let kind = value["type"].as_str().unwrap_or("");
        let text = |name: &str| {
            value[name].as_str().map(str::to_owned).ok_or_else(|| malformed(at, format!("{name} is missing")))
        };
        let late = || refuse(at, format!("decoder {kind} at this place of the chain"));
        match (kind, phase) {
            ("Fuse", Phase::Bytes) => return Ok(Phase::Bytes),
            ("Fuse", _) => return Ok(Phase::Joined),
            ("ByteFallback", Phase::Tokens) => {
                self.bytes_at = self.steps.len();
                self.record[0] |= decoder_flag::BYTE_RUNS;
                return Ok(Phase::Runs);
            }
            ("ByteLevel", Phase::Tokens) => {
                self.steps.push(Step::ByteLevel);
                self.record[0] |= decoder_flag::LOSSY;
                return Ok(Phase::Bytes);
            }
            ("Replace", _) => {
                let node = search(&value["pattern"], at)?;
                let content = text("content")?;
                let single = pattern::as_set(&node).and_then(|set| set.single());
                let allowed = match phase {
                    Phase::Tokens => true,
                    Phase::Runs => literal(&node).is_some(),
                    // On the joined text only what is certain within one token.
                    Phase::Joined => single.is_some() && self.record[2] == 0 && self.record[3] == 0,
                    Phase::Bytes => false,
                };
                if !allowed {
                    return Err(late());
                }
                if phase != Phase::Tokens && self.bytes_at != usize::MAX {
                    self.rule(at, literal(&node).unwrap_or_default(), content.clone(), content.clone())?;
                }
                let matcher = Matcher::new(&node).map_err(|why| refuse(at, why))?;
                self.steps.push(Step::Replace(matcher, content));
            }
            ("Metaspace", Phase::Tokens | Phase::Runs) => {
                let mark =
                    one_char(&value["replacement"]).ok_or_else(|| malformed(at, "replacement is no character"))?;
                let drops = metaspace_scheme(value, at)? != Scheme::Never;
                if phase == Phase::Runs {
                    let first = if drops { String::new() } else { " ".to_owned() };
                    self.rule(at, mark.to_string(), " ".into(), first)?;
                }
                self.by_first |= drops;
                self.steps.push(Step::Metaspace(mark, drops));
            }
            ("WordPiece", Phase::Tokens) => {
                self.by_first = true;
                self.steps.push(Step::WordPiece(text("prefix")?, value["cleanup"].as_bool().unwrap_or(true)));
            }
            ("BPEDecoder", Phase::Tokens) => {
                self.by_last = true;
                self.record[0] |= decoder_flag::HOLD;
                self.steps.push(Step::Suffix(text("suffix")?));
            }
            ("CTC", Phase::Tokens) if self.steps.is_empty() => {
                self.record[0] |= decoder_flag::DEDUP;
                let cleanup = value["cleanup"].as_bool().unwrap_or(true);
                self.steps.push(Step::Ctc(text("pad_token")?, text("word_delimiter_token")?, cleanup));
            }
            ("Strip", _) => {
                let content = one_char(&value["content"]).ok_or_else(|| malformed(at, "content is no character"))?;
                let count = |name: &str| {
                    value[name]
                        .as_u64()
                        .filter(|n| *n <= 64)
                        .ok_or_else(|| refuse(at, format!("{name} {}", value[name])))
                };
                let (start, stop) = (count("start")?, count("stop")?);
                match phase {
                    Phase::Tokens => self.steps.push(Step::Strip(content, start as usize, stop as usize)),
                    Phase::Joined | Phase::Bytes
                        if self.record[2] == 0
                            && self.record[3] == 0
                            && (phase == Phase::Joined || content.is_ascii()) =>
                    {
                        (self.record[1], self.record[2], self.record[3]) = (content as u32, start as u32, stop as u32);
                    }
                    _ => return Err(late()),
                }
            }
            ("ByteFallback" | "ByteLevel" | "Metaspace" | "WordPiece" | "BPEDecoder" | "CTC", _) => return Err(late()),
            (other, _) => return Err(refuse(at, format!("decoder {other:?}"))),
        }
        if self.record[0] & decoder_flag::DEDUP != 0 && (self.by_first || self.by_last) {
            return Err(late());
        }
        Ok(phase)
    }

    /// A rule for the text of a run of byte tokens.
    fn rule(&mut self, at: &str, pattern: String, content: String, first: String) -> Result<(), Failure> {
        if self.rule.as_ref().is_some_and(|rule| rule[0] != pattern) {
            return Err(refuse(at, "a second replacement after ByteFallback"));
        }
        self.rule.get_or_insert([pattern, content, first]);
        Ok(())
    }

    /// Whether the text in a place may differ from the inner one: 1 first, 2 last, 3 only.
    pub fn differs(&self, place: usize) -> bool {
        place & 1 != 0 && self.by_first || place & 2 != 0 && self.by_last
    }

    /// A token's text in a place, and the byte it spells if it is a byte token.
    pub fn token(&self, text: &str, place: usize) -> (Text, Option<u8>) {
        let (first, last) = (place & 1 != 0, place & 2 != 0);
        let mut now = text.to_owned();
        for (i, step) in self.steps.iter().enumerate() {
            if i == self.bytes_at
                && let Some(byte) = spelled(&now)
            {
                return (Text::Bytes(vec![byte]), Some(byte));
            }
            now = match step {
                Step::Replace(matcher, content) => matcher.replace(&now, content),
                Step::Metaspace(mark, drops) => now.replace(*mark, if first && *drops { "" } else { " " }),
                Step::WordPiece(prefix, cleans) => {
                    let text = match now.strip_prefix(prefix.as_str()) {
                        _ if first => now,
                        Some(rest) => rest.to_owned(),
                        None => format!(" {now}"),
                    };
                    if *cleans { cleanup(&text) } else { text }
                }
                Step::Suffix(suffix) => now.replace(suffix.as_str(), if last { "" } else { " " }),
                Step::Strip(content, start, stop) => strip(&now, *content, *start, *stop),
                Step::Ctc(pad, delimiter, cleans) => {
                    let text = now.replace(pad.as_str(), "");
                    if *cleans { cleanup(&text).replace(delimiter.as_str(), " ") } else { text }
                }
                // Nothing that changes single tokens comes after the byte-level alphabet.
                Step::ByteLevel => return (Text::Bytes(bytes::from_str(&now).unwrap_or(now.into_bytes())), None),
                Step::Spaces => {
                    if first {
                        now
                    } else {
                        format!(" {now}")
                    }
                }
            };
        }
        if self.bytes_at == self.steps.len()
            && let Some(byte) = spelled(&now)
        {
            return (Text::Bytes(vec![byte]), Some(byte));
        }
        (Text::Chars(now), None)
    }
}

/// The byte that a token like `<0x0A>` spells.
fn spelled(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if text.len() != 6 { None } else { u8::from_str_radix(digits, 16).ok() }
}

fn strip(text: &str, content: char, start: usize, stop: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    let front = chars.iter().take(start).take_while(|c| **c == content).count();
    let back = chars.iter().rev().take(stop.min(chars.len() - front)).take_while(|c| **c == content).count();
    chars[front..chars.len() - back].iter().collect()
}

/// What the reference calls clean-up: spaces before punctuation and in English contractions.
fn cleanup(text: &str) -> String {
    let pairs = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn literal(node: &Node) -> Option<String> {
    match node {
        Node::Class(set) => set.single().map(String::from),
        Node::Concat(nodes) => nodes.iter().map(literal).collect(),
        _ => None,
    }
}

/// A pattern that is run here, on tokens.
struct Matcher {
    automaton: automaton::Automaton,
    partition: Partition,
}

impl Matcher {
    fn new(node: &Node) -> Result<Self, String> {
        let mut sets = Vec::new();
        automaton::sets(node, &mut sets);
        let partition = Partition::new(&sets).ok_or("too many classes")?;
        let automaton = automaton::compile(node, &sets, &partition)?;
        Ok(Self { automaton, partition })
    }

    fn replace(&self, text: &str, content: &str) -> String {
        let classes: Vec<(usize, char)> =
            text.chars().map(|c| (usize::from(self.partition.class(c as u32)), c)).collect();
        let mut out = String::new();
        let mut at = 0;
        while at < classes.len() {
            match self.automaton.match_at(&classes, at) {
                Some(end) => {
                    out.push_str(content);
                    at = end;
                }
                None => {
                    out.push(classes[at].1);
                    at += 1;
                }
            }
        }
        out
    }
}
