//! Special tokens, stop rules and sampling defaults, gathered from all the files that speak of them.
//!
//! Where files contradict each other the conversion stops. One id and a set that contains it agree, and the set is used.

use super::config::fields::Fields;
use super::overrides::{Conflicts, Overrides};
use super::records::Sampling;
use super::refusal::{Refusal, refuse};
use crate::failure::{Failure, Kind};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The JSON files of a folder; those not there are empty objects.
#[derive(Debug, Default)]
pub struct Files {
    pub config: Map<String, Value>,
    pub generation: Option<Map<String, Value>>,
    pub tokenizer_config: Map<String, Value>,
    pub special_tokens_map: Map<String, Value>,
    pub tokenizer: Map<String, Value>,
}

/// What the files agree on.
#[derive(Debug, Default)]
pub struct Special {
    pub stop_ids: Vec<u32>,
    pub stop_strings: Vec<String>,
    pub sampling: Sampling,
    pub special_count: u32,
    pub ignored: Vec<(String, String)>,
    pub notes: Vec<String>,
}

/// Reads and compares. `vocab_size` is the number of rows of the embedding.
pub fn gather(
    files: &Files,
    vocab_size: u32,
    overrides: &Overrides,
    conflicts: &mut Conflicts,
) -> Result<Special, Failure> {
    let mut special = Special::default();
    let vocabulary = Vocabulary::read(&files.tokenizer);
    if let Some(highest) = vocabulary.highest {
        if highest >= u64::from(vocab_size) {
            conflicts.add(
                "vocab_size",
                &[("tokenizer.json highest id", json!(highest)), ("config.json vocab_size", json!(vocab_size))],
                "a token of the tokenizer has no row in the embedding",
                "the reference fails when that token is used",
                &[],
            );
        } else if highest + 1 < u64::from(vocab_size) {
            let padded = u64::from(vocab_size) - highest - 1;
            special.notes.push(format!("{padded} rows of the embedding have no token"));
        }
    }
    added_tokens(files, &vocabulary, conflicts);
    special.special_count = vocabulary.special;
    special.stop_ids = stop_ids(files, &vocabulary, vocab_size, overrides, conflicts, &mut special.notes)?;
    for name in ["bos", "pad", "unk"] {
        single(name, files, &vocabulary, overrides, conflicts)?;
    }
    if let Some(generation) = &files.generation {
        generation_defaults(generation, overrides, &mut special)?;
    }
    if special.stop_ids.is_empty() {
        special.notes.push("no end token is declared: generation ends at its limit only".into());
    }
    Ok(special)
}

/// Ids of the tokens of `tokenizer.json`.
#[derive(Debug, Default)]
struct Vocabulary<'a> {
    model: Option<&'a Value>,
    added: Vec<(u64, &'a str)>,
    highest: Option<u64>,
    special: u32,
}

impl<'a> Vocabulary<'a> {
    fn read(tokenizer: &'a Map<String, Value>) -> Self {
        let model = tokenizer.get("model").and_then(|model| model.get("vocab"));
        let mut highest = match model {
            Some(Value::Object(map)) => map.values().filter_map(Value::as_u64).max(),
            Some(Value::Array(list)) => (list.len() as u64).checked_sub(1),
            _ => None,
        };
        let (mut added, mut special) = (Vec::new(), 0);
        for token in tokenizer.get("added_tokens").and_then(Value::as_array).into_iter().flatten() {
            if let (Some(id), Some(content)) =
                (token.get("id").and_then(Value::as_u64), token.get("content").and_then(Value::as_str))
            {
                added.push((id, content));
                highest = highest.max(Some(id));
                special += u32::from(token.get("special").and_then(Value::as_bool).unwrap_or(false));
            }
        }
        Self { model, added, highest, special }
    }

    fn is_empty(&self) -> bool {
        self.highest.is_none()
    }

    fn id(&self, content: &str) -> Option<u64> {
        if let Some((id, _)) = self.added.iter().find(|(_, known)| *known == content) {
            return Some(*id);
        }
        match self.model {
            Some(Value::Object(map)) => map.get(content).and_then(Value::as_u64),
            Some(Value::Array(list)) => {
                list.iter().position(|entry| entry.get(0).and_then(Value::as_str) == Some(content)).map(|at| at as u64)
            }
            _ => None,
        }
    }
}

/// A token may be written as a string or as an object with `content`.
fn content(value: Option<&Value>) -> Option<&str> {
    let value = value?;
    value.as_str().or_else(|| value.get("content").and_then(Value::as_str))
}

/// One id or a list of ids.
fn id_set(place: &str, value: Option<&Value>) -> Result<Option<BTreeSet<u64>>, Failure> {
    let bad = |value: &Value| refuse(Refusal::BadJson, format!("{place} is {value}, expected an id or a list of ids"));
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value @ Value::Array(list)) => {
            let ids: Option<BTreeSet<u64>> = list.iter().map(Value::as_u64).collect();
            Ok(Some(ids.ok_or_else(|| bad(value))?).filter(|ids| !ids.is_empty()))
        }
        Some(value) => Ok(Some([value.as_u64().ok_or_else(|| bad(value))?].into())),
    }
}

fn text_of(set: &BTreeSet<u64>) -> String {
    set.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

fn stop_ids(
    files: &Files,
    vocabulary: &Vocabulary,
    vocab_size: u32,
    overrides: &Overrides,
    conflicts: &mut Conflicts,
    notes: &mut Vec<String>,
) -> Result<Vec<u32>, Failure> {
    let mut claims: Vec<(&str, BTreeSet<u64>)> = Vec::new();
    let mut claim = |place: &'static str, set: Option<BTreeSet<u64>>| claims.extend(set.map(|set| (place, set)));
    claim("config.json eos_token_id", id_set("config.json: eos_token_id", files.config.get("eos_token_id"))?);
    let generation = files.generation.as_ref().and_then(|map| map.get("eos_token_id"));
    claim("generation_config.json eos_token_id", id_set("generation_config.json: eos_token_id", generation)?);
    let mut unknown = Vec::new();
    if !vocabulary.is_empty() {
        for (place, map) in [
            ("tokenizer_config.json eos_token", &files.tokenizer_config),
            ("special_tokens_map.json eos_token", &files.special_tokens_map),
        ] {
            let Some(text) = content(map.get("eos_token")) else { continue };
            match vocabulary.id(text) {
                Some(id) => claim(place, Some([id].into())),
                None => unknown.push((place, json!(text))),
            }
        }
    }
    let chosen = if let Some(text) = overrides.get("eos_token_id") {
        parse_ids(text)?
    } else {
        let widest = claims.iter().map(|(_, set)| set).max_by_key(|set| set.len()).cloned().unwrap_or_default();
        let agree = |set: &BTreeSet<u64>| *set == widest || (set.len() == 1 && set.is_subset(&widest));
        let values =
            || claims.iter().map(|(_, set)| text_of(set)).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
        let shown = || claims.iter().map(|(place, set)| (*place, json!(set))).collect::<Vec<_>>();
        if !claims.iter().all(|(_, set)| agree(set)) {
            conflicts.add(
                "eos_token_id",
                &shown(),
                "neither is one id contained in the other's set",
                "the reference ends at generation_config.json's, or config.json's when that file is absent",
                &values(),
            );
        }
        if !unknown.is_empty() {
            let mut all = shown();
            all.extend(unknown);
            conflicts.add(
                "eos_token_id",
                &all,
                "the named token is not in tokenizer.json",
                "the reference adds the token with a new id",
                &values(),
            );
        }
        if claims.len() == 1 && !claims[0].0.contains("config.json eos") {
            notes.push(format!("the end token is declared in {} only", claims[0].0));
        }
        widest
    };
    if let Some(id) = chosen.iter().find(|id| **id >= u64::from(vocab_size)) {
        conflicts.add(
            "eos_token_id",
            &[("eos_token_id", json!(id)), ("config.json vocab_size", json!(vocab_size))],
            "the end token is outside of the vocabulary",
            "the reference never ends there",
            &[],
        );
        return Ok(Vec::new());
    }
    Ok(chosen.into_iter().map(|id| id as u32).collect())
}

fn parse_ids(text: &str) -> Result<BTreeSet<u64>, Failure> {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    let ids: Result<BTreeSet<u64>, _> = inner.split(',').map(|id| id.trim().parse()).collect();
    ids.map_err(|_| Failure::new(Kind::Usage, format!("--override eos_token_id={text}: expected ids like 2 or 2,7")))
}

/// BOS, PAD and UNK: whoever names one must name the same.
fn single(
    name: &str,
    files: &Files,
    vocabulary: &Vocabulary,
    overrides: &Overrides,
    conflicts: &mut Conflicts,
) -> Result<(), Failure> {
    let (id_key, token_key) = (format!("{name}_token_id"), format!("{name}_token"));
    if overrides.get(&id_key).is_some() {
        return Ok(());
    }
    let mut claims: Vec<(String, Value)> = Vec::new();
    for (place, map) in [("config.json", Some(&files.config)), ("generation_config.json", files.generation.as_ref())] {
        if let Some(id) = map.and_then(|map| map.get(&id_key)).filter(|value| !value.is_null()) {
            // -1 is an old way of saying "none".
            if id.as_i64() != Some(-1) {
                claims.push((format!("{place} {id_key}"), id.clone()));
            }
        }
    }
    if !vocabulary.is_empty() {
        for (place, map) in
            [("tokenizer_config.json", &files.tokenizer_config), ("special_tokens_map.json", &files.special_tokens_map)]
        {
            if let Some(text) = content(map.get(&token_key)) {
                let value = vocabulary.id(text).map_or_else(|| json!(text), |id| json!(id));
                claims.push((format!("{place} {token_key}"), value));
            }
        }
    }
    let values: BTreeSet<String> = claims.iter().map(|(_, value)| value.to_string()).collect();
    let unknown = claims.iter().any(|(_, value)| value.is_string());
    if values.len() > 1 || unknown {
        let shown: Vec<(&str, Value)> = claims.iter().map(|(place, value)| (place.as_str(), value.clone())).collect();
        let reason = if unknown { "a named token is not in tokenizer.json" } else { "they are different tokens" };
        let settle: Vec<String> = values.into_iter().filter(|value| value.parse::<u64>().is_ok()).collect();
        conflicts.add(&id_key, &shown, reason, "the reference takes each file's own where it reads that file", &settle);
    }
    Ok(())
}

/// Added tokens of `tokenizer_config.json` must be those of `tokenizer.json`.
fn added_tokens(files: &Files, vocabulary: &Vocabulary, conflicts: &mut Conflicts) {
    let Some(decoder) = files.tokenizer_config.get("added_tokens_decoder").and_then(Value::as_object) else { return };
    if vocabulary.is_empty() {
        return;
    }
    for (id, token) in decoder {
        let (Ok(number), Some(text)) = (id.parse::<u64>(), content(Some(token))) else { continue };
        let known = vocabulary.added.iter().find(|(id, _)| *id == number).map(|(_, content)| *content);
        if known != Some(text) && vocabulary.id(text) != Some(number) {
            conflicts.add(
                "added_tokens_decoder",
                &[
                    ("tokenizer_config.json", json!({ id.as_str(): text })),
                    ("tokenizer.json", json!({ id.as_str(): known })),
                ],
                "the files give different tokens for one id",
                "the reference follows tokenizer.json",
                &[],
            );
            return;
        }
    }
}

/// Fields of `generation_config.json` that say nothing about sampling.
const DOCUMENTARY: &[(&str, &str)] = &[
    ("eos_token_id", "goes to @stops"),
    ("bos_token_id", "compared with the tokenizer's"),
    ("pad_token_id", "compared with the tokenizer's"),
    ("transformers_version", "version of the publisher's tools"),
    ("max_length", "the length is set per run"),
    ("min_length", "the length is set per run"),
    ("max_position_embeddings", "config.json decides"),
    ("use_cache", "the cache does not change results"),
    ("cache_implementation", "the cache does not change results"),
    ("trust_remote_code", "code of the publisher is never run"),
    ("chat_format", "the chat template decides"),
    ("max_window_size", "the length is set per run"),
    ("output_attentions", "form of the result only"),
    ("output_hidden_states", "form of the result only"),
    ("return_dict_in_generate", "form of the result only"),
    ("num_return_sequences", "one sequence is generated per run"),
];

fn generation_defaults(map: &Map<String, Value>, overrides: &Overrides, special: &mut Special) -> Result<(), Failure> {
    let fields = Fields::new("generation_config.json", map);
    let range = |key: &str, low: f64, high: f64| -> Result<Option<f64>, Failure> {
        match fields.f64(key)? {
            Some(value) if value < low || value > high => Err(refuse(
                Refusal::UnsupportedValue,
                format!("generation_config.json: {key} is {value}, outside of {low} to {high}"),
            )),
            value => Ok(value),
        }
    };
    let big = f64::from(f32::MAX);
    special.sampling = Sampling {
        do_sample: fields.bool("do_sample")?,
        top_k: fields.u32("top_k")?,
        numbers: [
            range("temperature", 0.0, big)?,
            range("top_p", 0.0, 1.0)?,
            range("min_p", 0.0, 1.0)?,
            range("typical_p", 0.0, 1.0)?,
            range("repetition_penalty", f64::MIN_POSITIVE, big)?,
            range("frequency_penalty", -big, big)?,
            range("presence_penalty", -big, big)?,
        ],
        max_new_tokens: fields.u32("max_new_tokens")?,
    };
    match fields.value("stop_strings") {
        None => {}
        Some(Value::String(one)) => special.stop_strings.push(one.clone()),
        Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
            special.stop_strings.extend(list.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        Some(other) => {
            return Err(refuse(Refusal::BadJson, format!("generation_config.json: stop_strings is {other}")));
        }
    }
    if let Some(bad) = special.stop_strings.iter().find(|text| text.is_empty() || text.len() > 256) {
        return Err(refuse(
            Refusal::UnsupportedValue,
            format!("generation_config.json: stop string {bad:?} has not 1 to 256 bytes"),
        ));
    }
    let neutral = [
        ("num_beams", json!(1)),
        ("num_beam_groups", json!(1)),
        ("no_repeat_ngram_size", json!(0)),
        ("encoder_no_repeat_ngram_size", json!(0)),
        ("length_penalty", json!(1.0)),
        ("diversity_penalty", json!(0.0)),
        ("early_stopping", json!(false)),
        ("epsilon_cutoff", json!(0.0)),
        ("eta_cutoff", json!(0.0)),
        ("renormalize_logits", json!(false)),
        ("remove_invalid_values", json!(false)),
    ];
    for (key, value) in neutral {
        if overrides.get(key) != Some("ignore") {
            fields.only(key, &[value], "this runtime does not generate that way")?;
        }
    }
    special.ignored = fields.finish(DOCUMENTARY, overrides)?;
    Ok(())
}
