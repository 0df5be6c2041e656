// Our module beside wllama (llama.cpp compiled to WebAssembly, npm @wllama/wllama), both with SIMD on one thread, on the same weights, and
// beside our native build on one thread; interleaved rounds, medians, ratios within a round.
//     WLLAMA=FOLDER node benches/peers/wllama.mjs MODEL.slm PEER.gguf [ROUNDS] [TOKENS]
// FOLDER: where `npm i @wllama/wllama@3.13.0` was run. The module runs in Node and in a worker of the same Chromium as wllama; both decode
// greedily after a prompt of some 130 tokens. Needs shell-wasm/build.sh, target/release/slm and Chromium.

import { execFileSync } from 'node:child_process';
import { basename, dirname, join, resolve } from 'node:path';
import { startChromium } from '../../shell-wasm/js/test/browser/chromium.mjs';
import { serve } from '../../shell-wasm/js/test/browser/serve.mjs';
import { root } from '../../shell-wasm/js/test/package.mjs';
import { load } from '../../shell-wasm/js/dist/tinyrustlm.js';

const [slm, gguf, rounds = '5', tokens = '32'] = process.argv.slice(2);
const folder = process.env.WLLAMA;
if (!slm || !gguf || !folder) {
  console.log('SKIPPED wllama: WLLAMA=FOLDER node benches/peers/wllama.mjs MODEL.slm PEER.gguf [ROUNDS] [TOKENS]');
  process.exit(0);
}
const count = Number(tokens);
const TEXT = `The harbour lay quiet in the early morning, and the first boats were already out beyond the pier. An old man sat on a crate,
mending a net with slow, certain hands, while gulls argued over something shiny in the shallow water. He had seen storms that tore roofs
from houses and calms that lasted for weeks, and he trusted neither. When the girl from the bakery came by with a warm loaf under her arm,
he nodded without looking up, and said that the wind would turn before noon. She laughed, for the sky was clear from one end to the other,
but she did not hang out the washing that day. By noon`;
// A first word of its own for every round: nobody can reuse what the round before has read.
const promptOf = (round) => `${['One', 'Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight', 'Nine', 'Ten'][round % 10]}. ${TEXT}`;
const LIMIT = 2 ** 31 - 1;

const browser = await startChromium('wllama');
const server = await serve(join(folder, 'node_modules/@wllama/wllama'), join(root, 'shell-wasm/js/dist'), dirname(resolve(slm)), dirname(resolve(gguf)));
const page = await browser.newPage();
page.setDefaultTimeout(0);
await page.goto(`${server.base}/package.json`);

async function peer(prompt) {
  const { timings } = await page.evaluate(([prompt, max_tokens]) => window.peer.createCompletion({
    prompt, max_tokens, temperature: 0, cache_prompt: false, ignore_eos: true, timings_per_token: true,
  }), [prompt, count]);
  if (!timings || timings.cache_n > 0) throw new Error(`wllama reports ${JSON.stringify(timings)}`);
  return { prefill: timings.prompt_per_second, decode: timings.predicted_per_second, prompt: timings.prompt_n, generated: timings.predicted_n };
}

const options = { temperature: 0, maxTokens: count, ignoreEos: true, logprobs: false };
const figures = ({ promptTokens, ids, diagnostics: { performance_metrics: times } }) => ({
  // The time to the first token holds tokenizing and the first choice too.
  prefill: (promptTokens * 1000) / times.time_to_first_token_ms, decode: times.tokens_per_second, prompt: promptTokens, generated: ids.length,
});

const model = await load(slm, { maxModelBytes: LIMIT, simd: true });
async function node(prompt) {
  model.reset();
  return figures(await model.generate(prompt, options).run());
}

async function chromium(prompt) {
  return figures(await page.evaluate(async ([prompt, options]) => {
    await window.model.reset();
    const { promptTokens, ids, diagnostics } = await window.model.generate(prompt, options).run();
    return { promptTokens, ids, diagnostics };
  }, [prompt, options]));
}

function native(prompt) {
  const args = ['run', slm, '--json', '--threads', '1', '--temperature', '0', '--ignore-eos', '-n', String(count), '-p', prompt];
  const out = JSON.parse(execFileSync(join(root, 'target/release/slm'), args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 1 << 26 }));
  return figures({ promptTokens: out.prompt_ids.length, ids: out.ids, diagnostics: out.diagnostics });
}

const version = await page.evaluate(async ([gguf, slm, maxModelBytes]) => {
  const { Wllama, LoggerWithoutDebug } = await import('/esm/index.js');
  window.peer = new Wllama({ default: '/esm/wasm/wllama.wasm' }, { logger: LoggerWithoutDebug, suppressNativeLog: true });
  const blob = await (await fetch(gguf)).blob();
  await window.peer.loadModel([blob], { n_ctx: 1024, n_threads: 1, n_gpu_layers: 0 });
  const { load } = await import('/tinyrustlm.js');
  window.model = await load(slm, { worker: true, simd: true, maxModelBytes, cache: false });
  return `${Wllama.getLibllamaVersion()}, ${window.peer.getNumThreads()} thread${window.peer.isMultithread() ? ', MULTITHREAD BUILD' : ''}`;
}, [`/${basename(gguf)}`, `/${basename(slm)}`, LIMIT]);
console.log(`${basename(slm)} and ${basename(gguf)}; wllama ${version}; ${await browser.version()}; Node ${process.versions.node}`);

const who = { peer, node, chromium, native };
const rows = { peer: [], node: [], chromium: [], native: [] };
for (const run of Object.values(who)) await run(promptOf(9)); // once to warm up
for (let round = 0; round < Number(rounds); round++) {
  for (const [name, run] of Object.entries(who)) rows[name].push(await run(promptOf(round)));
}
await browser.close();
await server.close();

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const of = (name, what) => median(rows[name].map((row) => row[what]));
const ratio = (a, b, what) => median(rows[a].map((row, round) => row[what] / rows[b][round][what]));
const cell = (number) => number.toFixed(2).padStart(9);
console.log(`${rows.node.length} rounds; prompts of ${of('node', 'prompt')} tokens (wllama counts ${of('peer', 'prompt')}), ${of('node', 'generated')} decoded (wllama ${of('peer', 'generated')})`);
console.log('                       prefill   decode  tokens a second, medians');
for (const [name, title] of [['peer', 'wllama, Chromium'], ['node', 'module, Node'], ['chromium', 'module, Chromium'], ['native', 'native, one thread']]) {
  console.log(`${title.padEnd(20)} ${cell(of(name, 'prefill'))}${cell(of(name, 'decode'))}`);
}
for (const [a, b, title] of [['node', 'peer', 'Node / wllama'], ['chromium', 'peer', 'Chromium / wllama'], ['node', 'native', 'Node / native']]) {
  console.log(`${title.padEnd(20)} ${cell(ratio(a, b, 'prefill'))}${cell(ratio(a, b, 'decode'))}  times`);
}
