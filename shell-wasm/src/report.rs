//! The record that says how the last load or generation went: what neither the file nor the host's own calls tell
//! (`SPEC.md` section 10.7).

use crate::fault;
use crate::record::{NONE, Record};
use tinyrustlm_core::error::Error;
use tinyrustlm_core::session::Generation;
use tinyrustlm_core::stops::StopReason;
use wasm_bindgen::prelude::wasm_bindgen;

/// How loading went.
#[derive(Clone, Copy)]
pub enum Stage {
    /// The file was refused.
    ModelRejected = 2,
    /// The memory could not be had.
    KvAllocationFailed = 3,
    /// Model and cache are in place.
    KvAllocationSuccess = 4,
}

/// Where the part about a generation begins, how long it is, and most tokens of a loop's pattern, which follows.
const GENERATION: usize = 7;
const FIELDS: usize = 16;
const PATTERN: usize = 64;
const WORDS: usize = GENERATION + FIELDS + PATTERN;

static REPORT: Record<WORDS> = Record::new();

/// Address of the report of the last load or generation (348 bytes, constant).
#[wasm_bindgen]
pub fn get_diagnostics_ptr() -> *const u8 {
    REPORT.ptr()
}

/// Length of the report.
#[wasm_bindgen]
pub fn get_diagnostics_len() -> usize {
    WORDS * 4
}

/// Keeps what can be said without a generation: after a load that failed, or a request that never started.
pub fn failure(stage: Stage, error: Error) {
    outcome(stage, Some(error), Some(StopReason::Error));
    REPORT.write(GENERATION, &[0; FIELDS]);
}

/// Keeps what a generation did, finished or not.
#[inline(never)]
pub fn generation(generation: &Generation<'_, '_>) {
    outcome(Stage::KvAllocationSuccess, generation.error(), generation.stop());
    let session = generation.session();
    let plan = session.plan();
    let by_token = matches!(generation.stop(), Some(StopReason::EosToken | StopReason::StopTokenId));
    let stop_token = generation.generated().last().filter(|_| by_token);
    let (string, start, end) = generation.stop_match().map_or((NONE, 0, 0), |m| (m.string, m.start, m.end));
    let (period, repetitions) = generation.looped().map_or((0, 0), |found| (found.period, found.repetitions));
    let lost_mass = generation.max_lost_mass().to_bits();
    let fields: [u32; FIELDS] = [
        plan.context as u32,
        generation.prompt().len() as u32,
        generation.generated().len() as u32,
        session.kv_len() as u32,
        generation.reused() as u32,
        stop_token.copied().unwrap_or(NONE),
        string,
        start as u32,
        end as u32,
        lost_mass as u32,
        (lost_mass >> 32) as u32,
        u32::from(generation.incomplete_tail()),
        plan.bytes() as u32,
        (Generation::blocks(plan.vocab_size, plan.context) * 64) as u32,
        period,
        repetitions,
    ];
    REPORT.write(GENERATION, &fields);
    REPORT.write(GENERATION + FIELDS, generation.loop_pattern());
}

#[inline(never)]
fn outcome(stage: Stage, error: Option<Error>, stop: Option<StopReason>) {
    let mut words = fault::words(error);
    words[3] = stage as u32;
    REPORT.write(0, &words);
    REPORT.write(words.len(), &[stop.map_or(0, |stop| stop as u32)]);
}
