// The package as pages use it, in Chromium: script tag, file:// without any server, ES module, bundler. The same ids as in Node.
//     node --test shell-wasm/js/test/uses.mjs

import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { build as viteBuild } from 'vite';
import { startChromium } from './browser/chromium.mjs';
import { serve } from './browser/serve.mjs';
import { fixture, importPackage, installed } from './package.mjs';

const browser = await startChromium('uses of the package');
const folder = installed();
const project = dirname(dirname(folder));
const server = await serve(project);
after(async () => {
  await browser.close();
  await server.close();
});

const OPTIONS = { temperature: 1, seed: 9, maxTokens: 24, ignoreEos: true };
const PROMPT = [72, 101, 108, 108, 111];
const { load } = await importPackage();
const expected = (await (await load(fixture('tiny-q8_0.slm'), { context: 64 })).generate(PROMPT, OPTIONS).run()).ids.join(' ');
copyFileSync(fixture('tiny-q8_0.slm'), join(project, 'model.slm'));
const write = (name, text) => writeFileSync(join(project, name), `<!doctype html><meta charset="utf-8"><title>${name}</title>${text}`);

/** Opens a page and runs `work` in it; a script of the page that fails fails the test. */
async function open(url, work, argument) {
  const page = await browser.newPage();
  try {
    const faults = [];
    page.on('pageerror', (error) => faults.push(error.message));
    await page.goto(url);
    const result = await work(page, argument);
    assert.deepEqual(faults, []);
    return result;
  } finally {
    await page.close();
  }
}

/** In a page: the ids of the fixed run. `name` is a global with `load`, or the address of a module. */
async function run([name, source, options, prompt, sampling]) {
  const { load } = globalThis[name] ?? (await import(name));
  const picked = document.querySelector('input')?.files[0];
  const model = await load(picked ?? source, { context: 64, cache: false, ...options });
  const { ids, diagnostics } = await model.generate(prompt, sampling).run();
  model.free();
  return [ids.join(' '), diagnostics.host.worker];
}
const arguments_ = (name, worker, simd = true) => [name, 'model.slm', { worker, simd }, PROMPT, OPTIONS];

for (const worker of [false, true]) {
  const where = worker ? 'in a worker' : 'on the page';
  test(`a script tag, ${where}`, async () => {
    write('script.html', '<script src="node_modules/tinyrustlm/dist/tinyrustlm.script.js"></script>');
    assert.deepEqual(await open(`${server.base}/script.html`, (page) => page.evaluate(run, arguments_('TinyRustLM', worker))), [expected, worker]);
  });
  test(`an ES module without a bundler, ${where}`, async () => {
    write('module.html', '');
    const module = `${server.base}/node_modules/tinyrustlm/dist/tinyrustlm.js`;
    assert.deepEqual(await open(`${server.base}/module.html`, (page) => page.evaluate(run, arguments_(module, worker))), [expected, worker]);
    assert.deepEqual(await open(`${server.base}/module.html`, (page) => page.evaluate(run, arguments_(module, worker, false))), [expected, worker], 'scalar');
  });
  test(`a page from file://, ${where}`, async () => {
    write('file.html', '<script src="node_modules/tinyrustlm/dist/tinyrustlm.script.js"></script><input type="file">');
    const got = await open(pathToFileURL(join(project, 'file.html')).href, async (page) => {
      await page.setInputFiles('input', fixture('tiny-q8_0.slm'));
      return page.evaluate(run, arguments_('TinyRustLM', worker));
    });
    assert.deepEqual(got, [expected, worker]);
  });
}

test('a bundle made by esbuild', async () => {
  mkdirSync(join(project, 'bundle'), { recursive: true });
  copyFileSync(fileURLToPath(new URL('uses/bundled.js', import.meta.url)), join(project, 'app.js'));
  const { warnings } = await build({
    entryPoints: [join(project, 'app.js')], bundle: true, minify: true, format: 'esm', outdir: join(project, 'bundle'),
    loader: { '.wasm': 'file' }, absWorkingDir: project, logLevel: 'silent',
  });
  assert.deepEqual(warnings, []);
  write('bundle/index.html', '');
  const got = await open(`${server.base}/bundle/index.html`, (page) => page.evaluate(async () => (await import('./app.js')).ids('../model.slm')));
  assert.equal(got, expected);
});

test('a bundle made by Vite, which finds module and worker by itself', async () => {
  writeFileSync(join(project, 'plain.js'), readFileSync(join(project, 'app.js'), 'utf8').replace(/^import wasm.*$/m, '').replace('wasm, ', '') + 'globalThis.ids = ids;\n');
  write('plain.html', '<script type="module" src="./plain.js"></script>');
  const { output } = await viteBuild({
    root: project, base: './', logLevel: 'error', configFile: false,
    build: { outDir: 'vite', emptyOutDir: true, rollupOptions: { input: join(project, 'plain.html') } },
  });
  assert.deepEqual(output.map(({ fileName }) => fileName.replace(/-[\w-]{8}\./, '.')).filter((name) => name.endsWith('.wasm')).sort(), ['assets/tinyrustlm-scalar.wasm', 'assets/tinyrustlm.wasm']);
  for (const worker of [false, true]) {
    const got = await open(`${server.base}/vite/plain.html`, async (page) => {
      await page.waitForFunction(() => globalThis.ids);
      return page.evaluate((worker) => globalThis.ids('../model.slm', { worker }), worker);
    });
    assert.equal(got, expected);
  }
});

test('without SharedArrayBuffer and Atomics all of it works', async () => {
  write('bare.html', '');
  const got = await open(`${server.base}/bare.html`, (page) => page.evaluate(async (given) => {
    delete globalThis.SharedArrayBuffer;
    delete globalThis.Atomics;
    const [name, source, options, prompt, sampling] = given;
    const { load } = await import(name);
    const model = await load(source, { context: 64, cache: false, ...options });
    return (await model.generate(prompt, sampling).run()).ids.join(' ');
  }, arguments_(`${server.base}/node_modules/tinyrustlm/dist/tinyrustlm.js`, false)));
  assert.equal(got, expected);
});
