// For a bundler that gives files an address: the module and the worker are handed over.
import { load } from 'tinyrustlm';
import wasm from 'tinyrustlm/tinyrustlm.wasm';

/** Ids of a fixed run on the model at `address`. */
export async function ids(address, options) {
  const model = await load(address, { wasm, context: 64, cache: false, ...options });
  const { ids } = await model.generate([72, 101, 108, 108, 111], { temperature: 1, seed: 9, maxTokens: 24, ignoreEos: true }).run();
  model.free();
  return ids.join(' ');
}
