// Streams a model file straight into the module's memory: head first, one block of exactly the file's length, one copy.

import { HEADER_BYTES, checkMagic, fileLength, kvBytes, readDirectory, readHeader } from './container.js';
import { errorNamed, outside } from './errors.js';

/** What a file's head may take before it is refused: tokenizer and directory of the largest vocabularies fit. */
const MAX_HEAD_BYTES = 64 << 20;

/**
 * Reads a model from chunks into a block of `module`.
 * Returns `{ptr, length, header, entries}`; the block is the caller's. On any error nothing stays taken.
 */
export async function receive(module, chunks, { maxModelBytes, onHeader, onProgress, context, kvCache }) {
  const iterator = chunks[Symbol.asyncIterator]();
  let block;
  try {
    const head = await readHead(iterator);
    const { header, entries } = head;
    const length = fileLength(entries);
    const plannedContext = Math.min(header.maxContext, context || 2048);
    // Everything that will be needed is known now, before any of it is fetched or taken.
    await onHeader?.({ ...header, fileBytes: length, context: plannedContext, kvBytes: kvBytes(header, plannedContext, kvCache) });
    if (length > maxModelBytes) {
      throw errorNamed('TransferCeilingExceeded', { detail: `the model has ${length} bytes, maxModelBytes is ${maxModelBytes}` });
    }
    block = { ptr: module.take(length), length };
    let filled = 0;
    const write = (bytes) => {
      if (bytes.length > length - filled) throw errorNamed('FileLength', { loading: true, offset: length });
      module.bytes(block.ptr + filled, bytes.length).set(bytes);
      filled += bytes.length;
      onProgress?.({ phase: 'download', loaded: filled, total: length });
    };
    write(head.bytes);
    head.bytes = undefined;
    for (;;) {
      const { value, done } = await iterator.next();
      if (done) break;
      write(value);
    }
    if (filled < length) throw outside('Network', `the file ended after ${filled} of ${length} bytes`);
    const { ptr } = block;
    block = undefined;
    return { ptr, length, header, entries };
  } finally {
    if (block) module.release(block.ptr, block.length);
    await iterator.return?.();
  }
}

async function readHead(iterator) {
  let bytes = new Uint8Array(1 << 16);
  let filled = 0;
  let header;
  let need = HEADER_BYTES;
  while (filled < need) {
    const { value, done } = await iterator.next();
    if (done) throw filled < 4 ? errorNamed('FileTooShort', { loading: true, detail: `${filled} bytes` }) : outside('Network', `the file ended after ${filled} bytes`);
    if (filled + value.length > bytes.length) {
      const wider = new Uint8Array(Math.max(filled + value.length, Math.min(2 * bytes.length, need)));
      wider.set(bytes.subarray(0, filled));
      bytes = wider;
    }
    bytes.set(value, filled);
    filled += value.length;
    checkMagic(bytes.subarray(0, filled));
    if (!header && filled >= HEADER_BYTES) {
      header = readHeader(bytes);
      need = header.dataOffset;
      if (need > MAX_HEAD_BYTES) throw errorNamed('DataOffset', { loading: true, offset: 92, detail: 'the directory lies beyond any sensible place' });
    }
  }
  bytes = bytes.subarray(0, filled);
  return { bytes, header, entries: readDirectory(bytes, header) };
}
