//! `slm size`: a file's bytes against a budget, what takes them, and what changed.

mod report;
mod wasm;

use crate::failure::{Failure, Kind};
use report::Report;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  slm size module.wasm --budget 114KiB
  slm size module.wasm --names module.named.wasm --baseline size.json
  slm size module.wasm --names module.named.wasm --save size.json

Exit code 1 when the file is over its budget. Sizes differ from the baseline without failing.";

/// Arguments of `slm size`.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The file to measure; of a WebAssembly module also its sections and functions.
    file: PathBuf,
    /// Most bytes it may have, e.g. 116736 or 114KiB.
    #[arg(long, value_parser = parse_size)]
    budget: Option<u64>,
    /// An earlier measurement (of --save), or an earlier file, to compare with.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// The same module before its names were stripped, to name the functions.
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// Write this measurement as a baseline.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// How many functions to list.
    #[arg(long, default_value_t = 20)]
    top: usize,
    /// Print the measurement as JSON.
    #[arg(long)]
    json: bool,
}

fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let factor = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        other => return Err(format!("unknown unit {other:?}; use B, KiB or MiB")),
    };
    let count: u64 = digits.parse().map_err(|_| format!("{text:?} is no size"))?;
    count.checked_mul(factor).ok_or_else(|| format!("{text:?} is too large"))
}

/// Prints the sizes; fails when the file is over the budget.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let bytes = read(&args.file)?;
    let named = args.names.as_deref().map(read).transpose()?;
    let report = Report::of(&bytes, named.as_deref())
        .map_err(|what| Failure::new(Kind::Malformed, format!("{}: {what}", args.file.display())))?;
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    if args.json {
        writeln!(out, "{}", report.to_json())?;
    } else {
        write!(out, "{}", report.to_text(args.top, args.budget))?;
        if let Some(baseline) = &baseline {
            write!(out, "{}", report.changes_since(baseline, args.top))?;
        }
    }
    if let Some(path) = &args.save {
        std::fs::write(path, report.to_json() + "\n").map_err(|e| io(path, e))?;
    }
    let size = bytes.len() as u64;
    match args.budget {
        Some(budget) if size > budget => Err(Failure::new(
            Kind::CheckFailed,
            format!("{} has {size} bytes, {} over its budget of {budget}", args.file.display(), size - budget),
        )),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|e| io(path, e))
}

fn io(path: &Path, error: std::io::Error) -> Failure {
    Failure::new(Kind::Io, format!("{}: {error}", path.display()))
}

/// A saved measurement, or one taken now of an earlier file.
fn read_baseline(path: &Path) -> Result<Report, Failure> {
    let bytes = read(path)?;
    let report = if bytes.starts_with(b"{") {
        serde_json::from_slice(&bytes).map_err(|e| e.to_string())
    } else {
        Report::of(&bytes, None)
    };
    report.map_err(|what| Failure::new(Kind::Malformed, format!("{}: {what}", path.display())))
}
