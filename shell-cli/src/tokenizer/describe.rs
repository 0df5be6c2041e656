//! What a compiled tokenizer does, stage by stage, read from the section alone.

use serde_json::{Value, json};
use tinyrustlm_core::tokenizer::section::{Header, NONE, Section, flag, table};
use tinyrustlm_core::tokenizer::{Tokenizer, decoder_flag, split_flag, stage, step};

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
    "automata",
    "transitions",
    "masks",
    "normalizer",
    "normalizer_data",
    "pre_tokenizer",
    "strings",
    "added_raw",
    "added_normalized",
    "affixes",
    "decoder",
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
        .map(|(number, name)| json!({"text": name, "count": section.table(*number).len().saturating_sub(32) / 16}))
        .collect();
    let before = affixes.first().map_or(0, |count| *count as usize);
    json!({
        "model": model(section, h),
        "unicode": format!("{}.{}.{}", h.unicode >> 16, h.unicode >> 8 & 0xFF, h.unicode & 0xFF),
        "classes": h.class_count,
        "normalizer": records(section, table::NORMALIZER).map(|words| normalizer(section, &words)).collect::<Vec<_>>(),
        "added_tokens": added,
        "pre_tokenizer": records(section, table::PRE_TOKENIZER).map(|words| pre_tokenizer(section, &words)).collect::<Vec<_>>(),
        "before": affixes.iter().skip(1).take(before).collect::<Vec<_>>(),
        "after": affixes.iter().skip(1 + before).collect::<Vec<_>>(),
        "decoder": decoder(section),
        "tables": tables,
    })
}

fn records(section: &Section<'_>, number: usize) -> impl Iterator<Item = Vec<u32>> {
    let words: Vec<u32> = section.words(number).iter32().collect();
    words.chunks_exact(8).map(<[u32]>::to_vec).collect::<Vec<_>>().into_iter()
}

fn string(section: &Section<'_>, offset: u32, len: u32) -> String {
    String::from_utf8_lossy(section.string(offset, len)).into_owned()
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
        "prefix": string(section, 0, h.prefix_len),
        "suffix": string(section, h.prefix_len, h.suffix_len),
        "split_before": char::from_u32(h.split_before),
        "longest_token": h.max_token,
        "growth": h.growth,
    })
}

fn normalizer(section: &Section<'_>, words: &[u32]) -> Value {
    match words[0] {
        step::MAP => json!({"map": words[3]}),
        step::CANONICAL => {
            json!({"canonical": {"decompositions": words[3], "classes": words[5], "composites": words[7]}})
        }
        step::REPLACE => json!({"replace": {"automaton": words[1], "by": string(section, words[2], words[3])}}),
        step::PREPEND => json!({"prepend": string(section, words[1], words[2])}),
        step::STRIP => json!({"strip": names(words[1], &[(1, "left"), (2, "right")])}),
        step::PRECOMPILED => json!({"precompiled": {"units": words[3], "strings": words[5]}}),
        _ => json!("bytes"),
    }
}

fn pre_tokenizer(section: &Section<'_>, words: &[u32]) -> Value {
    const SCHEMES: [&str; 3] = ["never", "first", "always"];
    const BEHAVIOURS: [&str; 5] = ["isolated", "removed", "contiguous", "merged_with_previous", "merged_with_next"];
    match words[0] {
        stage::SPLIT => json!({"split": {
            "automaton": words[1],
            "states": section.words(table::AUTOMATA).u32(words[1] as usize * 4 + 1),
            "behaviour": BEHAVIOURS.get(words[2] as usize),
            "flags": names(words[3], &[(split_flag::INVERT, "invert"), (split_flag::BYTES, "bytes")]),
        }}),
        stage::METASPACE => json!({"metaspace": {
            "mark": string(section, words[1], words[2]),
            "prepend": SCHEMES.get(words[3] as usize),
        }}),
        _ => json!("prefix_space"),
    }
}

fn decoder(section: &Section<'_>) -> Value {
    let words: Vec<u32> = section.words(table::DECODER).iter32().collect();
    let word = |i: usize| words.get(i).copied().unwrap_or(0);
    let flags = [
        (decoder_flag::LOSSY, "byte_level"),
        (decoder_flag::HOLD, "last_differs"),
        (decoder_flag::DEDUP, "drops_repeats"),
        (decoder_flag::BYTE_RUNS, "byte_fallback"),
    ];
    let rules = words.get(5..).unwrap_or(&[]).chunks_exact(6).map(|rule| {
        json!({"from": string(section, rule[0], rule[1]), "to": string(section, rule[2], rule[3]),
            "first": string(section, rule[4], rule[5])})
    });
    let texts = ["inner", "first", "last", "only"];
    json!({
        "flags": names(word(0), &flags),
        "strip": {"char": char::from_u32(word(1)), "start": word(2), "stop": word(3)},
        "rules": rules.collect::<Vec<_>>(),
        "own_texts": (0..4).filter(|i| !section.table(table::PIECES + 2 * i).is_empty()).map(|i| texts[i]).collect::<Vec<_>>(),
    })
}
