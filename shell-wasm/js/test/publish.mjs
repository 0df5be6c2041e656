// What is published: the exact list of files, what linters of packages say, and the types under strict TypeScript.
//     node --test shell-wasm/js/test/publish.mjs

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { publint } from 'publint';
import { installed, root } from './package.mjs';

const here = join(root, 'shell-wasm/js');
const tool = (name) => join(root, 'shell-wasm/node_modules/.bin', name);
const project = dirname(dirname(installed()));

test('npm packs these files and no other', () => {
  const [{ files, size }] = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--json', '--silent'], { cwd: here, encoding: 'utf8' }));
  console.log(`tarball of ${size} bytes: ${files.map(({ path, size }) => `${path} ${size}`).join(', ')}`);
  assert.deepEqual(files.map(({ path }) => path).sort(), [
    'README.md', 'dist/LICENSE-APACHE', 'dist/LICENSE-MIT', 'dist/tinyrustlm-class.d.ts', 'dist/tinyrustlm-class.js', 'dist/tinyrustlm-scalar.wasm', 'dist/tinyrustlm-worker.js', 'dist/tinyrustlm.d.ts',
    'dist/tinyrustlm.js', 'dist/tinyrustlm.script.js', 'dist/tinyrustlm.wasm', 'dist/tinyrustlm_bindgen.d.ts', 'dist/tinyrustlm_bindgen.js', 'package.json',
  ]);
  for (const { path, size } of files) assert.ok(size > 100 && size === statSync(join(here, path)).size, `${path}: ${size} bytes`);
  const { dependencies, peerDependencies, scripts } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
  assert.deepEqual([dependencies, peerDependencies, scripts], [undefined, undefined, undefined], 'nothing to install, nothing to run');
});

test('publint finds nothing', async () => {
  const { messages } = await publint({ pkgDir: here, strict: true });
  assert.deepEqual(messages, []);
});

test('attw finds the types from every kind of program', () => {
  // ES modules only: `require` of them works where the host can. The worker and the modules are files to point at, they have no types.
  const args = ['--pack', here, '--profile', 'esm-only', '--exclude-entrypoints', 'worker', 'tinyrustlm.wasm', 'tinyrustlm-scalar.wasm', '--no-emoji'];
  const { status, stdout } = spawnSync(tool('attw'), args, { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});

for (const [module, moduleResolution] of [['esnext', 'bundler'], ['nodenext', 'nodenext']]) {
  test(`a program compiles under strict TypeScript, ${moduleResolution}`, () => {
    copyFileSync(fileURLToPath(new URL('uses/consumer.ts', import.meta.url)), join(project, 'consumer.ts'));
    writeFileSync(join(project, 'package.json'), '{ "type": "module" }');
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({
      compilerOptions: {
        strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, noPropertyAccessFromIndexSignature: false, noEmit: true,
        target: 'es2022', lib: ['es2022', 'dom', 'dom.iterable', 'esnext.disposable'], types: [], module, moduleResolution,
      },
      files: ['consumer.ts', 'node_modules/tinyrustlm/dist/tinyrustlm.d.ts', 'node_modules/tinyrustlm/dist/tinyrustlm-class.d.ts', 'node_modules/tinyrustlm/dist/tinyrustlm_bindgen.d.ts'],
    }));
    const { status, stdout } = spawnSync(tool('tsc'), ['-p', project], { encoding: 'utf8' });
    assert.equal(status, 0, stdout);
  });
}
