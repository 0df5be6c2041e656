// What the host must know of a model file before it takes memory for it, and what a model card shows.
// The core checks every byte of it again; here only what is read is looked at.

import { errorNamed } from './errors.js';
import { decodeUtf8 } from './text.js';

export const HEADER_BYTES = 108;
const ENTRY_BYTES = 64;
const DTYPES = { 1: 'f32', 2: 'q8_0', 3: 'q4_0', 4: 'q4_1', 5: 'bf16', 16: 'bytes' };
const FAMILIES = ['synthetic', 'llama', 'mistral', 'qwen2', 'qwen3', 'gemma2', 'gemma3', 'phi3', 'smollm3', 'olmo2', 'granite'];

const bad = (name, offset, detail) => errorNamed(name, { loading: true, offset, detail });

/** The header's fields. `bytes` holds at least 108 bytes. */
export function readHeader(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  checkMagic(bytes);
  if (view.getUint32(4, true) !== 1) throw bad('UnsupportedModelVersion', 4);
  if (view.getUint32(8, true) !== HEADER_BYTES) throw bad('HeaderLength', 8);
  const u32 = (at) => view.getUint32(at, true);
  const u64 = (at) => Number(view.getBigUint64(at, true));
  const header = {
    modelType: u32(12), tiedOutput: (u32(16) & 1) === 1, vocabSize: u32(20), specialTokenCount: u32(24),
    hiddenSize: u32(28), layerCount: u32(32), headCount: u32(36), kvHeadCount: u32(40), headDim: u32(44),
    ffnSize: u32(48), maxContext: u32(52), tokenizerBytes: u64(72), directoryOffset: u64(80), tensorCount: u32(88),
    dataOffset: u64(92), checksum: view.getBigUint64(100, true).toString(16).padStart(16, '0'),
  };
  if (header.directoryOffset + header.tensorCount * ENTRY_BYTES !== header.dataOffset || header.tensorCount === 0) {
    throw bad('DataOffset', 92);
  }
  return header;
}

/** Refuses anything that does not begin as a model, as soon as the first bytes are there. */
export function checkMagic(bytes) {
  const magic = [0x53, 0x4c, 0x4d, 0x31];
  for (let at = 0; at < Math.min(4, bytes.length); at++) {
    if (bytes[at] !== magic[at]) throw bad('InvalidModelMagic', 0, looksLike(bytes));
  }
}

function looksLike(bytes) {
  const text = decodeUtf8(bytes.subarray(0, 16)).trimStart().toLowerCase();
  if (text.startsWith('<')) return 'this is a web page';
  if (text.startsWith('gguf')) return 'this is a GGUF file; convert its source with slm convert';
  if (text.startsWith('{')) return 'this is JSON';
  if (text.startsWith('pk')) return 'this is an archive';
  return undefined;
}

/** The directory's entries, in file order. `bytes` reaches at least to the directory's end. */
export function readDirectory(bytes, header) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const entries = [];
  for (let index = 0; index < header.tensorCount; index++) {
    const at = header.directoryOffset + index * ENTRY_BYTES;
    entries.push({
      dtype: DTYPES[view.getUint32(at + 8, true)] ?? 'unknown',
      dims: [16, 20, 24, 28].slice(0, Math.min(view.getUint32(at + 12, true), 4)).map((d) => view.getUint32(at + d, true)),
      offset: Number(view.getBigUint64(at + 32, true)),
      bytes: Number(view.getBigUint64(at + 40, true)),
    });
  }
  return entries;
}

/** The file's exact length: where its last payload ends. */
export function fileLength(entries) {
  const last = entries[entries.length - 1];
  return last.offset + last.bytes;
}

/** How keys and values can be kept, by their number in the ABI. */
export const KV_TYPES = ['f32', 'q8_0'];

/** Bytes of the key-value cache for a context, before anything is loaded (SPEC.md section 6.3). */
export function kvBytes({ layerCount, kvHeadCount, headDim }, context, kvCache = 'f32') {
  const groups = (rows, cols) => 272 * Math.ceil(rows / 8) * Math.ceil(cols / 32);
  const head = kvCache === 'f32' ? 8 * context * headDim : groups(context, headDim) + groups(headDim, context) + 4 * context;
  return layerCount * kvHeadCount * head;
}

/** The model card: everything the file says about itself. `bytes` is a whole model that the core has accepted. */
export function readCard(bytes, header, entries) {
  const payload = (index) => bytes.subarray(entries[index].offset, entries[index].offset + entries[index].bytes);
  const names = readNames(payload(0), entries.length);
  const by = Object.fromEntries(names.map((name, index) => [name, index]));
  const config = payload(by['@config']);
  const sizes = {};
  for (const [index, entry] of entries.entries()) {
    if (!names[index].startsWith('@')) sizes[entry.dtype] = (sizes[entry.dtype] ?? 0) + entry.bytes;
  }
  const precision = Object.entries(sizes).sort((a, b) => b[1] - a[1])[0]?.[0] ?? 'none';
  const provenance = payload(by['@provenance']);
  return {
    ...header,
    family: FAMILIES[new DataView(config.buffer, config.byteOffset).getUint32(4, true)] ?? 'unknown',
    precision,
    bytesByDtype: sizes,
    fileBytes: fileLength(entries),
    hasTemplate: entries[by['@template']].bytes > 0,
    sampling: readSampling(payload(by['@sampling'])),
    provenance: provenance.length ? readCbor(provenance) : {},
    tensorNames: names,
  };
}

export function readNames(bytes, count) {
  const names = [];
  let at = 0;
  while (names.length < count && at + 2 <= bytes.length) {
    const length = bytes[at] | (bytes[at + 1] << 8);
    names.push(decodeUtf8(bytes.subarray(at + 2, at + 2 + length)));
    at += 2 + length;
  }
  return names;
}

/** The publisher's generation defaults, as options of `chat`; null when the file has none. */
function readSampling(bytes) {
  if (bytes.length < 80) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const present = view.getUint32(4, true);
  const fields = [
    ['doSample', 8, 'u'], ['topK', 12, 'u'], ['temperature', 16, 'f'], ['topP', 24, 'f'], ['minP', 32, 'f'],
    ['typicalP', 40, 'f'], ['repetitionPenalty', 48, 'f'], ['frequencyPenalty', 56, 'f'], ['presencePenalty', 64, 'f'],
    ['maxTokens', 72, 'u'],
  ];
  const out = {};
  fields.forEach(([name, at, type], bit) => {
    if (present & (1 << bit)) out[name] = type === 'f' ? view.getFloat64(at, true) : view.getUint32(at, true);
  });
  return out;
}

/** One CBOR item (RFC 8949), enough for `@provenance`. Byte strings become hex. */
export function readCbor(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const argument = (low) => {
    if (low < 24) return low;
    const size = 1 << (low - 24);
    at += size;
    if (low === 24) return view.getUint8(at - 1);
    if (low === 25) return view.getUint16(at - 2);
    if (low === 26) return view.getUint32(at - 4);
    return Number(view.getBigUint64(at - 8));
  };
  const float = (low) => {
    if (low === 25) {
      const bits = view.getUint16(at);
      at += 2;
      const exponent = (bits >> 10) & 31;
      const fraction = bits & 1023;
      const size = exponent === 31 ? (fraction ? NaN : Infinity)
        : exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024);
      return bits & 0x8000 ? -size : size;
    }
    at += low === 26 ? 4 : 8;
    return low === 26 ? view.getFloat32(at - 4) : view.getFloat64(at - 8);
  };
  const item = (depth) => {
    if (depth > 32) throw new RangeError('CBOR too deep');
    const first = view.getUint8(at++);
    const major = first >> 5;
    const low = first & 31;
    if (major === 7) return low >= 25 && low <= 27 ? float(low) : { 20: false, 21: true, 22: null }[low];
    const count = argument(low);
    switch (major) {
      case 0: return count;
      case 1: return -1 - count;
      case 2: { const part = bytes.subarray(at, at + count); at += count; return [...part].map((b) => b.toString(16).padStart(2, '0')).join(''); }
      case 3: { const part = bytes.subarray(at, at + count); at += count; return decodeUtf8(part); }
      case 4: { const list = []; for (let i = 0; i < count; i++) list.push(item(depth + 1)); return list; }
      case 5: { const map = {}; for (let i = 0; i < count; i++) { const key = item(depth + 1); map[key] = item(depth + 1); } return map; }
      default: return item(depth + 1); // a tag: its content
    }
  };
  return item(0);
}
