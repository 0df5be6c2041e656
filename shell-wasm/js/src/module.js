// The module itself: choice of build, compilation, and typed calls. Nothing above this file touches memory.

import { errorNamed, errorOf, numberNamed, outside } from './errors.js';
import { EMBEDDED } from './embedded.js';
import { decodeUtf8 } from './text.js';

// A module of one function that uses an instruction of the SIMD extension; a host without it refuses the bytes.
const SIMD_PROBE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

/** Whether this host runs 128-bit SIMD. */
export const hasSimd = () => WebAssembly.validate(SIMD_PROBE);

const TEMPLATE_RAISED = numberNamed('TemplateRaised');

// Under a name of its own: bundlers take `new URL(..., import.meta.url)` for a file they must find.
const HERE = import.meta.url;

const compiled = new Map();

/**
 * The compiled module. `options.wasm` may be a WebAssembly.Module, bytes, a Response or an address; without it the
 * file beside this one is taken. `options.simd` forces a build.
 */
export async function compile({ wasm, simd = hasSimd() } = {}) {
  const given = await wasm;
  if (given instanceof WebAssembly.Module) return given;
  if (given instanceof ArrayBuffer || ArrayBuffer.isView(given)) return WebAssembly.compile(given);
  if (typeof Response !== 'undefined' && given instanceof Response) return compileResponse(given);
  if (given !== undefined) return compileFrom(new URL(given, HERE));
  const name = simd ? 'simd' : 'scalar';
  if (!compiled.has(name)) {
    const embedded = EMBEDDED?.[name];
    const made = embedded ? WebAssembly.compile(fromBase64(embedded)) : compileFrom(defaultUrl(simd));
    compiled.set(name, made);
    made.catch(() => compiled.delete(name));
  }
  return compiled.get(name);
}

// Two literal expressions: bundlers look for exactly this form and copy the files.
function defaultUrl(simd) {
  return simd ? new URL('./tinyrustlm.wasm', import.meta.url) : new URL('./tinyrustlm-scalar.wasm', import.meta.url);
}

async function compileFrom(url) {
  if (url.protocol === 'file:') {
    const name = ['node', 'fs'].join(':');
    const fs = await import(/* webpackIgnore: true */ /* @vite-ignore */ name);
    return WebAssembly.compile(await fs.promises.readFile(url));
  }
  let response;
  try {
    response = await fetch(url);
  } catch (error) {
    throw outside('Network', `${url}: ${error?.message ?? error}`, error);
  }
  return compileResponse(response);
}

async function compileResponse(response) {
  if (!response.ok) throw outside('Network', `HTTP ${response.status} for ${response.url}`);
  // Not compileStreaming: many servers send .wasm with another media type, and the module is small.
  return WebAssembly.compile(await response.arrayBuffer());
}

function fromBase64(text) {
  const binary = atob(text);
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}

/** One instance of the module: memory of its own, at most one model. */
export class Module {
  constructor(module) {
    // No imports: what the module does cannot reach beyond its memory.
    this.exports = new WebAssembly.Instance(module, {}).exports;
    this.dead = undefined;
    this.check(this.call('init_runtime'));
  }

  /** A view on memory, made anew at every call: growth detaches older ones. */
  bytes(ptr, length) {
    return new Uint8Array(this.exports.memory.buffer, ptr >>> 0, length >>> 0);
  }

  get memoryBytes() {
    return this.exports.memory.buffer.byteLength;
  }

  /** Calls an export. A trap kills the instance, and says so from then on. */
  call(name, ...args) {
    if (this.dead) throw outside('Trap', this.dead);
    try {
      return this.exports[name](...args);
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError) && !(error instanceof RangeError)) throw error;
      this.dead = `${name}: ${error.message}`;
      throw outside('Trap', this.dead, error);
    }
  }

  /** Throws the error a call's number stands for. */
  check(code, context) {
    if (code !== 0) throw this.lastError(context);
  }

  lastError(context) {
    const view = new DataView(this.exports.memory.buffer, this.call('error_ptr') >>> 0, 24);
    const number = view.getUint32(0, true);
    const index = view.getUint32(8, true);
    const offset = view.getBigUint64(16, true);
    return errorOf(number, {
      ...context,
      // What a template raised says it in its own words.
      detail: number === TEMPLATE_RAISED ? decodeUtf8(this.result()) : undefined,
      index: index === 0xffffffff ? undefined : index,
      offset: offset === 0xffffffffffffffffn ? undefined : Number(offset),
    });
  }

  /** A block of memory; the caller gives it back with `release` or hands it to the runtime. */
  take(length) {
    // Beyond 32 bits a number would wrap around on its way into the module; beyond 31 nothing there can be one block.
    if (length > 0x7fffffff) throw errorNamed('OutOfMemory', { detail: `${length} bytes are more than a 32-bit module can hold` });
    const ptr = this.call('alloc', length) >>> 0;
    if (ptr === 0) throw this.lastError();
    return ptr;
  }

  release(ptr, length) {
    if (!this.dead) this.call('dealloc', ptr, length);
  }

  /** Calls an export that reads bytes: `name(...before, ptr, len, ...after)`. */
  callWith(name, bytes, { before = [], after = [] } = {}) {
    // alloc refuses a length of zero; an empty text still needs an address.
    const size = Math.max(bytes.length, 1);
    const ptr = this.take(size);
    try {
      this.bytes(ptr, bytes.length).set(bytes);
      this.check(this.call(name, ...before, ptr, bytes.length, ...after));
    } finally {
      this.release(ptr, size);
    }
  }

  /** A copy of the last result's bytes. */
  result() {
    return this.bytes(this.call('last_result_ptr'), this.call('last_result_len')).slice();
  }
}
