//! The tokenizer of a GGUF file in the form of a `tokenizer.json`, for the two common kinds: byte-level BPE ("gpt2") with a
//! named pre-tokenizer, and score-ordered BPE with byte fallback ("llama").

use super::gguf::{Gguf, Value};
use super::refusal::{Refusal, refuse};
use crate::failure::Failure;
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;

/// Split pattern of the Qwen2 family.
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Split pattern of the Llama 3 family.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

// Token types.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;

struct Tokens<'a> {
    texts: Vec<&'a str>,
    types: Vec<i64>,
}

/// The `tokenizer.json`; empty when the file has no tokenizer.
pub fn tokenizer_json(file: &Gguf) -> Result<Map<String, Json>, Failure> {
    let meta = |key: &str| file.metadata.get(&format!("tokenizer.ggml.{key}"));
    let Some(model) = meta("model").and_then(Value::text) else {
        return Err(refuse(Refusal::UnsupportedGguf, "the file has no tokenizer (tokenizer.ggml.model)"));
    };
    let bad = |what: &str| refuse(Refusal::BadGguf, format!("tokenizer.ggml.{what}"));
    let Some(Value::List(list)) = meta("tokens") else { return Err(bad("tokens is missing")) };
    let texts: Option<Vec<&str>> = list.iter().map(Value::text).collect();
    let texts = texts.ok_or_else(|| bad("tokens is no list of strings"))?;
    let types = match meta("token_type") {
        None => vec![1; texts.len()],
        Some(Value::List(list)) if list.len() == texts.len() => {
            let types: Option<Vec<i64>> = list.iter().map(|v| v.number().map(|n| n as i64)).collect();
            types.ok_or_else(|| bad("token_type is no list of numbers"))?
        }
        Some(_) => return Err(bad("token_type does not match tokens")),
    };
    let tokens = Tokens { texts, types };
    let json = match model {
        "gpt2" => byte_level(file, &tokens)?,
        "llama" => score_bpe(file, &tokens)?,
        other => {
            return Err(refuse(
                Refusal::UnsupportedGguf,
                format!("tokenizer.ggml.model is {other:?}; gpt2 and llama are imported"),
            ));
        }
    };
    match json {
        Json::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

fn flag(file: &Gguf, key: &str, default: bool) -> bool {
    match file.metadata.get(&format!("tokenizer.ggml.{key}")) {
        Some(Value::Bool(value)) => *value,
        _ => default,
    }
}

fn added_tokens(tokens: &Tokens) -> Json {
    let all = tokens.texts.iter().zip(&tokens.types).enumerate();
    all.filter(|(_, (_, kind))| matches!(**kind, UNKNOWN | CONTROL | USER_DEFINED))
        .map(|(id, (text, kind))| {
            json!({
                "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                "special": *kind != USER_DEFINED,
            })
        })
        .collect()
}

fn vocabulary(tokens: &Tokens) -> Result<Map<String, Json>, Failure> {
    let mut map = Map::new();
    for (id, (text, kind)) in tokens.texts.iter().zip(&tokens.types).enumerate() {
        if *kind != UNUSED && map.insert((*text).to_owned(), json!(id)).is_some() {
            return Err(refuse(Refusal::BadGguf, format!("tokenizer.ggml.tokens: {text:?} stands twice")));
        }
    }
    Ok(map)
}

/// BOS and EOS as the file says they are added.
fn post_processor(file: &Gguf, tokens: &Tokens, bos_default: bool) -> Result<Json, Failure> {
    let id = |name: &str| -> Result<(u64, &str), Failure> {
        let id = file.metadata.get(&format!("tokenizer.ggml.{name}_token_id")).and_then(Value::unsigned);
        let found = id.and_then(|id| Some((id, *tokens.texts.get(id as usize)?)));
        found.ok_or_else(|| {
            refuse(Refusal::BadGguf, format!("tokenizer.ggml.add_{name}_token is set, but there is no such token"))
        })
    };
    let (mut single, mut special) = (vec![json!({ "Sequence": { "id": "A", "type_id": 0 } })], Map::new());
    let mut add = |name: &str, at_end: bool| -> Result<(), Failure> {
        let (id, text) = id(name)?;
        let item = json!({ "SpecialToken": { "id": text, "type_id": 0 } });
        if at_end {
            single.push(item)
        } else {
            single.insert(0, item)
        }
        special.insert(text.to_owned(), json!({ "id": text, "ids": [id], "tokens": [text] }));
        Ok(())
    };
    let (bos, eos) = (flag(file, "add_bos_token", bos_default), flag(file, "add_eos_token", false));
    if bos {
        add("bos", false)?;
    }
    if eos {
        add("eos", true)?;
    }
    if !bos && !eos {
        return Ok(Json::Null);
    }
    Ok(json!({ "type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": special }))
}

fn byte_level(file: &Gguf, tokens: &Tokens) -> Result<Json, Failure> {
    let pre = file.metadata.get("tokenizer.ggml.pre").and_then(Value::text).unwrap_or("default");
    let bytes = |use_regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex });
    let split = |pattern: &str| {
        json!({ "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false },
            bytes(false),
        ] })
    };
    let (normalizer, pre_tokenizer, ignore_merges, bos) = match pre {
        "gpt-2" => (Json::Null, bytes(true), false, false),
        "smollm" => {
            let digits = json!({ "type": "Digits", "individual_digits": true });
            (Json::Null, json!({ "type": "Sequence", "pretokenizers": [digits, bytes(true)] }), false, false)
        }
        "qwen2" => (json!({ "type": "NFC" }), split(QWEN2), false, false),
        "llama-bpe" | "llama3" | "llama-v3" => (Json::Null, split(LLAMA3), true, true),
        other => {
            return Err(refuse(
                Refusal::UnsupportedGguf,
                format!("tokenizer.ggml.pre is {other:?}; gpt-2, smollm, qwen2 and llama-bpe are imported"),
            ));
        }
    };
    let Some(Value::List(merges)) = file.metadata.get("tokenizer.ggml.merges") else {
        return Err(refuse(Refusal::BadGguf, "tokenizer.ggml.merges is missing"));
    };
    let merges: Option<Vec<&str>> = merges.iter().map(Value::text).collect();
    let merges = merges.ok_or_else(|| refuse(Refusal::BadGguf, "tokenizer.ggml.merges is no list of strings"))?;
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added_tokens(tokens),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor(file, tokens, bos)?,
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": ignore_merges,
            "vocab": vocabulary(tokens)?,
            "merges": merges,
        },
    }))
}

fn score_bpe(file: &Gguf, tokens: &Tokens) -> Result<Json, Failure> {
    let bad = |what: &str| refuse(Refusal::BadGguf, format!("tokenizer.ggml.scores {what}"));
    let scores: Vec<f64> = match file.metadata.get("tokenizer.ggml.scores") {
        Some(Value::List(list)) if list.len() == tokens.texts.len() => {
            list.iter().map(Value::number).collect::<Option<_>>().ok_or_else(|| bad("is no list of numbers"))?
        }
        _ => return Err(bad("is missing or does not match tokens")),
    };
    if scores.iter().any(|score| score.is_nan()) {
        return Err(bad("holds a NaN"));
    }
    let unknown = tokens.types.iter().position(|kind| *kind == UNKNOWN).map(|id| tokens.texts[id]);
    let space = flag(file, "add_space_prefix", true);
    let replace = json!({ "type": "Replace", "pattern": { "String": " " }, "content": "\u{2581}" });
    let normalizer = if space {
        json!({ "type": "Sequence", "normalizers": [{ "type": "Prepend", "prepend": "\u{2581}" }, replace] })
    } else {
        replace
    };
    let mut decoders = vec![
        json!({ "type": "Replace", "pattern": { "String": "\u{2581}" }, "content": " " }),
        json!({ "type": "ByteFallback" }),
        json!({ "type": "Fuse" }),
    ];
    if space {
        decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
    }
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added_tokens(tokens),
        "normalizer": normalizer,
        "pre_tokenizer": null,
        "post_processor": post_processor(file, tokens, true)?,
        "decoder": { "type": "Sequence", "decoders": decoders },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocabulary(tokens)?,
            "merges": merges(tokens, &scores),
        },
    }))
}

/// The merges that scores stand for: every way to put a token together from two others, best score first; within one
/// token, by the ids of its parts.
fn merges(tokens: &Tokens, scores: &[f64]) -> Vec<[String; 2]> {
    let ids: HashMap<&str, usize> = tokens.texts.iter().enumerate().map(|(id, text)| (*text, id)).collect();
    let mut all: Vec<(f64, usize, usize, &str, &str)> = Vec::new();
    for (id, text) in tokens.texts.iter().enumerate() {
        if !matches!(tokens.types[id], 1 | USER_DEFINED) {
            continue;
        }
        let mut parts: Vec<(usize, usize, &str, &str)> = text
            .char_indices()
            .skip(1)
            .filter_map(|(at, _)| {
                let (left, right) = text.split_at(at);
                Some((*ids.get(left)?, *ids.get(right)?, left, right))
            })
            .collect();
        parts.sort_by_key(|(left, right, ..)| (*left, *right));
        all.extend(parts.into_iter().map(|(_, _, l, r)| (scores[id], l.chars().count(), r.chars().count(), l, r)));
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(b.2.cmp(&a.2)));
    all.into_iter().map(|(_, _, _, left, right)| [left.to_owned(), right.to_owned()]).collect()
}
