//! What a generation did, as JSON.
//!
//! The report has two parts. Everything the core knows is deterministic: the same model, prompt and profile give the
//! same bytes on every backend. What only a shell knows, a transaction's name, times and the peak of memory, is handed
//! in with [`Shell`] and stands in fields of its own, `null` where it is not.

mod json;
mod trace;

pub use json::Json;
pub use trace::write_trace;

use crate::container::DType;
use crate::error::Error;
use crate::model::Model;
use crate::model::tensors::Role;
use crate::sampler::{OnAllMasked, PrngKind, SamplerConfig, StageOrder};
use crate::session::Generation;
use crate::stops::StopReason;

/// What only the shell knows.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Shell<'s> {
    /// Name of the transaction.
    pub transaction_id: Option<&'s str>,
    /// From the request to the first token, in milliseconds.
    pub time_to_first_token_ms: Option<f64>,
    /// From the request to the end, in milliseconds.
    pub generation_time_ms: Option<f64>,
    /// Generated tokens per second of decoding.
    pub tokens_per_second: Option<f64>,
    /// The most memory the process or module has had, in bytes.
    pub peak_memory_bytes: Option<u64>,
}

/// How loading went, in the words of the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadStage {
    /// Nothing was loaded yet.
    NotLoaded,
    /// The file is larger than the host's ceiling.
    TransferCeilingExceeded,
    /// The file was refused.
    ModelRejected,
    /// The memory could not be had.
    KvAllocationFailed,
    /// Model and cache are in place.
    KvAllocationSuccess,
}

impl LoadStage {
    /// The name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotLoaded => "NOT_LOADED",
            Self::TransferCeilingExceeded => "TRANSFER_CEILING_EXCEEDED",
            Self::ModelRejected => "MODEL_REJECTED",
            Self::KvAllocationFailed => "KV_ALLOCATION_FAILED",
            Self::KvAllocationSuccess => "KV_ALLOCATION_SUCCESS",
        }
    }
}

/// Writes the report of a generation, finished or not. Returns its length.
///
/// # Errors
/// [`OutputBufferExceeded`](crate::Code::OutputBufferExceeded) with the length needed; 4 KiB suffice for texts of
/// ordinary length.
pub fn write_report(generation: &Generation<'_, '_>, shell: &Shell<'_>, out: &mut [u8]) -> Result<usize, Error> {
    let session = generation.session();
    let row = session.plan().kv_bytes().checked_div(session.context()).unwrap_or(0);
    let used = (row as u64).saturating_mul(session.kv_len() as u64);
    let counts = [generation.prompt().len() as u64, generation.generated().len() as u64, used];
    let mut json = Json::new(out);
    let j = &mut json;
    let stage = LoadStage::KvAllocationSuccess;
    common(j, shell, Some(session.model()), stage, counts, generation.stop(), generation.error());
    j.form(GENERATION);
    shape(j, session.model());
    profile(j, generation);
    stop_log(j, generation);
    memory(j, generation);
    json.finish()
}

/// Writes the report of a failure before any generation: loading, or a request that never started.
///
/// # Errors
/// As [`write_report`].
pub fn write_failure(
    model: Option<&Model<'_>>,
    stage: LoadStage,
    error: Option<Error>,
    shell: &Shell<'_>,
    out: &mut [u8],
) -> Result<usize, Error> {
    let mut json = Json::new(out);
    common(&mut json, shell, model, stage, [0; 3], error.map(|_| StopReason::Error), error);
    json.form("}");
    json.finish()
}

/// What every report has.
const COMMON: &str = concat!(
    r#"{"transaction_id":?,"model_identity":{"checksum":?,"precision":?,"vocab_size":?},"load_stage_status":?,"#,
    r#""generation_stage":{"prompt_tokens":?,"generated_tokens":?,"stop_reason":?,"#,
    r#""context_utilization_bytes":?,"peak_memory_bytes":?},"performance_metrics":{"time_to_first_token_ms":?,"generation_time_ms":?,"#,
    r#""tokens_per_second":?},"error_recovery":{"stable_message":?,"numeric_code":?},"#,
    r#""error_position":{"offset":?,"index":?}"#,
);

/// What the report of a generation has beside it.
const GENERATION: &str = concat!(
    r#","model":{"layers":?,"hidden_size":?,"ffn_size":?,"heads":?,"kv_heads":?,"head_dim":?,"max_context":?,"#,
    r#""file_bytes":?,"tokenizer_bytes":?,"template_bytes":?,"provenance_bytes":?,"special_tokens":?,"rope":?,"#,
    r#""eos_ids":?},"sampling":{"order":?,"prng":?,"seed":?,"stream":?,"turn":?,"temperature":?,"top_p":?,"#,
    r#""min_p":?,"typical_p":?,"repetition_penalty":?,"frequency_penalty":?,"presence_penalty":?,"top_k":?,"#,
    r#""penalise_special":?,"on_all_masked":?,"candidate_cap":?,"max_lost_mass":?,"max_new_tokens":?,"#,
    r#""min_new_tokens":?,"ignore_eos":?},"stop":{"reason":?,"token":?,"string":?,"loop":?,"incomplete_tail":?},"#,
    r#""memory":{"context":?,"active_seq_len":?,"reused_tokens":?,"kv_cache":?,"kv_bytes":?,"logits_bytes":?,"scratch_bytes":?,"#,
    r#""sampler_bytes":?}}"#,
);

/// Fills [`COMMON`]; `counts`: tokens of the prompt, tokens generated, bytes of the cache in use.
#[inline(never)]
fn common(
    j: &mut Json<'_>,
    shell: &Shell<'_>,
    model: Option<&Model<'_>>,
    stage: LoadStage,
    counts: [u64; 3],
    stop: Option<StopReason>,
    error: Option<Error>,
) {
    j.form(COMMON);
    j.name(shell.transaction_id);
    match model {
        Some(model) => {
            j.hex(model.container().header().checksum);
            j.name(Some(precision(model)));
            j.integer(model.config.vocab_size as u64);
        }
        None => (0..3).for_each(|_| j.word(None)),
    }
    j.name(Some(stage.name()));
    let [prompt, generated, used] = counts;
    j.integer(prompt);
    j.integer(generated);
    loud(j, stop);
    j.integer(used);
    j.maybe(shell.peak_memory_bytes);
    for time in [shell.time_to_first_token_ms, shell.generation_time_ms, shell.tokens_per_second] {
        j.decimal(time.unwrap_or(f64::NAN));
    }
    j.name(error.map(|error| error.code().name()));
    j.integer(u64::from(error.map_or(0, Error::number)));
    j.maybe(error.and_then(|error| error.offset()));
    j.maybe(error.and_then(|error| error.index()).map(u64::from));
}

/// A stop reason in capitals, as the report's first part has it.
fn loud(j: &mut Json<'_>, stop: Option<StopReason>) {
    let Some(stop) = stop else { return j.word(None) };
    let mut name = [0u8; 16];
    let mut len = 0usize;
    for (slot, byte) in name.iter_mut().zip(stop.name().bytes()) {
        *slot = byte.to_ascii_uppercase();
        len = len.saturating_add(1);
    }
    j.string(name.get(..len).unwrap_or(&[]));
}

/// The dtype of the first layer's query matrix: that of the bulk of the weights.
fn precision(model: &Model<'_>) -> &'static str {
    match model.layer(0).linear(Role::Wq).matrix.dtype {
        DType::F32 => "f32",
        DType::Q8_0 => "q8_0",
        DType::Q4_0 => "q4_0",
        DType::Q4_1 => "q4_1",
        DType::Bf16 => "bf16",
        DType::Bytes => "bytes",
    }
}

fn shape(j: &mut Json<'_>, model: &Model<'_>) {
    let c = &model.config;
    for size in [
        c.layer_count,
        c.hidden_size,
        c.ffn_size,
        c.head_count,
        c.kv_head_count,
        c.head_dim,
        c.max_context,
        model.container().bytes().len(),
        model.tokenizer_bytes().len(),
        model.template_bytes().len(),
        model.provenance().len(),
        c.special_token_count,
    ] {
        j.integer(size as u64);
    }
    j.array(|j| {
        for table in model.rope.tables() {
            j.object(|j| {
                j.key("rotary_dim").integer(table.rotary_dim as u64);
                j.key("attention_factor").decimal(f64::from(table.attention_factor));
            });
        }
    });
    j.array(|j| model.stops.ids().iter().for_each(|&id| j.integer(u64::from(id))));
}

fn profile(j: &mut Json<'_>, generation: &Generation<'_, '_>) {
    let c: &SamplerConfig = generation.config();
    let limits = generation.limits();
    let order = match c.order {
        StageOrder::TemperatureFirst => "temperature_first",
        StageOrder::TemperatureLast => "temperature_last",
    };
    let prng = match c.prng {
        PrngKind::Philox => "philox4x32-10",
        PrngKind::Pcg32 => "pcg32",
    };
    let on_all_masked = match c.on_all_masked {
        OnAllMasked::Fail => "error",
        OnAllMasked::ForceEos => "force_eos",
    };
    j.name(Some(order));
    j.name(Some(prng));
    j.hex(c.seed);
    j.integer(u64::from(c.stream));
    j.integer(u64::from(generation.turn()));
    for value in
        [c.temperature, c.top_p, c.min_p, c.typical_p, c.repetition_penalty, c.frequency_penalty, c.presence_penalty]
    {
        j.decimal(value);
    }
    j.integer(u64::from(c.top_k));
    j.word(Some(c.penalise_special));
    j.name(Some(on_all_masked));
    j.integer(crate::limits::MAX_CANDIDATES as u64);
    j.decimal(generation.max_lost_mass());
    j.integer(u64::from(limits.max_new_tokens));
    j.integer(u64::from(limits.min_new_tokens));
    j.word(Some(limits.ignore_eos));
}

fn stop_log(j: &mut Json<'_>, generation: &Generation<'_, '_>) {
    let stop = generation.stop();
    j.name(stop.map(StopReason::name));
    let by_token = matches!(stop, Some(StopReason::EosToken | StopReason::StopTokenId));
    j.maybe(generation.generated().last().filter(|_| by_token).map(|&id| u64::from(id)));
    match generation.stop_match() {
        Some(m) => j.object(|j| {
            j.key("index").integer(u64::from(m.string));
            j.key("start").integer(m.start);
            j.key("end").integer(m.end);
        }),
        None => j.word(None),
    }
    match generation.looped() {
        Some(found) => j.object(|j| {
            j.key("period").integer(u64::from(found.period));
            j.key("repetitions").integer(u64::from(found.repetitions));
            j.key("pattern").array(|j| {
                generation.loop_pattern().iter().rev().for_each(|&id| j.integer(u64::from(id)));
            });
        }),
        None => j.word(None),
    }
    j.word(Some(generation.incomplete_tail()));
}

fn memory(j: &mut Json<'_>, generation: &Generation<'_, '_>) {
    let session = generation.session();
    let plan = session.plan();
    for size in [plan.context, session.kv_len(), generation.reused()] {
        j.integer(size as u64);
    }
    j.name(Some(plan.kv_type.name()));
    for size in [
        plan.kv_bytes(),
        plan.logits_bytes(),
        plan.scratch_bytes(),
        Generation::blocks(plan.vocab_size, plan.context).saturating_mul(64),
    ] {
        j.integer(size as u64);
    }
}
