// The module against the native build on one model: logits of 12 prompts, 64 greedy ids, 512 sampled ids, bit for bit.
//     node shell-wasm/js/test/native.mjs MODEL.slm [SLM]      SLM: the native program, target/release/slm by default

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { importPackage, root } from './package.mjs';

const [path, slm = join(root, 'target/release/slm')] = process.argv.slice(2);
const { load } = await importPackage();

const TEXTS = [
  'The capital of France is', 'Once upon a time', 'def fibonacci(n):', '1, 1, 2, 3, 5, 8,', 'Water boils at', 'My favourite colour is',
  'In 1969, two men', 'The opposite of hot is', 'SELECT name FROM', 'Dear Sir or Madam,', 'E = m', 'naïve 😀 עברית',
];
const native = (args, input) => execFileSync(slm, args, { input, encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['pipe', 'pipe', 'ignore'] });
const run = (args) => JSON.parse(native(['run', path, '--json', ...args]));
const sampling = { temperature: 0.8, topK: 50, topP: 0.95, seed: 42 };

const started = Date.now();
const prompts = [];
const expected = {};
for (const simd of process.env.SIMD_ONLY ? [true] : [true, false]) {
  const model = await load(path, { simd, maxModelBytes: 2 ** 31 - 1 });
  if (prompts.length === 0) {
    prompts.push(...TEXTS.map((text) => model.tokenize(text)));
    const lines = native(['logits', path], prompts.map((ids) => JSON.stringify({ ids }) + '\n').join(''));
    expected.logits = lines.trim().split('\n').map((line) => JSON.parse(line).sha256);
    expected.greedy = run(['-p', TEXTS[0], '-n', '64', '--ignore-eos', '--temperature', '0']).ids;
    expected.sampled = run(['-p', TEXTS[1], '-n', '512', '--ignore-eos', '--temperature', '0.8', '--top-k', '50', '--top-p', '0.95', '--seed', '42']).ids;
  }
  const digests = prompts.map((ids) => createHash('sha256').update(new Uint8Array(model.logits(ids).buffer)).digest('hex'));
  assert.deepEqual(digests, expected.logits, 'logits');
  const greedy = await model.generate(TEXTS[0], { maxTokens: 64, ignoreEos: true, temperature: 0, logprobs: false }).run();
  assert.deepEqual(greedy.ids, expected.greedy, 'greedy');
  const sampled = await model.generate(TEXTS[1], { ...sampling, maxTokens: 512, ignoreEos: true, logprobs: false }).run();
  assert.deepEqual(sampled.ids, expected.sampled, 'sampled');
  const { tokens_per_second: speed } = sampled.diagnostics.performance_metrics;
  console.log(`${simd ? 'SIMD' : 'scalar'}: 12 logits, ${greedy.ids.length} greedy and ${sampled.ids.length} sampled ids equal the native ones; ${speed} tokens/s`);
  model.free();
}
console.log(`${path.split('/').pop()}: equal, ${((Date.now() - started) / 1000).toFixed(0)} s`);
