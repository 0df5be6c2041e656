// A model whose replies are known: which one comes is decided by the last character of the prompt. It is converted by slm from files
// written here, so it has a tokenizer, a template and 3 MiB of weights like any other.
//
// The layers add nothing; the embedding of a token that has a successor is a unit vector of its own, and the head gives that
// successor the only large logit along it. Replies are cut into tokens without regard for characters.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Last character of the prompt, and the bytes that come then; `loop` never ends by itself. */
export const REPLIES = {
  '!': { text: 'Hi 😀👩‍👩‍👧 e\u0301a\u0308 中文 عربي' },
  '.': { text: 'שלום עולם ✓' },
  '#': { text: 'ok 🜁', cut: 1 },
  ':': { text: '<img src=x onerror=fail()><b>&amp;' },
  '?': { text: 'la le li lo lu ', loop: true },
};

const WIDTH = 128, HEADS = 4, LAYERS = 2, FFN = 1024;

/** Bytes as the characters a byte-level vocabulary writes them with. */
const letters = (() => {
  let other = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    return String.fromCharCode(printable ? byte : other++);
  });
})();
const spell = (bytes) => [...bytes].map((byte) => letters[byte]).join('');

export function makeSpeaker(folder, slm) {
  const vocab = new Map(letters.map((letter, byte) => [letter, byte]));
  const merges = [];
  const add = (piece) => {
    for (let length = 2; length <= piece.length; length++) {
      const whole = spell(piece.subarray(0, length));
      if (vocab.has(whole)) continue;
      merges.push([spell(piece.subarray(0, length - 1)), spell(piece.subarray(length - 1, length))]);
      vocab.set(whole, vocab.size);
    }
    return vocab.get(spell(piece));
  };
  const next = new Map();
  const taken = new Set(Object.keys(REPLIES).map((last) => vocab.get(last)));
  for (const [last, { text, cut = 0, loop }] of Object.entries(REPLIES)) {
    const bytes = new TextEncoder().encode(text);
    const end = bytes.length - cut;
    let from = vocab.get(last);
    let first;
    for (let at = 0, turn = 0; at < end; turn++) {
      let size = 1 + (turn % 3);
      let id;
      // A token may speak once: a piece that is taken grows.
      do id = add(bytes.subarray(at, Math.min(at + size, end))); while (taken.has(id) && at + size++ < end);
      if (taken.has(id)) throw new Error(`the reply of ${last} cannot be cut`);
      first ??= id;
      taken.add(id);
      next.set(from, id);
      from = id;
      at += Math.min(size, end - at);
    }
    next.set(from, loop ? first : -1);
  }
  const stop = vocab.size;
  const size = stop + 1;
  if (next.size >= WIDTH) throw new Error('more tokens that speak than dimensions');

  const tensors = {};
  const fill = (name, shape, set) => {
    const data = new Float32Array(shape.reduce((a, b) => a * b));
    set?.(data);
    tensors[name] = { shape, data };
  };
  const states = new Map([...next.keys()].map((id, state) => [id, state]));
  fill('model.embed_tokens.weight', [size, WIDTH], (data) => {
    for (let id = 0; id < size; id++) data[id * WIDTH + (states.get(id) ?? WIDTH - 1)] = 1;
  });
  fill('lm_head.weight', [size, WIDTH], (data) => {
    for (const [id, state] of states) data[(next.get(id) < 0 ? stop : next.get(id)) * WIDTH + state] = 4;
    data[stop * WIDTH + WIDTH - 1] = 4;
  });
  const ones = (data) => data.fill(1);
  fill('model.norm.weight', [WIDTH], ones);
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = (part) => `model.layers.${layer}.${part}.weight`;
    for (const part of ['input_layernorm', 'post_attention_layernorm']) fill(name(part), [WIDTH], ones);
    for (const part of ['q', 'o']) fill(name(`self_attn.${part}_proj`), [WIDTH, WIDTH]);
    for (const part of ['k', 'v']) fill(name(`self_attn.${part}_proj`), [WIDTH / HEADS, WIDTH]);
    for (const part of ['gate', 'up']) fill(name(`mlp.${part}_proj`), [FFN, WIDTH]);
    fill(name('mlp.down_proj'), [WIDTH, FFN]);
  }

  mkdirSync(join(folder, 'speaker'), { recursive: true });
  const write = (name, value) => writeFileSync(join(folder, 'speaker', name), typeof value === 'object' && !Buffer.isBuffer(value) ? JSON.stringify(value) : value);
  write('config.json', {
    architectures: ['LlamaForCausalLM'], model_type: 'llama', vocab_size: size, hidden_size: WIDTH, intermediate_size: FFN,
    num_hidden_layers: LAYERS, num_attention_heads: HEADS, num_key_value_heads: 1, hidden_act: 'silu', max_position_embeddings: 65536,
    rms_norm_eps: 1e-6, rope_theta: 10000, tie_word_embeddings: false, eos_token_id: stop, bos_token_id: null, torch_dtype: 'float32',
  });
  write('tokenizer.json', {
    version: '1.0', truncation: null, padding: null, normalizer: null, post_processor: null,
    added_tokens: [{ id: stop, content: '<|end|>', single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }],
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false,
      byte_fallback: false, ignore_merges: false, vocab: { ...Object.fromEntries(vocab), '<|end|>': stop }, merges,
    },
  });
  write('tokenizer_config.json', {
    tokenizer_class: 'PreTrainedTokenizerFast', eos_token: '<|end|>', clean_up_tokenization_spaces: false,
    chat_template: "{% for message in messages %}{{ message['content'] + '\n' if not loop.last else message['content'] }}{% endfor %}",
  });
  const header = {};
  let offset = 0;
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, offset + data.byteLength] };
    offset += data.byteLength;
  }
  const head = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(head.length));
  write('model.safetensors', Buffer.concat([length, head, ...Object.values(tensors).map(({ data }) => Buffer.from(data.buffer))]));
  const path = join(folder, 'speaker.slm');
  execFileSync(slm, ['convert', join(folder, 'speaker'), '--quant', 'f32', '-o', path], { stdio: ['ignore', 'ignore', 'pipe'] });
  return path;
}
