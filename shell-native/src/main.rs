//! `tinyrustlm`: the edge binary. One static file that runs a model and nothing else.

use std::process::ExitCode;
use tinyrustlm::core::kernels::Serial;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::{DEFAULT_CONTEXT, Plan};
use tinyrustlm::core::session::Session;
use tinyrustlm::{Memory, ModelFile, describe, detect};

use sha2::{Digest, Sha256};

const HELP: &str = "\
Runs a compact language model.

Usage: tinyrustlm MODEL --ids ID,ID,... [-n N]

  --ids ID,...   the prompt as token ids; prints all ids and the sha256 of the last logits
  -n N           tokens to generate, the likeliest each time (default 16)
  -h, --help     this text

Example:
  tinyrustlm model.slm --ids 256,72,101,108,108,111 -n 16";

struct Args {
    model: String,
    ids: Vec<u32>,
    new_tokens: usize,
}

/// The command line; `None` for help.
fn parse_args(mut words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
    let mut args = Args { model: String::new(), ids: vec![], new_tokens: 16 };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "-h" | "--help" => return Ok(None),
            "--ids" => args.ids = list(&value()?)?,
            "-n" => args.new_tokens = number(&value()?)?,
            _ if word.starts_with('-') => return Err(format!("unknown option {word}")),
            _ if args.model.is_empty() => args.model = word,
            _ => return Err(format!("{word}: one model at a time")),
        }
    }
    if args.model.is_empty() {
        return Err("no model named".into());
    }
    if args.ids.is_empty() {
        return Err("no prompt: use --ids".into());
    }
    Ok(Some(args))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is no number"))
}

fn list(text: &str) -> Result<Vec<u32>, String> {
    text.split(',').map(number).collect()
}

fn run(args: &Args) -> Result<(), String> {
    let file = ModelFile::open(&args.model).map_err(|e| format!("{}: {e}", args.model))?;
    let said = |e| describe(e, Some(file.bytes()));
    let model = Model::parse(file.bytes()).map_err(said)?;
    let plan = Plan::new(&model, model.config.max_context.min(DEFAULT_CONTEXT), 64).map_err(said)?;
    let mut memory = Memory::new(&plan).map_err(|e| format!("{} bytes: {e}", plan.bytes()))?;
    let mut session = Session::new(&model, plan, memory.blocks(), detect()).map_err(said)?;

    let mut ids = args.ids.clone();
    let mut logits = session.prefill(&ids, &Serial).map_err(said)?;
    for _ in 0..args.new_tokens {
        let id = likeliest(logits);
        ids.push(id);
        logits = session.step(id, &Serial).map_err(said)?;
    }
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    println!("ids {} sha256 {digest}", ids.join(","));
    Ok(())
}

/// The highest logit; the lower id of equals.
fn likeliest(logits: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, &logit) in (0..).zip(logits) {
        if logit > best.1 {
            best = (id, logit);
        }
    }
    best.0
}

fn main() -> ExitCode {
    match parse_args(std::env::args().skip(1)) {
        Ok(None) => println!("{HELP}"),
        Ok(Some(args)) => {
            if let Err(message) = run(&args) {
                eprintln!("tinyrustlm: {message}");
                return ExitCode::FAILURE;
            }
        }
        Err(message) => {
            eprintln!("tinyrustlm: {message}; see --help");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
