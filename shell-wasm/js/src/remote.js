// A model in a Worker, with the functions of Model. What takes time there is a promise here.

import { abortReason, outside, unpackError } from './errors.js';
import { EMBEDDED, workerSource } from './embedded.js';
import { Generation } from './generation.js';

/** Starts a worker and loads a model there. `options.worker` may be a Worker of the caller's making. */
export async function loadInWorker(source, options) {
  const { worker: given, signal, onProgress, onHeader, ...rest } = options;
  const wire = new Wire(typeof given === 'object' ? given : startWorker());
  try {
    const absolute = typeof source === 'string' && typeof location !== 'undefined' ? new URL(source, location.href).href : source;
    const wanted = { ...rest, onHeader: onHeader !== undefined };
    const sent = absolute instanceof URL ? absolute.href : absolute;
    const transfer = typeof ReadableStream !== 'undefined' && sent instanceof ReadableStream ? [sent] : [];
    const { card, simd } = await wire.ask('load', [sent, wanted], { signal, onProgress, onHeader, transfer });
    return new RemoteModel(wire, card, simd);
  } catch (error) {
    wire.end();
    throw error;
  }
}

function startWorker() {
  if (typeof Worker === 'undefined') throw outside('Environment', 'there are no workers here; load without the worker option');
  if (EMBEDDED) return new Worker(URL.createObjectURL(new Blob([workerSource()], { type: 'text/javascript' })));
  return new Worker(new URL('./tinyrustlm-worker.js', import.meta.url), { type: 'module' });
}

/** Calls with numbers over one worker; answers, events and progress find their way back. */
class Wire {
  #worker;
  #open = new Map();
  #next = 1;
  ended = false;

  constructor(worker) {
    this.#worker = worker;
    worker.onmessage = ({ data }) => {
      const call = this.#open.get(data.call);
      if (!call) return;
      if (data.progress) call.onProgress?.(data.progress);
      else if (data.header) call.onHeader?.(data.header);
      else if (data.event) call.onEvent?.(data.event);
      else {
        this.#open.delete(data.call);
        if (data.error) call.reject(data.error.name === 'AbortError' && call.signal?.aborted ? abortReason(call.signal) : unpackError(data.error));
        else call.resolve(data.result);
      }
    };
    worker.onerror = (event) => this.end(outside('WorkerLost', event?.message));
  }

  ask(type, args, { signal, onProgress, onHeader, onEvent, transfer = [] } = {}) {
    if (this.ended) return Promise.reject(outside('Disposed'));
    if (signal?.aborted) return Promise.reject(abortReason(signal));
    const call = this.#next++;
    const answer = new Promise((resolve, reject) => this.#open.set(call, { resolve, reject, onProgress, onHeader, onEvent, signal }));
    const abort = () => this.abort(call);
    signal?.addEventListener('abort', abort, { once: true });
    this.#worker.postMessage({ call, type, args }, transfer);
    answer.call = call;
    return Object.assign(answer.finally(() => signal?.removeEventListener('abort', abort)), { call });
  }

  abort(call) {
    this.#worker.postMessage({ call, type: 'abort' });
  }

  end(error = outside('Disposed')) {
    this.ended = true;
    this.#worker.terminate();
    for (const { reject } of this.#open.values()) reject(error);
    this.#open.clear();
  }
}

class RemoteModel {
  #wire;

  constructor(wire, card, simd) {
    this.#wire = wire;
    this.card = card;
    this.simd = simd;
    for (const method of ['tokenize', 'countTokens', 'detokenize', 'tokenBytes', 'render', 'logits', 'diagnostics', 'reset']) {
      this[method] = (...args) => this.#wire.ask('call', [method, args]);
    }
  }

  chat(messages, options) {
    return this.#run('chat', messages, options);
  }

  generate(input, options) {
    return this.#run('generate', input, options);
  }

  prepare(input, { signal, onProgress, ...rest } = {}) {
    return this.#wire.ask('prepare', [input, rest], { signal, onProgress });
  }

  #run(method, input, options = {}) {
    const { signal, onProgress, ...rest } = options;
    return new Generation((settle, keep) => remoteSteps(this.#wire, [method, input, rest], { signal, onProgress }, settle, keep));
  }

  memoryBytes() {
    return this.#wire.ask('memoryBytes', []);
  }

  get freed() {
    return this.#wire.ended;
  }

  /** Ends the worker, and with it all memory of the model. */
  free() {
    if (!this.#wire.ended) this.#wire.end();
  }

  [Symbol.dispose ?? Symbol.for('Symbol.dispose')]() {
    this.free();
  }
}

async function* remoteSteps(wire, args, hooks, settle, keep) {
  const queue = [];
  let wake = () => {};
  let done = false;
  let over = false;
  const answer = wire.ask('run', args, { ...hooks, onEvent: (event) => (queue.push(event), wake()) });
  const ended = answer.then(
    (result) => (keep(result), settle.resolve(result)),
    (error) => (settle.reject(error), error),
  ).then((error) => ((done = true), wake(), error));
  try {
    for (;;) {
      while (queue.length) yield queue.shift();
      if (done) break;
      await new Promise((resolve) => (wake = resolve));
    }
    over = true;
    const error = await ended;
    if (error) throw error;
  } finally {
    if (!over && !done && !wire.ended) {
      wire.abort(answer.call);
      await ended;
    }
  }
}
