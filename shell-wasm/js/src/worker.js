// The other side of remote.js: an engine that answers messages.

import { packError } from './errors.js';
import { createEngine } from './model.js';

/** Serves one model on `port` (the worker's own global, or a MessagePort). */
export function serve(port) {
  let engine;
  let model;
  const runs = new Map();

  const progress = (call) => (event) => port.postMessage({ call, progress: event });
  const signalOf = (call) => {
    const controller = new AbortController();
    runs.set(call, controller);
    return controller.signal;
  };

  const handlers = {
    async load(call, source, options) {
      engine ??= await createEngine(options);
      const waiting = options.onHeader ? (header) => port.postMessage({ call, header }) : undefined;
      model = await engine.load(source, { ...options, signal: signalOf(call), onProgress: progress(call), onHeader: waiting });
      return { card: model.card, simd: engine.simd };
    },
    async run(call, method, input, options) {
      const generation = model[method](input, { ...options, signal: signalOf(call), onProgress: progress(call) });
      for await (const event of generation) port.postMessage({ call, event });
      return generation.finished;
    },
    prepare: (call, input, options) => model.prepare(input, { ...options, signal: signalOf(call), onProgress: progress(call) }),
    call: (_, method, args) => model[method](...args),
    memoryBytes: () => engine.memoryBytes,
  };

  port.onmessage = async ({ data }) => {
    const { call, type, args } = data;
    if (type === 'abort') {
      const reason = new Error('aborted');
      reason.name = 'AbortError';
      runs.get(call)?.abort(reason);
      return;
    }
    try {
      port.postMessage({ call, result: await handlers[type](call, ...args) });
    } catch (error) {
      port.postMessage({ call, error: packError(error) });
    } finally {
      runs.delete(call);
    }
  };
}
