// Checks the built modules: no imports, all exports of SPEC.md section 10, no maximum of memory.

import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const spec = await readFile(fileURLToPath(new URL('../../../SPEC.md', import.meta.url)), 'utf8');
const section = spec.slice(spec.indexOf('\n## 10.'), spec.indexOf('\n## 11.'));
// The first cell of each row of the tables of exports: `name(arguments)`, several separated by commas.
const cells = [...section.matchAll(/^\| (`\w+\([^|]*) \|/gm)].map((match) => match[1]);
const documented = cells.flatMap((cell) => [...cell.matchAll(/`(\w+)\(/g)].map((match) => match[1]));

/** Whether the memory section states a maximum. */
function hasMaximum(bytes) {
  for (let at = 8; at < bytes.length; ) {
    const id = bytes[at++];
    let size = 0;
    for (let shift = 0; ; shift += 7) {
      size |= (bytes[at] & 127) << shift;
      if (bytes[at++] < 128) break;
    }
    if (id === 5) return (bytes[at + 1] & 1) === 1;
    at += size;
  }
  return false;
}

let failed = false;
for (const path of process.argv.slice(2)) {
  const bytes = await readFile(path);
  const module = new WebAssembly.Module(bytes);
  const imports = WebAssembly.Module.imports(module);
  const exports = WebAssembly.Module.exports(module).map((item) => item.name);
  const missing = documented.filter((name) => !exports.includes(name));
  const extra = exports.filter((name) => !documented.includes(name) && name !== 'memory' && !name.startsWith('_'));
  const problems = [];
  if (hasMaximum(bytes)) problems.push('declares a maximum of memory, which small devices refuse');
  if (imports.length) problems.push(`imports ${imports.map((i) => `${i.module}.${i.name}`)}`);
  if (missing.length) problems.push(`does not export ${missing}`);
  if (extra.length) problems.push(`exports what SPEC.md does not name: ${extra}`);
  if (problems.length) failed = true;
  console.log(`${path.split('/').pop()}: ${bytes.length} bytes, ${problems.length ? problems.join('; ') : `no imports, ${documented.length} documented exports`}`);
}
if (failed) process.exit(1);
