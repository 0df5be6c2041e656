//! The parts of a section while it is being built, and how they are written.

use super::automaton;
use super::pattern::Node;
use super::sets::{Partition, Set};
use super::unicode;
use tinyrustlm_core::tokenizer::section::{Header, Kind, NONE, PAGE, field, table};

/// A section in the making: sets and patterns are collected first, numbers are given when it is written.
#[derive(Debug, Default)]
pub struct Builder {
    strings: Vec<u8>,
    sets: Vec<Set>,
    masks: Vec<Set>,
    patterns: Vec<Node>,
    /// Normalizer steps of eight words.
    pub normalizer: Vec<[u32; 8]>,
    /// The normalizer's data.
    pub data: Vec<u32>,
    /// Pre-tokenizer stages of eight words.
    pub stages: Vec<[u32; 8]>,
    /// The decoder's record.
    pub decoder: Vec<u32>,
    /// Count of ids before the text, those ids, the ids after it.
    pub affixes: Vec<u32>,
    /// All other tables, by number.
    pub tables: Vec<(usize, Vec<u8>)>,
}

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

impl Builder {
    /// A builder whose strings begin with the model's prefix and suffix.
    pub fn new(prefix: &str, suffix: &str) -> Self {
        let mut builder = Self::default();
        builder.strings.extend_from_slice(prefix.as_bytes());
        builder.strings.extend_from_slice(suffix.as_bytes());
        builder.mask(unicode::white_space());
        builder.mask(unicode::regex_word());
        builder
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

    /// Adds a string without looking whether it is there.
    pub fn append(&mut self, bytes: &[u8]) -> (u32, u32) {
        self.strings.extend_from_slice(bytes);
        ((self.strings.len() - bytes.len()) as u32, bytes.len() as u32)
    }

    fn set(&mut self, set: &Set) {
        if !self.sets.contains(set) {
            self.sets.push(set.clone());
        }
    }

    /// Adds a mask and returns its number.
    pub fn mask(&mut self, set: Set) -> u32 {
        self.set(&set);
        if let Some(at) = self.masks.iter().position(|m| *m == set) {
            return at as u32;
        }
        self.masks.push(set);
        self.masks.len() as u32 - 1
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

    /// The tables that do not depend on the model: classes, automata, masks, steps.
    ///
    /// # Errors
    /// A pattern that cannot become an automaton, or too many classes.
    pub fn close(&mut self) -> Result<Sizes, String> {
        let partition = Partition::new(&self.sets).ok_or("more than 255 classes of code points")?;
        let mut pages: Vec<u8> = Vec::new();
        let mut index = Vec::new();
        let mut known = std::collections::HashMap::new();
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
        let mut records = Vec::new();
        let mut transitions: Vec<u16> = Vec::new();
        let mut states = 0;
        for node in &self.patterns {
            let automaton = automaton::compile(node, &self.sets, &partition)?;
            records.extend([transitions.len() as u32, automaton.states as u32, u32::from(automaton.looks_back), 0]);
            transitions.extend(&automaton.starts);
            transitions.extend(&automaton.transitions);
            states += automaton.states;
        }
        let mut masks = Vec::new();
        for set in &self.masks {
            let i = self.sets.iter().position(|s| s == set).unwrap_or_default();
            let mut mask = [0u8; 32];
            for (class, _) in partition.members[i].iter().enumerate().filter(|(_, member)| **member) {
                mask[class / 8] |= 1 << (class % 8);
            }
            masks.extend(mask);
        }
        let sizes = Sizes { classes: partition.count, automata: self.patterns.len(), states };
        self.table(table::CLASS_INDEX, index);
        self.table(table::CLASS_PAGES, pages);
        self.table(table::BYTE_CLASSES, byte_classes);
        self.table(table::AUTOMATA, le32(records));
        self.table(table::TRANSITIONS, transitions.iter().flat_map(|t| t.to_le_bytes()).collect());
        self.table(table::MASKS, masks);
        self.table(table::NORMALIZER, le32(self.normalizer.iter().flatten().copied()));
        self.table(table::NORMALIZER_DATA, le32(self.data.iter().copied()));
        self.table(table::PRE_TOKENIZER, le32(self.stages.iter().flatten().copied()));
        self.table(table::DECODER, le32(self.decoder.iter().copied()));
        self.table(table::AFFIXES, le32(self.affixes.iter().copied()));
        Ok(sizes)
    }

    /// The section's bytes.
    pub fn write(&self, header: &Header) -> Vec<u8> {
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
            h.split_before,
            h.merge_base,
            h.merge_count,
            h.max_word_chars,
            h.prefix_len,
            h.suffix_len,
        ]));
        out.extend(h.unk_score.to_le_bytes());
        out.resize(field::HEADER_LEN - 8 * table::COUNT, 0);
        out.extend(le32(directory));
        out.extend(body);
        out
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
