//! The parts of a section while it is being built, and how they are written.

use super::automaton;
use super::pattern::Node;
use super::sets::{Partition, Set};
use super::unicode;
use std::collections::HashMap;
use tinyrustlm_core::tokenizer::section::{Header, Kind, MAX_ID, NONE, PAGE, class, field, pair, step, table};
use tinyrustlm_core::tokenizer::{pair_hash, slot_of};

/// A section in the making: sets and patterns are collected first, numbers are given when it is written.
#[derive(Debug, Default)]
pub struct Builder {
    strings: Vec<u8>,
    /// Offsets of strings that say their length themselves.
    measured: HashMap<Vec<u8>, u32>,
    sets: Vec<Set>,
    patterns: Vec<Node>,
    /// Numbers by pairs: tries, units, combining classes and composites.
    pub pairs: HashMap<(u32, u32), u32>,
    nodes: u32,
    /// Steps of the normalizer.
    pub normalizer: Vec<Step>,
    /// Stages of the pre-tokenizer.
    pub stages: Vec<Step>,
    /// Count of ids before the text, those ids, the ids after it.
    pub affixes: Vec<u32>,
    /// All other tables, by number.
    pub tables: Vec<(usize, Vec<u8>)>,
}

/// A step of the normalizer or a stage of the pre-tokenizer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Its kind.
    pub kind: u32,
    /// Its automaton.
    pub automaton: u32,
    /// Bits of `step_flag`.
    pub flags: u32,
    /// Root of its trie, or 0.
    pub root: u32,
    /// Offset and length of its string.
    pub string: (u32, u32),
}

impl Step {
    fn words(&self) -> [u32; step::WORDS] {
        [self.kind, self.automaton, self.flags, self.root, self.string.0, self.string.1]
    }
}

/// Longest string that says its length itself: the whole of the strings is UTF-8.
const MAX_MEASURED: usize = 127;

/// What the partition of the code points came to, for tools that show it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Classes of code points.
    pub classes: usize,
    /// Automata.
    pub automata: usize,
    /// States of all automata.
    pub states: usize,
}

/// Little-endian bytes of words.
pub fn le32(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Offsets and bytes of a list of strings.
pub fn spans<'s>(strings: impl IntoIterator<Item = &'s [u8]>) -> (Vec<u8>, Vec<u8>) {
    let mut offsets = vec![0u32];
    let mut bytes = Vec::new();
    for string in strings {
        bytes.extend_from_slice(string);
        offsets.push(bytes.len() as u32);
    }
    (le32(offsets), bytes)
}

/// The hash table of numbers by pairs: (left, right, number). Later ones do not replace earlier ones.
pub fn pair_slots(pairs: impl IntoIterator<Item = (u32, u32, u32)>) -> Vec<u8> {
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_unstable_by_key(|(_, _, number)| *number);
    let mut slots = vec![u64::MAX; if pairs.is_empty() { 0 } else { pairs.len() + pairs.len() / 4 + 1 }];
    for (left, right, number) in pairs {
        let mut at = slot_of(pair_hash(left, right), slots.len());
        while slots[at] != u64::MAX {
            at = (at + 1) % slots.len();
        }
        slots[at] = u64::from(number) << 42 | u64::from(left) << 21 | u64::from(right);
    }
    slots.iter().flat_map(|slot| slot.to_le_bytes()).collect()
}

impl Builder {
    /// A builder whose strings begin with these.
    pub fn new(heads: &[String]) -> Self {
        let mut builder = Self { strings: heads.concat().into_bytes(), ..Self::default() };
        builder.set(&unicode::white_space());
        builder.set(&unicode::regex_word());
        builder
    }

    /// A new node of a trie.
    pub fn node(&mut self) -> u32 {
        self.nodes += 1;
        pair::NODE + self.nodes
    }

    /// Adds a key to the trie of `root`; where one key begins another, the shorter counts. False: the string is too long.
    #[must_use]
    pub fn becomes(&mut self, root: u32, key: &[u32], text: &[u8]) -> bool {
        let Some((last, start)) = key.split_last().filter(|_| text.len() <= MAX_MEASURED) else { return false };
        let mut node = root;
        for unit in start {
            let next = self.pairs.get(&(node, *unit)).copied().unwrap_or_else(|| {
                let next = self.node();
                self.pairs.insert((node, *unit), next);
                next
            });
            if next & pair::END != 0 {
                return true;
            }
            node = next;
        }
        let offset = *self.measured.entry(text.to_vec()).or_insert_with(|| {
            self.strings.push(text.len() as u8);
            self.strings.extend_from_slice(text);
            (self.strings.len() - text.len() - 1) as u32
        });
        self.pairs.insert((node, *last), pair::END | offset);
        true
    }

    /// Adds a string and returns its offset and length.
    pub fn string(&mut self, bytes: &[u8]) -> (u32, u32) {
        let found = if bytes.len() < 32 { find(&self.strings, bytes) } else { None };
        let at = found.unwrap_or_else(|| {
            self.strings.extend_from_slice(bytes);
            self.strings.len() - bytes.len()
        });
        (at as u32, bytes.len() as u32)
    }

    fn set(&mut self, set: &Set) {
        if !self.sets.contains(set) {
            self.sets.push(set.clone());
        }
    }

    /// Adds a pattern and returns the number of its automaton.
    pub fn pattern(&mut self, node: Node) -> u32 {
        let mut sets = Vec::new();
        automaton::sets(&node, &mut sets);
        sets.iter().for_each(|set| self.set(set));
        if let Some(at) = self.patterns.iter().position(|p| *p == node) {
            return at as u32;
        }
        self.patterns.push(node);
        self.patterns.len() as u32 - 1
    }

    /// Sets a table.
    pub fn table(&mut self, number: usize, bytes: Vec<u8>) {
        self.tables.retain(|(n, _)| *n != number);
        self.tables.push((number, bytes));
    }

    /// The tables that do not depend on the model: classes, automata, steps.
    ///
    /// # Errors
    /// A pattern that cannot become an automaton, or too many classes.
    pub fn close(&mut self) -> Result<Sizes, String> {
        let partition = Partition::new(&self.sets).ok_or("more than 255 classes of code points")?;
        let mut pages: Vec<u8> = Vec::new();
        let mut index = Vec::new();
        let mut known = HashMap::new();
        let mut range = 0;
        for page in 0..0x11_0000 / PAGE as u32 {
            let classes: Vec<u8> = (page * PAGE as u32..(page + 1) * PAGE as u32)
                .map(|code| {
                    while partition.ranges[range].1 < code {
                        range += 1;
                    }
                    partition.ranges[range].2
                })
                .collect();
            let number = *known.entry(classes.clone()).or_insert_with(|| {
                pages.extend_from_slice(&classes);
                pages.len() / PAGE - 1
            });
            index.extend_from_slice(&(number as u16).to_le_bytes());
        }
        let byte_classes = (0..=255u8).map(|b| partition.class(super::bytes::to_char(b) as u32)).collect();
        let mut automata: Vec<Vec<u8>> = Vec::new();
        let mut states = 0;
        for node in &self.patterns {
            let automaton = automaton::compile(node, &self.sets, &partition)?;
            let rows = automaton.starts.iter().chain(&automaton.transitions[partition.count + 1..]);
            let words = std::iter::once(u16::from(automaton.looks_back)).chain(rows.copied());
            automata.push(words.flat_map(u16::to_le_bytes).collect());
            states += automaton.states;
        }
        let mut flags = [0u8; 256];
        for (set, flag) in [(unicode::white_space(), class::SPACE), (unicode::regex_word(), class::WORD)] {
            let i = self.sets.iter().position(|s| *s == set).unwrap_or_default();
            for (class, _) in partition.members[i].iter().enumerate().filter(|(_, member)| **member) {
                flags[class] |= flag;
            }
        }
        let (automata, transitions) = spans(automata.iter().map(Vec::as_slice));
        let sizes = Sizes { classes: partition.count, automata: self.patterns.len(), states };
        self.table(table::CLASS_INDEX, index);
        self.table(table::CLASS_PAGES, pages);
        self.table(table::BYTE_CLASSES, byte_classes);
        self.table(table::CLASS_FLAGS, flags.to_vec());
        self.table(table::AUTOMATA, automata);
        self.table(table::TRANSITIONS, transitions);
        self.table(table::NORMALIZER, le32(self.normalizer.iter().flat_map(Step::words)));
        self.table(table::PRE_TOKENIZER, le32(self.stages.iter().flat_map(Step::words)));
        self.table(table::AFFIXES, le32(self.affixes.iter().copied()));
        Ok(sizes)
    }

    /// The section's bytes.
    ///
    /// # Errors
    /// Tries with more nodes or strings with more bytes than the pairs can name.
    pub fn write(&self, header: &Header) -> Result<Vec<u8>, String> {
        if pair::NODE + self.nodes >= pair::CLASS || self.strings.len() > MAX_ID as usize {
            return Err("a map of this size".into());
        }
        let pairs = pair_slots(self.pairs.iter().map(|((left, right), value)| (*left, *right, *value)));
        let magic = match header.kind {
            Kind::Bpe => field::BPE,
            Kind::Unigram => field::UNIGRAM,
            Kind::WordPiece => field::WORD_PIECE,
            Kind::WordLevel => field::WORD_LEVEL,
            Kind::Bytes => field::BYTES,
        };
        let mut body = Vec::new();
        let mut directory = Vec::new();
        for number in 0..table::COUNT {
            let bytes: &[u8] = match number {
                table::STRINGS => &self.strings,
                table::PAIRS => &pairs,
                _ => self.tables.iter().find(|(n, _)| *n == number).map_or(&[], |(_, bytes)| bytes),
            };
            body.resize(body.len().next_multiple_of(8), 0);
            directory.extend([(field::HEADER_LEN + body.len()) as u32, bytes.len() as u32]);
            body.extend_from_slice(bytes);
        }
        let length = (field::HEADER_LEN + body.len()) as u32;
        let mut out = Vec::with_capacity(length as usize);
        out.extend(magic);
        let h = header;
        out.extend(le32([
            field::VERSION,
            length,
            h.flags,
            h.id_count,
            h.special_count,
            h.unicode,
            h.unk,
            h.class_count,
            h.max_token,
            h.growth,
            h.growth_fixed,
            h.growth_units,
            h.merge_base,
            h.merge_count,
            h.max_word_chars,
        ]));
        out.extend(le32(h.head_lens.into_iter().chain([h.decode_flags, h.strip, h.strip_start, h.strip_stop, 0])));
        out.extend(h.unk_score.to_le_bytes());
        out.extend(le32(directory));
        out.extend(body);
        Ok(out)
    }
}

fn find(all: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    all.windows(part.len()).position(|w| w == part)
}

const _: () = assert!(NONE == u32::MAX);

impl Builder {
    /// Whether a table holds exactly these bytes.
    pub fn holds(&self, number: usize, bytes: &[u8]) -> bool {
        self.tables.iter().any(|(n, table)| *n == number && table == bytes)
    }
}
