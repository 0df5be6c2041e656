// Our module beside candle compiled to WebAssembly, both with SIMD in Node, and both native builds on one thread, on the same weights and
// the same ids; interleaved rounds, medians, ratios within a round.
//     node benches/peers/candle.mjs MODEL.slm PEER.gguf [ROUNDS] [TOKENS]
// All decode greedily after a prompt of some 130 tokens. Needs benches/peers/candle/build.sh, shell-wasm/build.sh and target/release/slm.

import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { root } from '../../shell-wasm/js/test/package.mjs';
import { inNode, interleave, native, of, output, print } from './rounds.mjs';

const [slm, gguf, rounds = '5', tokens = '32'] = process.argv.slice(2);
const program = join(root, 'target/candle-peer/candle-peer');
const count = Number(tokens);
if (!slm || !gguf || !existsSync(program)) {
  console.log('SKIPPED candle: benches/peers/candle/build.sh, then node benches/peers/candle.mjs MODEL.slm PEER.gguf [ROUNDS] [TOKENS]');
  process.exit(0);
}

const { exports: candle } = (await WebAssembly.instantiate(readFileSync(`${program}.wasm`), {})).instance;
const file = readFileSync(gguf);
const at = candle.room(file.length) >>> 0;
new Uint8Array(candle.memory.buffer).set(file, at);
if (candle.load(at, file.length) !== 0) throw new Error(`candle cannot load ${gguf}`);

const room = candle.room(4096) >>> 0;
const next = (ids, fresh) => {
  new Uint32Array(candle.memory.buffer).set(ids, room / 4);
  const id = candle.next(room, ids.length, fresh) >>> 0;
  if (id === 0xffffffff) throw new Error('candle failed');
  return id;
};

function candleNode(prompt) {
  const start = performance.now();
  const ids = [next(prompt, 1)];
  const first = performance.now();
  while (ids.length < count) ids.push(next(ids.slice(-1), 0));
  const end = performance.now();
  return { prefill: (prompt.length * 1000) / (first - start), decode: ((count - 1) * 1000) / (end - first), prompt: prompt.length, ids };
}

function candleNative(prompt) {
  const out = JSON.parse(output(program, [gguf, String(prompt), String(count), '1']));
  return { prefill: out.prefill_tokens_per_second, decode: out.decode_tokens_per_second, prompt: prompt.length, ids: out.ids };
}

const node = await inNode(slm, count);
console.log(`${basename(slm)} and ${basename(gguf)}; Node ${process.versions.node}`);
const who = { candleNode, node: node.run, candleNative, native: native(slm, count) };
const rows = await interleave(who, Number(rounds), (text) => node.model.tokenize(text));

console.log(`${rows.node.length} rounds; prompts of ${of(rows, 'node', 'prompt')} tokens, ${count} decoded`);
print(rows, [['candleNode', 'candle, Node'], ['node', 'module, Node'], ['candleNative', 'candle native, one thread'], ['native', 'native, one thread']],
  [['node', 'candleNode', 'Node / candle, Node'], ['native', 'candleNative', 'native / candle native'], ['node', 'native', 'Node / native']]);

/** How many ids of all rounds are the same up to the first difference. */
const same = (a, b) => rows[a].reduce((sum, { ids }, round) => {
  const differing = ids.findIndex((id, at) => id !== rows[b][round].ids[at]);
  return sum + (differing < 0 ? count : differing);
}, 0);
const all = rows.node.length * count;
console.log(`ids before the first difference in a round, of ${all}: candle in Node and native ${same('candleNode', 'candleNative')}, `
  + `candle and ours in Node ${same('candleNode', 'node')}, ours in Node and native ${same('node', 'native')}`);
