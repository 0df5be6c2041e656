//! Where the converter meets the compilers of tokenizer and template.

use super::overrides::{Conflicts, Overrides};
use super::refusal::{Refusal, refuse};
use super::source::read_optional;
use crate::failure::{Failure, Kind};
use crate::{template, tokenizer};
use serde_json::{Map, Value, json};
use std::path::Path;
use tinyrustlm_core::tokenizer::{Encode, Tokenizer as Tables};

/// A compiled tokenizer.
#[derive(Debug, Default)]
pub struct Tokenizer {
    /// Bytes of the section.
    pub section: Vec<u8>,
    /// Special tokens, for the header.
    pub special_count: u32,
    /// What was compiled, for provenance and report.
    pub receipt: Value,
}

impl Tokenizer {
    /// A few words for a person.
    pub fn describe(&self) -> String {
        format!("{} special tokens, {} bytes compiled", self.special_count, self.section.len())
    }
}

/// Compiles the `tokenizer.json` of a folder.
pub fn tokenizer(folder: &Path) -> Result<Tokenizer, Failure> {
    let bytes = read_optional(folder.join("tokenizer.json"), 1 << 28)?
        .ok_or_else(|| refuse(Refusal::MissingFile, format!("{}: tokenizer.json is missing", folder.display())))?;
    compile_tokenizer(&bytes)
}

/// Compiles a `tokenizer.json`.
pub fn compile_tokenizer(json: &[u8]) -> Result<Tokenizer, Failure> {
    let compiled = tokenizer::compile(json)?;
    Ok(Tokenizer { section: compiled.section, special_count: compiled.special_count, receipt: compiled.receipt })
}

/// Compares `add_bos_token` and `add_eos_token` of a `tokenizer_config.json` with what the tokenizer does.
pub fn check_added(
    section: &[u8],
    config: &Map<String, Value>,
    overrides: &Overrides,
    conflicts: &mut Conflicts,
) -> Result<(), Failure> {
    let encode = |add_special_tokens: bool| -> Option<Vec<u32>> {
        let tokenizer = Tables::parse(section).ok()?;
        let mut scratch = vec![0; tokenizer.scratch_words(1)];
        let mut ids = vec![0; tokenizer.max_ids(1)];
        let how = Encode { add_special_tokens, content: None };
        let count = tokenizer.encode(b"a", how, &mut scratch, &mut ids).ok()?;
        ids.truncate(count);
        Some(ids)
    };
    let (Some(plain), Some(whole)) = (encode(false), encode(true)) else { return Ok(()) };
    let before = whole.windows(plain.len().max(1)).position(|part| part == plain).unwrap_or(0);
    let after = whole.len().saturating_sub(before + plain.len());
    for (key, added) in [("add_bos_token", before > 0), ("add_eos_token", after > 0)] {
        let Some(stated) = config.get(key).and_then(Value::as_bool).filter(|stated| *stated != added) else { continue };
        match overrides.get(key) {
            Some(text) if text == added.to_string() => {}
            Some(text) => {
                return Err(Failure::new(
                    Kind::Usage,
                    format!(
                        "--override {key}={text}: the post-processor of tokenizer.json decides; only {added} is possible"
                    ),
                ));
            }
            None => conflicts.add(
                key,
                &[("tokenizer_config.json", json!(stated)), ("post_processor of tokenizer.json", json!(added))],
                "they disagree on what is put around a text",
                "the reference follows tokenizer.json",
                &[added.to_string()],
            ),
        }
    }
    Ok(())
}

/// A compiled template; no bytes when there is none.
#[derive(Debug, Default)]
pub struct Template {
    /// Bytes of `@template`.
    pub section: Vec<u8>,
    /// What was compiled, for provenance and report.
    pub receipt: Value,
}

/// Compiles the chat template of a folder.
pub fn template(folder: &Path, overrides: &Overrides, conflicts: &mut Conflicts) -> Result<Template, Failure> {
    let choice = match template::from_folder(folder, None) {
        Err(failure) if failure.kind == Kind::Conflict => match overrides.get("chat_template") {
            Some(name) => template::from_folder(folder, Some(name))?,
            None => {
                conflicts.add(
                    "chat_template",
                    &[("tokenizer_config.json chat_template", json!(failure.message))],
                    "several templates, and none is the default",
                    "the reference refuses to choose",
                    &template_names(folder),
                );
                return Ok(Template::default());
            }
        },
        other => other?,
    };
    let Some(choice) = choice else { return Ok(Template::default()) };
    let compiled = template::compile(&choice.source, &choice.name, &choice.variables)?;
    Ok(finish(compiled, &choice.origin, &choice.others))
}

fn template_names(folder: &Path) -> Vec<String> {
    let config = read_optional(folder.join("tokenizer_config.json"), 1 << 28).ok().flatten().unwrap_or_default();
    let config: Value = serde_json::from_slice(&config).unwrap_or_default();
    let list = config["chat_template"].as_array().cloned().unwrap_or_default();
    list.iter().filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect()
}

/// Compiles a template whose special tokens stand in a `tokenizer_config.json`.
pub fn compile_template(source: Option<&str>, tokenizer_config: &Map<String, Value>) -> Result<Template, Failure> {
    let Some(source) = source else { return Ok(Template::default()) };
    let compiled = template::compile(source, "", tokenizer_config)?;
    Ok(finish(compiled, "metadata", &[]))
}

fn finish(compiled: template::Compiled, origin: &str, others: &[String]) -> Template {
    let hex = |bytes: &[u8]| super::provenance::hex(bytes);
    Template {
        receipt: json!({
            "origin": origin,
            "source_sha256": hex(&compiled.source_hash),
            "program_sha256": hex(&compiled.program_hash),
            "inputs": compiled.inputs,
            "not_taken": others,
        }),
        section: compiled.section,
    }
}
