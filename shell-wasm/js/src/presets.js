// Sampling options: names, defaults, and the record the module reads (SPEC.md section 10).

import { InputError } from './errors.js';

/** Named sets of options. The numbers are those of the core's presets. */
export const presets = {
  greedy: { temperature: 0, maxTokens: 256 },
  chat: { temperature: 0.7, topK: 40, topP: 0.9, minP: 0.05, repetitionPenalty: 1.05, maxTokens: 512 },
  precise: { temperature: 0.2, topK: 20, topP: 0.9, repetitionPenalty: 1.05, maxTokens: 512 },
  creative: {
    temperature: 0.9, topK: 80, topP: 0.95, minP: 0.03, typicalP: 0.95, repetitionPenalty: 1.03,
    frequencyPenalty: 0.1, presencePenalty: 0.2, maxTokens: 1024,
  },
  code: { temperature: 0.2, topK: 50, topP: 0.95, repetitionPenalty: 1.03, maxTokens: 1024 },
  json: { temperature: 0.1, topK: 10, repetitionPenalty: 1.01, maxTokens: 512 },
};

const NEUTRAL = {
  temperature: 0, topK: 0, topP: 1, minP: 0, typicalP: 1, repetitionPenalty: 1, frequencyPenalty: 0,
  presencePenalty: 0, seed: 0, stream: 0, minTokens: 0, maxTokens: 256, penaliseSpecial: false, temperatureLast: false,
  prng: 'philox', ignoreEos: false, stop: [], includeStop: false, forceEos: false, parseSpecials: false, showSpecial: false,
  loop: undefined, logprobs: true, topLogprobs: 0,
};

/** The options in force: what the caller says, over the preset, over the model's own defaults, over neutral. */
export function resolveOptions(given = {}, card, fallback) {
  const { preset, ...own } = given;
  if (preset !== undefined && !Object.hasOwn(presets, preset)) throw new InputError(400, { detail: `no preset ${preset}` });
  const published = card?.sampling;
  const base = preset !== undefined ? presets[preset]
    : fallback === 'chat' && !published?.doSample ? presets.chat
    : published?.doSample ? published
    : {};
  const merged = { ...NEUTRAL, ...base };
  for (const [key, value] of Object.entries(own)) if (value !== undefined) merged[key] = value;
  return merged;
}

const FLAGS = [
  ['penaliseSpecial', (o) => o.penaliseSpecial], ['temperatureLast', (o) => o.temperatureLast],
  ['prng', (o) => o.prng === 'pcg32'], ['forceEos', (o) => o.forceEos], ['ignoreEos', (o) => o.ignoreEos],
  ['includeStop', (o) => o.includeStop], ['parseSpecials', (o) => o.parseSpecials], ['showSpecial', (o) => o.showSpecial],
];
export const PROFILE_BYTES = 96;

/** The 96-byte sampling record. */
export function encodeProfile(options) {
  const view = new DataView(new ArrayBuffer(PROFILE_BYTES));
  const doubles = [
    options.temperature, options.topP, options.minP, options.typicalP, options.repetitionPenalty,
    options.frequencyPenalty, options.presencePenalty,
  ];
  doubles.forEach((value, index) => view.setFloat64(8 * index, Number(value), true));
  view.setBigUint64(56, BigInt.asUintN(64, BigInt(options.seed)), true);
  view.setUint32(64, whole('topK', options.topK), true);
  view.setUint32(68, whole('stream', options.stream), true);
  view.setUint32(72, whole('minTokens', options.minTokens), true);
  view.setUint32(80, options.loop ? whole('loop.maxPeriod', options.loop.maxPeriod) : 0, true);
  view.setUint32(84, options.loop ? whole('loop.repetitions', options.loop.repetitions) : 0, true);
  // One more than asked for nothing: the token's own logarithm costs the same pass.
  view.setUint32(88, options.logprobs === false ? 0 : Math.max(1, whole('topLogprobs', options.topLogprobs)), true);
  view.setUint32(76, FLAGS.reduce((bits, [, on], bit) => bits | (on(options) ? 1 << bit : 0), 0), true);
  return new Uint8Array(view.buffer);
}

function whole(name, value) {
  const number = Number(value);
  if (!Number.isInteger(number) || number < 0 || number > 0xffffffff) {
    throw new InputError(2, { detail: `${name} must be a whole number, not ${value}` });
  }
  return number;
}
export { whole };
