// Writes dist/: the ES module, its worker, the one-file script, and the types. Run by shell-wasm/build.sh.

import { build } from 'esbuild';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { codesModule } from './codes.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const { version } = JSON.parse(await readFile(at('../package.json'), 'utf8'));
const banner = `/*! tinyrustlm ${version}, MIT OR Apache-2.0 */`;
const target = ['es2022', 'chrome91', 'firefox90', 'safari16.4'];
const base64 = async (name) => (await readFile(at(`../dist/${name}`))).toString('base64');

/** Modules that exist only after a build: the table of errors and, in the one-file version, the modules' bytes. */
function generated(embedded) {
  return {
    name: 'generated',
    setup(build) {
      build.onLoad({ filter: /src[\\/]codes\.js$/ }, async () => ({ contents: await codesModule(at('../../../core/src/error.rs')) }));
      build.onResolve({ filter: /\.\/codes\.js$/ }, () => ({ path: at('../src/codes.js') }));
      if (embedded) build.onLoad({ filter: /src[\\/]embedded\.js$/ }, () => ({ contents: embedded }));
    },
  };
}

const common = { bundle: true, target, legalComments: 'none', banner: { js: banner }, logLevel: 'warning' };
// wasm-bindgen's own file stays beside the class over it.
const external = ['./tinyrustlm_bindgen.js'];
for (const [entry, out] of [['index.js', 'tinyrustlm.js'], ['worker-main.js', 'tinyrustlm-worker.js'], ['class.js', 'tinyrustlm-class.js']]) {
  await build({ ...common, external, entryPoints: [at(`../src/${entry}`)], outfile: at(`../dist/${out}`), format: 'esm', plugins: [generated()] });
}

// The one-file version is a function that is also its own worker's source.
const embedded = `
export const EMBEDDED = { simd: ${JSON.stringify(await base64('tinyrustlm.wasm'))}, scalar: ${JSON.stringify(await base64('tinyrustlm-scalar.wasm'))} };
export const workerSource = () => '(' + __tinyrustlm.toString() + ')(true)';
`;
const { outputFiles } = await build({
  ...common, banner: undefined, minify: true, write: false, format: 'cjs', plugins: [generated(embedded)],
  define: { 'import.meta.url': '__tinyrustlm_url' },
  stdin: { resolveDir: at('../src'), contents: `export * from './index.js'; export { serve } from './worker.js';` },
});
await writeFile(
  at('../dist/tinyrustlm.script.js'),
  `${banner}\nvar TinyRustLM=(function __tinyrustlm(inWorker){"use strict";` +
    `const __tinyrustlm_url=typeof document==="undefined"?"file:///":document.baseURI;` +
    `const module={exports:{}};const exports=module.exports;${outputFiles[0].text}\n` +
    `if(inWorker)module.exports.serve(self);return module.exports})(false);\n`,
);
await copyFile(at('../src/index.d.ts'), at('../dist/tinyrustlm.d.ts'));
await copyFile(at('../src/class.d.ts'), at('../dist/tinyrustlm-class.d.ts'));
for (const name of ['LICENSE-APACHE', 'LICENSE-MIT']) await copyFile(at(`../../../${name}`), at(`../dist/${name}`));
