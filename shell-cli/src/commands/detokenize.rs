//! `slm detokenize`: ids to text, line by line.

use super::lines::{self, LineError};
use crate::failure::Failure;
use crate::tokenizer;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use tinyrustlm_core::tokenizer::{DecodeMode, Decoder, Tokenizer};

/// Arguments of `slm detokenize`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Reads JSON lines {\"ids\":[..],\"mode\":\"raw|visible|diagnostic\"} and writes \
    {\"text\":\"..\",\"bytes\":\"hex\"}.\n\nExample:\n  echo '{\"ids\":[1,2],\"mode\":\"visible\"}' | slm detokenize model.slm")]
pub struct Args {
    /// A `.slm` file, a Hugging Face folder, or a `tokenizer.json`.
    model: PathBuf,
}

#[derive(Deserialize)]
struct Line {
    ids: Vec<u32>,
    #[serde(default)]
    mode: Mode,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Raw,
    Visible,
    Diagnostic,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let opened = tokenizer::open(&args.model)?;
    let tokenizer = opened.tokenizer()?;
    let mut out = vec![0; tokenizer.max_push_bytes()];
    lines::answer(|line| {
        let line: Line = lines::parse(line)?;
        let mode = if line.mode == Mode::Visible { DecodeMode::Visible } else { DecodeMode::Raw };
        let text = all(tokenizer.decoder(mode), &line.ids, &mut out)?;
        let bytes = all(tokenizer.byte_decoder(mode), &line.ids, &mut out)?;
        let mut answer = json!({ "text": String::from_utf8_lossy(&text), "bytes": hex(&bytes) });
        if line.mode == Mode::Diagnostic {
            answer["tokens"] = line.ids.iter().map(|id| diagnostic(&tokenizer, *id)).collect();
        }
        Ok(answer)
    })
}

fn all(mut decoder: Decoder<'_>, ids: &[u32], out: &mut [u8]) -> Result<Vec<u8>, LineError> {
    let mut text = Vec::new();
    for id in ids {
        let count = decoder.push(*id, out)?;
        text.extend_from_slice(&out[..count]);
    }
    let count = decoder.finish(out)?;
    text.extend_from_slice(&out[..count]);
    Ok(text)
}

fn diagnostic(tokenizer: &Tokenizer<'_>, id: u32) -> Value {
    let piece = tokenizer.piece(id);
    json!({
        "id": id,
        "text": String::from_utf8_lossy(piece),
        "bytes": hex(piece),
        "special": tokenizer.is_special(id),
        "known": !piece.is_empty() || tokenizer.is_special(id),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
