//! `slm bench`: how fast a model runs here, and what the machine's memory would allow.

use super::logits::Backend;
use crate::failure::{Failure, Kind};
use crate::kv_cache;
use crate::pages::PagesArgs;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use tinyrustlm::core::container::DType;
use tinyrustlm::core::kernels::Workers;
use tinyrustlm::core::kv_cache::KvType;
use tinyrustlm::core::model::tensors::Role;
use tinyrustlm::core::model::{Matrix, Model};
use tinyrustlm::core::plan::{DEFAULT_BATCH, Plan};
use tinyrustlm::core::session::Session;
use tinyrustlm::measure::{Clock, decode_seconds, median, prefill_seconds, read_seconds};
use tinyrustlm::{Backing, Memory, Threads, describe};

/// Arguments of `slm bench`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  slm bench model.slm\n  slm bench model.slm -p 512 -n 64 -t 1,2 --depth 1,512,2048 --kv-cache f32,q8_0 --json\n\n\
    Every round measures reading the weights, prefill and decode in turn, so that all see the same machine; the figures\n\
    are medians. The limit is the time to read the bytes a token needs at the rate measured in the same round."
)]
pub struct Args {
    /// The model, a .slm file.
    model: PathBuf,
    /// Tokens of the prompt.
    #[arg(short, long, default_value_t = 512)]
    prompt: usize,
    /// Tokens decoded at each depth.
    #[arg(short = 'n', long, default_value_t = 32)]
    tokens: usize,
    /// Numbers of threads to try.
    #[arg(short, long, value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// Positions before the decoded tokens.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    depth: Vec<usize>,
    /// Rounds.
    #[arg(short, long, default_value_t = 5)]
    rounds: usize,
    /// Tokens of a pass over the weights.
    #[arg(long, default_value_t = DEFAULT_BATCH)]
    batch: usize,
    /// Instruction set.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,
    #[command(flatten)]
    pages: PagesArgs,
    /// How keys and values are kept: f32, q8_0 or both.
    #[arg(long = "kv-cache", value_name = "TYPE", value_parser = kv_cache::parse, value_delimiter = ',', default_value = "f32")]
    kv_types: Vec<KvType>,
    /// Count the time the thread had a core instead of time on the wall: for one thread on a busy machine.
    #[arg(long)]
    thread_clock: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A sequence to decode at.
struct Sequence {
    kv_type: KvType,
    /// Positions before the decoded tokens.
    depth: usize,
}

/// Bytes of keys and values of a position.
fn position_bytes(plan: &Plan) -> f64 {
    plan.kv_bytes() as f64 / plan.context as f64
}

/// What was measured with one number of threads.
struct Figures {
    threads: usize,
    read: Vec<f64>,
    prefill: Vec<f64>,
    /// Per sequence: seconds a token, and the share of the limit.
    decode: Vec<(Vec<f64>, Vec<f64>)>,
}

/// Measures and prints.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let start = Instant::now();
    let file = args.pages.open(&args.model, usize::MAX)?;
    let model = Model::parse(file.bytes()).map_err(|e| {
        Failure::new(Kind::Malformed, format!("{}: {}", args.model.display(), describe(e, Some(file.bytes()))))
    })?;
    let load = start.elapsed().as_secs_f64();
    let core = |e| Failure::new(Kind::Usage, describe(e, None));
    // A sequence for every kind of cache and depth, so that each is filled once and all take turns; and one for the prompt.
    let mut sequences: Vec<Sequence> = vec![];
    for &kv_type in &args.kv_types {
        sequences.extend(args.depth.iter().map(|&depth| Sequence { kv_type, depth }));
    }
    let deepest = args.depth.iter().max().map_or(0, |depth| depth + args.tokens);
    let context = args.prompt.max(deepest);
    if context > model.config.max_context {
        let limit = model.config.max_context;
        return Err(Failure::new(Kind::Usage, format!("-p, -n and --depth need {context} of {limit} positions")));
    }
    let most = args.threads.iter().copied().max().unwrap_or(1);
    let planned = |context: usize, kv_type: KvType| {
        Plan::new(&model, context, args.batch).and_then(|plan| plan.for_cache(&model, kv_type)?.for_workers(most))
    };
    let of_prompt = args.kv_types.first().map(|&kv_type| (args.prompt.max(1), kv_type));
    let of_depths = sequences.iter().map(|sequence| (sequence.depth + args.tokens, sequence.kv_type));
    let plans = of_prompt.into_iter().chain(of_depths).map(|(context, kv_type)| planned(context.max(1), kv_type));
    let plans = plans.collect::<Result<Vec<_>, _>>().map_err(core)?;
    let mut memories = plans.iter().map(Memory::new).collect::<Result<Vec<_>, _>>()?;
    let isa = args.backend.isa()?;
    let sessions =
        memories.iter_mut().zip(&plans).map(|(memory, plan)| Session::new(&model, *plan, memory.blocks(), isa));
    let mut sessions = sessions.collect::<Result<Vec<_>, _>>().map_err(core)?;
    let plan_bytes = plans.iter().map(Plan::bytes).sum::<usize>();
    let kv_bytes_in_all = plans.iter().map(Plan::kv_bytes).sum::<usize>();
    let clock = if args.thread_clock { Clock::Thread } else { Clock::Wall };
    let token_bytes = token_bytes(&model);

    let pools = args.threads.iter().map(|&n| Threads::new(n)).collect::<Result<Vec<_>, _>>()?;
    let mut all: Vec<Figures> = pools
        .iter()
        .map(|pool| Figures {
            threads: pool.count(),
            read: vec![],
            prefill: vec![],
            decode: sequences.iter().map(|_| (vec![], vec![])).collect(),
        })
        .collect();
    for _ in 0..args.rounds.max(1) {
        for (pool, figures) in pools.iter().zip(&mut all) {
            let rate = file.bytes().len() as f64 / read_seconds(clock, file.bytes(), pool);
            figures.read.push(rate);
            let Some((of_prompt, of_depths)) = sessions.split_first_mut() else { break };
            if args.prompt > 0 {
                figures.prefill.push(prefill_seconds(clock, of_prompt, pool, args.prompt).map_err(core)?);
            }
            for ((sequence, session), (decode, share)) in sequences.iter().zip(of_depths).zip(&mut figures.decode) {
                let depth = sequence.depth;
                let token = median(decode_seconds(clock, session, pool, depth, args.tokens).map_err(core)?);
                share.push(
                    (token_bytes + position_bytes(session.plan()) * (depth + args.tokens / 2) as f64) / rate / token,
                );
                decode.push(token);
            }
        }
    }

    let peak = peak_memory();
    let huge = file.backing() == Backing::HugePages;
    let how = if huge { "copied into huge pages" } else { "mapped" };
    if args.json {
        let rows: Vec<_> = all
            .iter()
            .map(|f| {
                let decode = sequences.iter().zip(&f.decode).map(|(sequence, (seconds, share))| {
                    json!({
                        "depth": sequence.depth, "kv_cache": sequence.kv_type.name(), "tokens_per_second": 1.0 / median(seconds.clone()),
                        "share_of_read_limit": median(share.clone()),
                    })
                });
                json!({
                    "threads": f.threads,
                    "read_bytes_per_second": median(f.read.clone()),
                    "prefill_tokens_per_second": args.prompt as f64 / median(f.prefill.clone()),
                    "decode": decode.collect::<Vec<_>>(),
                })
            })
            .collect();
        writeln!(
            out,
            "{}",
            json!({
                "model": args.model.display().to_string(), "isa": isa.name(), "huge_pages": huge, "load_seconds": load, "rounds": args.rounds,
                "bytes_per_token": token_bytes, "plan_bytes": plan_bytes,
                "file_bytes": file.bytes().len(), "peak_bytes": peak, "prompt": args.prompt, "results": rows,
            })
        )?;
        return Ok(());
    }
    writeln!(out, "{} on {}, {} in {load:.3} s", args.model.display(), isa.name(), how)?;
    writeln!(
        out,
        "memory    file {:.1} MB, sessions {:.1} MB (keys and values {:.1} MB){}",
        file.bytes().len() as f64 / 1e6,
        plan_bytes as f64 / 1e6,
        kv_bytes_in_all as f64 / 1e6,
        peak.map_or(String::new(), |peak| format!(", peak of the process {:.1} MB", peak as f64 / 1e6)),
    )?;
    for f in &all {
        writeln!(out, "threads {}: reading {:.1} GB/s", f.threads, median(f.read.clone()) / 1e9)?;
        if args.prompt > 0 {
            let rate = args.prompt as f64 / median(f.prefill.clone());
            writeln!(out, "  prefill {:>5}          {rate:>8.1} tokens/s", args.prompt)?;
        }
        for ((Sequence { kv_type, depth }, plan), (seconds, share)) in sequences.iter().zip(&plans[1..]).zip(&f.decode)
        {
            let token = median(seconds.clone());
            writeln!(
                out,
                "  decode at {depth:>5}, {:<5} {:>8.1} tokens/s  {:>6.1} GB/s  {:>3.0} % of the read limit",
                kv_type.name(),
                1.0 / token,
                (token_bytes + position_bytes(plan) * *depth as f64) / token / 1e9,
                100.0 * median(share.clone()),
            )?;
        }
    }
    Ok(())
}

/// Bytes of weights a token reads: every matrix of every layer and the head.
fn token_bytes(model: &Model<'_>) -> f64 {
    let bytes = |m: Matrix<'_>| if m.dtype == DType::Bytes { 0 } else { m.data.len() };
    let layers = (0..model.config.layer_count).map(|i| {
        let l = model.layer(i);
        [Role::Wq, Role::Wk, Role::Wv, Role::Wo, Role::W1, Role::W3, Role::W2]
            .iter()
            .map(|role| bytes(l.linear(*role).matrix))
            .sum::<usize>()
    });
    (layers.sum::<usize>() + bytes(model.head())) as f64
}

/// Most memory the process had at any time, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
