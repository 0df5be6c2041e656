//! `slm inspect`: what a `.slm` file holds and where it came from.

use crate::convert::provenance;
use crate::failure::{Failure, Kind};
use crate::inspect;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `slm inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file is read by a parser of its own, written from SPEC.md, and its structure and checksum are checked: exit code 5 names
the first offset that breaks a rule.

Examples:
  slm inspect model.slm
  slm inspect model.slm --json --tensors
  slm inspect model.slm --ledger
  slm inspect model.slm --tokenizer
  slm inspect model.slm --extract config.json")]
pub struct Args {
    /// The file to read.
    model: PathBuf,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// List every tensor with shape, dtype and place.
    #[arg(long)]
    tensors: bool,
    /// List where each tensor came from: source tensor, range, transforms, SHA-256.
    #[arg(long)]
    ledger: bool,
    /// Show each stage of the tokenizer, as JSON. Also takes a folder or a tokenizer.json.
    #[arg(long, conflicts_with_all = ["json", "tensors", "ledger"])]
    tokenizer: bool,
    /// Write a file of the source that is kept in the provenance (config.json, tokenizer.json, ...) to stdout.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["json", "tensors", "ledger", "tokenizer"])]
    extract: Option<String>,
}

/// Prints the report.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if args.tokenizer {
        let opened = crate::tokenizer::open(&args.model)?;
        writeln!(out, "{:#}", crate::tokenizer::describe(&opened.tokenizer()?))?;
        return Ok(());
    }
    let model = inspect::read(&args.model)?;
    if let Some(name) = &args.extract {
        let kept = &model.records.provenance["kept"];
        let names = || kept.as_object().map(|m| m.keys().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default();
        let data = provenance::kept(&kept[name.as_str()]).ok_or_else(|| {
            Failure::new(Kind::Usage, format!("{name} is not kept in the file; kept are: {}", names()))
        })?;
        return Ok(out.write_all(&data)?);
    }
    if args.json {
        let value = inspect::json(&model, args.tensors, args.ledger);
        // Byte strings of the provenance are shown as hex digits.
        writeln!(out, "{}", value.to_string().replace("\\u0000hex:", ""))?;
    } else {
        write!(out, "{}", inspect::text(&model, args.tensors, args.ledger))?;
    }
    Ok(())
}
