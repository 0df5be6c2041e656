//! The model a GGUF file describes: its metadata as the configuration and the tokenizer a publisher would have shipped.

use super::config::families;
use super::gguf::{self, Gguf, Value};
use super::input::Input;
use super::mapping::Naming;
use super::overrides::{Conflicts, Overrides};
use super::refusal::{Refusal, refuse};
use super::source::widen;
use super::special::{self, Files};
use super::{gguf_tokenizer, text};
use crate::failure::Failure;
use serde_json::{Map, Value as Json, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

/// Keys of an architecture that say nothing about the result.
const DOCUMENTARY: [&str; 3] = ["vocab_size", "rope.dimension_count", "attention.value_length"];

/// Opens a GGUF file.
pub fn open(path: &Path, overrides: &Overrides, conflicts: &mut Conflicts) -> Result<Input, Failure> {
    let file = gguf::open(path)?;
    let meta = Metadata::new(&file)?;
    let config = meta.config(&file)?;
    let tokenizer_json = gguf_tokenizer::tokenizer_json(&file)?;
    let mut files = Files { config, tokenizer: tokenizer_json, ..Files::default() };
    files.tokenizer_config = meta.tokenizer_config(&files.tokenizer)?;
    let mut architecture = families::read(&files.config, overrides, conflicts)?;
    meta.finish()?;
    let mut used = Vec::new();
    if let Some(factors) = rope_factors(&file)? {
        let table = &mut architecture.rope_tables[0];
        if factors.len() != table.inv_freq.len() {
            return Err(refuse(
                Refusal::TensorShape,
                format!("rope_freqs.weight has {} values for {} frequencies", factors.len(), table.inv_freq.len()),
            ));
        }
        table.inv_freq.iter_mut().zip(factors).for_each(|(inv, factor)| *inv /= factor);
        used.push("rope_freqs.weight".to_owned());
    }
    let special = special::gather(&files, architecture.vocab_size, overrides, conflicts)?;
    let tokenizer_bytes = serde_json::to_vec(&files.tokenizer).unwrap_or_default();
    let tokenizer = text::compile_tokenizer(&tokenizer_bytes)?;
    let chat = file.metadata.get("tokenizer.chat_template").and_then(Value::text);
    let template = text::compile_template(chat, &files.tokenizer_config)?;
    let mut kept = vec![
        ("config.json".to_owned(), serde_json::to_vec(&files.config).unwrap_or_default()),
        ("tokenizer.json".to_owned(), tokenizer_bytes),
    ];
    if let Some(chat) = chat {
        kept.push(("chat_template.jinja".to_owned(), chat.as_bytes().to_vec()));
    }
    let licence =
        file.metadata.get("general.license").and_then(Value::text).map(|text| format!("general.license says {text}"));
    Ok(Input {
        kind: "gguf",
        naming: Naming::Gguf,
        pairs: meta.architecture == "llama",
        architecture,
        special,
        tokenizer,
        template,
        kept,
        licence,
        explained: used.into_iter().map(|name| (name, "divides the frequencies of @rope")).collect(),
        source: file.source,
    })
}

struct Metadata<'a> {
    file: &'a Gguf,
    architecture: &'a str,
    used: RefCell<BTreeSet<String>>,
}

impl<'a> Metadata<'a> {
    fn new(file: &'a Gguf) -> Result<Self, Failure> {
        let architecture = file.metadata.get("general.architecture").and_then(Value::text);
        let Some(architecture) = architecture else {
            return Err(refuse(Refusal::BadGguf, "general.architecture is missing"));
        };
        match architecture {
            "llama" | "qwen2" | "qwen3" => Ok(Self { file, architecture, used: RefCell::default() }),
            other => Err(refuse(
                Refusal::UnsupportedGguf,
                format!(
                    "GGUF architecture {other:?}; llama, qwen2 and qwen3 are imported. Convert the publisher's folder instead"
                ),
            )),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        let key = format!("{}.{key}", self.architecture);
        let value = self.file.metadata.get(&key);
        self.used.borrow_mut().insert(key);
        value
    }

    fn number(&self, key: &str) -> Result<Option<f64>, Failure> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => value
                .number()
                .map(Some)
                .ok_or_else(|| refuse(Refusal::BadGguf, format!("{}.{key} is no single number", self.architecture))),
        }
    }

    fn need(&self, key: &str) -> Result<f64, Failure> {
        self.number(key)?
            .ok_or_else(|| refuse(Refusal::MissingField, format!("metadata {}.{key} is missing", self.architecture)))
    }

    /// The configuration in the publisher's words.
    fn config(&self, file: &Gguf) -> Result<Map<String, Json>, Failure> {
        let (class, kind) = match self.architecture {
            "llama" => ("LlamaForCausalLM", "llama"),
            "qwen2" => ("Qwen2ForCausalLM", "qwen2"),
            _ => ("Qwen3ForCausalLM", "qwen3"),
        };
        for experts in ["expert_count", "expert_used_count"] {
            if self.number(experts)?.is_some_and(|count| count != 0.0) {
                return Err(refuse(
                    Refusal::UnsupportedGguf,
                    format!("{}.{experts}: mixtures of experts are not run", self.architecture),
                ));
            }
        }
        let (hidden, heads) = (self.need("embedding_length")?, self.need("attention.head_count")?);
        let head_dim = self.number("attention.key_length")?.unwrap_or((hidden / heads.max(1.0)).floor());
        for other in ["attention.value_length", "rope.dimension_count"] {
            if let Some(dim) = self.number(other)?.filter(|dim| *dim != head_dim) {
                return Err(refuse(
                    Refusal::UnsupportedValue,
                    format!("{}.{other} is {dim}, the heads have {head_dim} dimensions", self.architecture),
                ));
            }
        }
        let vocab = file.source.tensor("token_embd.weight")?.rows();
        let tokens =
            |name: &str| file.metadata.get(&format!("tokenizer.ggml.{name}_token_id")).and_then(Value::unsigned);
        let mut stops: Vec<u64> = ["eos", "eot"].iter().filter_map(|name| tokens(name)).collect();
        stops.sort_unstable();
        stops.dedup();
        // An f32 of the metadata is written as the shortest decimal that gives it back.
        let short = |value: f64| json!((value as f32).to_string().parse::<f64>().unwrap_or(value));
        let mut config = json!({
            "architectures": [class],
            "model_type": kind,
            "vocab_size": vocab,
            "hidden_size": hidden,
            "intermediate_size": self.need("feed_forward_length")?,
            "num_hidden_layers": self.need("block_count")?,
            "num_attention_heads": heads,
            "num_key_value_heads": self.number("attention.head_count_kv")?.unwrap_or(heads),
            "head_dim": head_dim,
            "max_position_embeddings": self.need("context_length")?,
            "rms_norm_eps": short(self.need("attention.layer_norm_rms_epsilon")?),
            "rope_theta": short(self.number("rope.freq_base")?.unwrap_or(10000.0)),
            "tie_word_embeddings": !file.source.tensors.contains_key("output.weight"),
            "eos_token_id": stops,
            "bos_token_id": tokens("bos"),
            "pad_token_id": tokens("padding"),
        });
        if self.architecture == "llama" && file.source.tensors.contains_key("blk.0.attn_q.bias") {
            config["attention_bias"] = json!(true);
        }
        let scaling = self.get("rope.scaling.type").and_then(Value::text).unwrap_or("none");
        let factor = self.number("rope.scaling.factor")?;
        match (scaling, factor) {
            ("none", _) => {}
            ("linear", Some(factor)) => {
                config["rope_scaling"] = json!({ "rope_type": "linear", "factor": short(factor) })
            }
            (other, _) => {
                return Err(refuse(
                    Refusal::UnsupportedRope,
                    format!("{}.rope.scaling.type is {other:?}", self.architecture),
                ));
            }
        }
        match config {
            Json::Object(map) => Ok(map),
            _ => Ok(Map::new()),
        }
    }

    /// The special tokens in the publisher's words.
    fn tokenizer_config(&self, tokenizer: &Map<String, Json>) -> Result<Map<String, Json>, Failure> {
        let mut out = Map::new();
        let vocabulary = self.file.metadata.get("tokenizer.ggml.tokens");
        let Some(Value::List(tokens)) = vocabulary.filter(|_| !tokenizer.is_empty()) else { return Ok(out) };
        for (name, key) in
            [("bos", "bos_token"), ("eos", "eos_token"), ("padding", "pad_token"), ("unknown", "unk_token")]
        {
            let id = self.file.metadata.get(&format!("tokenizer.ggml.{name}_token_id")).and_then(Value::unsigned);
            let Some(id) = id else { continue };
            match tokens.get(id as usize).and_then(Value::text) {
                Some(text) => out.insert(key.into(), json!(text)),
                None => {
                    return Err(refuse(Refusal::BadGguf, format!("tokenizer.ggml.{name}_token_id {id} is no token")));
                }
            };
        }
        Ok(out)
    }

    /// Every key of the architecture has been read, or is known not to matter.
    fn finish(&self) -> Result<(), Failure> {
        let prefix = format!("{}.", self.architecture);
        let used = self.used.borrow();
        let unknown = self.file.metadata.keys().find(|key| {
            key.strip_prefix(&prefix).is_some_and(|rest| !DOCUMENTARY.contains(&rest) && !used.contains(*key))
        });
        match unknown {
            Some(key) => {
                Err(refuse(Refusal::UnknownField, format!("metadata {key} may change the result and is not known")))
            }
            None => Ok(()),
        }
    }
}

/// Divisors of the frequencies, as some conversions store a scaling.
fn rope_factors(file: &Gguf) -> Result<Option<Vec<f32>>, Failure> {
    let Some(tensor) = file.source.tensors.get("rope_freqs.weight") else { return Ok(None) };
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    file.source.read_rows(tensor, 0, tensor.rows(), &mut bytes)?;
    widen(tensor.dtype, &bytes, &mut values);
    if values.iter().any(|factor| !factor.is_finite() || *factor <= 0.0) {
        return Err(refuse(Refusal::NonFiniteWeight, "rope_freqs.weight holds a factor that is not positive"));
    }
    Ok(Some(values))
}
