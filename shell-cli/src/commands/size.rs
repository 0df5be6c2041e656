//! `slm size`: a file's bytes against a budget.

use crate::failure::{Failure, Kind};
use std::path::PathBuf;

/// Arguments of `slm size`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to measure.
    file: PathBuf,
    /// Most bytes it may have, e.g. 116736 or 114KiB.
    #[arg(long, value_parser = parse_size)]
    budget: Option<u64>,
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

/// Prints the size; fails when it is over the budget.
pub fn run(args: Args) -> Result<(), Failure> {
    let bytes = std::fs::metadata(&args.file)
        .map_err(|e| Failure::new(Kind::Io, format!("{}: {e}", args.file.display())))?
        .len();
    println!("{bytes} bytes");
    match args.budget {
        Some(budget) if bytes > budget => Err(Failure::new(
            Kind::CheckFailed,
            format!("{} has {bytes} bytes, {} over its budget of {budget}", args.file.display(), bytes - budget),
        )),
        _ => Ok(()),
    }
}
