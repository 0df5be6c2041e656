// What a person feels on the page, with a real model in Chromium: how long the page's own thread is ever busy while it loads and
// writes, and how long a prompt of 30 tokens waits for its first visible token, beside the native program in the same minutes. The page
// reads what stands before the message ahead, and the message too while it is typed. Judged is a message that is pasted and sent at once.
//     node shell-wasm/js/test/ui.mjs MODEL.slm [ROUNDS] [TOKENS]        SLM=program: the native one, target/release/slm by default
// Exit code 1 when a task of the page's thread ran for more than 50 ms (the time it waited for a core is printed, not judged: that is
// the machine's), or the first token more than 1.5 times the native time on one
// thread (the module has one) and a frame.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { startChromium } from './browser/chromium.mjs';
import { serve } from './browser/serve.mjs';
import { importPackage, root } from './package.mjs';

const [path, rounds = '7', tokens = '96'] = process.argv.slice(2);
if (!path) {
  console.log('SKIPPED the page with a real model: no model given (node shell-wasm/js/test/ui.mjs MODEL.slm)');
  process.exit(0);
}
const TASK_MS = 50, RATIO = 1.5, FRAME_MS = 1000 / 60, PROMPT = 30, KEY_MS = 60, IDLE_MS = 1000;
const slm = process.env.SLM ?? join(root, 'target/release/slm');
const system = 'Be brief.';

const { load } = await importPackage();
const model = await load(path, { maxModelBytes: 2 ** 31 - 1 });
const messagesOf = (user) => [{ role: 'system', content: system }, { role: 'user', content: user }];
let user = 'Why';
for (const word of ' is the sky blue at noon and so very red in the evening and never green at all in any place that you know of'.split(/(?= )/)) {
  if (model.countTokens(messagesOf(user)) >= PROMPT) break;
  user += word;
}
const promptTokens = model.countTokens(messagesOf(user));
model.free();

const browser = await startChromium('the page with a real model');
const server = await serve(join(root, 'shell-wasm/web'), dirname(resolve(path)));
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
page.setDefaultTimeout(300_000);
await page.addInitScript(() => {
  window.long = [];
  new PerformanceObserver((list) => window.long.push(...list.getEntries().map((e) => Math.round(e.duration)))).observe({ entryTypes: ['longtask'] });
  // From the key that sends to the frame after the one that drew the first token.
  addEventListener('keydown', (event) => event.key === 'Enter' && (window.sent = performance.now()), true);
  addEventListener('DOMContentLoaded', () =>
    new MutationObserver(() => {
      const bodies = document.querySelectorAll('.message.model .text');
      if (window.sent && bodies.length && bodies[bodies.length - 1].textContent) {
        const since = window.sent;
        window.sent = undefined;
        const channel = new MessageChannel();
        channel.port1.onmessage = () => (window.visible = performance.now() - since);
        requestAnimationFrame(() => channel.port2.postMessage(0));
      }
    }).observe(document.getElementById('log'), { subtree: true, childList: true, characterData: true }));
});

async function reply(count, typed = false) {
  await page.evaluate(() => (window.visible = undefined));
  await page.fill('#maxTokens', String(count));
  if (typed) await page.type('#input', user, { delay: KEY_MS });
  else await page.fill('#input', user);
  await page.press('#input', 'Enter');
  await page.waitForFunction(() => window.visible && !document.querySelector('.message.running') && document.getElementById('stop').hidden);
  const report = JSON.parse(await page.locator('#report-json').textContent());
  return { visible: await page.evaluate(() => window.visible), report };
}

const artefacts = join(root, 'target/page');
mkdirSync(artefacts, { recursive: true });
const trace = join(artefacts, 'trace.json');
await page.goto(`${server.base}/index.html`);
await page.waitForLoadState('networkidle');
await page.evaluate(() => (window.long.length = 0));
await browser.startTracing(page, { path: trace, categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline', '__metadata'] });
const began = Date.now();
await page.evaluate((mib) => (document.getElementById('max-bytes').value = mib), Math.ceil(statSync(path).size / (1 << 20)) + 1);
await page.fill('#url', `${server.base}/${basename(path)}`);
await page.click('#url-form button');
await page.locator('#talk').waitFor();
const loaded = Date.now();
await page.evaluate((text) => (document.getElementById('system').value = text), system);
const first = await reply(Number(tokens));
await browser.stopTracing();
const long = await page.evaluate(() => window.long);

const { traceEvents } = JSON.parse(readFileSync(trace, 'utf8'));
const mains = new Set(traceEvents.filter((e) => e.name === 'thread_name' && e.args.name === 'CrRendererMain').map((e) => `${e.pid} ${e.tid}`));
const onMain = traceEvents.filter((e) => e.ph === 'X' && mains.has(`${e.pid} ${e.tid}`));
const within = (e, task) => e.pid === task.pid && e.tid === task.tid && e.ts >= task.ts && e.ts + e.dur <= task.ts + task.dur;
// What this test's own driver puts into the page is none of the page's work.
const driven = onMain.filter((e) => e.name === 'Receive mojo message' && e.args.chrome_mojo_event_info?.mojo_interface_tag === 'blink.mojom.DevToolsSession');
const all = onMain.filter((e) => e.name === 'RunTask');
const tasks = all.filter((task) => !driven.some((e) => within(e, task)));
const worst = tasks.reduce((a, b) => (b.dur > a.dur ? b : a), { dur: 0 });
const over = tasks.filter((e) => (e.tdur ?? e.dur) > TASK_MS * 1000).length;
const waited = tasks.filter((e) => e.dur > TASK_MS * 1000).length - over;
const busiest = Math.max(...tasks.map((e) => e.tdur ?? e.dur));
console.log(`${basename(path)}: loaded in ${loaded - began} ms, ${first.report.generation_stage.generated_tokens} tokens at ${first.report.performance_metrics.tokens_per_second} a second`);
console.log(`page's thread: ${tasks.length} tasks traced (and ${all.length - tasks.length} of this test's driver), the busiest ran ${(busiest / 1000).toFixed(1)} ms, ${over} over ${TASK_MS} ms; with waiting for a core the longest took ${(worst.dur / 1000).toFixed(1)} ms, ${waited} more over ${TASK_MS} ms; long tasks the page saw itself: ${long.length ? `${long.join(', ')} ms` : 'none'}`);

/** The native program's own time to first token. */
function native(threads) {
  const args = ['chat', path, '--json', '-n', '2', ...(threads ? ['--threads', String(threads)] : [])];
  const out = execFileSync(slm, args, { input: JSON.stringify({ messages: messagesOf(user) }) + '\n', encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] });
  const { generation_stage, performance_metrics } = JSON.parse(out).diagnostics;
  if (generation_stage.prompt_tokens !== promptTokens) throw new Error('the prompts differ');
  return performance_metrics.time_to_first_token_ms;
}

/** A reply in a conversation that began a second ago. */
async function fromPage(readAhead, typed) {
  await page.evaluate((on) => (document.getElementById('read-ahead').checked = on), readAhead);
  await page.click('#clear');
  await page.waitForTimeout(IDLE_MS);
  const { visible, report } = await reply(2, typed);
  if (report.generation_stage.prompt_tokens !== promptTokens) throw new Error(`the page's prompt has ${report.generation_stage.prompt_tokens} tokens`);
  return visible;
}

const times = { one: [], all: [], page: [], typed: [], cold: [] };
for (let round = 0; round < Number(rounds); round++) {
  await page.waitForTimeout(IDLE_MS); // the page is idle while the native program runs
  times.one.push(native(1));
  times.all.push(native());
  times.page.push(await fromPage(true, false));
  times.typed.push(await fromPage(true, true));
  times.cold.push(await fromPage(false, false));
}
const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const m = Object.fromEntries(Object.entries(times).map(([name, list]) => [name, median(list)]));
const bar = RATIO * m.one + FRAME_MS;
console.log(`first token of ${promptTokens} tokens, medians of ${rounds} rounds: native ${m.one.toFixed(0)} ms on one thread, ${m.all.toFixed(0)} ms on all; ` +
  `visible on the page after ${m.page.toFixed(0)} ms: ${(m.page / m.one).toFixed(2)} and ${(m.page / m.all).toFixed(2)} times; bar ${bar.toFixed(0)} ms; ` +
  `${m.typed.toFixed(0)} ms when the message is typed, a key every ${KEY_MS} ms; ${m.cold.toFixed(0)} ms when nothing is read ahead`);
await browser.close();
await server.close();
const failed = [over > 0 && `${over} tasks over ${TASK_MS} ms`, m.page > bar && `the first token comes after ${m.page.toFixed(0)} ms, later than ${bar.toFixed(0)} ms`].filter(Boolean);
console.log(failed.length ? `FAILED: ${failed.join('; ')}` : 'ok');
process.exit(failed.length ? 1 : 0);
