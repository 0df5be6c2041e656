// The module against the native build, bit for bit: logits of 12 prompts, 64 greedy ids, and 512 ids of each of three presets and of
// one more profile, native SIMD, native scalar and WebAssembly with and without SIMD.
//     node shell-wasm/js/test/native.mjs MODEL.slm...         SLM=program: the native one, target/release/slm by default
//                                                             SIMD_ONLY=1: not the scalar ones, for large models

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { importPackage, root } from './package.mjs';

const slm = process.env.SLM ?? join(root, 'target/release/slm');
const scalarToo = !process.env.SIMD_ONLY;
const { load } = await importPackage();

const TEXTS = [
  'The capital of France is', 'Once upon a time', 'def fibonacci(n):', '1, 1, 2, 3, 5, 8,', 'Water boils at', 'My favourite colour is',
  'In 1969, two men', 'The opposite of hot is', 'SELECT name FROM', 'Dear Sir or Madam,', 'E = m', 'naïve 😀 עברית',
];
const TOKENS = 512;
const SEED = '20261129';
const PROFILES = [
  [{ temperature: 0 }, ['--temperature', '0'], 64],
  [{ preset: 'chat' }, ['--preset', 'chat'], TOKENS],
  [{ preset: 'creative' }, ['--preset', 'creative'], TOKENS],
  [{ preset: 'precise' }, ['--preset', 'precise'], TOKENS],
  [{ temperature: 1.1, topP: 0.98, temperatureLast: true, prng: 'pcg32', stream: 3 },
    ['--temperature', '1.1', '--top-k', '0', '--top-p', '0.98', '--order', 'temperature-last', '--prng', 'pcg32', '--stream', '3'], TOKENS],
];

const native = (args, input) => execFileSync(slm, args, { input, encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['pipe', 'pipe', 'ignore'] });
const ids = (path, args, count) =>
  JSON.parse(native(['run', path, '--json', '-p', TEXTS[1], '-n', String(count), '--ignore-eos', '--seed', SEED, ...args])).ids;

let least = Infinity;
for (const path of process.argv.slice(2)) {
  const started = Date.now();
  let expected;
  for (const simd of scalarToo ? [true, false] : [true]) {
    const model = await load(path, { simd, maxModelBytes: 2 ** 31 - 1 });
    if (!expected) {
      const prompts = TEXTS.map((text) => model.tokenize(text));
      const lines = native(['logits', path], prompts.map((ids) => JSON.stringify({ ids }) + '\n').join(''));
      expected = { prompts, logits: lines.trim().split('\n').map((line) => JSON.parse(line).sha256), runs: [] };
      for (const [, args, count] of PROFILES) {
        const run = ids(path, args, count);
        if (scalarToo) assert.deepEqual(ids(path, [...args, '--scalar', '--threads', '1'], count), run, `native scalar: ${args}`);
        expected.runs.push(run);
      }
    }
    const digests = expected.prompts.map((ids) => createHash('sha256').update(new Uint8Array(model.logits(ids).buffer)).digest('hex'));
    assert.deepEqual(digests, expected.logits, 'logits');
    let speed;
    for (const [at, [options, args, count]] of PROFILES.entries()) {
      const result = await model.generate(TEXTS[1], { ...options, seed: BigInt(SEED), maxTokens: count, ignoreEos: true, logprobs: false }).run();
      assert.deepEqual(result.ids, expected.runs[at], `${args}`);
      speed = result.diagnostics.performance_metrics.tokens_per_second;
      if (count === TOKENS) least = Math.min(least, result.ids.length);
    }
    const counts = expected.runs.map((run) => run.length).join(' + ');
    console.log(`${simd ? 'SIMD' : 'scalar'}: 12 logits, ${counts} ids equal the native ones; ${speed} tokens/s`);
    model.free();
  }
  console.log(`${path.split('/').pop()}: native SIMD${scalarToo ? ', native scalar' : ''} and module equal, ${((Date.now() - started) / 1000).toFixed(0)} s`);
}
console.log(`${process.argv.length - 2} models, at least ${least} ids of each sampled profile`);
