//! `slm logits`: the logits a model gives for id lists.

use crate::failure::{Failure, Kind};
use crate::kv_cache::KvCacheArgs;
use crate::pages::PagesArgs;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufRead, BufWriter, Write};
use std::path::PathBuf;
use tinyrustlm::core::kernels::{Isa, Workers};
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::{DEFAULT_BATCH, DEFAULT_CONTEXT, Plan};
use tinyrustlm::core::session::Session;
use tinyrustlm::core::{Code, Error};
use tinyrustlm::{Memory, Threads, available, describe, detect};

/// Logits shown per line.
const SHOWN: usize = 32;

/// Arguments of `slm logits`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  echo '{\"ids\":[504,3575,282]}' | slm logits model.slm\n\n\
    Each line of the input, {\"ids\":[..]}, starts at position 0. Each line of the output has the best id, the 32 best\n\
    with their logits, and the SHA-256 of the last position's logits as little-endian f32.")]
pub struct Args {
    /// The model, a .slm file.
    model: PathBuf,
    /// Also write the last position's logits, f32 little-endian, one row per line of the input.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Instruction set: every one gives the same bits.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,
    /// Threads; by default one per core. They change no bit.
    #[arg(long)]
    threads: Option<usize>,
    #[command(flatten)]
    pages: PagesArgs,
    #[command(flatten)]
    kv_cache: KvCacheArgs,
    /// Positions to plan for; by default the model's, at most 2048.
    #[arg(long)]
    context: Option<usize>,
    /// Tokens of a pass over the weights. They change no bit.
    #[arg(long, default_value_t = DEFAULT_BATCH)]
    batch: usize,
}

/// Which kernels to use.
#[derive(Clone, Copy, clap::ValueEnum, Debug)]
pub enum Backend {
    /// The best this CPU has.
    Auto,
    /// Portable code.
    Scalar,
    /// x86-64 with AVX2.
    Avx2,
    /// x86-64 with AVX-512 and VNNI.
    Avx512,
    /// 64-bit Arm.
    Neon,
}

impl Backend {
    /// The instruction set, where this CPU has it.
    pub fn isa(self) -> Result<Isa, Failure> {
        let name = match self {
            Self::Auto => return Ok(detect()),
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        };
        available()
            .find(|isa| isa.name() == name)
            .ok_or_else(|| Failure::new(Kind::Usage, format!("--backend {name}: this CPU does not have it")))
    }
}

/// Answers line by line; a bad line gives an error object and the run goes on.
pub fn run(args: Args) -> Result<(), Failure> {
    let file = args.pages.open(&args.model, 1)?;
    let model = Model::parse(file.bytes()).map_err(|e| {
        Failure::new(Kind::Malformed, format!("{}: {}", args.model.display(), describe(e, Some(file.bytes()))))
    })?;
    let threads = Threads::new(args.threads.unwrap_or_else(Threads::default_count))?;
    let usual = model.config.max_context.min(DEFAULT_CONTEXT);
    let plan = Plan::new(&model, args.context.unwrap_or(usual), args.batch)
        .and_then(|plan| plan.for_cache(&model, args.kv_cache.kv_type)?.for_workers(threads.count()))
        .map_err(|e| match e.code() {
            Code::ContextExceeded => Failure::new(
                Kind::Usage,
                format!("--context is over the model's {} positions", model.config.max_context),
            ),
            _ => Failure::new(Kind::Usage, describe(e, None)),
        })?;
    let mut memory = Memory::new(&plan)?;
    let core = |e| Failure::new(Kind::Malformed, describe(e, None));
    let mut session = Session::new(&model, plan, memory.blocks(), args.backend.isa()?).map_err(core)?;
    let mut rows = match &args.output {
        Some(path) => {
            let file = File::create(path).map_err(|e| Failure::new(Kind::Io, format!("{}: {e}", path.display())))?;
            Some(BufWriter::new(file))
        }
        None => None,
    };

    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        session.reset();
        let answer = ids_of(&line).and_then(|ids| Ok(session.prefill(&ids, &threads)?));
        let answer = match answer {
            Ok(logits) => {
                let bytes: Vec<u8> = logits.iter().flat_map(|v| v.to_le_bytes()).collect();
                if let Some(rows) = &mut rows {
                    rows.write_all(&bytes)?;
                }
                let best = best(logits);
                json!({
                    "argmax": best[0],
                    "top": best.iter().map(|&id| json!([id, logits[id]])).collect::<Vec<_>>(),
                    "sha256": format!("{:x}", Sha256::digest(&bytes)),
                })
            }
            Err(bad) => {
                if let Some(rows) = &mut rows {
                    rows.write_all(&f32::NAN.to_le_bytes().repeat(model.config.vocab_size))?;
                }
                json!({ "error": bad.json() })
            }
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    if let Some(mut rows) = rows {
        rows.flush()?;
    }
    Ok(())
}

/// The best ids, falling; ties to the lower id.
fn best(logits: &[f32]) -> Vec<usize> {
    let mut ids: Vec<usize> = (0..logits.len()).collect();
    let order = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
    if ids.len() > SHOWN {
        ids.select_nth_unstable_by(SHOWN, order);
        ids.truncate(SHOWN);
    }
    ids.sort_unstable_by(order);
    ids
}

/// What is wrong with a line.
enum BadLine {
    Json(String),
    Core(Error),
}

impl From<Error> for BadLine {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

impl BadLine {
    fn json(&self) -> Value {
        match self {
            Self::Json(message) => json!({ "code": 2, "name": "InvalidLength", "message": message }),
            Self::Core(e) => json!({
                "code": e.number(), "name": e.code().name(), "message": describe(*e, None), "offset": e.offset(),
            }),
        }
    }
}

fn ids_of(line: &str) -> Result<Vec<u32>, BadLine> {
    #[derive(serde::Deserialize)]
    struct Line {
        ids: Vec<u32>,
    }
    serde_json::from_str::<Line>(line).map(|line| line.ids).map_err(|e| BadLine::Json(e.to_string()))
}
