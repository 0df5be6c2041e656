//! What a compiled tokenizer does, stage by stage, read from the section alone.

use serde_json::{Value, json};
use tinyrustlm_core::tokenizer::section::{Header, NONE, Section, flag, head, step, step_flag, table};
use tinyrustlm_core::tokenizer::{Tokenizer, decoder_flag};

/// Names of the tables, by number.
const TABLES: [&str; table::COUNT] = [
    "offsets",
    "bytes",
    "flags",
    "vocab",
    "merges",
    "merge_ids",
    "scores",
    "unit_ids",
    "fallback_ids",
    "class_index",
    "class_pages",
    "byte_classes",
    "class_flags",
    "automata",
    "transitions",
    "normalizer",
    "pre_tokenizer",
    "pairs",
    "strings",
    "added_raw",
    "added_normalized",
    "affixes",
    "inner_offsets",
    "inner_bytes",
    "first_offsets",
    "first_bytes",
    "last_offsets",
    "last_bytes",
    "only_offsets",
    "only_bytes",
];

/// Describes each stage.
pub fn describe(tokenizer: &Tokenizer<'_>) -> Value {
    let section = tokenizer.section();
    let h = &section.header();
    let tables: serde_json::Map<String, Value> = TABLES
        .iter()
        .enumerate()
        .map(|(number, name)| ((*name).to_owned(), section.table(number).len().into()))
        .filter(|(_, len): &(String, Value)| *len != 0)
        .collect();
    let affixes: Vec<u32> = section.words(table::AFFIXES).iter32().collect();
    let added: Vec<Value> = [(table::ADDED_RAW, "raw"), (table::ADDED_NORMALIZED, "normalized")]
        .iter()
        .map(|(number, name)| json!({"text": name, "count": section.table(*number).len().saturating_sub(36) / 4}))
        .collect();
    let before = affixes.first().map_or(0, |count| *count as usize);
    json!({
        "model": model(section, h),
        "unicode": format!("{}.{}.{}", h.unicode >> 16, h.unicode >> 8 & 0xFF, h.unicode & 0xFF),
        "classes": h.class_count,
        "normalizer": records(section, table::NORMALIZER).map(|words| step(section, &words)).collect::<Vec<_>>(),
        "added_tokens": added,
        "pre_tokenizer": records(section, table::PRE_TOKENIZER).map(|words| step(section, &words)).collect::<Vec<_>>(),
        "before": affixes.iter().skip(1).take(before).collect::<Vec<_>>(),
        "after": affixes.iter().skip(1 + before).collect::<Vec<_>>(),
        "decoder": decoder(section, h),
        "tables": tables,
    })
}

fn records(section: &Section<'_>, number: usize) -> impl Iterator<Item = Vec<u32>> {
    let words: Vec<u32> = section.words(number).iter32().collect();
    words.chunks_exact(step::WORDS).map(<[u32]>::to_vec).collect::<Vec<_>>().into_iter()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn names(bits: u32, all: &[(u32, &str)]) -> Vec<String> {
    all.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| (*name).to_owned()).collect()
}

fn model(section: &Section<'_>, h: &Header) -> Value {
    let flags = [
        (flag::BYTE_UNITS, "byte_units"),
        (flag::IGNORE_MERGES, "ignore_merges"),
        (flag::FUSE_UNK, "fuse_unk"),
        (flag::BYTE_FALLBACK, "byte_fallback"),
        (flag::HAS_UNK, "has_unk"),
    ];
    json!({
        "kind": format!("{:?}", h.kind),
        "flags": names(h.flags, &flags),
        "ids": h.id_count,
        "special": h.special_count,
        "merges": h.merge_count,
        "unk": (h.unk != NONE).then_some(h.unk),
        "prefix": text(section.head(head::PREFIX)),
        "suffix": text(section.head(head::SUFFIX)),
        "longest_token": h.max_token,
        "growth": h.growth,
    })
}

/// A step of the normalizer or a stage of the pre-tokenizer.
fn step(section: &Section<'_>, words: &[u32]) -> Value {
    let [kind, automaton, flags, root, offset, len] = words else { return Value::Null };
    let flags_named = [
        (step_flag::BYTES, "bytes"),
        (step_flag::DROP_REST, "drop_rest"),
        (step_flag::DROP_MATCH, "drop_match"),
        (step_flag::JOIN_REST, "join_rest"),
        (step_flag::JOIN_MATCH, "join_match"),
        (step_flag::KEEP, "keep"),
        (step_flag::FIRST, "first"),
        (step_flag::COMPOSE, "compose"),
    ];
    let width = 2 * (section.header().class_count as usize + 1);
    let name = match *kind {
        step::SPLIT => "split",
        step::CHANGE => "change",
        _ => "canonical",
    };
    json!({name: {
        "automaton": automaton,
        "states": section.item(table::AUTOMATA, *automaton).len() / width,
        "flags": names(*flags, &flags_named),
        "looks_up": *root != 0,
        "text": text(section.string(*offset, *len)),
    }})
}

fn decoder(section: &Section<'_>, h: &Header) -> Value {
    let flags = [
        (decoder_flag::LOSSY, "byte_level"),
        (decoder_flag::HOLD, "last_differs"),
        (decoder_flag::DEDUP, "drops_repeats"),
        (decoder_flag::BYTE_RUNS, "byte_fallback"),
    ];
    let texts = ["inner", "first", "last", "only"];
    json!({
        "flags": names(h.decode_flags, &flags),
        "strip": {"char": char::from_u32(h.strip), "start": h.strip_start, "stop": h.strip_stop},
        "in_runs": {"from": text(section.head(head::PATTERN)), "to": text(section.head(head::CONTENT)),
            "first": text(section.head(head::FIRST))},
        "own_texts": (0..4).filter(|i| !section.table(table::PIECES + 2 * i).is_empty()).map(|i| texts[i]).collect::<Vec<_>>(),
    })
}
