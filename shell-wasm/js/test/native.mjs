// The module against the native build, bit for bit: logits of 12 prompts, 64 greedy ids, and 512 ids of each of three presets and of
// one more profile; native SIMD, native scalar and WebAssembly with and without SIMD, in Node and, where asked for, in Chromium.
//     node shell-wasm/js/test/native.mjs MODEL.slm...         SLM=program: the native one, target/release/slm by default
//                                                             ENGINES=node,chromium: where the module runs; node by default
//                                                             PROFILES=2: the greedy one and the first sampled one, for large models
//                                                             SIMD_ONLY=1: not the scalar ones
//                                                             KV=q8_0: how keys and values are kept, f32 by default

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { basename, dirname, join, resolve } from 'node:path';
import { program, startChromium } from './browser/chromium.mjs';
import { serve } from './browser/serve.mjs';
import { importPackage, installed, root } from './package.mjs';

const slm = process.env.SLM ?? join(root, 'target/release/slm');
const scalarToo = !process.env.SIMD_ONLY;
const kvCache = process.env.KV ?? 'f32';
const engines = (process.env.ENGINES ?? 'node').split(',').filter((name) => {
  if (name !== 'chromium' || program) return true;
  console.log('SKIPPED native.mjs in Chromium: none found');
  return false;
});

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
].slice(0, Number(process.env.PROFILES ?? 5));

const native = (args, input) => execFileSync(slm, args, { input, encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['pipe', 'pipe', 'ignore'] });
const run = (path, args, count) =>
  JSON.parse(native(['run', path, '--kv-cache', kvCache, '--json', '-p', TEXTS[1], '-n', String(count), '--ignore-eos', '--seed', SEED, ...args]));
const ids = (path, args, count) => run(path, args, count).ids;

/** What a report says that is the same everywhere: nothing of this host, its times, its memory and threads, and what the run before left. */
function deterministic({ transaction_id, performance_metrics, host, ...report }) {
  const { peak_memory_bytes, ...generation_stage } = report.generation_stage;
  const { scratch_bytes, reused_tokens, ...memory } = report.memory;
  return { ...report, generation_stage, memory };
}

const optionsOf = (at) => ({ ...PROFILES[at][0], seed: Number(SEED), maxTokens: PROFILES[at][2], ignoreEos: true, logprobs: false });
const LIMIT = 2 ** 31 - 1;

/** The module in this process. */
async function inNode(path, simd) {
  const { load } = await importPackage();
  const model = await load(path, { simd, kvCache, maxModelBytes: LIMIT });
  return {
    prompts: TEXTS.map((text) => model.tokenize(text)),
    digest: (ids) => createHash('sha256').update(new Uint8Array(model.logits(ids).buffer)).digest('hex'),
    async run(options) {
      const { ids, diagnostics } = await model.generate(TEXTS[1], options).run();
      return { ids, diagnostics, speed: diagnostics.performance_metrics.tokens_per_second };
    },
    free: () => model.free(),
  };
}

/** The module in a worker of a page. */
async function inChromium(path, simd) {
  const browser = await startChromium('native.mjs in Chromium');
  const server = await serve(installed(), dirname(resolve(path)));
  const page = await browser.newPage();
  page.setDefaultTimeout(0);
  await page.goto(`${server.base}/package.json`);
  const prompts = await page.evaluate(async ([url, simd, texts, kvCache, maxModelBytes]) => {
    const { load } = await import('/dist/tinyrustlm.js');
    window.model = await load(url, { worker: true, simd, kvCache, maxModelBytes, cache: false });
    return Promise.all(texts.map((text) => window.model.tokenize(text)));
  }, [`/${basename(path)}`, simd, TEXTS, kvCache, LIMIT]);
  return {
    prompts,
    digest: (ids) => page.evaluate(async (ids) => {
      const hash = await crypto.subtle.digest('SHA-256', await window.model.logits(ids));
      return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    }, ids),
    run: (options) => page.evaluate(async ([text, options]) => {
      const { ids, diagnostics } = await window.model.generate(text, options).run();
      return { ids, diagnostics, speed: diagnostics.performance_metrics.tokens_per_second };
    }, [TEXTS[1], options]),
    free: async () => (await browser.close(), server.close()),
  };
}

let least = Infinity;
for (const path of process.argv.slice(2)) {
  const started = Date.now();
  let expected;
  for (const engine of engines) {
    for (const simd of scalarToo ? [true, false] : [true]) {
      const module = await (engine === 'chromium' ? inChromium : inNode)(path, simd);
      if (!expected) {
        const lines = native(['logits', path, '--kv-cache', kvCache], module.prompts.map((ids) => JSON.stringify({ ids }) + '\n').join(''));
        expected = { logits: lines.trim().split('\n').map((line) => JSON.parse(line).sha256), runs: [] };
        for (const [, args, count] of PROFILES) {
          const native = run(path, args, count);
          if (scalarToo) assert.deepEqual(ids(path, [...args, '--scalar'], count), native.ids, `native scalar: ${args}`);
          expected.runs.push(native);
        }
      }
      const digests = [];
      for (const ids of module.prompts) digests.push(await module.digest(ids));
      assert.deepEqual(digests, expected.logits, `${engine}: logits`);
      let speed;
      for (const [at, [, args, count]] of PROFILES.entries()) {
        const result = await module.run(optionsOf(at));
        assert.deepEqual(result.ids, expected.runs[at].ids, `${engine}: ${args}`);
        assert.deepEqual(deterministic(result.diagnostics), deterministic(expected.runs[at].diagnostics), `${engine}: report`);
        speed = result.speed;
        if (count === TOKENS) least = Math.min(least, result.ids.length);
      }
      const counts = expected.runs.map((run) => run.ids.length).join(' + ');
      console.log(`${engine} ${simd ? 'SIMD' : 'scalar'}: 12 logits, ${counts} ids equal the native ones; ${speed} tokens/s`);
      await module.free();
    }
  }
  console.log(`${basename(path)}, cache ${kvCache}: native SIMD${scalarToo ? ', native scalar' : ''} and module equal, ${((Date.now() - started) / 1000).toFixed(0)} s`);
}
console.log(`${process.argv.length - 2} models, at least ${least} ids of each sampled profile`);
