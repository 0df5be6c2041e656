// A loaded model, and the engine it lives in.

import { cached, keepInCache } from './cache.js';
import { KV_TYPES, readCard } from './container.js';
import { InputError, abortReason, errorNamed, outside } from './errors.js';
import { Generation, steps } from './generation.js';
import { describeHost, now, transactionId } from './host.js';
import { Module, compile, hasSimd } from './module.js';
import { encodeProfile, resolveOptions, whole } from './presets.js';
import { receive } from './receive.js';
import { readReport } from './report.js';
import { chunksOf, isAddress } from './source.js';
import { decodeUtf8, encodeUtf8 } from './text.js';

/** Most bytes of a model unless the caller raises it: 128 MiB. */
export const DEFAULT_MAX_MODEL_BYTES = 134_217_728;

/** What `start_generation` is given. */
const INPUT = { text: 0, chat: 1, ids: 2, textNoSpecials: 3 };
const DECODE_MODES = { raw: 0, visible: 1 };

/** An instance of the module: room for one model at a time, reused by the next. */
export class Engine {
  #model;
  #loading = false;

  constructor(module, simd) {
    this.module = new Module(module);
    this.simd = simd;
  }

  /** Loads a model; the one before it, if any, is freed first. */
  async load(source, options = {}) {
    const { signal, onProgress, onHeader, context = 0, kvCache = 'f32', maxModelBytes = DEFAULT_MAX_MODEL_BYTES, cache = true, checksum } = options;
    if (this.#loading) throw errorNamed('Busy', { detail: 'a model is being loaded' });
    this.#loading = true;
    const clock = { id: transactionId(), start: now() };
    const module = this.module;
    let block;
    try {
      if (signal?.aborted) throw abortReason(signal);
      this.#model?.free();
      module.check(module.call('set_max_model_bytes', BigInt(maxModelBytes)));
      module.check(module.call('set_context', whole('context', context)));
      module.check(module.call('set_kv_cache', kvTypeNumber(kvCache)));
      const known = cache && isAddress(source) ? await cached(source, checksum) : undefined;
      block = await receive(module, chunksOf(known ?? source, signal), { maxModelBytes, onHeader, onProgress, context, kvCache });
      if (checksum !== undefined && block.header.checksum !== checksum) {
        throw outside('Checksum', `asked for ${checksum}, got ${block.header.checksum}`);
      }
      onProgress?.({ phase: 'check', loaded: 0, total: 1 });
      if (signal?.aborted) throw abortReason(signal);
      module.check(module.call('load_model', block.ptr, block.length), { loading: true });
      const { ptr, length, header, entries } = block;
      block = undefined;
      onProgress?.({ phase: 'check', loaded: 1, total: 1 });
      const card = readCard(module.bytes(ptr, length), header, entries);
      this.#model = new Model(this, card, ptr, clock, kvCache);
      if (cache && isAddress(source) && !known) {
        // Only what the core has accepted is kept. A full disk is no reason to fail.
        await keepInCache(source, card.checksum, length, (at, size) => module.bytes(ptr + at, size)).catch(() => {});
      }
      return this.#model;
    } finally {
      if (block) module.release(block.ptr, block.length);
      this.#loading = false;
    }
  }

  /** Bytes of linear memory taken from the host. It never shrinks; the next model uses it again. */
  get memoryBytes() {
    return this.module.memoryBytes;
  }
}

/** Makes an engine: compiles the build this host can run and instantiates it. */
export async function createEngine(options = {}) {
  const simd = options.simd ?? hasSimd();
  return new Engine(await compile({ ...options, simd }), simd);
}

/** A model in an engine. All text goes in and comes out as JavaScript strings. */
export class Model {
  #engine;
  #ptr;
  #clock;
  #busy = false;
  /** What the last run was started with. */
  #asked = {};
  #kvCache;

  constructor(engine, card, ptr, clock, kvCache) {
    this.#engine = engine;
    this.#ptr = ptr;
    this.#clock = { ...clock, end: now() };
    this.#kvCache = kvCache;
    /** The model card: sizes, precision, licence and provenance as the file states them. */
    this.card = card;
    this.freed = false;
  }

  get module() {
    return this.#engine.module;
  }

  /** Answers a conversation: `messages` is a list of `{role, content}`. */
  chat(messages, options = {}) {
    return this.#generation(INPUT.chat, conversation(messages, options), options, 'chat');
  }

  /** Continues a text, or a list of token ids. */
  generate(input, options = {}) {
    if (typeof input === 'string') {
      return this.#generation(options.specials === false ? INPUT.textNoSpecials : INPUT.text, encodeUtf8(input), options, 'text');
    }
    return this.#generation(INPUT.ids, idBytes(input), options, 'text');
  }

  /**
   * Reads a conversation or a text ahead, while its end is still being written: what the next run's prompt has in common with it, from
   * the beginning on, is not read again. Gives the number of its tokens.
   */
  async prepare(input, options = {}) {
    const only = { ...options, promptOnly: true };
    const { promptTokens } = await (typeof input === 'string' ? this.generate(input, only) : this.chat(input, only)).run();
    return promptTokens;
  }

  #generation(kind, bytes, given, fallback) {
    this.#alive();
    const options = resolveOptions(given, this.card, fallback);
    const stops = encodeStops(options.stop);
    const max = whole('maxTokens', options.maxTokens);
    const begin = () => {
      const module = this.module;
      const profile = encodeProfile(options);
      module.callWith('set_sampling_profile', profile);
      this.#asked = { profile, maxTokens: max };
      module.callWith('set_stops', stops);
      setNow(module);
      module.callWith('start_generation', bytes, { before: [kind], after: [max] });
    };
    return new Generation((settle, keep) => steps(this, begin, given, settle, keep));
  }

  /** The token ids of a text. `specials: false` leaves out what the tokenizer adds by itself. */
  tokenize(text, { specials = true } = {}) {
    this.#alive();
    this.module.callWith('encode', encodeUtf8(text), { after: [specials ? 1 : 0] });
    return idsOf(this.module.result());
  }

  /** How many tokens a text or a conversation has. */
  countTokens(input, options = {}) {
    if (typeof input === 'string') return this.tokenize(input, options).length;
    return this.render(input, options).ids.length;
  }

  /** The text of ids. `mode`: `visible` leaves special tokens out, `raw` shows them. */
  detokenize(ids, { mode = 'visible' } = {}) {
    return decodeUtf8(this.tokenBytes(ids, { mode }));
  }

  /** The bytes of ids: what one token stands for may be half a character. */
  tokenBytes(ids, { mode = 'raw' } = {}) {
    this.#alive();
    this.module.callWith('decode', idBytes(typeof ids === 'number' ? [ids] : ids), { after: [DECODE_MODES[mode] ?? 0] });
    return this.module.result();
  }

  /** A conversation as the model sees it: `{text, ids}`. */
  render(messages, options = {}) {
    const request = conversation(messages, options);
    this.#alive();
    setNow(this.module);
    this.module.callWith('render', request, { after: [0] });
    const text = decodeUtf8(this.module.result());
    this.module.callWith('render', request, { after: [1] });
    return { text, ids: idsOf(this.module.result()) };
  }

  /** The logits after a list of ids (f32, one per vocabulary entry). Starts at position 0. */
  logits(ids) {
    this.enter();
    try {
      this.module.callWith('logits', idBytes(ids));
      const bytes = this.module.result();
      return new Float32Array(bytes.buffer);
    } finally {
      this.leave();
    }
  }

  /** The structured report of the last transaction; timings and transaction id are this host's. */
  diagnostics(clock = this.#clock, end = clock.end ?? now()) {
    this.#alive();
    const module = this.module;
    const record = module.bytes(module.call('get_diagnostics_ptr'), module.call('get_diagnostics_len'));
    const core = readReport(record, { file: this.fileBytes, memoryBytes: module.memoryBytes, kvCache: this.#kvCache, ...this.#asked });
    const total = end - clock.start;
    const first = clock.first === undefined ? null : clock.first - clock.start;
    const generated = core.generation_stage.generated_tokens;
    const decoding = first === null ? 0 : total - first;
    return {
      ...core,
      transaction_id: clock.id,
      performance_metrics: {
        time_to_first_token_ms: first === null ? null : round(first),
        generation_time_ms: first === null ? null : round(decoding),
        tokens_per_second: generated > 1 && decoding > 0 ? round(((generated - 1) * 1000) / decoding) : null,
        total_ms: round(total),
      },
      host: { ...describeHost(this.#engine.simd), wasm_memory_bytes: module.memoryBytes },
    };
  }

  /** Forgets the conversation; model and memory stay. */
  reset() {
    this.enter();
    try {
      this.module.check(this.module.call('reset_context'));
    } finally {
      this.leave();
    }
  }

  /** Gives the model's memory back to the engine. The model must not be used afterwards. */
  free() {
    if (this.freed) return;
    this.freed = true;
    if (!this.module.dead) {
      if (this.#busy) this.module.call('cancel');
      this.module.call('free_model');
    }
  }

  [Symbol.dispose ?? Symbol.for('Symbol.dispose')]() {
    this.free();
  }

  /** The model file's bytes where they lie in memory; valid until memory grows. */
  get fileBytes() {
    this.#alive();
    return this.module.bytes(this.#ptr, this.card.fileBytes);
  }

  #alive() {
    if (this.freed) throw outside('Disposed');
  }

  /** One call at a time: a second one is refused, not queued. */
  enter() {
    this.#alive();
    if (this.#busy) throw errorNamed('Busy');
    this.#busy = true;
  }

  leave() {
    this.#busy = false;
  }
}

/** The request a template is rendered with. */
const conversation = (messages, { tools, documents, vars, addGenerationPrompt = true }) =>
  encodeUtf8(JSON.stringify({ messages, tools, documents, vars, add_generation_prompt: addGenerationPrompt }));

function kvTypeNumber(name) {
  const number = KV_TYPES.indexOf(name);
  if (number < 0) throw new InputError(2, { detail: `kvCache must be one of ${KV_TYPES.join(', ')}, got ${name}` });
  return number;
}

/** Tells the module, which has no clock, the local time. */
function setNow(module) {
  const t = new Date();
  module.check(module.call('set_now', t.getFullYear(), t.getMonth() + 1, t.getDate(), t.getHours(), t.getMinutes(), Math.min(t.getSeconds(), 59)));
}

const round = (number) => Math.round(number * 100) / 100;

function idBytes(ids) {
  const bytes = new Uint8Array(4 * ids.length);
  const view = new DataView(bytes.buffer);
  for (let at = 0; at < ids.length; at++) view.setUint32(4 * at, whole('token id', ids[at]), true);
  return bytes;
}

const idsOf = (bytes) => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.length >> 2 }, (_, at) => view.getUint32(4 * at, true));
};

/** The record of `set_stops`: ids, then strings. */
function encodeStops(stop) {
  const list = stop === undefined || stop === null ? [] : Array.isArray(stop) ? stop : [stop];
  const ids = list.filter((item) => typeof item === 'number');
  const strings = list.filter((item) => typeof item !== 'number').map(encodeUtf8);
  const bytes = new Uint8Array(8 + 4 * ids.length + strings.reduce((sum, string) => sum + 4 + string.length, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  const u32 = (value) => {
    view.setUint32(at, value, true);
    at += 4;
  };
  u32(ids.length);
  for (const id of ids) u32(whole('stop id', id));
  u32(strings.length);
  for (const string of strings) {
    u32(string.length);
    bytes.set(string, at);
    at += string.length;
  }
  return bytes;
}
