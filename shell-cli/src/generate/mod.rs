//! What `run` and `chat` share: options of sampling, a loaded model, and one generation from prompt to result.

mod explain;
mod options;
mod result;

pub use explain::table;
pub use options::{Purpose, SamplingArgs};
pub use result::{Answer, failure_json};

use crate::failure::{Failure, Kind};
use std::path::Path;
use std::time::Instant;
use tinyrustlm::core::diagnostics::{Shell, write_report, write_trace};
use tinyrustlm::core::kernels::Workers;
use tinyrustlm::core::kv_cache::KvType;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::{DEFAULT_BATCH, DEFAULT_CONTEXT, Plan};
use tinyrustlm::core::sampler::{Bias, SamplerConfig};
use tinyrustlm::core::session::{Generation, Limits, Session};
use tinyrustlm::core::tokenizer::{Encode, Tokenizer};
use tinyrustlm::core::{Block64, Code, Error};
use tinyrustlm::{Memory, ModelFile, describe};

/// The model in a file.
///
/// # Errors
/// What is wrong with it, with offset and tensor.
pub fn parse<'f>(file: &'f ModelFile, path: &Path) -> Result<(Model<'f>, Tokenizer<'f>), Failure> {
    let bytes = file.bytes();
    let damaged = |e| Failure::new(Kind::Malformed, format!("{}: {}", path.display(), describe(e, Some(bytes))));
    let model = Model::parse(bytes).map_err(damaged)?;
    let tokenizer = model.tokenizer().map_err(damaged)?;
    Ok((model, tokenizer))
}

/// Where a session and its generation live.
#[derive(Debug)]
pub struct Room {
    plan: Plan,
    memory: Memory,
    blocks: Vec<Block64>,
    bias: Vec<Bias>,
}

impl Room {
    /// Room for `context` positions, by default the model's own, at most 2,048, whose keys and values are kept as `kv_type` says,
    /// and for so many threads.
    ///
    /// # Errors
    /// A context over the model's, or no memory.
    pub fn new(model: &Model<'_>, context: Option<usize>, kv_type: KvType, threads: usize) -> Result<Self, Failure> {
        let most = model.config.max_context;
        let context = context.unwrap_or(most.min(DEFAULT_CONTEXT));
        let plan = Plan::new(model, context, DEFAULT_BATCH)
            .and_then(|plan| plan.for_cache(model, kv_type)?.for_workers(threads))
            .map_err(|e| match e.code() {
                Code::ContextExceeded => {
                    Failure::new(Kind::Usage, format!("--context {context} is over the model's {most} positions"))
                }
                _ => Failure::new(Kind::Usage, describe(e, None)),
            })?;
        let blocks = vec![Block64::ZERO; Generation::blocks(plan.vocab_size, plan.context)];
        Ok(Self { memory: Memory::new(&plan)?, plan, blocks, bias: Vec::new() })
    }

    /// The generation.
    ///
    /// # Errors
    /// A sampling parameter out of range, or stop strings the core refuses.
    pub fn generation<'a>(
        &'a mut self,
        model: &Model<'a>,
        tokenizer: &Tokenizer<'a>,
        options: &SamplingArgs,
        config: &SamplerConfig,
    ) -> Result<Generation<'a, 'a>, Failure> {
        let usage = |e| Failure::new(Kind::Usage, describe(e, None));
        let session = Session::new(model, self.plan, self.memory.blocks(), options.isa()).map_err(usage)?;
        let mut generation = Generation::new(session, tokenizer, config, &mut self.blocks).map_err(usage)?;
        let strings = options.stop.iter().map(|s| s.as_bytes());
        generation.set_stops(&options.stop_id, strings, options.include_stop).map_err(usage)?;
        self.bias = options.bias.clone();
        self.bias.sort_by_key(|bias| bias.id);
        generation.sampler().set_bias(&self.bias).map_err(usage)?;
        if options.explain > 0 {
            generation.sampler().trace(options.explain);
        }
        Ok(generation)
    }
}

/// Ids of a text. With `specials`, the tokenizer's own ids stand around it, but for one end token behind it, which
/// would ask the model to go on after its end.
///
/// # Errors
/// Those of [`Tokenizer::encode`].
pub fn encode(model: &Model<'_>, tokenizer: &Tokenizer<'_>, text: &str, specials: bool) -> Result<Vec<u32>, Error> {
    let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
    let mut encode = |add_special_tokens| {
        let mut ids = vec![0; tokenizer.max_ids(text.len())];
        let how = Encode { add_special_tokens, content: None };
        let len = tokenizer.encode(text.as_bytes(), how, &mut scratch, &mut ids)?;
        ids.truncate(len);
        Ok::<_, Error>(ids)
    };
    let plain = encode(false)?;
    if !specials {
        return Ok(plain);
    }
    let mut ids = encode(true)?;
    let added_behind = !ids.ends_with(&plain) || (plain.is_empty() && !ids.is_empty());
    if added_behind && ids.last().is_some_and(|&id| model.stops.contains(id)) {
        ids.pop();
    }
    Ok(ids)
}

/// Generates from `prompt` to the end and hands each piece of text to `show`, which says whether to go on: if not,
/// generation is cancelled. It is asked between parts of the prompt too.
///
/// # Errors
/// The error that kept generation from starting or ended it, with what there was by then.
pub fn generate(
    generation: &mut Generation<'_, '_>,
    workers: &dyn Workers,
    prompt: &[u32],
    turn: u32,
    limits: &Limits,
    explain: usize,
    mut show: impl FnMut(&str) -> bool,
) -> Result<Answer, (Error, Box<Answer>)> {
    let start = Instant::now();
    let mut out = vec![0; generation.room()];
    let mut answer = Answer::default();
    let mut first_token = None;
    let mut failed = generation.begin(prompt, turn, limits).err();
    while failed.is_none() && generation.is_running() {
        match generation.next(workers, None, &mut out) {
            Ok(event) => {
                let text = String::from_utf8_lossy(&out[..event.written]);
                answer.text.push_str(&text);
                if let Some(token) = event.token {
                    first_token.get_or_insert_with(|| start.elapsed());
                    if explain > 0 || limits.logprobs > 0 {
                        answer.steps.push(trace(generation, &token, explain));
                    }
                }
                if !show(&text) {
                    generation.cancel();
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    let total = start.elapsed();
    let millis = |d: std::time::Duration| d.as_secs_f64() * 1e3;
    answer.prompt_ids = generation.prompt().to_vec();
    answer.ids = generation.generated().to_vec();
    answer.reused = generation.reused();
    answer.stop = generation.stop();
    let decoding = total.saturating_sub(first_token.unwrap_or(total)).as_secs_f64();
    answer.prefill_ms = millis(first_token.unwrap_or(total));
    answer.tokens_per_second =
        (answer.ids.len() > 1 && decoding > 0.0).then(|| (answer.ids.len() - 1) as f64 / decoding);
    let id = result::transaction_id();
    let shell = Shell {
        transaction_id: Some(&id),
        time_to_first_token_ms: first_token.map(millis),
        generation_time_ms: Some(millis(total)),
        tokens_per_second: answer.tokens_per_second,
        peak_memory_bytes: result::peak_memory(),
    };
    answer.diagnostics = json_of(|out| write_report(generation, &shell, out));
    match failed {
        None => Ok(answer),
        Some(error) => {
            if generation.error().is_none() {
                let model = Some(generation.session().model());
                let stage = tinyrustlm::core::diagnostics::LoadStage::KvAllocationSuccess;
                answer.diagnostics =
                    json_of(|out| tinyrustlm::core::diagnostics::write_failure(model, stage, Some(error), &shell, out));
            }
            Err((error, Box::new(answer)))
        }
    }
}

fn trace(generation: &Generation<'_, '_>, token: &tinyrustlm::core::session::Token, rows: usize) -> serde_json::Value {
    json_of(|out| write_trace(generation, token, rows, out))
}

/// The JSON a core function writes into a buffer, however long.
fn json_of(write: impl Fn(&mut [u8]) -> Result<usize, Error>) -> serde_json::Value {
    let mut out = vec![0; 1 << 14];
    loop {
        match write(&mut out) {
            Ok(len) => return serde_json::from_slice(&out[..len]).unwrap_or(serde_json::Value::Null),
            Err(error) => match error.index() {
                Some(needed) => out.resize(needed as usize, 0),
                None => return serde_json::Value::Null,
            },
        }
    }
}
