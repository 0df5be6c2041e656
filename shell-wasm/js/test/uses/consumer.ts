// What a TypeScript program writes, and what it must not be allowed to write. Compiled, never run.
import { load, createEngine, presets, clearCache, TinyRustLMError, BusyError, DEFAULT_MAX_MODEL_BYTES } from 'tinyrustlm';
import type { Generation, GenerationResult, Model, ModelCard, Progress, TokenEvent, WorkerModel } from 'tinyrustlm';

export async function talk(source: File | URL | string, signal: AbortSignal): Promise<string> {
  using model: Model = await load(source, {
    signal,
    maxModelBytes: 2 * DEFAULT_MAX_MODEL_BYTES,
    onProgress: ({ phase, loaded, total }: Progress) => console.log(phase, loaded / total),
    onHeader: async (plan) => { if (plan.kvBytes > 1e9) throw new Error(String(plan.fileBytes)); },
  });
  const card: ModelCard = model.card;
  console.log(card.family, card.sampling?.temperature, card.bytesByDtype.q8_0);
  let text = '';
  const reply: Generation = model.chat([{ role: 'user', content: 'Hi' }], { ...presets.chat, seed: 1n, stop: ['\n', 2], topLogprobs: 3 });
  for await (const event of reply) {
    const { text: piece, id, logprob, top }: TokenEvent = event;
    text += piece + (id ?? '') + (logprob ?? 0) + (top?.[0]?.logprob ?? 0);
  }
  const result: GenerationResult | undefined = reply.result;
  const ids: number[] = model.tokenize(text);
  const logits: Float32Array = model.logits(ids);
  return `${result?.stopReason} ${logits.length} ${model.render([{ role: 'user', content: text }]).text}`;
}

export async function away(bytes: ArrayBuffer): Promise<number[]> {
  const model: WorkerModel = await load(bytes, { worker: true });
  try {
    const counted: number = await model.countTokens('one two');
    const { ids } = await model.generate([1, 2, counted], { temperature: 0, preset: 'greedy' }).run();
    return ids;
  } catch (error) {
    if (error instanceof BusyError) return [];
    if (error instanceof TinyRustLMError) console.log(error.code, error.codeName, error.hint, error.offset);
    throw error;
  } finally {
    model.free();
  }
}

export async function wrong(): Promise<void> {
  const engine = await createEngine({ simd: false });
  const model = await engine.load(new Uint8Array(8));
  // @ts-expect-error: no such preset
  model.chat([], { preset: 'wild' });
  // @ts-expect-error: messages have a role
  model.chat([{ content: 'Hi' }]);
  // @ts-expect-error: a number is no source
  await load(7);
  // @ts-expect-error: ids are numbers
  model.logits(['a']);
  // @ts-expect-error: read only
  model.freed = true;
  // @ts-expect-error: in a worker this is a promise
  (await load('x', { worker: true })).tokenize('x').length;
  await clearCache();
}
