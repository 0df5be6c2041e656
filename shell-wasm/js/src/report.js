// The report of SPEC.md section 9.8: what the module's record says, what the file says, and what the host itself asked for.

import { kvBytes, readDirectory, readHeader } from './container.js';
import { codeName } from './errors.js';

const NONE = 0xffffffff;
const STAGES = ['NOT_LOADED', 'TRANSFER_CEILING_EXCEEDED', 'MODEL_REJECTED', 'KV_ALLOCATION_FAILED', 'KV_ALLOCATION_SUCCESS'];
/** Stop reasons by their number. */
export const STOP_REASONS = [
  null, 'eos_token', 'stop_token_id', 'stop_string', 'max_output', 'context_full', 'loop_detected', 'cancelled', 'error',
];
/** Candidates a step keeps at most. */
const CANDIDATES = 1024;
/** Tokens of a run that names no limit. */
const DEFAULT_NEW_TOKENS = 256;
// Places in the directory, the same in every file.
const [ROPE, TEMPLATE, STOPS, PROVENANCE] = [2, 3, 4, 6];
/** The first layer's first tensor: behind the records and the embedding. */
const LAYER = 8;

/**
 * The report as an object. `record`: the bytes at `get_diagnostics_ptr`; `file`: those of the model, if there is one;
 * `profile`: the record of `set_sampling_profile`; `maxTokens`: what `start_generation` was given; `kvCache`: what was set before the load.
 */
export function readReport(record, { file, profile = NEUTRAL_PROFILE, maxTokens = DEFAULT_NEW_TOKENS, kvCache = 'f32', memoryBytes = null } = {}) {
  const view = viewOf(record);
  const u32 = (at) => view.getUint32(at, true);
  const orNull = (value) => (value === NONE ? null : value);
  const number = u32(0);
  const offset = view.getBigUint64(16, true);
  const reason = STOP_REASONS[u32(24)];
  // A context of 0: there was no generation to report on.
  const context = u32(28);
  const kvLength = u32(40);
  const model = file && modelOf(file);
  const planned = model && context ? kvBytes(model.header, context, kvCache) : 0;
  const inUse = context && Math.floor(planned / context) * kvLength;
  const report = {
    transaction_id: null,
    model_identity: { checksum: model?.header.checksum ?? null, precision: model?.precision ?? null, vocab_size: model?.header.vocabSize ?? null },
    load_stage_status: STAGES[u32(12)],
    generation_stage: {
      prompt_tokens: u32(32),
      generated_tokens: u32(36),
      stop_reason: reason?.toUpperCase() ?? null,
      context_utilization_bytes: inUse,
      peak_memory_bytes: memoryBytes,
    },
    performance_metrics: { time_to_first_token_ms: null, generation_time_ms: null, tokens_per_second: null },
    error_recovery: { stable_message: number === 0 ? null : codeName(number), numeric_code: number },
    error_position: {
      offset: offset === 0xffffffffffffffffn || number === 0 ? null : Number(offset),
      index: number === 0 ? null : orNull(u32(8)),
    },
  };
  if (!context || !model) return report;
  const logits = 4 * model.header.vocabSize;
  const period = u32(84);
  return {
    ...report,
    model: model.shape,
    sampling: samplingOf(profile, maxTokens, view.getFloat64(64, true)),
    stop: {
      reason,
      token: orNull(u32(48)),
      string: u32(52) === NONE ? null : { index: u32(52), start: u32(56), end: u32(60) },
      loop: period === 0 ? null : {
        period,
        repetitions: u32(88),
        pattern: Array.from({ length: period }, (_, at) => u32(92 + 4 * (period - 1 - at))),
      },
      incomplete_tail: u32(72) === 1,
    },
    memory: {
      context,
      active_seq_len: kvLength,
      reused_tokens: u32(44),
      kv_cache: kvCache,
      kv_bytes: planned,
      logits_bytes: logits,
      scratch_bytes: u32(76) - planned - logits,
      sampler_bytes: u32(80),
    },
  };
}

/** What the report says of the file. */
function modelOf(file) {
  const header = readHeader(file);
  const entries = readDirectory(file, header);
  const payload = (index) => viewOf(file.subarray(entries[index].offset, entries[index].offset + entries[index].bytes));
  // A norm, where the family has one before attention; then the query matrix.
  const query = entries[LAYER].dims.length === 2 ? LAYER : LAYER + 1;
  const rope = payload(ROPE);
  const tables = [];
  for (let at = 4; tables.length < rope.getUint32(0, true); ) {
    const rotary = rope.getUint32(at, true);
    tables.push({ rotary_dim: rotary, attention_factor: decimal(rope.getFloat32(at + 4, true)) });
    at += 8 + 2 * rotary;
  }
  const stops = payload(STOPS);
  return {
    header,
    precision: entries[query].dtype,
    shape: {
      layers: header.layerCount,
      hidden_size: header.hiddenSize,
      ffn_size: header.ffnSize,
      heads: header.headCount,
      kv_heads: header.kvHeadCount,
      head_dim: header.headDim,
      max_context: header.maxContext,
      file_bytes: file.length,
      tokenizer_bytes: header.tokenizerBytes,
      template_bytes: entries[TEMPLATE].bytes,
      provenance_bytes: entries[PROVENANCE].bytes,
      special_tokens: header.specialTokenCount,
      rope: tables,
      eos_ids: Array.from({ length: stops.getUint32(0, true) }, (_, at) => stops.getUint32(4 + 4 * at, true)),
    },
  };
}

/** The profile in force, as it was handed over. */
function samplingOf(profile, maxTokens, lostMass) {
  const view = viewOf(profile);
  const double = (index) => decimal(view.getFloat64(8 * index, true));
  const u32 = (at) => view.getUint32(at, true);
  const flag = (bit) => ((u32(76) >> bit) & 1) === 1;
  return {
    order: flag(1) ? 'temperature_last' : 'temperature_first',
    prng: flag(2) ? 'pcg32' : 'philox4x32-10',
    seed: view.getBigUint64(56, true).toString(16).padStart(16, '0'),
    stream: u32(68),
    turn: 0,
    temperature: double(0),
    top_p: double(1),
    min_p: double(2),
    typical_p: double(3),
    repetition_penalty: double(4),
    frequency_penalty: double(5),
    presence_penalty: double(6),
    top_k: u32(64),
    penalise_special: flag(0),
    on_all_masked: flag(3) ? 'force_eos' : 'error',
    candidate_cap: CANDIDATES,
    max_lost_mass: decimal(lostMass),
    max_new_tokens: maxTokens || DEFAULT_NEW_TOKENS,
    min_new_tokens: u32(72),
    ignore_eos: flag(4),
  };
}

/** Everything off: what is in force until a profile is set. */
const NEUTRAL_PROFILE = new Uint8Array(96);
for (const index of [1, 3, 4]) viewOf(NEUTRAL_PROFILE).setFloat64(8 * index, 1, true);

/** Six decimals, rounded half up; null where the report has no number for it. */
function decimal(value) {
  const scaled = Math.abs(value) * 1e6;
  if (!(scaled < 1e18)) return null;
  const rounded = Math.floor(scaled + 0.5) / 1e6;
  return value < 0 && rounded > 0 ? -rounded : rounded;
}

function viewOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
