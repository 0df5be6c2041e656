//! Added tokens: their ids, as the reference gives them out, and their tables.

use super::build::Builder;
use super::json::AddedToken;
use super::model::Read;
use super::{malformed, refuse};
use crate::failure::Failure;
use std::collections::{BTreeMap, HashMap, HashSet};
use tinyrustlm_core::tokenizer::added_flag;
use tinyrustlm_core::tokenizer::section::{MAX_ID, table};

/// The added tokens with their ids.
#[derive(Debug, Default)]
pub struct Added {
    /// The token that holds an id.
    pub by_id: BTreeMap<u32, AddedToken>,
    /// Contents of special tokens.
    pub special: HashSet<String>,
    /// Tokens whose declared id is not the one they get: content, declared, given.
    pub moved: Vec<(String, u32, u32)>,
}

/// Gives out the ids.
pub fn read(tokens: &[AddedToken], model: &Read) -> Result<Added, Failure> {
    let mut added = Added::default();
    let mut by_content: HashMap<&str, u32> = HashMap::new();
    let mut next = model.size;
    for (i, token) in tokens.iter().enumerate() {
        if token.content.is_empty() {
            continue;
        }
        let known = by_content.get(token.content.as_str()).or_else(|| model.ids.get(&token.content)).copied();
        let id = known.unwrap_or_else(|| {
            next += 1;
            next - 1
        });
        let at = || format!("added_tokens[{i}] {:?}", token.content);
        if id >= MAX_ID {
            return Err(malformed("added_tokens", format!("{}: id {id} is out of range", at())));
        }
        if known.is_none() && model.texts.get(id as usize).is_some_and(Option::is_some) {
            // The vocabulary has gaps, and the reference would give out an id that is taken.
            return Err(malformed("added_tokens", format!("{}: its id {id} belongs to another token", at())));
        }
        if id != token.id {
            added.moved.push((token.content.clone(), token.id, id));
        }
        by_content.insert(&token.content, id);
        if token.special {
            added.special.insert(token.content.clone());
        }
        added.by_id.insert(id, token.clone());
    }
    Ok(added)
}

impl Added {
    /// Writes the two tables. `normalized`: what the normalizer makes of a token's content.
    pub fn tables(&self, builder: &mut Builder, normalized: &HashMap<u32, String>) -> Result<(), Failure> {
        for (number, side) in [(table::ADDED_RAW, false), (table::ADDED_NORMALIZED, true)] {
            let mut entries: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
            for (id, token) in self.by_id.iter().filter(|(_, token)| token.normalized == side) {
                let content = normalized.get(id).filter(|_| side).unwrap_or(&token.content);
                if content.is_empty() {
                    return Err(refuse("added_tokens", format!("{:?} is empty once normalised", token.content)));
                }
                let bit = |on: bool, bit: u32| if on { bit } else { 0 };
                let flags = bit(token.single_word, added_flag::SINGLE_WORD)
                    | bit(token.lstrip, added_flag::LSTRIP)
                    | bit(token.rstrip, added_flag::RSTRIP)
                    | bit(self.special.contains(&token.content), added_flag::SPECIAL);
                if entries.insert(content, [*id, flags]).is_some() {
                    return Err(malformed("added_tokens", format!("{content:?} stands for two ids")));
                }
            }
            let mut head = [0u8; 32];
            let root = builder.node();
            let ends: Vec<u32> = entries.iter().map(|_| builder.node()).collect();
            let mut words = vec![root];
            // Shorter tokens first: their nodes are on the way of longer ones.
            for ((content, [id, flags]), end) in entries.iter().zip(ends) {
                let (last, start) = content.as_bytes().split_last().unwrap_or((&0, &[]));
                let mut node = root;
                for byte in start {
                    let key = (node, u32::from(*byte));
                    node = builder.pairs.get(&key).copied().unwrap_or_else(|| builder.node());
                    builder.pairs.insert(key, node);
                }
                builder.pairs.insert((node, u32::from(*last)), end);
                let first = content.as_bytes()[0];
                head[usize::from(first >> 3)] |= 1 << (first & 7);
                words.push(id | flags);
            }
            let table = if entries.is_empty() { Vec::new() } else { [&head[..], &super::build::le32(words)].concat() };
            builder.table(number, table);
        }
        Ok(())
    }
}
