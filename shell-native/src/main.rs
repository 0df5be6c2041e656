//! `tinyrustlm`: the edge binary. One static file that runs a model and nothing else.

// These panic when a reader has gone.
#![deny(clippy::print_stdout)]

use sha2::{Digest, Sha256};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use tinyrustlm::core::kernels::Workers;
use tinyrustlm::core::kv_cache::KvType;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::{DEFAULT_BATCH, DEFAULT_CONTEXT, Plan};
use tinyrustlm::core::sampler::SamplerConfig;
use tinyrustlm::core::session::{Generation, Limits, Session};
use tinyrustlm::core::tokenizer::Encode;
use tinyrustlm::core::{Block64, Error};
use tinyrustlm::{Memory, ModelFile, Threads, describe, detect};

const HELP: &str = "\
Runs a compact language model.

Usage: tinyrustlm MODEL -p PROMPT [OPTIONS]
       tinyrustlm MODEL --ids ID,ID,... [OPTIONS]

  -p PROMPT         the text to complete; `-` reads it from stdin
  --ids ID,...      the prompt as token ids; prints all ids and the sha256 of the last logits, no text
  -n N              tokens to generate (default 64; with --ids 16, the likeliest each time)
  --temperature T   0, the default, takes the likeliest token
  --seed S          of the draws (default 0)
  --context N       positions to plan (default the model's own, at most 2048)
  --kv-cache TYPE   how keys and values are kept: f32 (default), or q8_0, which takes little more than a quarter of the
                    memory but does not give the bits of the reference
  --threads N       default by cores; the result does not depend on it
  -h, --help        this text

Examples:
  tinyrustlm model.slm -p \"The capital of France is\" -n 16
  tinyrustlm model.slm --ids 256,72,101,108,108,111";

#[derive(Default)]
struct Args {
    model: String,
    prompt: Option<String>,
    ids: Vec<u32>,
    new_tokens: Option<u32>,
    temperature: f64,
    seed: u64,
    context: Option<usize>,
    kv_type: KvType,
    threads: Option<usize>,
}

/// The command line; `None` for help.
fn parse_args(mut words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
    let mut args = Args::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "-h" | "--help" => return Ok(None),
            "-p" => args.prompt = Some(value()?),
            "--ids" => args.ids = value()?.split(',').map(number).collect::<Result<_, _>>()?,
            "-n" => args.new_tokens = Some(number(&value()?)?),
            "--temperature" => args.temperature = number(&value()?)?,
            "--seed" => args.seed = number(&value()?)?,
            "--context" => args.context = Some(number(&value()?)?),
            "--kv-cache" => args.kv_type = kv_type(&value()?)?,
            "--threads" => args.threads = Some(number(&value()?)?),
            _ if word.starts_with('-') => return Err(format!("unknown option {word}")),
            _ if args.model.is_empty() => args.model = word,
            _ => return Err(format!("{word}: one model at a time")),
        }
    }
    if args.model.is_empty() {
        return Err("no model named".into());
    }
    if args.prompt.is_none() == args.ids.is_empty() {
        return Err("a prompt is needed, -p or --ids".into());
    }
    Ok(Some(args))
}

fn kv_type(name: &str) -> Result<KvType, String> {
    KvType::named(name).ok_or_else(|| format!("--kv-cache {name}: one of {}", KvType::ALL.map(KvType::name).join(", ")))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is no number"))
}

fn run(args: &Args) -> Result<(), String> {
    let file = ModelFile::open(&args.model).map_err(|e| format!("{}: {e}", args.model))?;
    let said = |e| describe(e, Some(file.bytes()));
    let model = Model::parse(file.bytes()).map_err(said)?;
    let threads = args.threads.unwrap_or_else(Threads::default_count).max(1);
    let workers = Threads::new(threads).map_err(|e| format!("{threads} threads: {e}"))?;
    let context = args.context.unwrap_or(model.config.max_context.min(DEFAULT_CONTEXT));
    let plan = Plan::new(&model, context, DEFAULT_BATCH)
        .and_then(|plan| plan.for_cache(&model, args.kv_type)?.for_workers(threads))
        .map_err(said)?;
    let mut memory = Memory::new(&plan).map_err(|e| format!("{} bytes: {e}", plan.bytes()))?;
    let session = Session::new(&model, plan, memory.blocks(), detect()).map_err(said)?;
    match &args.prompt {
        None => write(compute(args, session, &workers).map_err(said)?.as_bytes()).map(|_| ()),
        Some(prompt) if prompt == "-" => {
            let text = std::io::read_to_string(std::io::stdin()).map_err(|e| format!("stdin: {e}"))?;
            complete(args, &text, session, &workers)
        }
        Some(prompt) => complete(args, prompt, session, &workers),
    }
}

/// A line of the prompt's ids, those that follow, and the digest of the logits after the last.
fn compute(args: &Args, mut session: Session<'_>, workers: &dyn Workers) -> Result<String, Error> {
    let mut ids = args.ids.clone();
    let mut logits = session.prefill(&ids, workers)?;
    for _ in 0..args.new_tokens.unwrap_or(16) {
        let id = likeliest(logits);
        ids.push(id);
        logits = session.step(id, workers)?;
    }
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("ids {} sha256 {digest}\n", ids.join(",")))
}

/// Writes the text that follows `prompt` as it comes.
fn complete(args: &Args, prompt: &str, session: Session<'_>, workers: &dyn Workers) -> Result<(), String> {
    let said = |e| describe(e, None);
    let model = *session.model();
    let tokenizer = model.tokenizer().map_err(said)?;
    let mut scratch = vec![0; tokenizer.scratch_words(prompt.len())];
    let mut ids = vec![0; tokenizer.max_ids(prompt.len())];
    let how = Encode { add_special_tokens: true, content: None };
    let mut len = tokenizer.encode(prompt.as_bytes(), how, &mut scratch, &mut ids).map_err(said)?;
    // An end token that the tokenizer puts behind every text would end this one before it begins.
    if len > 1 && ids.get(len - 1).is_some_and(|id| model.stops.contains(*id)) {
        len -= 1;
    }
    ids.truncate(len);

    let config = SamplerConfig { temperature: args.temperature, seed: args.seed, ..SamplerConfig::GREEDY };
    let mut blocks = vec![Block64::ZERO; Generation::blocks(model.config.vocab_size, session.context())];
    let mut generation = Generation::new(session, &tokenizer, &config, &mut blocks).map_err(said)?;
    let limits = Limits { max_new_tokens: args.new_tokens.unwrap_or(64), continues: true, ..Limits::default() };
    generation.begin(&ids, 0, &limits).map_err(said)?;
    let mut out = vec![0; generation.room()];
    loop {
        let event = generation.next(workers, None, &mut out).map_err(said)?;
        let text = out.get(..event.written).unwrap_or(&[]);
        if !write(text)? {
            return Ok(());
        }
        if event.stop.is_some() {
            return write(b"\n").map(|_| ());
        }
    }
}

/// Writes to stdout. Gives `false` when its reader has gone, which is no failure.
fn write(text: &[u8]) -> Result<bool, String> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("stdout: {error}")),
    }
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
    let done = match parse_args(std::env::args().skip(1)) {
        Ok(None) => write(format!("{HELP}\n").as_bytes()).map(|_| ()),
        Ok(Some(args)) => run(&args),
        Err(message) => {
            eprintln!("tinyrustlm: {message}; see --help");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("tinyrustlm: {message}");
            ExitCode::FAILURE
        }
    }
}
