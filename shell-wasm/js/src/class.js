// The module through wasm-bindgen's glue: its functions as they are, and a class in which text is a string.

import load, * as glue from './tinyrustlm_bindgen.js';
import { encodeProfile, resolveOptions } from './presets.js';
import { readReport } from './report.js';
import { decodeUtf8, encodeUtf8 } from './text.js';

export * from './tinyrustlm_bindgen.js';

let memory;

/** Instantiates the module. Gives its exports. */
export default async function init(source) {
  const exports = await load(source);
  memory = exports.memory;
  return exports;
}

/** The same for bytes or a compiled module, at once. */
export function initSync(source) {
  const exports = glue.initSync(source);
  memory = exports.memory;
  return exports;
}

// A view is made anew at every call: growth detaches older ones.
const view = (ptr, length) => new Uint8Array(memory.buffer, ptr, length);
const word = (ptr, index) => new DataView(memory.buffer, ptr + 4 * index, 4).getUint32(0, true);

/** The runtime of the instance. All objects of the class share it. Numbers are the codes of SPEC.md; nothing is thrown. */
export class Runtime {
  #asked = {};

  /** Takes a block of memory to stream a model into; 0 on failure. */
  alloc(length) {
    return glue.alloc(length);
  }

  /** Loads the model in a block of `alloc`. */
  loadModel(ptr, length) {
    return glue.load_model(ptr, length);
  }

  /** Sets temperature, top-k, top-p and seed; everything else is off. */
  setSampling(temperature, topK, topP, seed) {
    const config = { temperature: Math.fround(temperature), topK, topP: Math.fround(topP), seed, logprobs: false };
    const profile = encodeProfile(resolveOptions(config));
    this.#asked = { ...this.#asked, profile };
    return withBytes(profile, (ptr, length) => glue.set_sampling_profile(ptr, length));
  }

  /** Begins to continue a text, or (`chat`) to answer a conversation in JSON. */
  start(input, chat, maxTokens) {
    this.#asked = { ...this.#asked, maxTokens };
    return withBytes(encodeUtf8(input), (ptr, length) => glue.start_generation(chat ? 1 : 0, ptr, length, maxTokens));
  }

  /** The next piece of work. */
  next() {
    return glue.generate_next_token();
  }

  /** A word of the event record: 0 kind, 1 id, 3 stop reason, 4 done, 5 total. */
  event(index) {
    return word(glue.event_ptr(), index);
  }

  /** Text of the last result. */
  text() {
    return decodeUtf8(view(glue.last_result_ptr(), glue.last_result_len()));
  }

  /** The report of the last load or generation, JSON. */
  diagnostics() {
    const length = glue.model_len();
    const file = length ? view(glue.model_ptr(), length) : undefined;
    const record = view(glue.get_diagnostics_ptr(), glue.get_diagnostics_len());
    return JSON.stringify(readReport(record, { file, memoryBytes: memory.buffer.byteLength, ...this.#asked }));
  }

  /** Class of the last error, 1 to 14. */
  errorClass() {
    return word(glue.error_ptr(), 1);
  }

  /** Forgets the conversation. */
  reset() {
    return glue.reset_context();
  }

  /** Frees the model's memory. */
  freeModel() {
    return glue.free_model();
  }

  /** Nothing: the object holds nothing of the module's. */
  free() {}
}

function withBytes(bytes, call) {
  // alloc refuses a length of zero; an empty text still needs an address.
  const size = Math.max(bytes.length, 1);
  const ptr = glue.alloc(size);
  if (ptr === 0) return word(glue.error_ptr(), 0);
  view(ptr, bytes.length).set(bytes);
  const code = call(ptr, bytes.length);
  glue.dealloc(ptr, size);
  return code;
}
