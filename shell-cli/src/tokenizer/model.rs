//! The model: vocabulary and merges as tables.

use super::build::{Builder, le32, pair_slots, spans};
use super::json::{Merge, Model, Vocab};
use super::{bytes, refuse};
use crate::failure::Failure;
use std::collections::HashMap;
use tinyrustlm_core::tokenizer::section::{Header, Kind, MAX_ID, MAX_RANK, NONE, flag, head, pair, table};
use tinyrustlm_core::tokenizer::{Hash, WHOLE, fingerprint, slot_of};

/// A model that has been read and checked.
#[derive(Debug)]
pub struct Read {
    /// Which model.
    pub kind: Kind,
    /// Texts by id as the file spells them; `None` where an id has none.
    pub texts: Vec<Option<String>>,
    /// Ids by text.
    pub ids: HashMap<String, u32>,
    /// Number of tokens the reference counts.
    pub size: u32,
    /// (left, right, result) in order of rank.
    pub merges: Vec<(u32, u32, u32)>,
    /// Merges that occur twice; the last rank counts.
    pub repeated_merges: usize,
    /// The header with all that the model decides.
    pub header: Header,
    /// Scores by id.
    pub scores: Vec<f64>,
    /// Prefix of units after the first.
    pub prefix: String,
    /// Suffix of the last unit.
    pub suffix: String,
    fallback: Vec<u32>,
}

/// Reads a model.
pub fn read(model: &Model, byte_units: bool) -> Result<Read, Failure> {
    let kind = match model.kind.as_deref() {
        Some("BPE") => Kind::Bpe,
        Some("Unigram") => Kind::Unigram,
        Some("WordPiece") => Kind::WordPiece,
        Some("WordLevel") => Kind::WordLevel,
        Some(other) => return Err(refuse("model", format!("type {other}"))),
        // Older files do not say; the reference takes the first kind whose fields are there.
        None if model.merges.is_some() => Kind::Bpe,
        None if model.max_input_chars_per_word.is_some() => Kind::WordPiece,
        None if matches!(model.vocab, Vocab::Scores(_)) => Kind::Unigram,
        None => Kind::WordLevel,
    };
    if model.dropout.is_some_and(|p| p != 0.0) {
        return Err(refuse("model.dropout", "merges left out at random"));
    }
    let mut texts: Vec<Option<String>> = Vec::new();
    let mut ids = HashMap::new();
    let mut scores = Vec::new();
    match &model.vocab {
        Vocab::Ids(all) if kind != Kind::Unigram => {
            for (i, (text, id)) in all.iter().enumerate() {
                let at = format!("entry {i} {text:?}");
                let id = u32::try_from(*id).ok().filter(|id| *id < MAX_ID);
                let id = id.ok_or_else(|| super::malformed("model.vocab", format!("{at}: id out of range")))?;
                if ids.insert(text.clone(), id).is_some() {
                    return Err(super::malformed("model.vocab", format!("{at}: the token occurs twice")));
                }
                if texts.len() <= id as usize {
                    texts.resize(id as usize + 1, None);
                }
                if texts[id as usize].replace(text.clone()).is_some() {
                    return Err(super::malformed("model.vocab", format!("{at}: id {id} occurs twice")));
                }
            }
            // Ids may have gaps, but not so many that the table is mostly air.
            if texts.len() > 2 * all.len() + 4096 {
                return Err(super::malformed(
                    "model.vocab",
                    format!("id {} among {} tokens", texts.len() - 1, all.len()),
                ));
            }
        }
        Vocab::Scores(all) if kind == Kind::Unigram => {
            for (i, (text, score)) in all.iter().enumerate() {
                if !score.is_finite() {
                    return Err(super::malformed("model.vocab", format!("entry {i} {text:?}: score {score}")));
                }
                ids.insert(text.clone(), i as u32);
                texts.push(Some(text.clone()));
                scores.push(*score);
            }
        }
        _ => return Err(super::malformed("model.vocab", "not what this kind of model has")),
    }
    let size = ids.len() as u32;
    let size = if kind == Kind::Unigram { texts.len() as u32 } else { size };
    let prefix = model.continuing_subword_prefix.clone().unwrap_or_default();
    let suffix = model.end_of_word_suffix.clone().unwrap_or_default();
    if kind == Kind::WordPiece && (model.continuing_subword_prefix.is_none() || model.unk_token.is_none()) {
        return Err(super::malformed("model", "a word-piece model without unk_token or continuing_subword_prefix"));
    }
    let unk = match kind {
        Kind::Unigram => match model.unk_id {
            None => None,
            Some(id) if (id as usize) < texts.len() => Some(id as u32),
            Some(id) => return Err(super::malformed("model.unk_id", format!("{id} of {} tokens", texts.len()))),
        },
        _ => model.unk_token.as_ref().and_then(|text| ids.get(text).copied()),
    };
    let mut flags = 0;
    let mut set = |on: bool, bit: u32| flags |= if on { bit } else { 0 };
    set(byte_units, flag::BYTE_UNITS);
    set(kind == Kind::Bpe && model.ignore_merges == Some(true), flag::IGNORE_MERGES);
    set(kind == Kind::Bpe && model.fuse_unk == Some(true), flag::FUSE_UNK);
    let byte_fallback = matches!(kind, Kind::Bpe | Kind::Unigram) && model.byte_fallback == Some(true);
    set(byte_fallback, flag::BYTE_FALLBACK);
    set(model.unk_token.is_some(), flag::HAS_UNK);
    // A word-level model is one without units: a piece is a token, or all of it unknown.
    set(kind == Kind::WordLevel, flag::IGNORE_MERGES | flag::FUSE_UNK | flag::HAS_UNK);
    let mut fallback = Vec::new();
    if byte_fallback {
        for byte in 0..=255u8 {
            let text = format!("<0x{byte:02X}>");
            let id = ids.get(&text);
            fallback.push(*id.ok_or_else(|| super::malformed("model.vocab", format!("byte_fallback without {text}")))?);
        }
    }
    let mut merges = Vec::new();
    let mut repeated_merges = 0;
    if kind == Kind::Bpe {
        let list = model.merges.as_deref().ok_or_else(|| super::malformed("model.merges", "missing"))?;
        let mut at_pair: HashMap<(u32, u32), usize> = HashMap::with_capacity(list.len());
        let mut rank = 0usize;
        for (i, merge) in list.iter().enumerate() {
            let (left, right) = match merge {
                Merge::Pair(left, right) => (left.as_str(), right.as_str()),
                Merge::Line(line) if line.starts_with("#version") => continue,
                Merge::Line(line) => match line.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => (left, right),
                    _ => return Err(super::malformed("model.merges", format!("merge {i}: {line:?} is no pair"))),
                },
            };
            let id = |text: &str| {
                ids.get(text).copied().ok_or_else(|| {
                    super::malformed("model.merges", format!("merge {i}: {text:?} is not in the vocabulary"))
                })
            };
            let tail = right.strip_prefix(prefix.as_str()).or_else(|| right.get(prefix.len()..));
            let tail =
                tail.ok_or_else(|| super::malformed("model.merges", format!("merge {i}: {right:?} without prefix")))?;
            let merged = (id(left)?, id(right)?, id(&format!("{left}{tail}"))?);
            if let Some(before) = at_pair.insert((merged.0, merged.1), rank) {
                repeated_merges += 1;
                debug_assert!(before < rank);
            }
            merges.push(merged);
            rank += 1;
        }
        if merges.len() as u64 > u64::from(MAX_RANK) {
            return Err(refuse("model.merges", format!("{} merges", merges.len())));
        }
    }
    let min_score = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let header = Header {
        kind,
        flags,
        id_count: texts.len() as u32,
        special_count: 0,
        unicode: super::unicode::VERSION,
        unk: unk.unwrap_or(NONE),
        class_count: 0,
        max_token: 0,
        growth: 1,
        growth_fixed: 0,
        growth_units: 1,
        merge_base: NONE,
        merge_count: merges.len() as u32,
        max_word_chars: u32::try_from(model.max_input_chars_per_word.unwrap_or(100)).unwrap_or(u32::MAX),
        head_lens: [0; head::COUNT],
        decode_flags: 0,
        strip: 0,
        strip_start: 0,
        strip_stop: 0,
        unk_score: if scores.is_empty() { 0.0 } else { min_score - 10.0 },
    };
    Ok(Read { kind, texts, ids, size, merges, repeated_merges, header, scores, prefix, suffix, fallback })
}

impl Read {
    /// Bytes of a token as the model meets them, or `None` where it never does.
    pub fn model_bytes(&self, text: &str) -> Option<Vec<u8>> {
        if self.header.flags & flag::BYTE_UNITS != 0 { bytes::from_str(text) } else { Some(text.as_bytes().to_vec()) }
    }

    /// Writes the model's tables, with `id_count` ids. `whole` says which tokens the model makes of their own bytes;
    /// `other` gives the text of an id that the model cannot meet.
    pub fn tables(
        &mut self,
        builder: &mut Builder,
        id_count: u32,
        whole: impl Fn(u32) -> bool,
        other: impl Fn(u32) -> Vec<u8>,
    ) {
        let n = id_count as usize;
        self.header.id_count = id_count;
        let found: Vec<Option<Vec<u8>>> =
            self.texts.iter().map(|text| text.as_deref().and_then(|text| self.model_bytes(text))).collect();
        let texts: Vec<Vec<u8>> =
            (0..n).map(|id| found.get(id).cloned().flatten().unwrap_or_else(|| other(id as u32))).collect();
        let (offsets, blob) = spans(texts.iter().map(Vec::as_slice));
        builder.table(table::OFFSETS, offsets);
        builder.table(table::BYTES, blob);

        // Of a text that stands twice in a list, the last id counts.
        let reachable = |id: usize| {
            let text = self.texts.get(id)?.as_deref()?;
            if self.ids.get(text) != Some(&(id as u32)) {
                return None;
            }
            found.get(id)?.as_deref()
        };
        self.header.max_token = (0..n).filter_map(reachable).map(<[u8]>::len).max().unwrap_or(0) as u32;
        let count = (0..n).filter(|id| reachable(*id).is_some()).count();
        let mut slots = vec![NONE; count + count / 4 + 1];
        for id in 0..n {
            if let Some(text) = reachable(id) {
                let mixed = Hash::EMPTY.with(text).mixed();
                let mut at = slot_of(mixed, slots.len());
                while slots[at] != NONE {
                    at = (at + 1) % slots.len();
                }
                slots[at] = fingerprint(mixed) << 22 | if whole(id as u32) { WHOLE } else { 0 } | id as u32;
            }
        }
        builder.table(table::VOCAB, le32(slots));

        let mut by_pair: HashMap<(u32, u32), u32> = HashMap::with_capacity(self.merges.len());
        for (rank, (left, right, _)) in self.merges.iter().enumerate() {
            by_pair.insert((*left, *right), rank as u32);
        }
        builder.table(table::MERGES, pair_slots(by_pair.iter().map(|((left, right), rank)| (*left, *right, *rank))));
        // Most vocabularies number the results in order of rank; then no table is needed.
        let base = self.merges.first().map_or(0, |m| m.2);
        if self.merges.iter().enumerate().all(|(rank, m)| m.2 as usize == base as usize + rank) {
            self.header.merge_base = base;
            builder.table(table::MERGE_IDS, Vec::new());
        } else {
            self.header.merge_base = NONE;
            builder.table(table::MERGE_IDS, le32(self.merges.iter().map(|m| m.2)));
        }
        let scores = |id: usize| self.scores.get(id).copied().unwrap_or(0.0);
        let all = if self.kind == Kind::Unigram { n } else { 0 };
        builder.table(table::SCORES, (0..all).flat_map(|id| scores(id).to_le_bytes()).collect());
        let unit = |byte: u8| -> u32 {
            if self.kind == Kind::WordLevel {
                return NONE;
            }
            let c = if self.header.flags & flag::BYTE_UNITS != 0 {
                bytes::to_char(byte)
            } else if byte < 0x80 {
                char::from(byte)
            } else {
                return NONE;
            };
            self.ids.get(c.encode_utf8(&mut [0; 4]) as &str).copied().unwrap_or(NONE)
        };
        builder.table(table::UNIT_IDS, le32((0..=255).map(unit)));
        builder.table(table::FALLBACK_IDS, le32(self.fallback.iter().copied()));
        if self.kind == Kind::Bpe {
            for id in 0..n {
                if let Some(text) = reachable(id) {
                    self.unit(builder, text, id as u32);
                }
            }
        }
    }

    /// Writes a token that is one unit, with the prefix and the suffix where it has them.
    fn unit(&self, builder: &mut Builder, text: &[u8], id: u32) {
        let byte_units = self.header.flags & flag::BYTE_UNITS != 0;
        for place in 0..4 {
            let part = |on: bool, part: &str| if on { part.as_bytes().to_vec() } else { Vec::new() };
            let (before, after) = (part(place & 1 != 0, &self.prefix), part(place & 2 != 0, &self.suffix));
            if place & 1 != 0 && before.is_empty() || place & 2 != 0 && after.is_empty() {
                continue;
            }
            let unit = text.strip_prefix(&before[..]).and_then(|text| text.strip_suffix(&after[..]));
            let code = match unit {
                Some([byte]) if byte_units || *byte < 0x80 => u32::from(*byte),
                Some(unit) if !byte_units => {
                    let mut chars = std::str::from_utf8(unit).unwrap_or("").chars();
                    match (chars.next(), chars.next()) {
                        (Some(c), None) => c as u32,
                        _ => continue,
                    }
                }
                _ => continue,
            };
            builder.pairs.insert((code, pair::UNIT + place), id);
        }
    }

    /// A character that no merge joins to another one before it, if the usual one is such: pieces may be cut there.
    pub fn split_before(&self) -> Option<char> {
        let mark = '\u{2581}';
        if self.kind != Kind::Bpe || self.header.flags & (flag::BYTE_UNITS | flag::IGNORE_MERGES) != 0 {
            return None;
        }
        if !self.prefix.is_empty() || !self.suffix.is_empty() || !self.ids.contains_key("\u{2581}") {
            return None;
        }
        let joins = |id: u32| {
            let text = self.texts[id as usize].as_deref().unwrap_or("");
            text.trim_start_matches(mark).contains(mark)
        };
        (!self.merges.iter().any(|m| joins(m.2))).then_some(mark)
    }
}
