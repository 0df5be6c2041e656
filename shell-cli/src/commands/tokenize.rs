//! `slm tokenize`: text to ids, line by line.

use super::lines::{self, LineError};
use crate::failure::Failure;
use crate::tokenizer;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use tinyrustlm_core::tokenizer::{Encode, Stage, Tokenizer};

/// Arguments of `slm tokenize`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Reads JSON lines {\"text\":\"..\",\"add_special_tokens\":true} and writes {\"ids\":[..]}.\n\n\
    Examples:\n  echo '{\"text\":\"Hello\"}' | slm tokenize model.slm\n  slm tokenize tokenizer.json --explain < lines.jsonl")]
pub struct Args {
    /// A `.slm` file, a Hugging Face folder, or a `tokenizer.json`.
    model: PathBuf,
    /// Show what each stage makes of the text.
    #[arg(long)]
    explain: bool,
}

#[derive(Deserialize)]
struct Line {
    text: String,
    #[serde(default = "yes")]
    add_special_tokens: bool,
}

fn yes() -> bool {
    true
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let opened = tokenizer::open(&args.model)?;
    let tokenizer = opened.tokenizer()?;
    let mut scratch = Vec::new();
    let mut ids = Vec::new();
    lines::answer(|line| {
        let line: Line = lines::parse(line)?;
        scratch.resize(tokenizer.scratch_words(line.text.len()).max(scratch.len()), 0);
        ids.resize(tokenizer.max_ids(line.text.len()).max(ids.len()), 0);
        let how = Encode { add_special_tokens: line.add_special_tokens, content: None };
        if args.explain {
            return explain(&tokenizer, &line.text, how, &mut scratch, &mut ids);
        }
        let count = tokenizer.encode(line.text.as_bytes(), how, &mut scratch, &mut ids)?;
        Ok(json!({ "ids": &ids[..count] }))
    })
}

/// The stages of one text: sections after normalisation, pieces with their offsets in their section (bytes of the
/// normalised text), tokens with the bytes the model knows them by.
fn explain(
    tokenizer: &Tokenizer<'_>,
    text: &str,
    how: Encode<'_>,
    scratch: &mut [u32],
    ids: &mut [u32],
) -> Result<Value, LineError> {
    let mut sections: Vec<Value> = Vec::new();
    let mut pieces: Vec<(usize, usize, String, usize)> = Vec::new();
    let mut at = 0;
    let mut observe = |stage: Stage<'_>| match stage {
        Stage::Added(id) => sections.push(json!({ "added": id })),
        Stage::Normalized(text) => {
            at = 0;
            sections.push(json!({ "normalized": String::from_utf8_lossy(text) }));
        }
        Stage::Piece(piece, before) => {
            pieces.push((sections.len() - 1, at, String::from_utf8_lossy(piece).into_owned(), before));
            at += piece.len();
        }
    };
    let count = tokenizer.encode_observed(text.as_bytes(), how, scratch, ids, &mut observe)?;
    let shown = |id: u32| {
        let bytes = tokenizer.token_bytes(id);
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        json!({ "id": id, "token": String::from_utf8_lossy(bytes), "bytes": hex })
    };
    let pieces: Vec<Value> = pieces
        .iter()
        .map(|(section, start, piece, before)| {
            json!({ "section": section, "start": start, "piece": piece, "first_id": before })
        })
        .collect();
    let tokens: Vec<Value> = ids[..count].iter().map(|id| shown(*id)).collect();
    Ok(json!({ "ids": &ids[..count], "sections": sections, "pieces": pieces, "tokens": tokens }))
}
