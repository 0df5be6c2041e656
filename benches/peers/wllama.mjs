// Our module beside wllama (llama.cpp compiled to WebAssembly, npm @wllama/wllama), both with SIMD on one thread, on the same weights, and
// beside our native build on one thread; interleaved rounds, medians, ratios within a round.
//     WLLAMA=FOLDER node benches/peers/wllama.mjs MODEL.slm PEER.gguf [ROUNDS] [TOKENS]
// FOLDER: where `npm i @wllama/wllama@3.13.0` was run. The module runs in Node and in a worker of the same Chromium as wllama; both decode
// greedily after a prompt of some 130 tokens. Needs shell-wasm/build.sh, target/release/slm and Chromium.

import { basename, dirname, join, resolve } from 'node:path';
import { startChromium } from '../../shell-wasm/js/test/browser/chromium.mjs';
import { serve } from '../../shell-wasm/js/test/browser/serve.mjs';
import { root } from '../../shell-wasm/js/test/package.mjs';
import { LIMIT, figures, inNode, interleave, native, of, optionsOf, print } from './rounds.mjs';

const [slm, gguf, rounds = '5', tokens = '32'] = process.argv.slice(2);
const folder = process.env.WLLAMA;
if (!slm || !gguf || !folder) {
  console.log('SKIPPED wllama: WLLAMA=FOLDER node benches/peers/wllama.mjs MODEL.slm PEER.gguf [ROUNDS] [TOKENS]');
  process.exit(0);
}
const count = Number(tokens);

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

async function chromium(prompt) {
  return figures(await page.evaluate(async ([prompt, options]) => {
    await window.model.reset();
    const { promptTokens, ids, diagnostics } = await window.model.generate(prompt, options).run();
    return { promptTokens, ids, diagnostics };
  }, [prompt, optionsOf(count)]));
}

const node = await inNode(slm, count);
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

const rows = await interleave({ peer, node: node.run, chromium, native: native(slm, count) }, Number(rounds));
await browser.close();
await server.close();

console.log(`${rows.node.length} rounds; prompts of ${of(rows, 'node', 'prompt')} tokens (wllama counts ${of(rows, 'peer', 'prompt')}), ${of(rows, 'node', 'generated')} decoded (wllama ${of(rows, 'peer', 'generated')})`);
print(rows, [['peer', 'wllama, Chromium'], ['node', 'module, Node'], ['chromium', 'module, Chromium'], ['native', 'native, one thread']],
  [['node', 'peer', 'Node / wllama'], ['chromium', 'peer', 'Chromium / wllama'], ['node', 'native', 'Node / native']]);
