// Memory of the module with a real model: what was planned and at most 2 MiB more; flat over 50 resets and 20 reloads.
//     node shell-wasm/js/test/memory.mjs MODEL.slm...

import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { importPackage } from './package.mjs';

const paths = process.argv.slice(2);
if (paths.length === 0) console.log('SKIPPED memory with a real model: none given (node shell-wasm/js/test/memory.mjs MODEL.slm)');
const { createEngine } = await importPackage();
const MIB = 1 << 20;
const options = { temperature: 0, maxTokens: 2, ignoreEos: true };
for (const path of paths) {
  const engine = await createEngine();
  const open = () => engine.load(path, { maxModelBytes: 2 ** 31 - 1 });
  let model = await open();
  const talk = async () => (await model.generate('The capital of France is', options).run()).ids;
  const ids = await talk();
  const { memory } = model.diagnostics();
  const planned = model.card.fileBytes + memory.kv_bytes + memory.logits_bytes + memory.scratch_bytes + memory.sampler_bytes;
  const first = engine.memoryBytes;
  console.log(`${basename(path)}: ${first} bytes taken, ${planned} planned (file ${model.card.fileBytes}, keys and values ${memory.kv_bytes}, scratch ${memory.scratch_bytes}, ` +
    `logits ${memory.logits_bytes}, sampler ${memory.sampler_bytes}): ${((first - planned) / MIB).toFixed(2)} MiB more`);
  assert(first <= planned + 2 * MIB, 'more than 2 MiB above the plan');
  for (let turn = 0; turn < 50; turn++) {
    model.reset();
    assert.deepEqual(await talk(), ids);
  }
  assert.equal(engine.memoryBytes, first, '50 resets');
  for (let turn = 0; turn < 20; turn++) {
    model.free();
    model = await open();
    assert.deepEqual(await talk(), ids);
  }
  assert.equal(engine.memoryBytes, first, '20 reloads');
  console.log(`${basename(path)}: flat over 50 resets and 20 reloads, peak ${engine.memoryBytes} bytes`);
}
