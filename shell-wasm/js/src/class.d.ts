// The module through wasm-bindgen's glue.

import type { InitInput, InitOutput, SyncInitInput } from './tinyrustlm_bindgen.js';

export * from './tinyrustlm_bindgen.js';

/** Instantiates the module. Gives its exports. */
export default function init(source: { module_or_path: InitInput | Promise<InitInput> } | InitInput | Promise<InitInput>): Promise<InitOutput>;
/** The same for bytes or a compiled module, at once. */
export function initSync(source: { module: SyncInitInput } | SyncInitInput): InitOutput;

/** The runtime of the instance. All objects of the class share it. Numbers are the codes of SPEC.md; nothing is thrown. */
export class Runtime {
  /** Takes a block of memory to stream a model into; 0 on failure. */
  alloc(length: number): number;
  /** Loads the model in a block of `alloc`. */
  loadModel(ptr: number, length: number): number;
  /** Sets temperature, top-k, top-p and seed; everything else is off. */
  setSampling(temperature: number, topK: number, topP: number, seed: number): number;
  /** Begins to continue a text, or (`chat`) to answer a conversation in JSON. */
  start(input: string, chat: boolean, maxTokens: number): number;
  /** The next piece of work. */
  next(): number;
  /** A word of the event record: 0 kind, 1 id, 3 stop reason, 4 done, 5 total. */
  event(index: number): number;
  /** Text of the last result. */
  text(): string;
  /** The report of the last load or generation, JSON. */
  diagnostics(): string;
  /** Class of the last error, 1 to 14. */
  errorClass(): number;
  /** Forgets the conversation. */
  reset(): number;
  /** Frees the model's memory. */
  freeModel(): number;
  free(): void;
}
