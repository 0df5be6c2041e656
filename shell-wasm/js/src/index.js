// TinyRustLM for JavaScript hosts: one model file, one small module, no dependencies.

import { createEngine } from './model.js';
import { loadInWorker } from './remote.js';

/**
 * Loads a model and gives an object to talk with it.
 * `options.worker` runs it in a Worker, with the same functions, so that a page never blocks.
 */
export async function load(source, options = {}) {
  if (options.worker) return loadInWorker(source, options);
  return (await createEngine(options)).load(source, options);
}

export { createEngine, DEFAULT_MAX_MODEL_BYTES } from './model.js';
export { cachedModels, clearCache } from './cache.js';
export { hasSimd } from './module.js';
export { presets } from './presets.js';
export {
  TinyRustLMError, ModelFormatError, ModelTooLargeError, OutOfMemoryError, NetworkError, TextError, TemplateError,
  InputError, ContextError, GenerationError, BusyError, DisposedError, TrapError, EnvironmentError,
} from './errors.js';
