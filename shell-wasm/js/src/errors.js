// Error classes. Numbers and sentences come from the core's table, which the build turns into codes.js.

import { CODES } from './codes.js';

/** Numbers of this layer, for what happens outside the module. */
const OUTSIDE = {
  Network: [590, 'The model could not be fetched.'],
  Trap: [591, 'The module trapped. This instance must not be used any more.'],
  Disposed: [592, 'The model was freed.'],
  Environment: [593, 'This host lacks something that is needed.'],
  Checksum: [594, 'The model is not the one that was asked for.'],
  WorkerLost: [595, 'The worker ended.'],
};
const BY_NUMBER = new Map(CODES.map(([number, name, sentence]) => [number, { name, sentence }]));
for (const [name, [number, sentence]] of Object.entries(OUTSIDE)) BY_NUMBER.set(number, { name, sentence });

const BY_CODE_NAME = new Map(CODES.map(([number, name]) => [name, number]));

/** What every error of this package is. `code` and `codeName` are stable; `hint` says what to do. */
export class TinyRustLMError extends Error {
  constructor(code, { detail, offset, index, cause } = {}) {
    const known = BY_NUMBER.get(code) ?? { name: `Code${code}`, sentence: 'Unknown error.' };
    const where = [
      detail,
      index === undefined ? undefined : `entry ${index}`,
      offset === undefined ? undefined : `offset ${offset}`,
    ].filter((part) => part !== undefined);
    super(known.sentence + (where.length ? ` (${where.join(', ')})` : ''), cause === undefined ? undefined : { cause });
    this.code = code;
    this.codeName = known.name;
    this.offset = offset;
    this.index = index;
    this.detail = detail;
  }
  get name() {
    return this.constructor.name;
  }
  get hint() {
    return this.constructor.hint;
  }
}

const kind = (name, hint) => {
  const made = { [name]: class extends TinyRustLMError {} }[name];
  made.hint = hint;
  return made;
};

export const ModelFormatError = kind('ModelFormatError', 'The file is damaged or no SLM1 model. Fetch or convert it again.');
export const ModelTooLargeError = kind('ModelTooLargeError', 'Raise maxModelBytes if the device has the memory, or take a smaller model.');
export const OutOfMemoryError = kind('OutOfMemoryError', 'Plan a smaller context or take a smaller model.');
export const NetworkError = kind('NetworkError', 'Check the address and the connection, then load again.');
export const TextError = kind('TextError', 'The text is not well-formed Unicode; remove the lone surrogate or the bad byte.');
export const TemplateError = kind('TemplateError', "The model's chat template refused these messages.");
export const InputError = kind('InputError', 'Correct the argument named in the message.');
export const ContextError = kind('ContextError', 'Shorten the conversation, or load with a larger context.');
export const GenerationError = kind('GenerationError', 'The model is still loaded. Call reset() and try again.');
export const BusyError = kind('BusyError', 'Wait for the call that is under way, or abort it.');
export const DisposedError = kind('DisposedError', 'Load the model again.');
export const TrapError = kind('TrapError', 'Make a new engine and load the model again. Please report this.');
export const EnvironmentError = kind('EnvironmentError', 'See the message for what the host lacks.');

const OUTSIDE_CLASS = {
  Network: NetworkError, Trap: TrapError, Disposed: DisposedError, Environment: EnvironmentError,
  Checksum: ModelFormatError, WorkerLost: TrapError,
};
const BY_NAME = {
  TransferCeilingExceeded: ModelTooLargeError, OutOfMemory: OutOfMemoryError, Busy: BusyError,
  ContextExceeded: ContextError, ModelNotLoaded: DisposedError, InvalidUtf8: TextError,
};

/** The right class for a number, by its name first and then by the block of its layer. */
export function errorOf(code, details) {
  const name = BY_NUMBER.get(code)?.name;
  const byBlock =
    code < 4 ? InputError
    : code < 100 || (code >= 100 && code < 200 && details?.loading) ? ModelFormatError
    : code < 200 ? InputError
    : code < 300 ? (details?.loading ? ModelFormatError : TemplateError)
    : code < 400 ? (details?.loading ? ModelFormatError : GenerationError)
    : code < 500 ? InputError
    : GenerationError;
  return new (BY_NAME[name] ?? byBlock)(code, details);
}

/** The error of the core's table with this name: for what this layer finds before the core sees it. */
export const errorNamed = (name, details) => errorOf(numberNamed(name), details);

/** The name that goes with a number. */
export const codeName = (code) => BY_NUMBER.get(code)?.name ?? `Code${code}`;

export const numberNamed = (name) => BY_CODE_NAME.get(name);

/** An error of this layer, by the name of its row in OUTSIDE. */
export function outside(name, detail, cause) {
  return new OUTSIDE_CLASS[name](OUTSIDE[name][0], { detail, cause });
}

/** The reason of an aborted signal, as fetch would throw it. */
export function abortReason(signal) {
  if (signal.reason !== undefined) return signal.reason;
  const error = new Error('The operation was aborted.');
  error.name = 'AbortError';
  return error;
}

/** Errors cross a worker's border as plain data. */
export function packError(error) {
  if (error instanceof TinyRustLMError) {
    return { kind: error.name, code: error.code, offset: error.offset, index: error.index, detail: error.detail };
  }
  return { kind: '', name: error?.name ?? 'Error', message: String(error?.message ?? error) };
}

const CLASSES = {
  ModelFormatError, ModelTooLargeError, OutOfMemoryError, NetworkError, TextError, TemplateError, InputError,
  ContextError, GenerationError, BusyError, DisposedError, TrapError, EnvironmentError,
};

export function unpackError(data) {
  const known = CLASSES[data.kind];
  if (known) return new known(data.code, data);
  const error = new Error(data.message);
  error.name = data.name;
  return error;
}
