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
    let stop = generation.stop();
    let mut json = Json::new(out);
    json.object(|j| {
        head(j, shell, Some(session.model()), LoadStage::KvAllocationSuccess);
        j.key("generation_stage").object(|j| {
            j.key("prompt_tokens").integer(generation.prompt().len() as u64);
            j.key("generated_tokens").integer(generation.generated().len() as u64);
            loud(j.key("stop_reason"), stop);
            let row = session.plan().kv_bytes().checked_div(session.context()).unwrap_or(0);
            j.key("context_utilization_bytes").integer((row as u64).saturating_mul(session.kv_len() as u64));
            j.key("peak_memory_bytes").maybe(shell.peak_memory_bytes);
        });
        tail(j, shell, generation.error());
        j.key("model").object(|j| shape(j, session.model()));
        j.key("sampling").object(|j| profile(j, generation));
        j.key("stop").object(|j| stop_log(j, generation));
        j.key("memory").object(|j| {
            let plan = session.plan();
            j.key("context").integer(plan.context as u64);
            j.key("active_seq_len").integer(session.kv_len() as u64);
            j.key("reused_tokens").integer(generation.reused() as u64);
            j.key("kv_bytes").integer(plan.kv_bytes() as u64);
            j.key("logits_bytes").integer(plan.logits_bytes() as u64);
            j.key("scratch_bytes").integer(plan.scratch_bytes() as u64);
            let blocks = Generation::blocks(plan.vocab_size, plan.context);
            j.key("sampler_bytes").integer((blocks as u64).saturating_mul(64));
        });
    });
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
    json.object(|j| {
        head(j, shell, model, stage);
        j.key("generation_stage").object(|j| {
            j.key("prompt_tokens").integer(0);
            j.key("generated_tokens").integer(0);
            loud(j.key("stop_reason"), error.map(|_| StopReason::Error));
            j.key("context_utilization_bytes").integer(0);
            j.key("peak_memory_bytes").maybe(shell.peak_memory_bytes);
        });
        tail(j, shell, error);
    });
    json.finish()
}

fn head(j: &mut Json<'_>, shell: &Shell<'_>, model: Option<&Model<'_>>, stage: LoadStage) {
    match shell.transaction_id {
        Some(id) => j.key("transaction_id").string(id.as_bytes()),
        None => j.key("transaction_id").word(None),
    }
    j.key("model_identity").object(|j| match model {
        Some(model) => {
            j.key("checksum").hex(model.container().header().checksum);
            j.key("precision").string(precision(model).as_bytes());
            j.key("vocab_size").integer(model.config.vocab_size as u64);
        }
        None => {
            for key in ["checksum", "precision", "vocab_size"] {
                j.key(key).word(None);
            }
        }
    });
    j.key("load_stage_status").string(stage.name().as_bytes());
}

fn tail(j: &mut Json<'_>, shell: &Shell<'_>, error: Option<Error>) {
    j.key("performance_metrics").object(|j| {
        let times = [
            ("time_to_first_token_ms", shell.time_to_first_token_ms),
            ("generation_time_ms", shell.generation_time_ms),
            ("tokens_per_second", shell.tokens_per_second),
        ];
        for (key, value) in times {
            j.key(key).decimal(value.unwrap_or(f64::NAN));
        }
    });
    j.key("error_recovery").object(|j| {
        match error {
            Some(e) => j.key("stable_message").string(e.code().name().as_bytes()),
            None => j.key("stable_message").word(None),
        }
        j.key("numeric_code").integer(u64::from(error.map_or(0, Error::number)));
    });
    j.key("error_position").object(|j| {
        j.key("offset").maybe(error.and_then(|e| e.offset()));
        j.key("index").maybe(error.and_then(|e| e.index()).map(u64::from));
    });
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
    match model.layer(0).wq.matrix.dtype {
        DType::F32 => "f32",
        DType::Q8_0 => "q8_0",
        DType::Q4_0 => "q4_0",
        DType::Q4_1 => "q4_1",
        DType::Bytes => "bytes",
    }
}

fn shape(j: &mut Json<'_>, model: &Model<'_>) {
    let c = &model.config;
    let sizes = [
        ("layers", c.layer_count),
        ("hidden_size", c.hidden_size),
        ("ffn_size", c.ffn_size),
        ("heads", c.head_count),
        ("kv_heads", c.kv_head_count),
        ("head_dim", c.head_dim),
        ("max_context", c.max_context),
        ("file_bytes", model.container().bytes().len()),
        ("tokenizer_bytes", model.tokenizer_bytes().len()),
        ("template_bytes", model.template_bytes().len()),
        ("provenance_bytes", model.provenance().len()),
    ];
    for (key, value) in sizes {
        j.key(key).integer(value as u64);
    }
    j.key("special_tokens").integer(u64::from(model.container().header().special_token_count));
    j.key("rope").array(|j| {
        for table in model.rope.tables() {
            j.object(|j| {
                j.key("rotary_dim").integer(table.rotary_dim as u64);
                j.key("attention_factor").decimal(f64::from(table.attention_factor));
            });
        }
    });
    j.key("eos_ids").array(|j| model.stops.ids().iter().for_each(|&id| j.integer(u64::from(id))));
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
    j.key("order").string(order.as_bytes());
    j.key("prng").string(prng.as_bytes());
    j.key("seed").hex(c.seed);
    j.key("stream").integer(u64::from(c.stream));
    j.key("turn").integer(u64::from(generation.turn()));
    let numbers = [
        ("temperature", c.temperature),
        ("top_p", c.top_p),
        ("min_p", c.min_p),
        ("typical_p", c.typical_p),
        ("repetition_penalty", c.repetition_penalty),
        ("frequency_penalty", c.frequency_penalty),
        ("presence_penalty", c.presence_penalty),
    ];
    for (key, value) in numbers {
        j.key(key).decimal(value);
    }
    j.key("top_k").integer(u64::from(c.top_k));
    j.key("penalise_special").word(Some(c.penalise_special));
    j.key("on_all_masked").string(on_all_masked.as_bytes());
    j.key("candidate_cap").integer(crate::limits::MAX_CANDIDATES as u64);
    j.key("max_lost_mass").decimal(generation.max_lost_mass());
    j.key("max_new_tokens").integer(u64::from(limits.max_new_tokens));
    j.key("min_new_tokens").integer(u64::from(limits.min_new_tokens));
    j.key("ignore_eos").word(Some(limits.ignore_eos));
}

fn stop_log(j: &mut Json<'_>, generation: &Generation<'_, '_>) {
    let stop = generation.stop();
    match stop {
        Some(reason) => j.key("reason").string(reason.name().as_bytes()),
        None => j.key("reason").word(None),
    }
    let by_token = matches!(stop, Some(StopReason::EosToken | StopReason::StopTokenId));
    j.key("token").maybe(generation.generated().last().filter(|_| by_token).map(|&id| u64::from(id)));
    match generation.stop_match() {
        Some(m) => j.key("string").object(|j| {
            j.key("index").integer(u64::from(m.string));
            j.key("start").integer(m.start);
            j.key("end").integer(m.end);
        }),
        None => j.key("string").word(None),
    }
    match generation.looped() {
        Some(found) => j.key("loop").object(|j| {
            j.key("period").integer(u64::from(found.period));
            j.key("repetitions").integer(u64::from(found.repetitions));
            j.key("pattern").array(|j| {
                generation.loop_pattern().iter().rev().for_each(|&id| j.integer(u64::from(id)));
            });
        }),
        None => j.key("loop").word(None),
    }
    j.key("incomplete_tail").word(Some(generation.incomplete_tail()));
}
