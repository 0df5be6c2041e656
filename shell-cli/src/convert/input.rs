//! A source that has been read and understood, whatever its format.

use super::config::{Architecture, families};
use super::mapping::{self, Naming};
use super::overrides::{Conflicts, Overrides};
use super::refusal::{Refusal, refuse};
use super::safetensors;
use super::source::{Source, read_optional};
use super::special::{self, Files, Special};
use super::text;
use super::{gguf_model, llama2c};
use crate::failure::Failure;
use serde_json::{Map, Value};
use std::io::Read;
use std::path::Path;

/// Longest JSON or template file that is read, in bytes.
const MAX_TEXT_FILE: u64 = 1 << 28;

/// Everything a conversion works from.
#[derive(Debug)]
pub struct Input {
    /// `huggingface`, `gguf` or `llama2c`.
    pub kind: &'static str,
    pub source: Source,
    pub naming: Naming,
    /// Rotated queries and keys stand as pairs.
    pub pairs: bool,
    pub architecture: Architecture,
    pub special: Special,
    /// The compiled tokenizer section.
    pub tokenizer: text::Tokenizer,
    /// The compiled template.
    pub template: text::Template,
    /// Small files of the source, kept whole in the provenance.
    pub kept: Vec<(String, Vec<u8>)>,
    /// Licence file or field, where there is one.
    pub licence: Option<String>,
    /// Tensors that go elsewhere than into a tensor, each with the reason.
    pub explained: Vec<(String, &'static str)>,
}

/// Opens `path`: a Hugging Face folder, a GGUF file, or a llama2.c checkpoint.
pub fn open(path: &Path, overrides: &Overrides, conflicts: &mut Conflicts) -> Result<Input, Failure> {
    if !path.exists() {
        return Err(Failure::new(crate::failure::Kind::Io, format!("{}: no such file or folder", path.display())));
    }
    if path.is_dir() {
        return folder(path, overrides, conflicts);
    }
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    match path.extension().and_then(|ext| ext.to_str()) {
        _ if read.is_ok() && magic == *b"GGUF" => gguf_model::open(path, overrides, conflicts),
        Some("gguf") => gguf_model::open(path, overrides, conflicts),
        Some("bin") => llama2c::open(path),
        _ => Err(refuse(
            Refusal::UnsupportedFamily,
            format!("{}: is no Hugging Face folder, no GGUF file and no llama2.c checkpoint (.bin)", path.display()),
        )),
    }
}

fn folder(path: &Path, overrides: &Overrides, conflicts: &mut Conflicts) -> Result<Input, Failure> {
    let mut kept = Vec::new();
    let mut read = |name: &str| -> Result<Option<Map<String, Value>>, Failure> {
        let Some(bytes) = read_optional(path.join(name), MAX_TEXT_FILE)? else { return Ok(None) };
        let map = serde_json::from_slice(&bytes).map_err(|e| refuse(Refusal::BadJson, format!("{name}: {e}")))?;
        kept.push((name.to_owned(), bytes));
        Ok(Some(map))
    };
    let config = read("config.json")?
        .ok_or_else(|| refuse(Refusal::MissingFile, format!("{}: config.json is missing", path.display())))?;
    let files = Files {
        generation: read("generation_config.json")?,
        tokenizer_config: read("tokenizer_config.json")?.unwrap_or_default(),
        special_tokens_map: read("special_tokens_map.json")?.unwrap_or_default(),
        tokenizer: read("tokenizer.json")?.unwrap_or_default(),
        config,
    };
    for name in ["chat_template.jinja", "chat_template.json"] {
        if let Some(bytes) = read_optional(path.join(name), MAX_TEXT_FILE)? {
            kept.push((name.to_owned(), bytes));
        }
    }
    let architecture = families::read(&files.config, overrides, conflicts)?;
    let special = special::gather(&files, architecture.vocab_size, overrides, conflicts)?;
    let source = safetensors::open_folder(path)?;
    let tokenizer = text::tokenizer(path)?;
    text::check_added(&tokenizer.section, &files.tokenizer_config, overrides, conflicts)?;
    let template = text::template(path, overrides, conflicts)?;
    Ok(Input {
        kind: "huggingface",
        source,
        naming: Naming::HuggingFace,
        pairs: false,
        architecture,
        special,
        tokenizer,
        template,
        kept,
        licence: licence(path),
        explained: Vec::new(),
    })
}

/// The licence a folder states: the file, or the field of the model card.
fn licence(path: &Path) -> Option<String> {
    let names = ["LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "license.txt"];
    if let Some(name) = names.iter().find(|name| path.join(name).exists()) {
        return Some(format!("file {name}"));
    }
    let card = read_optional(path.join("README.md"), MAX_TEXT_FILE).ok()??;
    let card = String::from_utf8(card).ok()?;
    let line = card.lines().take(200).find_map(|line| line.strip_prefix("license:"))?;
    Some(format!("README.md says {}", line.trim()))
}

/// The head of a source: shared with the embedding or a matrix of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    Tied,
    /// A head stands in the source, equal to the embedding, and the configuration ties them.
    TiedDuplicate,
    Own,
    /// The configuration ties them, but the source has a different head, which the reference uses.
    OwnDespiteTie,
}

/// Decides by the bytes, as the reference does.
pub fn head(input: &Input) -> Result<Head, Failure> {
    let head = input.source.tensors.get(mapping::head_name(input.naming));
    let Some(head) = head else { return Ok(if input.architecture.tied { Head::Tied } else { Head::Own }) };
    if !input.architecture.tied {
        return Ok(Head::Own);
    }
    let embedding = input.source.tensor(mapping::embedding_name(input.naming))?;
    if head.shape != embedding.shape {
        return Ok(Head::OwnDespiteTie);
    }
    let (mut a, mut b, mut x, mut y) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let step = 256;
    for first in (0..head.rows()).step_by(step as usize) {
        let rows = step.min(head.rows() - first);
        input.source.read_rows(head, first, rows, &mut a)?;
        input.source.read_rows(embedding, first, rows, &mut b)?;
        x.clear();
        y.clear();
        super::source::widen(head.dtype, &a, &mut x);
        super::source::widen(embedding.dtype, &b, &mut y);
        if x.iter().zip(&y).any(|(x, y)| x.to_bits() != y.to_bits()) {
            return Ok(Head::OwnDespiteTie);
        }
    }
    Ok(Head::TiedDuplicate)
}
