//! Normalizers as steps.

use super::build::{Builder, Step};
use super::pattern::{self, Node};
use super::sets::Set;
use super::{bytes, malformed, refuse, unicode};
use crate::failure::Failure;
use serde_json::Value;
use std::collections::BTreeMap;
use tinyrustlm_core::tokenizer::section::{pair, step, step_flag};
use unicode_normalization_alignments::UnicodeNormalization;
use unicode_normalization_alignments::char as normal;

/// How much a text may grow on its way to the model.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Bytes per byte.
    pub bytes: u32,
    /// Units per byte: characters the model knows, or bytes of those it may not know.
    pub units: u32,
    /// Bytes put before a section.
    pub fixed: u32,
}

/// Names of the four normal forms.
const FORMS: [&str; 4] = ["NFC", "NFD", "NFKC", "NFKD"];

type Map = BTreeMap<char, String>;

/// Compiles a normalizer. `known`: single characters that are tokens of the model.
pub fn compile(value: &Value, builder: &mut Builder, known: &dyn Fn(char) -> bool) -> Result<Growth, Failure> {
    let mut compiler = Compiler { builder, known, growth: Growth { bytes: 1, units: 1, fixed: 0 } };
    compiler.normalizer(value, "normalizer")?;
    Ok(compiler.growth)
}

struct Compiler<'b> {
    builder: &'b mut Builder,
    known: &'b dyn Fn(char) -> bool,
    growth: Growth,
}

impl Compiler<'_> {
    fn normalizer(&mut self, value: &Value, at: &str) -> Result<(), Failure> {
        if value.is_null() {
            return Ok(());
        }
        let kind = value["type"].as_str().unwrap_or("");
        let flag = |name: &str| value[name].as_bool().ok_or_else(|| malformed(at, format!("{name} is missing")));
        match kind {
            "Sequence" => {
                let list = value["normalizers"].as_array().ok_or_else(|| malformed(at, "no normalizers"))?;
                list.iter()
                    .enumerate()
                    .try_for_each(|(i, one)| self.normalizer(one, &format!("{at}.normalizers[{i}]")))?;
            }
            "NFC" | "NFD" | "NFKC" | "NFKD" => self.form(kind),
            "Lowercase" => self.map(of(|c| Some(unicode::lowercase(c)))),
            "StripAccents" => self.map(of(|c| normal::is_combining_mark(c).then(String::new))),
            "Nmt" => self.map(of(nmt)),
            "BertNormalizer" => {
                if flag("clean_text")? {
                    self.map(of(bert_clean));
                }
                if flag("handle_chinese_chars")? {
                    self.map(of(|c| is_chinese(c).then(|| format!(" {c} "))));
                }
                let lowercase = flag("lowercase")?;
                if value["strip_accents"].as_bool().unwrap_or(lowercase) {
                    use unicode_categories::UnicodeCategories;
                    self.form("NFD");
                    self.map(of(|c| c.is_mark_nonspacing().then(String::new)));
                }
                if lowercase {
                    self.map(of(|c| Some(unicode::lowercase(c))));
                }
            }
            "Strip" => {
                let spaces = || many(Node::Class(unicode::white_space()));
                let end = Node::Look { ahead: true, set: Set::default(), edge: true };
                let mut sides = Vec::new();
                if flag("strip_left")? {
                    sides.push(Node::Concat(vec![start(), spaces()]));
                }
                if flag("strip_right")? {
                    sides.push(Node::Concat(vec![spaces(), end]));
                }
                if !sides.is_empty() {
                    self.change(Node::Alternation(sides), 0, 0, "");
                }
            }
            "Prepend" => {
                let text = value["prepend"].as_str().ok_or_else(|| malformed(at, "prepend is missing"))?;
                self.change(Node::Concat(vec![start(), Node::Class(Set::all())]), step_flag::KEEP, 0, text);
                self.growth.fixed += text.len() as u32;
            }
            "Replace" => {
                let content = value["content"].as_str().ok_or_else(|| malformed(at, "content is missing"))?;
                let node = search(&value["pattern"], at)?;
                if let Some(set) = pattern::as_set(&node)
                    && set.single().is_some_and(|c| content.chars().eq([c]))
                {
                    return Ok(());
                }
                let shortest = shortest(&node).max(1);
                self.change(node, 0, 0, content);
                let len = content.len() as u32;
                self.grow(len.div_ceil(shortest).max(1), self.units(content).div_ceil(shortest).max(1));
            }
            "Precompiled" => self.precompiled(value, at)?,
            "ByteLevel" => {
                let root = self.builder.node();
                for byte in 0..=255 {
                    let text = bytes::to_char(byte).to_string();
                    let _ = self.builder.becomes(root, &[u32::from(byte)], text.as_bytes());
                }
                self.change(Node::Class(Set::all()), step_flag::BYTES, root, "");
                self.grow(2, 1);
            }
            other => return Err(refuse(at, format!("normalizer {other:?}"))),
        }
        Ok(())
    }

    /// Adds a step: matches become a string.
    fn change(&mut self, node: Node, flags: u32, root: u32, text: &str) {
        let (automaton, string) = (self.builder.pattern(node), self.builder.string(text.as_bytes()));
        self.builder.normalizer.push(Step { kind: step::CHANGE, automaton, flags, root, string });
    }

    /// A trie of characters and what they become.
    fn trie(&mut self, map: &Map) -> u32 {
        let root = self.builder.node();
        for (c, text) in map {
            let _ = self.builder.becomes(root, &[*c as u32], text.as_bytes());
        }
        root
    }

    fn grow(&mut self, bytes: u32, units: u32) {
        self.growth.units *= units;
        self.growth.bytes *= bytes;
        self.growth.fixed *= bytes;
    }

    fn units(&self, text: &str) -> u32 {
        text.chars().map(|c| if (self.known)(c) { 1 } else { c.len_utf8() as u32 }).sum()
    }

    fn map(&mut self, map: Map) {
        if map.is_empty() {
            return;
        }
        let ratio = |len: u32, c: char| len.div_ceil(c.len_utf8() as u32).max(1);
        let bytes = map.iter().map(|(c, text)| ratio(text.len() as u32, *c)).max().unwrap_or(1);
        let units = map.iter().map(|(c, text)| ratio(self.units(text), *c)).max().unwrap_or(1);
        let root = self.trie(&map);
        self.change(Node::Class(Set::new(map.keys().map(|c| (*c as u32, *c as u32)))), 0, root, "");
        self.grow(bytes, units);
    }

    fn form(&mut self, name: &str) {
        let compat = name.contains('K');
        let composes = name.ends_with('C');
        let hangul = |c: char| ('\u{AC00}'..='\u{D7A3}').contains(&c);
        let chars = || (0..=0x10_FFFF).filter_map(char::from_u32);
        let decomposed = |c: char| -> String {
            let text = c.to_string();
            if compat { text.nfkd().map(|(c, _)| c).collect() } else { text.nfd().map(|(c, _)| c).collect() }
        };
        let map: Map = chars()
            .filter(|c| !hangul(*c))
            .map(|c| (c, decomposed(c)))
            .filter(|(c, text)| !text.chars().eq([*c]))
            .collect();
        let class: Vec<(char, u8)> =
            chars().map(|c| (c, normal::canonical_combining_class(c))).filter(|(_, class)| *class != 0).collect();
        let mut pairs = Vec::new();
        if composes {
            // Composites are what a character decomposes into in one step; the crate says which compose again.
            for c in chars().filter(|c| !hangul(*c)) {
                let mut parts = Vec::new();
                normal::decompose_canonical(c, |d| parts.push(d));
                let Some((last, start)) = parts.split_last().filter(|(_, start)| !start.is_empty()) else { continue };
                // The first part of the one-step decomposition is itself the composition of all but the last.
                let first = if start.len() == 1 {
                    Some(start[0])
                } else {
                    let text: String = start.iter().collect();
                    let text: String = text.nfc().map(|(c, _)| c).collect();
                    let mut all = text.chars();
                    all.next().filter(|_| all.next().is_none())
                };
                if let Some(first) = first
                    && normal::compose(first, *last) == Some(c)
                {
                    pairs.push((first as u32, *last as u32, c as u32));
                }
            }
            pairs.sort_unstable();
        }
        // What may reorder or compose with what stands before it: marks, and characters that become such.
        let set = |codes: Vec<u32>| Set::new(codes.into_iter().map(|code| (code, code)));
        let mut after: Vec<u32> = class.iter().map(|(c, _)| *c as u32).collect();
        if composes {
            after.extend(pairs.iter().map(|pair| pair.1));
            after.extend((0x1161..=0x1175).chain(0x11A8..=0x11C2));
        }
        let after = set(after);
        let begins = |text: &str| text.chars().next().is_some_and(|c| after.contains(c as u32));
        let after = after.union(&set(map.iter().filter(|(_, text)| begins(text)).map(|(c, _)| *c as u32).collect()));
        // Characters that are not in the form by themselves. A text without any of these is in the form already.
        let stays = |c: char, text: &str| composes && text.nfc().map(|(c, _)| c).eq([c]);
        let mut changed =
            set(map.iter().filter(|(c, text)| !stays(**c, text)).map(|(c, _)| *c as u32).collect()).union(&after);
        if !composes {
            changed = changed.union(&Set::new([(0xAC00, 0xD7A3)]));
        }
        let more = Node::Repeat { node: Box::new(Node::Class(after)), min: 0, max: None, greedy: true };
        let automaton = self.builder.pattern(Node::Concat(vec![Node::Class(changed), more]));
        let root = self.trie(&map);
        self.builder.pairs.extend(class.iter().map(|(c, class)| ((*c as u32, pair::CLASS), u32::from(*class))));
        self.builder.pairs.extend(pairs.iter().map(|pair| ((pair.0, pair.1), pair.2)));
        let flags = if composes { step_flag::COMPOSE } else { 0 };
        self.builder.normalizer.push(Step { kind: step::CANONICAL, automaton, flags, root, string: (0, 0) });
        // Decomposition is the longest the text gets; a Hangul syllable of three bytes becomes nine.
        let longest = map.iter().map(|(c, text)| (text.len() as u32).div_ceil(c.len_utf8() as u32)).max();
        let grown = longest.unwrap_or(1).max(3);
        self.grow(grown, grown);
        debug_assert!(FORMS.contains(&name));
    }

    fn precompiled(&mut self, value: &Value, at: &str) -> Result<(), Failure> {
        let text = value["precompiled_charsmap"].as_str().ok_or_else(|| malformed(at, "no precompiled_charsmap"))?;
        let map = base64(text).ok_or_else(|| malformed(at, "precompiled_charsmap is no base64"))?;
        let split = map.get(..4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
        let (trie, strings) = split
            .and_then(|len| map.get(4..)?.split_at_checked(len))
            .filter(|(trie, strings)| trie.len() % 4 == 0 && !trie.is_empty() && std::str::from_utf8(strings).is_ok())
            .ok_or_else(|| malformed(at, "precompiled_charsmap is damaged"))?;
        let units: Vec<u32> = trie.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let root = self.builder.node();
        let (mut bytes, mut most) = (1, 1);
        for (key, value) in keys(&units) {
            let rest = strings.get(value as usize..).ok_or_else(|| malformed(at, "precompiled_charsmap is damaged"))?;
            let text = rest.split(|b| *b == 0).next().unwrap_or(&[]);
            let text = std::str::from_utf8(text).map_err(|_| malformed(at, "precompiled_charsmap is damaged"))?;
            let len = key.len() as u32;
            bytes = bytes.max((text.len() as u32).div_ceil(len));
            most = most.max(self.units(text).div_ceil(len));
            let key = String::from_utf8(key).map_err(|_| malformed(at, "precompiled_charsmap is damaged"))?;
            let key: Vec<u32> = key.chars().map(u32::from).collect();
            if !self.builder.becomes(root, &key, text.as_bytes()) {
                return Err(refuse(at, format!("a character that becomes {} bytes", text.len())));
            }
        }
        self.change(super::grapheme::cluster(), step_flag::KEEP, root, "");
        self.grow(bytes, most);
        Ok(())
    }
}

/// The start of a text.
pub fn start() -> Node {
    Node::Look { ahead: false, set: Set::default(), edge: true }
}

/// A pattern as often as it comes, but once.
pub fn many(node: Node) -> Node {
    Node::Repeat { node: Box::new(node), min: 1, max: None, greedy: true }
}

/// Each key of a double array over bytes that no other key begins, and its value.
fn keys(units: &[u32]) -> Vec<(Vec<u8>, u32)> {
    let offset = |unit: u32| (unit >> 10) << ((unit & 1 << 9) >> 6);
    let unit = |at: u32| units.get(at as usize).copied().unwrap_or(0);
    let mut found = Vec::new();
    let mut seen = vec![false; units.len()];
    let mut stack = vec![(offset(unit(0)), Vec::new())];
    while let Some((base, start)) = stack.pop() {
        for byte in 1..=255u8 {
            let at = base ^ u32::from(byte);
            let next = unit(at);
            if next & (1 << 31 | 0xFF) != u32::from(byte) || seen.get(at as usize).is_none_or(|seen| *seen) {
                continue;
            }
            seen[at as usize] = true;
            let key = [&start[..], &[byte]].concat();
            if next >> 8 & 1 != 0 {
                found.push((key, unit(at ^ offset(next)) & 0x7FFF_FFFF));
            } else {
                stack.push((at ^ offset(next), key));
            }
        }
    }
    found
}

/// The entries of a map: what `f` gives for a character, where it is not the character itself.
fn of(f: impl Fn(char) -> Option<String>) -> Map {
    (0..=0x10_FFFF)
        .filter_map(char::from_u32)
        .filter_map(|c| f(c).map(|text| (c, text)))
        .filter(|(c, text)| !text.chars().eq([*c]))
        .collect()
}

/// The pattern of a Replace or Split: `{"String": ..}` or `{"Regex": ..}`.
pub fn search(value: &Value, at: &str) -> Result<Node, Failure> {
    if let Some(text) = value["String"].as_str() {
        if text.is_empty() {
            return Err(refuse(at, "an empty pattern"));
        }
        return Ok(pattern::literal(text));
    }
    let text = value["Regex"].as_str().ok_or_else(|| malformed(at, "pattern is missing"))?;
    pattern::parse(text).map_err(|why| refuse(at, format!("pattern {text:?}: {why}")))
}

/// Bytes of the shortest match.
fn shortest(node: &Node) -> u32 {
    match node {
        Node::Class(set) => set.ranges().first().and_then(|r| char::from_u32(r.0)).map_or(1, |c| c.len_utf8() as u32),
        Node::Concat(nodes) => nodes.iter().map(shortest).sum(),
        Node::Alternation(nodes) => nodes.iter().map(shortest).min().unwrap_or(0),
        Node::Repeat { node, min, .. } => shortest(node) * min,
        Node::Look { .. } => 0,
    }
}

fn nmt(c: char) -> Option<String> {
    match c as u32 {
        0x01..=0x08 | 0x0B | 0x0E..=0x1F | 0x7F | 0x8F | 0x9F => Some(String::new()),
        0x09 | 0x0A | 0x0C | 0x0D | 0x1680 | 0x200B..=0x200F | 0x2028 | 0x2029 | 0x2581 | 0xFEFF | 0xFFFD => {
            Some(" ".into())
        }
        _ => None,
    }
}

fn bert_clean(c: char) -> Option<String> {
    use unicode_categories::UnicodeCategories;
    let control = !matches!(c, '\t' | '\n' | '\r') && c.is_other();
    if c == '\0' || c == '\u{FFFD}' || control {
        return Some(String::new());
    }
    c.is_whitespace().then(|| " ".into())
}

fn is_chinese(c: char) -> bool {
    matches!(c as u32, 0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F
        | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(out)
}
