/** Where a model comes from. Anything but an address is read as it is; nothing is fetched then. */
export type ModelSource =
  | string
  | URL
  | Request
  | Response
  | Blob
  | ArrayBuffer
  | ArrayBufferView
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>
  | Iterable<Uint8Array>
  | Promise<Response | Blob | ArrayBuffer | ArrayBufferView>;

export interface Progress {
  /** `download`: bytes of the file; `check`: 0 then 1; `prompt`: tokens of the prompt. */
  phase: 'download' | 'check' | 'prompt';
  loaded: number;
  total: number;
}

/** What the head of a file says, known before memory is taken for the rest. */
export interface ModelHeader {
  modelType: number;
  tiedOutput: boolean;
  vocabSize: number;
  specialTokenCount: number;
  hiddenSize: number;
  layerCount: number;
  headCount: number;
  kvHeadCount: number;
  headDim: number;
  ffnSize: number;
  maxContext: number;
  tokenizerBytes: number;
  tensorCount: number;
  /** XXH64 of the file, 16 hex digits. Detects damage; identity is the file's SHA-256. */
  checksum: string;
}

export interface ModelPlan extends ModelHeader {
  fileBytes: number;
  /** Positions that will be planned. */
  context: number;
  /** Bytes of the key-value cache for that context. */
  kvBytes: number;
}

export interface ModelCard extends ModelHeader {
  family: string;
  /** The dtype that most weight bytes have: f32, bf16, q8_0, q4_0 or q4_1. */
  precision: string;
  bytesByDtype: Record<string, number>;
  fileBytes: number;
  hasTemplate: boolean;
  /** The publisher's generation defaults, where the file has them. */
  sampling: Partial<SamplingOptions> | null;
  /** Source, licence, quantisation and drift as the converter recorded them. */
  provenance: Record<string, unknown>;
  tensorNames: string[];
}

export interface EngineOptions {
  /** The module: compiled, its bytes, a Response, or an address. Default: the file beside the script. */
  wasm?: WebAssembly.Module | BufferSource | Response | string | URL | Promise<WebAssembly.Module | BufferSource | Response>;
  /** Forces the SIMD (true) or the scalar (false) build. Default: what the host can run. */
  simd?: boolean;
}

export interface LoadOptions {
  onProgress?: (progress: Progress) => void;
  /** Called once the head is read and before memory is taken; throwing refuses the model. */
  onHeader?: (plan: ModelPlan) => void | Promise<void>;
  signal?: AbortSignal;
  /** Most bytes of the file; default 134,217,728. */
  maxModelBytes?: number;
  /** Positions to plan memory for; default the smaller of 2,048 and what the model knows. */
  context?: number;
  /**
   * How keys and values are kept, default 'f32'. 'q8_0' takes little more than a quarter of the memory and is faster at long
   * contexts, but its results are not those of the reference.
   */
  kvCache?: 'f32' | 'q8_0';
  /** Keep models of addresses in Cache Storage, where there is one. Default true. */
  cache?: boolean;
  /** The checksum the file must have; also finds it in the cache whatever its address was. */
  checksum?: string;
}

export interface SamplingOptions {
  preset: 'greedy' | 'chat' | 'precise' | 'creative' | 'code' | 'json';
  /** 0 is greedy. */
  temperature: number;
  /** 0 is off; at most 1,024. */
  topK: number;
  /** 1 is off. */
  topP: number;
  /** 0 is off. */
  minP: number;
  /** 1 is off. */
  typicalP: number;
  /** 1 is off. */
  repetitionPenalty: number;
  frequencyPenalty: number;
  presencePenalty: number;
  penaliseSpecial: boolean;
  temperatureLast: boolean;
  prng: 'philox' | 'pcg32';
  seed: number | bigint;
  stream: number;
  minTokens: number;
  maxTokens: number;
  /** Strings and token ids that end the generation. */
  stop: string | number | (string | number)[];
  /** Whether the stop string belongs to the text. */
  includeStop: boolean;
  ignoreEos: boolean;
  forceEos: boolean;
  /** Ends the run when the last tokens repeat: a pattern of up to `maxPeriod` (64) tokens, `repetitions` times. */
  loop: { maxPeriod: number; repetitions: number };
  /** Special tokens in what people wrote count as such, as in the reference. Default false: content is data. */
  parseSpecials: boolean;
  /** Special tokens show in the text. */
  showSpecial: boolean;
  /** Whether events carry log-probabilities. Default true; false saves a pass over the vocabulary per token. */
  logprobs: boolean;
  /** How many of the best tokens each event lists, up to 32. */
  topLogprobs: number;
}

export interface GenerateOptions extends Partial<SamplingOptions> {
  signal?: AbortSignal;
  /** Progress of the prompt. */
  onProgress?: (progress: Progress) => void;
  /** Whether the tokenizer adds the special tokens it adds by itself. Default true. */
  specials?: boolean;
}

export interface RenderOptions {
  tools?: unknown[];
  documents?: unknown[];
  /** Further variables of the template. */
  vars?: Record<string, unknown>;
  addGenerationPrompt?: boolean;
}

export interface ChatOptions extends Partial<SamplingOptions>, RenderOptions {
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
}

/** What decides how a prompt reads. */
export type PrepareOption = keyof RenderOptions | 'specials' | 'parseSpecials' | 'signal' | 'onProgress';

export interface ChatMessage {
  role: string;
  content: unknown;
  [key: string]: unknown;
}

export interface TokenEvent {
  /** Text that this token completed; empty while a character or a stop string is undecided. */
  text: string;
  /** The token; null for text that was held back until the end. */
  id: number | null;
  /** Natural logarithm of the token's probability before sampling. */
  logprob: number | null | undefined;
  /** The best tokens of this step before sampling, where `topLogprobs` asks for them. */
  top?: { id: number; logprob: number }[];
}

export type StopReason =
  | 'eos_token' | 'stop_token_id' | 'stop_string' | 'max_output' | 'context_full' | 'loop_detected' | 'cancelled' | 'error';

export interface GenerationResult {
  text: string;
  ids: number[];
  logprobs: number[];
  promptTokens: number;
  stopReason: StopReason | null;
  diagnostics: Diagnostics;
}

export interface Diagnostics {
  transaction_id: string;
  model_identity: { checksum: string; precision: string; vocab_size: number };
  load_stage_status: string;
  generation_stage: {
    prompt_tokens: number;
    generated_tokens: number;
    stop_reason: string | null;
    context_utilization_bytes: number;
    peak_memory_bytes: number;
  };
  performance_metrics: {
    time_to_first_token_ms: number | null;
    generation_time_ms: number | null;
    tokens_per_second: number | null;
    total_ms: number;
  };
  error_recovery: { stable_message: string | null; numeric_code: number };
  host: Record<string, unknown>;
  [key: string]: unknown;
}

/** A run of generation: iterate it for tokens, or let it run to its end. */
export interface Generation extends AsyncIterable<TokenEvent> {
  run(): Promise<GenerationResult>;
  text(): Promise<string>;
  /** Set when the run has ended, however it ended. */
  readonly result: GenerationResult | undefined;
  readonly finished: Promise<GenerationResult>;
  [Symbol.asyncIterator](): AsyncGenerator<TokenEvent, void, undefined>;
}

/** A loaded model. One call at a time; a second one is refused with BusyError. */
export interface Model {
  readonly card: ModelCard;
  readonly freed: boolean;
  chat(messages: ChatMessage[], options?: ChatOptions): Generation;
  /** Continues a text or a list of token ids. */
  generate(input: string | number[], options?: GenerateOptions): Generation;
  /**
   * Reads a conversation or a text ahead, while its end is still being written. The next run does not read again what its prompt has
   * in common with it, from the beginning on; its bits are the same. Gives the number of tokens. One may abort it: what is read by
   * then is kept.
   */
  prepare(input: string | ChatMessage[], options?: Pick<ChatOptions & GenerateOptions, PrepareOption>): Promise<number>;
  tokenize(text: string, options?: { specials?: boolean }): number[];
  countTokens(input: string | ChatMessage[], options?: RenderOptions & { specials?: boolean }): number;
  detokenize(ids: number[], options?: { mode?: 'visible' | 'raw' }): string;
  tokenBytes(ids: number | number[], options?: { mode?: 'visible' | 'raw' }): Uint8Array;
  render(messages: ChatMessage[], options?: RenderOptions): { text: string; ids: number[] };
  /** Logits after a list of ids, [vocabSize]. */
  logits(ids: number[]): Float32Array;
  diagnostics(): Diagnostics;
  /** Forgets the conversation; model and memory stay. */
  reset(): void;
  free(): void;
  /** The file's bytes where they lie; valid until memory grows. */
  readonly fileBytes: Uint8Array;
  [Symbol.dispose](): void;
}

/** The same in a Worker: what takes time is a promise. */
export type WorkerModel = {
  [K in 'tokenize' | 'countTokens' | 'detokenize' | 'tokenBytes' | 'render' | 'logits' | 'diagnostics' | 'reset']: (
    ...args: Parameters<Model[K]>
  ) => Promise<ReturnType<Model[K]>>;
} & Pick<Model, 'card' | 'chat' | 'generate' | 'prepare' | 'free' | 'freed'> & {
    readonly simd: boolean;
    memoryBytes(): Promise<number>;
    [Symbol.dispose](): void;
  };

/** An instance of the module, room for one model at a time. */
export interface Engine {
  load(source: ModelSource, options?: LoadOptions): Promise<Model>;
  readonly memoryBytes: number;
  readonly simd: boolean;
}

export function load(source: ModelSource, options: LoadOptions & EngineOptions & { worker: true | Worker }): Promise<WorkerModel>;
export function load(source: ModelSource, options?: LoadOptions & EngineOptions & { worker?: false }): Promise<Model>;
export function createEngine(options?: EngineOptions): Promise<Engine>;

export const DEFAULT_MAX_MODEL_BYTES: number;
export const presets: Record<SamplingOptions['preset'], Partial<SamplingOptions>>;
export function hasSimd(): boolean;
/** Checksums of the models in Cache Storage. */
export function cachedModels(): Promise<string[]>;
export function clearCache(checksum?: string): Promise<void>;

/** `code` and `codeName` are stable; `hint` says what to do. */
export class TinyRustLMError extends Error {
  readonly code: number;
  readonly codeName: string;
  readonly offset: number | undefined;
  readonly index: number | undefined;
  readonly detail: string | undefined;
  readonly hint: string;
}
export class ModelFormatError extends TinyRustLMError {}
export class ModelTooLargeError extends TinyRustLMError {}
export class OutOfMemoryError extends TinyRustLMError {}
export class NetworkError extends TinyRustLMError {}
export class TextError extends TinyRustLMError {}
export class TemplateError extends TinyRustLMError {}
export class InputError extends TinyRustLMError {}
export class ContextError extends TinyRustLMError {}
export class GenerationError extends TinyRustLMError {}
export class BusyError extends TinyRustLMError {}
export class DisposedError extends TinyRustLMError {}
export class TrapError extends TinyRustLMError {}
export class EnvironmentError extends TinyRustLMError {}
