// The gate itself: a module with 20 KiB more code must be refused, and the same module without them let through, by the program and by
// the steps of .github/actions/size.
//     node shell-wasm/js/test/bloat.mjs SLM BUDGET MODULE.wasm...

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const BLOAT = 20 * 1024;
const [slm, budget, ...modules] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'bloat-'));

function leb(number) {
  const bytes = [];
  do bytes.push((number & 127) | (number > 127 ? 128 : 0)); while ((number >>>= 7));
  return bytes;
}

function readLeb(bytes, at) {
  let number = 0;
  for (let shift = 0; ; shift += 7) {
    number |= (bytes[at] & 127) << shift;
    if (bytes[at++] < 128) return [number >>> 0, at];
  }
}

/** The module with one more function at its end: BLOAT bytes of instructions that the engine must accept. */
function bloated(bytes) {
  const body = [0];
  while (body.length < BLOAT - 8) body.push(0x41, ...leb((body.length * 2654435761) & 63), 0x1a); // i32.const n, drop
  body.push(0x00, 0x0b); // unreachable, end: fits any type
  const out = [...bytes.subarray(0, 8)];
  const added = { 3: [0], 10: [...leb(body.length), ...body] }; // a function of type 0, and its code
  for (let at = 8; at < bytes.length; ) {
    const id = bytes[at];
    const [size, start] = readLeb(bytes, at + 1);
    const payload = bytes.subarray(start, start + size);
    if (added[id]) {
      const [count, rest] = readLeb(payload, 0);
      const grown = [...leb(count + 1), ...payload.subarray(rest), ...added[id]];
      out.push(id, ...leb(grown.length));
      for (const byte of grown) out.push(byte);
    } else {
      for (const byte of bytes.subarray(at, start + size)) out.push(byte);
    }
    at = start + size;
  }
  return Uint8Array.from(out);
}

/** What the action runs: the indented lines after its `run: |`. */
const action = readFileSync(fileURLToPath(new URL('../../../.github/actions/size/action.yml', import.meta.url)), 'utf8').split(/^ *run: \|\n/m)[1];

try {
  for (const path of modules) {
    const bytes = readFileSync(path);
    const more = bloated(bytes);
    assert(WebAssembly.validate(more), 'the bloated module is a module');
    assert(Math.abs(more.length - bytes.length - BLOAT) < 64, `${more.length - bytes.length} bytes more`);
    const copy = join(folder, basename(path));
    writeFileSync(copy, more);
    const code = (file) => spawnSync(slm, ['size', file, '--budget', budget]).status;
    assert.equal(code(path), 0, `${path} itself`);
    assert.equal(code(copy), 1, `${path} with ${BLOAT} bytes more was let through`);
    const step = (file) => {
      const env = { ...process.env, FILE: file, BUDGET: budget, BASELINE: '', NAMES: '', SLM: slm, GITHUB_STEP_SUMMARY: join(folder, 'summary') };
      return spawnSync('bash', ['-e', '-c', action], { env }).status;
    };
    assert.equal(step(path), 0, `the action on ${path}`);
    assert.equal(step(copy), 1, `the action let ${BLOAT} bytes more through`);
    console.log(`${basename(path)}: ${bytes.length} bytes pass ${budget}, ${more.length} are refused`);
  }
} finally {
  rmSync(folder, { recursive: true });
}
