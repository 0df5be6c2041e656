//! The tokenizer compiler: `tokenizer.json` in, the section of SPEC 7 out.
//!
//! Everything that needs Unicode data or patterns happens here. What the file declares and the tables cannot express is
//! refused with the component's name; what contradicts itself is malformed, with the component and the place.

mod added;
mod automaton;
mod build;
mod bytes;
mod decoder;
mod describe;
mod grapheme;
mod json;
mod model;
mod normalizer;
mod pattern;
mod post_processor;
mod pre_tokenizer;
mod scripts;
mod sets;
mod source;
mod unicode;

pub use describe::describe;
pub use source::{Opened, open};

use crate::failure::{Failure, Kind};
use build::{Builder, spans};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Display;
use tinyrustlm_core::tokenizer::section::{table, token};
use tinyrustlm_core::tokenizer::{Encode, Stage, Tokenizer};

/// A compiled tokenizer.
#[derive(Debug)]
pub struct Compiled {
    /// The section of the container.
    pub section: Vec<u8>,
    /// Ids are below this.
    pub vocab_size: u32,
    /// Special tokens.
    pub special_count: u32,
    /// What was compiled, switched off or noticed; for the conversion's receipt.
    pub receipt: Value,
}

fn refuse(component: &str, what: impl Display) -> Failure {
    Failure::new(Kind::Unsupported, format!("tokenizer: {component}: {what} cannot be run exactly"))
}

fn malformed(component: &str, what: impl Display) -> Failure {
    Failure::new(Kind::Malformed, format!("tokenizer: {component}: {what}"))
}

/// The section of the byte tokenizer: bytes 0-255, BOS 256, EOS 257, PAD 258, UNK 259.
pub fn bytes_section() -> Vec<u8> {
    [&b"BTOK"[..], &build::le32([1, 260, 256, 257, 258, 259])].concat()
}

/// Compiles a `tokenizer.json`.
///
/// # Errors
/// [`Kind::Malformed`] for a damaged or contradictory file, [`Kind::Unsupported`] for a component that the tables
/// cannot express; both name the component and the place.
pub fn compile(tokenizer_json: &[u8]) -> Result<Compiled, Failure> {
    let file: json::File =
        serde_json::from_slice(tokenizer_json).map_err(|why| malformed("tokenizer.json", why.to_string()))?;
    if let Some(version) = file.version.as_deref().filter(|v| *v != "1.0") {
        return Err(refuse("version", version));
    }
    let byte_units = pre_tokenizer::has_bytes(&file.pre_tokenizer);
    let mut model = model::read(&file.model, byte_units)?;
    let added = added::read(&file.added_tokens, &model)?;
    let decoder = decoder::compile(&file.decoder)?;

    let [pattern, content, first] = decoder.rule.clone().unwrap_or_default();
    let heads = [model.prefix.clone(), model.suffix.clone(), pattern, content, first];
    model.header.head_lens = heads.each_ref().map(|text| text.len() as u32);
    let [flags, strip, start, stop] = decoder.record;
    (model.header.decode_flags, model.header.strip) = (flags, strip);
    (model.header.strip_start, model.header.strip_stop) = (start, stop);
    let mut builder = Builder::new(&heads);
    let ids = model.ids.clone();
    let known = |c: char| ids.contains_key(c.encode_utf8(&mut [0; 4]) as &str);
    let mut growth = normalizer::compile(&file.normalizer, &mut builder, &known)?;
    pre_tokenizer::compile(&file.pre_tokenizer, &mut builder, &mut growth, &known, model.split_before())?;
    if growth.bytes > 4096 || growth.units > 4096 {
        return Err(refuse("normalizer", format!("growth of a text to {} times its length", growth.bytes)));
    }
    model.header.growth = growth.bytes;
    model.header.growth_units = growth.units.min(growth.bytes);
    model.header.growth_fixed = growth.fixed;
    let last_added = added.by_id.keys().next_back().map_or(0, |id| id + 1);
    let id_count = (model.texts.len() as u32).max(last_added);
    if id_count == 0 {
        return Err(malformed("model.vocab", "empty"));
    }
    let affixes = post_processor::compile(&file.post_processor, id_count)?;
    builder.affixes.push(affixes.before.len() as u32);
    builder.affixes.extend(affixes.before.iter().chain(&affixes.after));
    let sizes = builder.close().map_err(|why| refuse("pre_tokenizer", why))?;
    model.header.class_count = sizes.classes as u32;

    // A first section without added tokens answers two questions by the core's own code: what the normalizer makes of
    // added tokens, and which tokens the merges make of their own bytes.
    model.tables(&mut builder, id_count, |_| false, |_| Vec::new());
    let strings: Vec<Option<String>> =
        (0..id_count).map(|id| model.texts.get(id as usize).cloned().flatten()).collect();
    texts(&mut builder, &mut model.header, &decoder, &strings, &|_, _| false);
    let draft = builder.write(&model.header).map_err(|why| refuse("tokenizer", why))?;
    let (normalized, whole) = {
        let tokenizer = parse(&draft)?;
        let normalized: HashMap<u32, String> = added
            .by_id
            .iter()
            .filter(|(_, token)| token.normalized)
            .map(|(id, token)| (*id, normalize(&tokenizer, &token.content)))
            .collect();
        let mut scratch = vec![0u32; tokenizer.scratch_words(model.header.max_token as usize + 1)];
        let whole: Vec<bool> = (0..id_count)
            .map(|id| {
                model.kind == tinyrustlm_core::tokenizer::section::Kind::Bpe
                    && tokenizer.merges_to_itself(id, &mut scratch)
            })
            .collect();
        (normalized, whole)
    };
    added.tables(&mut builder, &normalized)?;
    // A token's text when decoding: an added token's is what the normalizer makes of it.
    let strings: Vec<Option<String>> = (0..id_count)
        .map(|id| match added.by_id.get(&id) {
            Some(token) => Some(normalized.get(&id).unwrap_or(&token.content).clone()),
            None => strings[id as usize].clone(),
        })
        .collect();
    let special = |_: u32, text: &str| added.special.contains(text);
    let shown = |id: u32| {
        let text = strings[id as usize].as_deref().unwrap_or("");
        let bytes = if byte_units { bytes::from_str(text) } else { None };
        bytes.unwrap_or_else(|| text.as_bytes().to_vec())
    };
    model.tables(&mut builder, id_count, |id| whole[id as usize], shown);
    texts(&mut builder, &mut model.header, &decoder, &strings, &special);
    let section = builder.write(&model.header).map_err(|why| refuse("tokenizer", why))?;
    let header = parse(&section)?.section().header();

    let off = |value: &Value| if value.is_null() { Value::Null } else { json!("declared, switched off") };
    let receipt = json!({
        "source_sha256": hex(&Sha256::digest(tokenizer_json)),
        "section_sha256": hex(&Sha256::digest(&section)),
        "section_bytes": section.len(),
        "model": format!("{:?}", model.kind),
        "ids": id_count,
        "merges": model.merges.len(),
        "repeated_merges": model.repeated_merges,
        "added_tokens": added.by_id.len(),
        "special_tokens": header.special_count,
        "moved_ids": added.moved.iter().map(|(text, declared, given)| json!([text, declared, given])).collect::<Vec<_>>(),
        "classes": sizes.classes,
        "automata": sizes.automata,
        "states": sizes.states,
        "truncation": off(&file.truncation),
        "padding": off(&file.padding),
        "before": affixes.before,
        "after": affixes.after,
    });
    Ok(Compiled { section, vocab_size: id_count, special_count: header.special_count, receipt })
}

fn parse(section: &[u8]) -> Result<Tokenizer<'_>, Failure> {
    Tokenizer::parse(section)
        .map_err(|error| malformed("section", format!("the compiler wrote a section that fails: {error}")))
}

/// What the normalizer makes of a text, by the core.
fn normalize(tokenizer: &Tokenizer<'_>, text: &str) -> String {
    let mut out = Vec::new();
    let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
    let mut ids = vec![0; tokenizer.max_ids(text.len())];
    let mut observe = |stage: Stage<'_>| {
        if let Stage::Normalized(text) = stage {
            out.extend_from_slice(text);
        }
    };
    // The model may fail on it; the normalised text has been seen by then.
    let _ = tokenizer.encode_observed(text.as_bytes(), Encode::default(), &mut scratch, &mut ids, &mut observe);
    String::from_utf8(out).unwrap_or_default()
}

/// Writes the tokens' flags and texts in their places.
fn texts(
    builder: &mut Builder,
    header: &mut tinyrustlm_core::tokenizer::section::Header,
    decoder: &decoder::Decoder,
    strings: &[Option<String>],
    special: &dyn Fn(u32, &str) -> bool,
) {
    let mut flags = Vec::with_capacity(strings.len());
    header.special_count = 0;
    for (id, text) in strings.iter().enumerate() {
        let Some(text) = text else {
            flags.push(0);
            continue;
        };
        let mut bits = token::EXISTS;
        if special(id as u32, text) {
            bits |= token::SPECIAL;
            header.special_count += 1;
        }
        if decoder.token(text, 0).1.is_some() {
            bits |= token::BYTE;
        }
        flags.push(bits);
    }
    builder.table(table::FLAGS, flags);
    let mut inner = Vec::new();
    for place in 0..4 {
        let (offsets, blob) = (table::PIECES + 2 * place, table::PIECES + 2 * place + 1);
        builder.table(offsets, Vec::new());
        builder.table(blob, Vec::new());
        if place > 0 && !decoder.differs(place) {
            continue;
        }
        let pieces: Vec<Vec<u8>> = strings
            .iter()
            .map(|text| match text.as_deref().map(|text| decoder.token(text, place).0) {
                None => Vec::new(),
                Some(text) => text.into_bytes(),
            })
            .collect();
        let (starts, bytes) = spans(pieces.iter().map(Vec::as_slice));
        if place == 0 {
            inner = pieces;
            if builder.holds(table::OFFSETS, &starts) && builder.holds(table::BYTES, &bytes) {
                continue;
            }
        } else if pieces == inner {
            continue;
        }
        builder.table(offsets, starts);
        builder.table(blob, bytes);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
