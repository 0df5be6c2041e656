// One run of generation: an async iterator of tokens with a result at its end.

import { abortReason, errorOf, outside } from './errors.js';
import { breathe, now, transactionId } from './host.js';
import { STOP_REASONS } from './report.js';
import { decodeUtf8 } from './text.js';

/** Kinds of the event record. */
const PREFILL = 0;
const TOKEN = 1;

/** How long work may go on before the host gets a turn, in ms: less than half a frame. */
const TURN_MS = 6;

/**
 * Tokens as they come. Iterate it, or await `finished` after `run()`; both give the same.
 * Leaving the loop early cancels the run. A run that is never iterated never starts.
 */
export class Generation {
  #steps;
  #settle;

  constructor(start) {
    this.result = undefined;
    this.finished = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    this.finished.catch(() => {}); // an error also reaches whoever iterates
    this.#steps = start(this.#settle, (result) => (this.result = result));
  }

  [Symbol.asyncIterator]() {
    return this.#steps;
  }

  /** Runs to the end and gives `{text, ids, logprobs, promptTokens, stopReason, diagnostics}`. */
  async run() {
    for await (const _ of this.#steps); // the result is kept by the run itself
    return this.finished;
  }

  /** Runs to the end and gives the text. */
  async text() {
    return (await this.run()).text;
  }
}

/** The steps of one run on `owner` (a Model). `begin` starts it inside the module. */
export async function* steps(owner, begin, { signal, onProgress, logprobs = true, topLogprobs = 0, promptOnly = false }, settle, keep) {
  const module = owner.module;
  const clock = { id: transactionId(), start: now(), first: undefined };
  const out = { text: '', ids: [], logprobs: [], promptTokens: 0, stopReason: null };
  let running = false;
  let turn = now();
  try {
    if (signal?.aborted) throw abortReason(signal);
    owner.enter();
    running = true;
    begin();
    for (;;) {
      module.check(module.call('generate_next_token'));
      const event = readEvent(module);
      if (event.kind === PREFILL) {
        out.promptTokens = event.total;
        onProgress?.({ phase: 'prompt', loaded: event.done, total: event.total });
        if (promptOnly && event.done === event.total) return;
      } else {
        const text = decodeUtf8(module.result());
        out.text += text;
        out.promptTokens = event.total;
        // The last event ends the run before its consumer sees it: a consumer may stop asking at any token.
        if (event.stop !== 0) {
          out.stopReason = STOP_REASONS[event.stop];
          running = false;
        }
        if (event.kind === TOKEN) {
          clock.first ??= now();
          const logprob = logprobs ? event.logprob : undefined;
          out.ids.push(event.id);
          if (logprobs) out.logprobs.push(event.logprob);
          const step = { text, id: event.id, logprob };
          if (topLogprobs > 0) step.top = readTop(module);
          if (!running) finish(owner, clock, out, keep, settle);
          yield step;
        } else {
          finish(owner, clock, out, keep, settle);
          // What was held back for a character or a stop string belongs to no further token.
          if (text) yield { text, id: null, logprob: null };
        }
        if (!running) return;
      }
      if (now() - turn > TURN_MS) {
        await breathe();
        turn = now();
      }
      if (signal?.aborted) throw abortReason(signal);
      if (owner.freed) throw outside('Disposed');
    }
  } catch (error) {
    settle.reject(error);
    throw error;
  } finally {
    // Also reached when the consumer breaks out of its loop.
    if (running) {
      if (!owner.freed && !module.dead) module.call('cancel');
      out.stopReason ??= 'cancelled';
      finish(owner, clock, out, keep, settle);
    }
  }
}

function finish(owner, clock, out, keep, settle) {
  owner.leave();
  if (owner.freed || owner.module.dead) return;
  const result = { ...out, diagnostics: owner.diagnostics(clock, now()) };
  keep(result);
  settle.resolve(result);
}

function readTop(module) {
  module.check(module.call('top_logprobs'));
  const bytes = module.result();
  const view = new DataView(bytes.buffer);
  return Array.from({ length: bytes.length >> 3 }, (_, at) => ({
    id: view.getUint32(8 * at, true), logprob: view.getFloat32(8 * at + 4, true),
  }));
}

function readEvent(module) {
  const view = new DataView(module.exports.memory.buffer, module.call('event_ptr') >>> 0, 24);
  return {
    kind: view.getUint32(0, true),
    id: view.getUint32(4, true),
    logprob: view.getFloat32(8, true),
    stop: view.getUint32(12, true),
    done: view.getUint32(16, true),
    total: view.getUint32(20, true),
  };
}
