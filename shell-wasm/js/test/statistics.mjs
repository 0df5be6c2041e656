// The registered plan of fixtures/sampler/statistics_plan.txt through the module: every profile, every seed, all reported.
//     node shell-wasm/js/test/statistics.mjs statistics.slm [SEEDS]
// The model is fixtures' `statistics`: the same logits after any ids. Draws are this file's own generators, so a module that drew
// otherwise, or chose otherwise from its draw, fails on ids; the p-values are those of the ids the module chose.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { importPackage, root } from './package.mjs';

const [path, most = '1000'] = process.argv.slice(2);
const { load } = await importPackage();

const plan = { profiles: [] };
for (const line of readFileSync(join(root, 'fixtures/sampler/statistics_plan.txt'), 'utf8').split('\n')) {
  const [key, ...words] = line.split(' ');
  if (key === 'seeds') plan.seeds = words.map(BigInt);
  else if (key === 'profile') plan.profiles.push([words[0], Object.fromEntries(words.slice(1).map((w) => w.split('=')).map(([k, v]) => [k, Number(v)]))]);
  else if (['alpha', 'draws', 'tokens'].includes(key)) plan[key] = Number(words[0]);
}
const tests = ['ks_draw', 'ks_rank', 'chi2', 'tv'];
const level = plan.alpha / (plan.profiles.length * plan.seeds.length * tests.length);

/** The high word of a product of two u32. */
function high(a, b) {
  const low = (a & 0xffff) * (b & 0xffff);
  const first = (a >>> 16) * (b & 0xffff) + Math.floor(low / 65536);
  const second = (a & 0xffff) * (b >>> 16) + (first % 65536);
  return (a >>> 16) * (b >>> 16) + Math.floor(first / 65536) + Math.floor(second / 65536);
}

function philox(counter, key) {
  let [a, b, c, d] = counter;
  let [k, l] = key;
  for (let round = 0; round < 10; round++) {
    const p = high(0xd2511f53, a), q = high(0xcd9e8d57, c);
    const [x, y] = [Math.imul(0xcd9e8d57, c) >>> 0, Math.imul(0xd2511f53, a) >>> 0];
    [a, b, c, d] = [(q ^ b ^ k) >>> 0, x, (p ^ d ^ l) >>> 0, y];
    k = (k + 0x9e3779b9) >>> 0;
    l = (l + 0xbb67ae85) >>> 0;
  }
  return a;
}

assert.equal(philox([0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff], [0xffffffff, 0xffffffff]), 0x408f276d, 'known answer');

const M64 = (1n << 64n) - 1n;
function* draws(seed, { pcg, stream = 0 }) {
  if (!pcg) {
    const key = [Number(seed & 0xffffffffn), Number(seed >> 32n)];
    for (let step = 0; ; step++) yield philox([0, step, 0, stream], key);
  }
  const increment = ((BigInt(stream) << 1n) | 1n) & M64;
  let state = 0n;
  const next = () => {
    const old = state;
    state = (old * 6364136223846793005n + increment) & M64;
    const x = Number((((old >> 18n) ^ old) >> 27n) & 0xffffffffn), turn = Number(old >> 59n);
    return ((x >>> turn) | (x << (-turn & 31))) >>> 0;
  };
  next();
  state = (state + seed) & M64;
  next();
  for (;;) yield next();
}

/** What a profile makes of logits: ids and probabilities, best first. */
function expected({ temperature, top_k = 0, top_p = 1, min_p = 0, last }, logits) {
  const normal = (list, t) => {
    const best = Math.max(...list.map(([id]) => logits[id]));
    const weights = list.map(([id]) => Math.exp((logits[id] - best) / t));
    const total = weights.reduce((a, b) => a + b);
    return list.map(([id], at) => [id, weights[at] / total]);
  };
  const t = last ? 1 : temperature;
  let list = [...logits.keys()].sort((a, b) => logits[b] - logits[a] || a - b).map((id) => [id, 0]);
  if (top_k > 0) list.length = Math.min(list.length, top_k);
  list = normal(list, t);
  let before = 0;
  list = normal(list.filter(([, p]) => (before += p) - p < top_p), t);
  const best = list[0][1];
  return normal(list.filter(([, p]) => p >= min_p * best), temperature);
}

function kolmogorov(values) {
  values.sort();
  const n = values.length, root = Math.sqrt(n);
  const distance = values.reduce((most, x, i) => Math.max(most, x - i / n, (i + 1) / n - x), 0);
  const lambda = (root + 0.12 + 0.11 / root) * distance;
  if (lambda < 0.2) return 1;
  let sum = 0;
  for (let j = 1; j <= 100; j++) sum += (j % 2 ? 2 : -2) * Math.exp(-2 * j * j * lambda * lambda);
  return Math.min(1, Math.max(0, sum));
}

function logGamma(x) {
  let shift = 0;
  for (; x < 20; x++) shift += Math.log(x);
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + 1 / (12 * x) - 1 / (360 * x ** 3) + 1 / (1260 * x ** 5) - shift;
}

/** The regularised upper incomplete gamma function. */
function upperGamma(a, x) {
  if (x <= 0) return 1;
  const scale = Math.exp(a * Math.log(x) - x - logGamma(a));
  if (x < a + 1) {
    let term = 1 / a, sum = term;
    for (let k = 1; k < 1000; k++) sum += term *= x / (a + k);
    return 1 - sum * scale;
  }
  let b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (let k = 1; k < 1000; k++) {
    const an = -k * (k - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= d * c;
  }
  return h * scale;
}
assert(Math.abs(upperGamma(2.5, 11.07 / 2) - 0.05) < 1e-4, 'the 5 % point of chi-square with 5 degrees of freedom');

function chiSquare(right, counts, n) {
  let statistic = 0, cells = 0, rare = 0, rareCount = 0;
  right.forEach(([, p], rank) => {
    if (p * n < 5) [rare, rareCount] = [rare + p * n, rareCount + counts[rank]];
    else [statistic, cells] = [statistic + (counts[rank] - p * n) ** 2 / (p * n), cells + 1];
  });
  if (rare > 0) [statistic, cells] = [statistic + (rareCount - rare) ** 2 / rare, cells + 1];
  return upperGamma((cells - 1) / 2, statistic / 2);
}

/** The four p-values of a sequence of ids and draws. */
function values(right, ids, uniform, seed) {
  const rankOf = new Map(), before = [];
  right.reduce((sum, [id, p], rank) => (rankOf.set(id, rank), before.push(sum), sum + p), 0);
  const counts = right.map(() => 0), positions = [];
  const within = draws(seed ^ 0x9e3779b97f4a7c15n, {});
  let outside = 0;
  for (const id of ids) {
    const rank = rankOf.get(id);
    if (rank === undefined) outside++;
    else {
      counts[rank]++;
      positions.push(before[rank] + (within.next().value / 2 ** 32) * right[rank][1]);
    }
  }
  const n = ids.length;
  const tv = 0.5 * (right.reduce((sum, [, p], rank) => sum + Math.abs(counts[rank] / n - p), 0) + outside / n);
  const mean = 0.5 * right.reduce((sum, [, p]) => sum + Math.sqrt((p * (1 - p)) / n), 0);
  return [
    kolmogorov(Float64Array.from(uniform)), kolmogorov(Float64Array.from(positions)),
    outside > 0 ? 0 : chiSquare(right, counts, n), tv > mean ? Math.exp(-2 * n * (tv - mean) ** 2) : 1,
  ];
}

const choose = (list, u) => {
  let sum = 0;
  return list.find(([, p]) => (sum += p) > u)?.[0] ?? list.at(-1)[0];
};

const model = await load(path, { context: plan.draws + 1 });
const logits = [...model.logits([256])].slice(0, plan.tokens);
console.log(`level ${level.toExponential(3)} = ${plan.alpha} / ${Math.round(plan.alpha / level)} tests`);
console.log(['profile '.padEnd(8), 'seed'.padStart(20), ...tests.map((t) => t.padStart(9))].join(' '));
const least = tests.map(() => 1);
let failures = 0, broken = 0;
for (const [name, profile] of plan.profiles) {
  const right = expected(profile, logits);
  for (const seed of plan.seeds.slice(0, Number(most))) {
    const { ids } = await model.generate([256], {
      temperature: profile.temperature, topK: profile.top_k ?? 0, topP: profile.top_p ?? 1, minP: profile.min_p ?? 0,
      temperatureLast: Boolean(profile.last), prng: profile.pcg ? 'pcg32' : 'philox', stream: profile.stream ?? 0, seed,
      maxTokens: plan.draws, ignoreEos: true, logprobs: false,
    }).run();
    assert.equal(ids.length, plan.draws);
    const source = draws(seed, profile);
    const uniform = ids.map(() => source.next().value / 2 ** 32);
    // Two programs round sums differently; a draw within 1e-12 of an edge may fall on either side.
    ids.forEach((id, at) => assert(id === choose(right, uniform[at]) || id === choose(right, uniform[at] + 1e-12) || id === choose(right, uniform[at] - 1e-12), `${name} ${seed}: draw ${at}`));
    const p = values(right, ids, uniform, seed);
    p.forEach((p, at) => {
      least[at] = Math.min(least[at], p);
      failures += p < level;
    });
    console.log([name.padEnd(8), String(seed).padStart(20), ...p.map((p) => p.toExponential(2).padStart(9))].join(' '));
    if (seed === plan.seeds[0]) {
      // Broken on purpose: the next interval, no temperature, 16 different draws.
      const cold = expected({ ...profile, temperature: profile.temperature === 1 ? 2 : 1 }, logits);
      const next = new Map(right.map(([id], rank) => [id, right[(rank + 1) % right.length][0]]));
      const coarse = uniform.map((u) => Math.floor(u * 16) / 16);
      for (const [ids2, uniform2] of [
        [ids.map((id) => next.get(id)), uniform], [uniform.map((u) => choose(cold, u)), uniform], [coarse.map((u) => choose(right, u)), coarse],
      ]) broken += values(right, ids2, uniform2, seed).some((p) => p < level);
    }
  }
}
console.log(['least'.padEnd(8), ''.padStart(20), ...least.map((p) => p.toExponential(2).padStart(9))].join(' '));
console.log(`${failures === 0 ? 'passed' : 'FAILED'}: ${failures} tests below the level; ${broken} of ${3 * plan.profiles.length} samplers broken on purpose refused`);
process.exitCode = failures === 0 && broken === 3 * plan.profiles.length ? 0 : 1;
