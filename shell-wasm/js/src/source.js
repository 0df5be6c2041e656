// Where a model comes from: anything that gives bytes becomes one sequence of chunks, read once and never gathered.

import { abortReason, outside } from './errors.js';

/**
 * The chunks of a source as an async iterator of Uint8Array.
 * A source is a URL (string or URL), a Request, a Response, a Blob or File, an ArrayBuffer or a view on one, a
 * ReadableStream, an (async) iterable of chunks, or a promise of one of these.
 */
export async function* chunksOf(source, signal) {
  source = await source;
  if (isAddress(source)) source = await open(source, signal);
  if (typeof Response !== 'undefined' && source instanceof Response) {
    if (!source.ok) throw outside('Network', `HTTP ${source.status} for ${source.url}`);
    source = source.body ?? (await source.arrayBuffer());
  }
  if (typeof Blob !== 'undefined' && source instanceof Blob) source = source.stream();
  if (source instanceof ArrayBuffer || (typeof SharedArrayBuffer !== 'undefined' && source instanceof SharedArrayBuffer)) {
    source = new Uint8Array(source);
  }
  if (ArrayBuffer.isView(source)) {
    yield new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
    return;
  }
  if (typeof source?.getReader === 'function') {
    yield* fromStream(source, signal);
    return;
  }
  if (typeof source?.[Symbol.asyncIterator] === 'function' || typeof source?.[Symbol.iterator] === 'function') {
    for await (const chunk of source) {
      if (signal?.aborted) throw abortReason(signal);
      yield chunk instanceof Uint8Array ? chunk : new Uint8Array(chunk.buffer ?? chunk, chunk.byteOffset ?? 0, chunk.byteLength);
    }
    return;
  }
  throw new TypeError('load: the source is no URL, Response, Blob, bytes, stream or iterable');
}

/** Whether a source is an address, which a cache can know. */
export function isAddress(source) {
  return typeof source === 'string' || source instanceof URL || (typeof Request !== 'undefined' && source instanceof Request);
}

async function* fromStream(stream, signal) {
  const reader = stream.getReader();
  const cancel = () => reader.cancel(abortReason(signal)).catch(() => {});
  signal?.addEventListener('abort', cancel, { once: true });
  let ended = false;
  try {
    for (;;) {
      let step;
      try {
        step = await reader.read();
      } catch (error) {
        ended = true;
        if (signal?.aborted) throw abortReason(signal);
        throw outside('Network', String(error?.message ?? error), error);
      }
      if (signal?.aborted) throw abortReason(signal);
      ended = step.done;
      if (step.done) return;
      yield step.value;
    }
  } finally {
    signal?.removeEventListener('abort', cancel);
    // A consumer that stops early must not leave the download running.
    if (!ended) await reader.cancel().catch(() => {});
  }
}

async function open(address, signal) {
  const url = typeof address === 'string' ? address : (address.url ?? address.href);
  if (url.startsWith('file:') || (!hasLocation() && !/^[a-z][a-z0-9+.-]+:/i.test(url))) return openFile(url);
  if (typeof fetch !== 'function') throw outside('Environment', 'there is no fetch here; pass bytes');
  try {
    return await fetch(address, { signal });
  } catch (error) {
    if (signal?.aborted) throw abortReason(signal);
    throw outside('Network', `${url}: ${error?.message ?? error}`, error);
  }
}

const hasLocation = () => typeof location !== 'undefined' && typeof location?.href === 'string';

/** A file of a server-side host, in chunks. */
async function openFile(url) {
  // A computed name keeps bundlers for the browser from looking for the module.
  const name = ['node', 'fs'].join(':');
  let fs;
  try {
    fs = await import(/* webpackIgnore: true */ /* @vite-ignore */ name);
  } catch (error) {
    throw outside('Environment', `${url}: no files can be opened here`, error);
  }
  return readFile(fs, url.startsWith('file:') ? new URL(url) : url);
}

async function* readFile(fs, path) {
  let file;
  try {
    file = await fs.promises.open(path);
  } catch (error) {
    throw outside('Network', `${path}: ${error.message}`, error);
  }
  try {
    const buffer = new Uint8Array(1 << 20);
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}
