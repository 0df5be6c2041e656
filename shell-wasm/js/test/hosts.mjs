// The packed package on every host that is found here: the same ids everywhere. What is missing is named as SKIPPED.
//     .ci/run module-hosts                    installs deno, bun, workerd and wasmtime as pinned in hosts/, then runs this
//     node shell-wasm/js/test/hosts.mjs       HOSTS: folder with node_modules of deno, bun, workerd; PYTHON: with wasmtime

import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fixture, installed } from './package.mjs';

const at = (name) => fileURLToPath(new URL(`hosts/${name}`, import.meta.url));
const model = fixture('tiny-q8_0.slm');
const folder = installed();
const wasm = join(folder, 'dist/tinyrustlm.wasm');
const found = (name) =>
  [process.env.HOSTS && join(process.env.HOSTS, 'node_modules/.bin'), ...process.env.PATH.split(delimiter)]
    .filter(Boolean).map((path) => join(path, name)).find(existsSync);

function workerd(program) {
  const place = mkdtempSync(join(tmpdir(), 'workerd-'));
  for (const name of ['worker.js', 'config.capnp']) copyFileSync(at(name), join(place, name));
  for (const name of ['tinyrustlm.js', 'tinyrustlm.wasm']) copyFileSync(join(folder, 'dist', name), join(place, name));
  copyFileSync(model, join(place, 'model.slm'));
  // Its log goes to stderr or stdout, depending on the version.
  const log = execFileSync('sh', ['-c', '"$0" test "$1" 2>&1', program, join(place, 'config.capnp')], { encoding: 'utf8' });
  return /IDS ([\d ]+)/.exec(log)?.[1] ?? log;
}

const run = (program, ...args) => execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
const hosts = [
  ['node', process.execPath, (program) => run(program, at('package.js'), folder, model)],
  ['deno', found('deno'), (program) => run(program, 'run', '--quiet', '--allow-read', at('package.js'), folder, model)],
  ['bun', found('bun'), (program) => run(program, at('package.js'), folder, model)],
  ['workerd', found('workerd'), workerd],
  ['jsc', found('jsc'), (program) => run(program, at('raw.js'), '--', wasm, model)],
  ['wasmtime', process.env.PYTHON, (program) => run(program, at('raw.py'), wasm, model)],
];

let expected;
let failed = 0;
for (const [name, program, ids] of hosts) {
  if (!program) {
    console.log(`SKIPPED ${name}: not found`);
    continue;
  }
  let got;
  try {
    got = ids(program);
  } catch (error) {
    got = `${error.message}\n${error.stderr ?? ''}${error.stdout ?? ''}`;
  }
  expected ??= got;
  const same = got === expected && /^\d+( \d+){23}$/.test(got);
  if (!same) failed++;
  console.log(`${same ? 'ok      ' : 'FAILED  '}${name}${same ? '' : `: ${got}`}`);
}
console.log(`# pass ${hosts.filter(([, program]) => program).length - failed}\n# fail ${failed}`);
process.exit(failed ? 1 : 0);
