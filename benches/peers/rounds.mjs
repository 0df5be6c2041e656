// What the comparisons with peers share: prompts, our own builds, interleaved rounds, medians and ratios within a round.

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { root } from '../../shell-wasm/js/test/package.mjs';
import { load } from '../../shell-wasm/js/dist/tinyrustlm.js';

const TEXT = `The harbour lay quiet in the early morning, and the first boats were already out beyond the pier. An old man sat on a crate,
mending a net with slow, certain hands, while gulls argued over something shiny in the shallow water. He had seen storms that tore roofs
from houses and calms that lasted for weeks, and he trusted neither. When the girl from the bakery came by with a warm loaf under her arm,
he nodded without looking up, and said that the wind would turn before noon. She laughed, for the sky was clear from one end to the other,
but she did not hang out the washing that day. By noon`;
// A first word of its own for every round: nobody can reuse what the round before has read.
const promptOf = (round) => `${['One', 'Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight', 'Nine', 'Ten'][round % 10]}. ${TEXT}`;
export const LIMIT = 2 ** 31 - 1;

/** Greedy, `count` tokens whatever they are. */
export const optionsOf = (count) => ({ temperature: 0, maxTokens: count, ignoreEos: true, logprobs: false });

export const figures = ({ promptTokens, ids, diagnostics: { performance_metrics: times } }) => ({
  // The time to the first token holds tokenizing and the first choice too.
  prefill: (promptTokens * 1000) / times.time_to_first_token_ms, decode: times.tokens_per_second, prompt: promptTokens, generated: ids.length, ids,
});

/** Our module with SIMD in this process: the model, and what runs a text or ids. */
export async function inNode(slm, count) {
  const model = await load(slm, { maxModelBytes: LIMIT, simd: true });
  return {
    model,
    async run(prompt) {
      model.reset();
      return figures(await model.generate(prompt, optionsOf(count)).run());
    },
  };
}

/** Standard output of a program. */
export const output = (program, args) => execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 26 });

/** Our native build on one thread. */
export const native = (slm, count) => (prompt) => {
  const input = typeof prompt === 'string' ? ['-p', prompt] : ['--ids', String(prompt)];
  const args = ['run', slm, '--json', '--threads', '1', '--temperature', '0', '--ignore-eos', '-n', String(count), ...input];
  const out = JSON.parse(output(join(root, 'target/release/slm'), args));
  return figures({ promptTokens: out.prompt_ids.length, ids: out.ids, diagnostics: out.diagnostics });
};

/** Runs everyone in turn, `rounds` times after one to warm up, on the prompts `form` makes of the texts. */
export async function interleave(who, rounds, form = (text) => text) {
  for (const run of Object.values(who)) await run(form(promptOf(9)));
  const rows = Object.fromEntries(Object.keys(who).map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    const prompt = form(promptOf(round));
    for (const [name, run] of Object.entries(who)) rows[name].push(await run(prompt));
  }
  return rows;
}

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const cell = (number) => number.toFixed(2).padStart(9);

export const of = (rows, name, what) => median(rows[name].map((row) => row[what]));

/** The rows' medians, [name, title] each, and the medians of ratios within a round, [name, name, title] each. */
export function print(rows, titles, ratios) {
  const ratio = (a, b, what) => median(rows[a].map((row, round) => row[what] / rows[b][round][what]));
  const width = Math.max(...[...titles, ...ratios].map((row) => row.at(-1).length));
  console.log(`${''.padEnd(width)}   prefill   decode  tokens a second, medians`);
  for (const [name, title] of titles) console.log(`${title.padEnd(width)} ${cell(of(rows, name, 'prefill'))}${cell(of(rows, name, 'decode'))}`);
  for (const [a, b, title] of ratios) console.log(`${title.padEnd(width)} ${cell(ratio(a, b, 'prefill'))}${cell(ratio(a, b, 'decode'))}  times`);
}
