// The raw ABI, called as a host without any glue would: an empty import object and numbers.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

export class Raw {
  constructor(wasm) {
    this.exports = new WebAssembly.Instance(new WebAssembly.Module(wasm), {}).exports;
  }

  view(ptr, length) {
    return new Uint8Array(this.exports.memory.buffer, ptr >>> 0, length >>> 0);
  }

  /** Copies bytes in, calls `work(ptr, length)` and gives the block back. */
  withBytes(bytes, work) {
    const size = Math.max(bytes.length, 1);
    const ptr = this.exports.alloc(size) >>> 0;
    if (ptr === 0) throw new Error(`alloc(${size}) failed: ${this.error().number}`);
    this.view(ptr, bytes.length).set(bytes);
    const result = work(ptr, bytes.length);
    this.exports.dealloc(ptr, size);
    return result;
  }

  error() {
    const view = new DataView(this.exports.memory.buffer, this.exports.error_ptr() >>> 0, 24);
    return {
      number: view.getUint32(0, true), class: view.getUint32(4, true), index: view.getUint32(8, true),
      offset: view.getBigUint64(16, true),
    };
  }

  check(code, what) {
    if (code !== 0) throw new Error(`${what}: ${JSON.stringify(this.error(), (_, v) => (typeof v === 'bigint' ? String(v) : v))}`);
  }

  load(path, { context = 0 } = {}) {
    const bytes = readFileSync(path);
    this.check(this.exports.set_max_model_bytes(BigInt(Math.max(bytes.length, 134217728))), 'set_max_model_bytes');
    this.check(this.exports.set_context(context), 'set_context');
    const ptr = this.exports.alloc(bytes.length) >>> 0;
    if (ptr === 0) throw new Error('alloc');
    this.view(ptr, bytes.length).set(bytes);
    this.check(this.exports.load_model(ptr, bytes.length), 'load_model');
    return bytes.length;
  }

  result() {
    return this.view(this.exports.last_result_ptr(), this.exports.last_result_len()).slice();
  }

  logits(ids) {
    this.check(this.withBytes(idBytes(ids), (ptr, len) => this.exports.logits(ptr, len)), 'logits');
    return this.result();
  }

  digest(ids) {
    return createHash('sha256').update(this.logits(ids)).digest('hex');
  }

  event() {
    const view = new DataView(this.exports.memory.buffer, this.exports.event_ptr() >>> 0, 24);
    return { kind: view.getUint32(0, true), id: view.getUint32(4, true), logprob: view.getFloat32(8, true), stop: view.getUint32(12, true), done: view.getUint32(16, true), total: view.getUint32(20, true) };
  }

  /** Runs a generation to its end: the ids and the events. */
  generate(input, bytes, max) {
    this.check(this.withBytes(bytes, (ptr, len) => this.exports.start_generation(input, ptr, len, max)), 'start_generation');
    const ids = [];
    const text = [];
    for (;;) {
      this.check(this.exports.generate_next_token(), 'generate_next_token');
      const event = this.event();
      text.push(...this.result());
      if (event.kind === 1) ids.push(event.id);
      if (event.kind === 2) return { ids, stop: event.stop, text: new Uint8Array(text) };
    }
  }
}

export const idBytes = (ids) => new Uint8Array(Uint32Array.from(ids).buffer);
