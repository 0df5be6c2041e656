// What differs between hosts: clock, ids, and a way to let the host breathe.

export const now = () => (typeof performance !== 'undefined' ? performance.now() : Date.now());

let transactions = 0;

/** A name for one transaction. Random where the host offers randomness; the module itself has none. */
export function transactionId() {
  if (typeof crypto !== 'undefined' && typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  transactions += 1;
  return `${Date.now().toString(16)}-${transactions}`;
}

/** Resolves after the host has handled what waits: input, paint, messages. */
export const breathe = makeBreathe();

function makeBreathe() {
  if (typeof setImmediate === 'function') return () => new Promise((resolve) => setImmediate(resolve));
  if (typeof MessageChannel === 'function') {
    const channel = new MessageChannel();
    const waiting = [];
    channel.port1.onmessage = () => waiting.shift()();
    return () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        channel.port2.postMessage(0);
      });
  }
  if (typeof setTimeout === 'function') return () => new Promise((resolve) => setTimeout(resolve, 0));
  return () => Promise.resolve();
}

/** What this host is, for diagnostics and bug reports. */
export function describeHost(simd) {
  return {
    user_agent: typeof navigator !== 'undefined' ? navigator.userAgent : undefined,
    engine: engineName(),
    wasm_features: { simd128: simd },
    threads: 1,
    hardware_concurrency: typeof navigator !== 'undefined' ? navigator.hardwareConcurrency : undefined,
    cross_origin_isolated: typeof crossOriginIsolated !== 'undefined' ? crossOriginIsolated : undefined,
    worker: typeof WorkerGlobalScope !== 'undefined',
  };
}

function engineName() {
  if (typeof Deno !== 'undefined') return `V8 ${Deno.version?.v8} (Deno ${Deno.version?.deno})`;
  if (typeof Bun !== 'undefined') return `JavaScriptCore (Bun ${Bun.version})`;
  if (typeof process !== 'undefined' && process.versions?.v8) return `V8 ${process.versions.v8} (Node ${process.versions.node})`;
  const agent = typeof navigator !== 'undefined' ? navigator.userAgent : '';
  if (/Firefox\//.test(agent)) return 'SpiderMonkey';
  if (/Chrom(e|ium)\//.test(agent)) return 'V8';
  if (/AppleWebKit\//.test(agent)) return 'JavaScriptCore';
  return undefined;
}
