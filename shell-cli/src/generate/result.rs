//! What came out of a generation, for people and as JSON.

use serde_json::{Value, json};
use std::hash::{BuildHasher, Hasher};
use tinyrustlm::core::Error;
use tinyrustlm::core::stops::StopReason;
use tinyrustlm::describe;

/// A finished generation.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Visible text.
    pub text: String,
    /// Generated ids, end tokens included.
    pub ids: Vec<u32>,
    /// Ids of the prompt.
    pub prompt_ids: Vec<u32>,
    /// Positions that were cached.
    pub reused: usize,
    /// Why it ended.
    pub stop: Option<StopReason>,
    /// One trace per token, where asked for.
    pub steps: Vec<Value>,
    /// What the template made of the conversation, where there was one.
    pub template: Option<Value>,
    /// The report.
    pub diagnostics: Value,
    /// From the start to the first token.
    pub prefill_ms: f64,
    /// Speed of decoding, from the second token on.
    pub tokens_per_second: Option<f64>,
}

impl Answer {
    /// The object of `--json`.
    pub fn json(&self) -> Value {
        let mut object = json!({
            "text": self.text,
            "ids": self.ids,
            "prompt_ids": self.prompt_ids,
            "stop_reason": self.stop.map(StopReason::name),
            "diagnostics": self.diagnostics,
        });
        if !self.steps.is_empty() {
            object["steps"] = Value::Array(self.steps.clone());
        }
        if let Some(log) = &self.template {
            object["template"] = log.clone();
        }
        object
    }

    /// One line about it.
    pub fn summary(&self) -> String {
        let reused = if self.reused > 0 { format!(" ({} cached)", self.reused) } else { String::new() };
        let speed = self.tokens_per_second.map(|s| format!(", {s:.1} tokens/s")).unwrap_or_default();
        let stop = self.stop.map_or("none", StopReason::name);
        format!(
            "prompt {}{reused}, generated {}, stop {stop}, first token after {:.0} ms{speed}",
            self.prompt_ids.len(),
            self.ids.len(),
            self.prefill_ms
        )
    }
}

/// The object of a failure.
pub fn failure_json(error: Error, answer: &Answer) -> Value {
    let mut object = json!({
        "error": {
            "code": error.number(), "name": error.code().name(), "message": describe(error, None), "offset": error.offset(),
        },
    });
    if let (Value::Object(all), Value::Object(rest)) = (&mut object, answer.json()) {
        all.extend(rest);
    }
    object
}

/// A name no other transaction is likely to have.
pub fn transaction_id() -> String {
    let word = || std::hash::RandomState::new().build_hasher().finish();
    let (a, b) = (word(), word());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xFFFF,
        a & 0xFFF,
        b >> 48 & 0x3FFF | 0x8000,
        b & 0xFFFF_FFFF_FFFF
    )
}

/// The most memory this process has had.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
