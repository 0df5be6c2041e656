// The npm package's API in Node, on the committed tiny models. Run: node --test shell-wasm/js/test/

import assert from 'node:assert/strict';
import { createReadStream, readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { fixture, importPackage, installed } from './package.mjs';

const lm = await importPackage();
const bytes = readFileSync(fixture('tiny-q8_0.slm'));
const fresh = async (options = {}) => lm.load(bytes, { context: 64, ...options });
const ids = [72, 101, 108, 108, 111];

async function collect(generation) {
  const events = [];
  for await (const event of generation) events.push(event);
  return events;
}

test('the package holds what it needs and nothing else', () => {
  const files = readdirSync(installed(), { recursive: true, withFileTypes: true }).filter((f) => f.isFile()).map((f) => f.name).sort();
  assert.deepEqual(files, [
    'LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'package.json', 'tinyrustlm-class.d.ts', 'tinyrustlm-class.js',
    'tinyrustlm-scalar.wasm', 'tinyrustlm-worker.js', 'tinyrustlm.d.ts', 'tinyrustlm.js',
    'tinyrustlm.script.js', 'tinyrustlm.wasm', 'tinyrustlm_bindgen.d.ts', 'tinyrustlm_bindgen.js',
  ]);
});

test('every kind of source gives the same model', async () => {
  const path = fixture('tiny-q8_0.slm');
  const sources = [
    path, bytes, bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length), new Blob([bytes]), new Response(bytes),
    new Blob([bytes]).stream(), createReadStream(path, { highWaterMark: 100 }), [bytes.subarray(0, 7), bytes.subarray(7)], Promise.resolve(bytes),
  ];
  const checksums = new Set();
  for (const source of sources) {
    const model = await lm.load(source, { context: 32 });
    checksums.add(model.card.checksum);
    assert.deepEqual(Buffer.from(model.fileBytes), bytes);
    model.free();
  }
  assert.equal(checksums.size, 1);
});

test('scalar and SIMD builds give the same bits', async () => {
  for (const name of readdirSync(fixture('')).filter((name) => name.endsWith('.slm'))) {
    const file = readFileSync(fixture(name));
    const [a, b] = await Promise.all([true, false].map((simd) => lm.load(file, { simd, context: 64 })));
    const prompt = [1, 2, 3, 4, 5].map((id) => id % a.card.vocabSize);
    assert.deepEqual(Buffer.from(a.logits(prompt).buffer), Buffer.from(b.logits(prompt).buffer), name);
    const options = { temperature: 1, seed: 7, maxTokens: 40, ignoreEos: true, stop: [] };
    assert.deepEqual((await a.generate(prompt, options).run()).ids, (await b.generate(prompt, options).run()).ids, name);
  }
});

test('streamed text is the result, and the same seed gives the same tokens', async () => {
  const model = await fresh();
  const options = { temperature: 1, seed: 11, maxTokens: 30, ignoreEos: true };
  const generation = model.generate(ids, options);
  const events = await collect(generation);
  const { result } = generation;
  assert.equal(events.map((event) => event.text).join(''), result.text);
  assert.deepEqual(events.map((event) => event.id).filter((id) => id !== null), result.ids);
  assert.equal(result.ids.length, 30);
  assert.equal(result.stopReason, 'max_output');
  assert.equal(result.promptTokens, 5);
  assert.ok(result.logprobs.every((logprob) => logprob <= 0));
  assert.equal(result.text, model.detokenize(result.ids));
  assert.deepEqual((await model.generate(ids, options).run()).ids, result.ids);
  assert.notDeepEqual((await model.generate(ids, { ...options, seed: 12 }).run()).ids, result.ids);
});

test('log-probabilities are those of the logits', async () => {
  const model = await fresh();
  const { ids: [first], logprobs: [logprob] } = await model.generate(ids, { maxTokens: 1, ignoreEos: true, topLogprobs: 3 }).run();
  const [event] = await collect(model.generate(ids, { maxTokens: 1, ignoreEos: true, topLogprobs: 3 }));
  const logits = [...model.logits(ids)];
  const most = Math.max(...logits);
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - most), 0);
  assert.ok(Math.abs(logprob - (logits[first] - most - Math.log(sum))) < 1e-5);
  assert.equal(event.top.length, 3);
  assert.equal(event.top[0].id, first);
});

test('breaking off, aborting and going on', async () => {
  const model = await fresh();
  const options = { temperature: 1, seed: 3, maxTokens: 20, ignoreEos: true };
  const whole = (await model.generate(ids, options).run()).ids;
  for await (const _ of model.generate(ids, options)) break;
  assert.deepEqual((await model.generate(ids, options).run()).ids, whole, 'after a break');

  const controller = new AbortController();
  const aborted = model.generate(ids, { ...options, signal: controller.signal });
  let seen = 0;
  await assert.rejects(async () => {
    for await (const _ of aborted) if (++seen === 3) controller.abort();
  }, { name: 'AbortError' });
  assert.equal(seen, 3);
  assert.deepEqual((await model.generate(ids, options).run()).ids, whole, 'after an abort');

  await assert.rejects(model.generate(ids, { signal: AbortSignal.abort() }).run(), { name: 'AbortError' });
  assert.deepEqual((await model.generate(ids, options).run()).ids, whole, 'after an abort before the start');
});

test('what is read ahead is not read again', async () => {
  const options = { maxTokens: 4, ignoreEos: true };
  const text = 'as it was in the beginning '.repeat(3);
  const long = readFileSync(fixture('tiny-odd-q8_0.slm'));
  const batches = async (model) => {
    const seen = [];
    const { ids } = await model.generate(text, { ...options, onProgress: ({ loaded }) => seen.push(loaded) }).run();
    return { ids, seen };
  };
  const cold = await batches(await lm.load(long));
  assert.ok(cold.seen.length > 1, 'the prompt takes several batches');
  const total = cold.seen.at(-1);
  const model = await lm.load(long);
  const other = `${text.slice(0, -9)}another end`;
  const tokens = await model.prepare(other);
  assert.equal(tokens, (await model.generate(other, options).run()).promptTokens);
  const warm = await batches(model);
  assert.deepEqual(warm.ids, cold.ids);
  assert.deepEqual(warm.seen, [total], 'one batch, the end alone');
  await assert.rejects(model.prepare(text, { signal: AbortSignal.abort() }), { name: 'AbortError' });
  assert.deepEqual((await batches(model)).ids, cold.ids);
});

test('a second run while one is under way is refused', async () => {
  const model = await fresh();
  const first = model.generate(ids, { maxTokens: 5, ignoreEos: true })[Symbol.asyncIterator]();
  await first.next();
  await assert.rejects(model.generate(ids, {}).run(), lm.BusyError);
  assert.throws(() => model.reset(), lm.BusyError);
  assert.throws(() => model.logits(ids), lm.BusyError);
  assert.equal(model.tokenize('Hi').length > 0, true, 'text functions work meanwhile');
  await first.return();
  assert.equal((await model.generate(ids, { maxTokens: 2, ignoreEos: true }).run()).ids.length, 2);
});

test('two models in two engines do not meet', async () => {
  const [a, b] = [await fresh(), await lm.load(fixture('tiny-f32.slm'), { context: 64 })];
  const [x, y] = [a, b].map((model) => model.generate(ids, { maxTokens: 8, ignoreEos: true })[Symbol.asyncIterator]());
  const mixed = [[], []];
  for (let turn = 0; turn < 8; turn++) {
    mixed[0].push((await x.next()).value.id);
    mixed[1].push((await y.next()).value.id);
  }
  assert.deepEqual(mixed[0], (await (await fresh()).generate(ids, { maxTokens: 8, ignoreEos: true }).run()).ids);
  assert.equal(mixed[1].length, 8);
});

test('damaged and foreign files', async () => {
  const engine = await lm.createEngine();
  const cases = [
    [Buffer.from('<!doctype html><title>404</title>'), lm.ModelFormatError, 'InvalidModelMagic'],
    [Buffer.from('GGUF....'), lm.ModelFormatError, 'InvalidModelMagic'],
    [Buffer.alloc(0), lm.ModelFormatError, 'FileTooShort'],
    [Buffer.concat([bytes, Buffer.alloc(64)]), lm.ModelFormatError, 'FileLength'],
    [bytes.subarray(0, bytes.length - 1), lm.NetworkError, 'Network'],
    [bytes.subarray(0, 50), lm.NetworkError, 'Network'],
    [Buffer.from(bytes).fill(1, 5000, 5001), lm.ModelFormatError, undefined],
  ];
  for (const [file, kind, name] of cases) {
    await assert.rejects(engine.load(file), (error) => {
      assert.ok(error instanceof kind, `${error.name}: ${error.message}`);
      assert.ok(error instanceof lm.TinyRustLMError && error.hint && error.code > 0);
      if (name) assert.equal(error.codeName, name);
      return true;
    });
  }
  const model = await engine.load(bytes, { context: 32 });
  assert.equal(model.card.fileBytes, bytes.length, 'the engine still works');
});

test('a model above the limit is refused before it is fetched', async () => {
  let chunks = 0;
  async function* slowly() {
    for (let at = 0; at < bytes.length; at += 4096) {
      chunks++;
      yield bytes.subarray(at, at + 4096);
    }
  }
  let plan;
  await assert.rejects(lm.load(slowly(), { maxModelBytes: 10_000, onHeader: (header) => (plan = header) }), lm.ModelTooLargeError);
  assert.ok(chunks * 4096 < bytes.length, 'nothing is read beyond the head');
  assert.equal(plan.fileBytes, bytes.length);
  assert.ok(plan.kvBytes > 0);
});

/** The fixture with another length of its last tensor: a file that claims to have so many bytes. */
function claiming(length) {
  const file = Buffer.from(bytes);
  const view = new DataView(file.buffer, file.byteOffset);
  const last = Number(view.getBigUint64(80, true)) + 64 * (view.getUint32(88, true) - 1);
  view.setBigUint64(last + 40, BigInt(length) - view.getBigUint64(last + 32, true), true);
  return file;
}

test('what memory cannot hold is refused with a typed error, and the engine goes on', async () => {
  const engine = await lm.createEngine();
  const before = engine.memoryBytes;
  for (const length of [2 ** 31, 3e9, 2 ** 32 + 20_000, 5e9, Number.MAX_SAFE_INTEGER]) {
    await assert.rejects(engine.load(claiming(length), { maxModelBytes: Number.MAX_SAFE_INTEGER }), lm.OutOfMemoryError, String(length));
  }
  assert.equal(engine.memoryBytes, before, 'nothing was taken for them');
  // One that fits the addresses, but only once.
  const [first, second] = [1.9e9, 2.1e9].map((length) => engine.load(claiming(length), { maxModelBytes: 2 ** 31 - 1 }));
  await assert.rejects(second, lm.BusyError);
  await assert.rejects(first, lm.NetworkError);
  const hold = [engine.module.take(2 ** 31 - 2 ** 16), engine.module.take(2 ** 30)];
  assert.throws(() => engine.module.take(2 ** 31 - 2 ** 16), lm.OutOfMemoryError);
  const model = await engine.load(bytes, { context: 32 });
  assert.equal((await model.generate(ids, { maxTokens: 2, ignoreEos: true }).run()).ids.length, 2);
  assert.equal(hold.length, 2);
});

test('addresses above 2 GiB are addresses', async () => {
  const engine = await lm.createEngine();
  const options = { maxTokens: 12, ignoreEos: true, temperature: 1, seed: 3 };
  let model = await engine.load(bytes, { context: 32, maxModelBytes: 2 ** 31 - 1 });
  const expected = (await model.generate(ids, options).run()).ids;
  model.free();
  // Held, never written: the host gives no memory for it.
  engine.module.call('set_max_model_bytes', 2n ** 31n - 1n);
  engine.module.take(2 ** 31 - 2 ** 16);
  while (engine.module.take(2 ** 14) < 2 ** 31); // what is free below is used up
  model = await engine.load(bytes, { context: 32 });
  assert.ok(model.fileBytes.byteOffset > 2 ** 31, 'the model lies above');
  assert.deepEqual((await model.generate(ids, options).run()).ids, expected);
  assert.deepEqual(Buffer.from(model.fileBytes), bytes);
});

test('loading can be aborted, reports progress, and names network faults', async () => {
  const server = createServer((request, response) => {
    if (request.url === '/missing') return response.writeHead(404).end();
    response.writeHead(200);
    if (request.url === '/whole') return response.end(bytes);
    response.write(bytes.subarray(0, bytes.length >> 1), () => request.url === '/cut' && response.destroy());
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const base = `http://127.0.0.1:${server.address().port}`;
  try {
    const engine = await lm.createEngine();
    await assert.rejects(engine.load(`${base}/missing`), lm.NetworkError);
    await assert.rejects(engine.load(`${base}/cut`), lm.NetworkError);
    await assert.rejects(engine.load('http://127.0.0.1:1/none'), lm.NetworkError);
    await assert.rejects(engine.load('/no/such/file.slm'), lm.NetworkError);
    const controller = new AbortController();
    const half = engine.load(`${base}/half`, { signal: controller.signal, onProgress: () => controller.abort() });
    await assert.rejects(half, { name: 'AbortError' });
    const seen = [];
    const model = await engine.load(`${base}/whole`, { onProgress: (progress) => seen.push(progress) });
    assert.deepEqual(seen.at(-1), { phase: 'check', loaded: 1, total: 1 });
    assert.ok(seen.some(({ phase, loaded, total }) => phase === 'download' && loaded === total && total === bytes.length));
    model.free();
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('memory stays flat over resets and reloads', async () => {
  const engine = await lm.createEngine();
  let model = await engine.load(bytes, { context: 64 });
  await model.generate(ids, { maxTokens: 20, ignoreEos: true }).run();
  const after = engine.memoryBytes;
  for (let turn = 0; turn < 50; turn++) {
    model.reset();
    await model.generate(ids, { maxTokens: 4, ignoreEos: true }).run();
  }
  assert.equal(engine.memoryBytes, after, '50 resets');
  for (let turn = 0; turn < 20; turn++) {
    model.free();
    model = await engine.load(bytes, { context: 64 });
    await model.generate(ids, { maxTokens: 4, ignoreEos: true }).run();
  }
  assert.equal(engine.memoryBytes, after, '20 reloads');
  const { memory } = model.diagnostics();
  const planned = memory.kv_bytes + memory.logits_bytes + memory.scratch_bytes + memory.sampler_bytes + bytes.length;
  assert.ok(engine.memoryBytes <= planned + 2 * 1024 * 1024, `${engine.memoryBytes} for ${planned} planned`);
});

test('a cache of codes is planned and reported, and another kind is refused', async () => {
  const plans = {};
  for (const kvCache of ['f32', 'q8_0']) {
    let plan;
    const model = await lm.load(bytes, { context: 64, kvCache, onHeader: (header) => (plan = header) });
    await model.generate(ids, { maxTokens: 4, ignoreEos: true }).run();
    const { memory } = model.diagnostics();
    assert.equal(memory.kv_cache, kvCache);
    assert.equal(memory.kv_bytes, plan.kvBytes);
    assert.ok(memory.scratch_bytes > 0);
    plans[kvCache] = plan.kvBytes;
    model.free();
  }
  // Heads as small as the fixture's are mostly padding, so that codes take more here.
  assert.notEqual(plans.q8_0, plans.f32);
  await assert.rejects(lm.load(bytes, { kvCache: 'f16' }), (error) => error instanceof lm.InputError && /f32, q8_0/.test(error.message));
});

test('a freed model says so', async () => {
  const model = await fresh();
  model.free();
  model.free();
  assert.throws(() => model.tokenize('x'), lm.DisposedError);
  assert.throws(() => model.generate(ids), lm.DisposedError);
  const scoped = await fresh();
  scoped[Symbol.dispose ?? Symbol.for('Symbol.dispose')]();
  assert.ok(scoped.freed);
});

test('a fault in the middle of a run keeps the model', async () => {
  const model = await fresh();
  const options = { maxTokens: 12, ignoreEos: true, temperature: 1, seed: 5 };
  const whole = (await model.generate(ids, options).run()).ids;
  const generation = model.generate(ids, options)[Symbol.asyncIterator]();
  await generation.next();
  // The last tensors of the file are the final norm and the head: not-a-number in the norm spoils every logit.
  const index = model.card.tensorNames.indexOf('norm.weight');
  const view = new DataView(model.fileBytes.buffer, model.fileBytes.byteOffset);
  const directory = Number(view.getBigUint64(80, true));
  const offset = Number(view.getBigUint64(directory + 64 * index + 32, true));
  const kept = view.getUint32(offset, true);
  view.setUint32(offset, 0x7fc00000, true);
  await assert.rejects(async () => {
    for (;;) if ((await generation.next()).done) return;
  }, lm.GenerationError);
  const report = model.diagnostics();
  assert.ok(report.error_recovery.numeric_code > 0);
  assert.equal(report.generation_stage.stop_reason, 'ERROR');
  view.setUint32(offset, kept, true);
  assert.deepEqual((await model.generate(ids, options).run()).ids, whole);
});

test('a trap says that the instance is lost, and another instance works', async () => {
  const engine = await lm.createEngine();
  const model = await engine.load(bytes, { context: 64 });
  const { exports } = engine.module;
  const trap = () => {
    throw new WebAssembly.RuntimeError('unreachable');
  };
  engine.module.exports = { ...exports, generate_next_token: trap };
  const lost = (error) => error instanceof lm.TrapError && /new engine/.test(error.hint);
  await assert.rejects(model.generate(ids, {}).run(), lost);
  engine.module.exports = exports;
  await assert.rejects(model.generate(ids, {}).run(), lost, 'it stays lost');
  assert.throws(() => model.tokenize('x'), lost);
  await assert.rejects(engine.load(bytes), lost);
  model.free();
  assert.equal((await (await fresh()).generate(ids, { maxTokens: 2, ignoreEos: true }).run()).ids.length, 2);
});

test('ill-formed text is refused with its place', async () => {
  const model = await fresh();
  assert.throws(() => model.tokenize('ab\ud800c'), (error) => error instanceof lm.TextError && error.code === 3 && error.offset === 2);
  assert.throws(() => model.generate('\udc00'), lm.TextError);
  assert.equal(model.detokenize(model.tokenize('naïve 😀 עברית é', { specials: false })), 'naïve 😀 עברית é');
});

test('bad options are refused by name', async () => {
  const model = await fresh();
  for (const options of [{ temperature: -1 }, { topP: 2 }, { topK: 4000 }, { minP: NaN }, { preset: 'wild' }, { maxTokens: 1.5 }, { stop: [''] }, { topK: -1 }]) {
    await assert.rejects(async () => model.generate(ids, options).run(), lm.InputError, JSON.stringify(options));
  }
  await assert.rejects(model.generate(ids, { maxTokens: 3 }).run().then(() => model.generate([], {}).run()), lm.TinyRustLMError);
  await assert.rejects(model.generate([9999999]).run(), lm.TinyRustLMError);
  await assert.rejects(model.generate(Array(65).fill(1)).run(), lm.ContextError);
  assert.equal((await model.generate(ids, { maxTokens: 3, ignoreEos: true }).run()).ids.length, 3);
});

test('the context fills up without a fault', async () => {
  const model = await fresh({ context: 16 });
  const result = await model.generate(ids, { maxTokens: 100, ignoreEos: true }).run();
  assert.equal(result.stopReason, 'context_full');
  assert.equal(result.ids.length, 16 - ids.length);
});

test('the report has the keys of the specification', async () => {
  const model = await fresh();
  const { diagnostics } = await model.generate(ids, { maxTokens: 3, ignoreEos: true }).run();
  assert.deepEqual(Object.keys(diagnostics.model_identity), ['checksum', 'precision', 'vocab_size']);
  assert.equal(diagnostics.load_stage_status, 'KV_ALLOCATION_SUCCESS');
  assert.equal(diagnostics.generation_stage.generated_tokens, 3);
  assert.equal(diagnostics.model_identity.checksum, model.card.checksum);
  assert.ok(diagnostics.performance_metrics.time_to_first_token_ms >= 0);
  assert.match(diagnostics.transaction_id, /^[0-9a-f-]{8,}$/);
});

test('the report says how a run ended', async () => {
  const model = await fresh();
  const loop = { maxPeriod: 8, repetitions: 3 };
  const looped = await model.generate(ids, { temperature: 0, maxTokens: 50, ignoreEos: true, loop, seed: 5n, topP: 0.9 }).run();
  const { stop, sampling } = looped.diagnostics;
  assert.equal(looped.stopReason, 'loop_detected');
  assert.ok(stop.loop.repetitions >= 3, JSON.stringify(stop));
  assert.deepEqual(stop.loop.pattern, looped.ids.slice(-stop.loop.period));
  assert.deepEqual([sampling.seed, sampling.top_p, sampling.max_new_tokens, sampling.ignore_eos], ['0000000000000005', 0.9, 50, true]);
  const first = model.generate(ids, { temperature: 0, maxTokens: 8, ignoreEos: true, stop: [looped.ids[1]] });
  assert.equal((await first.run()).diagnostics.stop.token, looped.ids[1]);
  await assert.rejects(model.generate([9999999]).run(), lm.TinyRustLMError);
  const refused = model.diagnostics();
  assert.deepEqual(refused.error_recovery, { stable_message: 'TokenRange', numeric_code: 301 });
  assert.deepEqual(refused.error_position, { offset: null, index: 0 });
  assert.equal(refused.model, undefined);
});

test('the class over wasm-bindgen runs a model', async () => {
  const { initSync, Runtime, model_len } = await import(pathToFileURL(join(installed(), 'dist/tinyrustlm-class.js')));
  const { memory } = initSync({ module: readFileSync(join(installed(), 'dist/tinyrustlm.wasm')) });
  const runtime = new Runtime();
  assert.notEqual(runtime.start('Hello', false, 4), 0);
  assert.equal(runtime.errorClass(), 12);
  const ptr = runtime.alloc(bytes.length);
  new Uint8Array(memory.buffer, ptr, bytes.length).set(bytes);
  assert.equal(runtime.loadModel(ptr, bytes.length), 0);
  assert.equal(model_len(), bytes.length);
  assert.equal(runtime.setSampling(1, 0, 0.9, 3), 0);
  assert.equal(runtime.start('Hello', false, 12), 0);
  let text = '';
  const made = [];
  do {
    assert.equal(runtime.next(), 0);
    text += runtime.text();
    if (runtime.event(0) === 1) made.push(runtime.event(1));
  } while (runtime.event(3) === 0);
  const options = { temperature: 1, topP: Math.fround(0.9), seed: 3, maxTokens: 12 };
  const expected = await (await fresh()).generate('Hello', options).run();
  assert.deepEqual([made, text], [expected.ids, expected.text]);
  const report = JSON.parse(runtime.diagnostics());
  assert.equal(report.generation_stage.generated_tokens, made.length);
  assert.equal(report.model_identity.checksum, expected.diagnostics.model_identity.checksum);
  assert.deepEqual([runtime.reset(), runtime.freeModel(), model_len()], [0, 0, 0]);
});
