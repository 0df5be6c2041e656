// The chat page in Chromium, started by the README's command: load, chat, stop, reset, clear, free, every error, offline.
//     node --test shell-wasm/js/test/page.mjs        needs shell-wasm/build.sh, target/release/slm and Chromium
// Screenshots of each state, desktop and phone, are left in target/page/.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startChromium } from './browser/chromium.mjs';
import { serve } from './browser/serve.mjs';
import { REPLIES, makeSpeaker } from './browser/speaker.mjs';
import { root } from './package.mjs';

const artefacts = join(root, 'target/page');
mkdirSync(artefacts, { recursive: true });
const browser = await startChromium('the page');
const speaker = makeSpeaker(artefacts, process.env.SLM ?? join(root, 'target/release/slm'));

/** The page's server, as the README starts it; `log` has a line for each request. */
async function startPage() {
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const { port } = free.address();
  free.close();
  const server = spawn('python3', ['-m', 'http.server', '-d', join(root, 'shell-wasm/web'), String(port)], { stdio: ['ignore', 'ignore', 'pipe'] });
  const log = [];
  server.stderr.on('data', (data) => log.push(...String(data).trim().split('\n')));
  const url = `http://localhost:${port}/`;
  for (let tries = 0; ; tries++) {
    if (await fetch(url).then((answer) => answer.ok, () => false)) return { url, log, stop: () => (server.kill(), once(server, 'exit')) };
    assert.ok(tries < 100, 'the page has no server');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const site = await startPage();
const models = await serve(artefacts);
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const page = await context.newPage();
page.setDefaultTimeout(15_000);
const requests = [];
const faults = [];
context.on('request', (request) => requests.push(request.url()));
page.on('pageerror', (error) => faults.push(error));
// What the page asks of its worker.
await page.addInitScript(() => {
  window.asked = [];
  const send = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    window.asked.push(message);
    return send.call(this, message, ...rest);
  };
});
page.on('crash', () => faults.push(new Error('the page crashed')));
after(async () => {
  await browser.close();
  await site.stop().catch(() => {});
  await models.close();
});

const shown = (id) => page.locator(`#${id}`).isVisible();
const text = (id) => page.locator(`#${id}`).textContent();
const address = (fault = '') => `${models.base}/speaker.slm${fault && `/${fault}`}`;

/** A picture of this state, and nothing on it wider than the window. */
async function picture(name, where = page) {
  await where.screenshot({ path: join(artefacts, `${name}.png`) });
  assert.ok(await where.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}: the page scrolls sideways`);
}

async function loadAddress(url) {
  await page.fill('#url', url);
  await page.click('#url-form button');
}

async function loaded() {
  await page.locator('#talk').waitFor();
  assert.equal(await shown('start'), false);
}

/** Writes a message and presses Enter. */
async function say(message) {
  await page.fill('#input', message);
  await page.press('#input', 'Enter');
}

/** The last reply of the model, once it has ended. */
async function reply() {
  await page.waitForFunction(() => document.querySelector('.message.model:last-of-type .foot')?.textContent);
  await page.waitForFunction(() => !document.querySelector('.message.running') && document.getElementById('stop').hidden);
  const last = page.locator('.message.model').last();
  return { text: await last.locator('.text').textContent(), foot: await last.locator('.foot').textContent(), body: last.locator('.text') };
}

async function refused(pattern) {
  await page.locator('#start-error').waitFor();
  const said = await text('start-error');
  assert.match(said, pattern);
  assert.equal(await shown('loading'), false);
  assert.equal(await shown('talk'), false);
  return said;
}

test('the page opens without an error', async () => {
  await page.goto(site.url);
  assert.equal(await page.title(), 'TinyRustLM');
  assert.ok(await shown('drop'));
  await picture('desktop-start');
  // Everything one can press has a name.
  const nameless = await page.$$eval('button, input, textarea, a, summary', (all) =>
    all.filter((e) => !(e.textContent.trim() || e.title || e.ariaLabel || e.labels?.length)).map((e) => e.outerHTML));
  assert.deepEqual(nameless, []);
});

const ERRORS = [
  ['missing', /HTTP 404.*Check the address.*590, Network/],
  ['page', /damaged or no SLM1 model.*InvalidModelMagic/],
  ['damaged', /damaged or no SLM1 model.*Checksum/],
  ['cut', /Check the address and the connection.*590, Network/],
];
for (const [fault, pattern] of ERRORS) {
  test(`an address that is ${fault}`, async () => {
    await loadAddress(address(fault));
    await refused(pattern);
    if (fault === 'cut') await picture('desktop-error');
  });
}

test('an address where nobody answers', async () => {
  await loadAddress('http://127.0.0.1:1/none.slm');
  await refused(/590, Network/);
});

test('files of another kind', async () => {
  await page.setInputFiles('#file', { name: 'cat.png', mimeType: 'image/png', buffer: Buffer.from('\x89PNG\r\n\x1a\n....', 'latin1') });
  await refused(/cat\.png was not loaded.*InvalidModelMagic/);
  await page.setInputFiles('#file', { name: 'empty.slm', mimeType: '', buffer: Buffer.alloc(0) });
  await refused(/empty\.slm was not loaded.*FileTooShort/);
  await page.setInputFiles('#file', { name: 'half.slm', mimeType: '', buffer: readFileSync(speaker).subarray(0, 1_000_000) });
  await refused(/half\.slm was not loaded.*ended after/);
});

test('a file above the limit is refused before it is fetched', async () => {
  await page.click('.options summary');
  await page.fill('#max-bytes', '1');
  await loadAddress(address());
  await refused(/maxModelBytes.*TransferCeilingExceeded/i);
  await page.fill('#max-bytes', '128');
  await page.fill('#context', '60000');
});

test('loading can be cancelled', async () => {
  await loadAddress(address('slow'));
  await page.waitForFunction(() => document.getElementById('loading-bar').value > 0.3);
  assert.match(await text('loading-figures'), /1\.\d MiB of 3\.7 MiB/);
  assert.match(await text('loading-plan'), /of weights, and .* for 60000 tokens/);
  await picture('desktop-loading');
  await page.click('#loading-cancel');
  await page.waitForFunction(() => document.getElementById('loading').hidden);
  assert.equal(await shown('start-error'), false, 'who cancels needs no error');
  assert.equal(await shown('talk'), false);
});

test('a model is loaded from an address', async () => {
  await loadAddress(address());
  await loaded();
  assert.match(await text('model-name'), /speaker\.slm · f32 · 3\.7 MiB/);
  assert.ok(requests.includes(address()), 'requests are seen here');
  assert.ok(models.seen.includes('/speaker.slm'));
});

let before;
test('a reply streams in, and no broken character is ever seen', async () => {
  before = { requests: requests.length, log: site.log.length, models: models.seen.length };
  await page.evaluate(() => {
    window.seen = new Set();
    new MutationObserver(() => {
      for (const body of document.querySelectorAll('.message.model .text')) window.seen.add(body.textContent);
    }).observe(document.getElementById('log'), { subtree: true, childList: true, characterData: true });
  });
  await say('Hello!');
  const { text: said, foot } = await reply();
  assert.equal(said, REPLIES['!'].text);
  assert.match(foot, /^\d+ tokens · [\d.]+ tokens\/s/);
  const seen = await page.evaluate(() => [...window.seen]);
  assert.ok(seen.every((part) => !part.includes('\ufffd')), 'a cut character was shown');
  assert.ok(seen.every((part) => REPLIES['!'].text.startsWith(part)));
  assert.equal(await page.locator('.message.user').textContent(), 'Hello!');
});

test('marks stand over their letters, whichever token brought them', async () => {
  // The same text set as one string elsewhere must have the same width.
  const widths = await page.evaluate((whole) => {
    const body = [...document.querySelectorAll('.message.model .text')].at(-1);
    const width = (element) => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return range.getBoundingClientRect().width;
    };
    const copy = body.cloneNode();
    copy.textContent = whole;
    body.after(copy);
    const result = [width(body), width(copy)];
    copy.remove();
    return result;
  }, REPLIES['!'].text);
  assert.ok(Math.abs(widths[0] - widths[1]) < 0.5 && widths[0] > 100, String(widths));
});

test('right-to-left text runs right to left', async () => {
  await say('Hello.');
  const { text: said, body } = await reply();
  assert.equal(said, REPLIES['.'].text);
  const [first, second, box] = await body.evaluate((element) => {
    const place = (at) => {
      let left = at;
      for (const node of element.childNodes) {
        if (left < node.length) {
          const range = document.createRange();
          range.setStart(node, left);
          range.setEnd(node, left + 1);
          return range.getBoundingClientRect();
        }
        left -= node.length;
      }
    };
    return [place(0).right, place(1).right, element.getBoundingClientRect().right];
  });
  assert.ok(first > second, 'the second letter stands left of the first');
  assert.ok(box - first < 40, 'it begins at the right edge');
  // And in what one writes.
  await say('שלום.');
  await reply();
});

test('a reply that ends inside a character shows that, and a reply is text, not markup', async () => {
  await say('Hello#');
  assert.equal((await reply()).text, 'ok \ufffd');
  await say('<i>Hello</i>:');
  const { text: said, body } = await reply();
  assert.equal(said, REPLIES[':'].text);
  assert.equal(await body.evaluate((element) => element.children.length), 0);
  assert.equal(await page.locator('.message.user').last().locator('.text').evaluate((element) => element.children.length), 0);
});

test('a lone surrogate is refused with words, and the conversation goes on', async () => {
  const count = await page.locator('.message').count();
  await page.evaluate(() => (document.getElementById('input').value = 'a\ud83d!'));
  await page.press('#input', 'Enter');
  await page.locator('#talk-error').waitFor();
  assert.match(await text('talk-error'), /Error \d+/);
  await picture('desktop-refused');
  await say('Hello!');
  assert.equal((await reply()).text, REPLIES['!'].text);
  assert.equal(await shown('talk-error'), false);
  assert.equal(await page.locator('.message').count(), count + 4);
});

test('the panel tells tokens, report and model', async () => {
  if (!(await shown('panel'))) await page.click('#panel-toggle');
  await page.click('#tab-tokens');
  const count = Number(/^\d+/.exec((await reply()).foot)[0]);
  await page.waitForFunction((count) => document.querySelectorAll('#tokens button').length === count, count);
  await page.click('#tokens button >> nth=2');
  assert.match(await text('token-facts'), /Id.*Probability1?\d?\d?\.?\d* %.*Log-probability-?0\./);
  await picture('desktop-tokens');
  await page.click('#tab-report');
  const report = JSON.parse(await page.locator('#report-json').textContent());
  assert.equal(report.generation_stage.generated_tokens, count);
  assert.equal(report.host.worker, true, 'the model runs in a worker');
  assert.equal(report.host.cross_origin_isolated, false, 'no special headers are needed');
  await page.click('#tab-card');
  assert.match(await text('card-facts'), /Familyllama.*Vocabulary\d+.*Context65/);
  await picture('desktop-model');
  await page.click('#tab-settings');
  await page.check('input[name=preset][value=greedy]', { force: true });
  assert.equal(await text('temperature-value'), 'greedy');
});

test('the reading of a long message is stopped too', async () => {
  await say(`${'a long message '.repeat(2000)}!`);
  await page.waitForFunction(() => /^Reading, [1-9]\d* of \d{5} tokens/.test(document.getElementById('status').textContent));
  const pressed = Date.now();
  await page.click('#stop');
  const { text: said, foot } = await reply();
  assert.ok(Date.now() - pressed < 3000, 'it stops at once');
  assert.match(foot, /^Stopped after 0 tokens/);
  assert.equal(said, '');
  await say('Hello!');
  assert.equal((await reply()).text, REPLIES['!'].text);
});

test('a reply is stopped by the button and by Escape, and the next one is whole', async () => {
  await page.fill('#maxTokens', '50000');
  for (const stop of [() => page.click('#stop'), () => page.keyboard.press('Escape')]) {
    await say('Hello?');
    await page.waitForFunction(() => [...document.querySelectorAll('.message.model .text')].at(-1).textContent.length > 30);
    assert.ok(await shown('stop'));
    assert.ok(await page.locator('#reset').isDisabled());
    await stop();
    const { text: said, foot } = await reply();
    assert.match(foot, /^Stopped after \d+ tokens/);
    assert.ok(REPLIES['?'].text.repeat(20_000).startsWith(said), 'what came is kept');
    assert.ok(said.length < 40_000);
  }
  await say('Hello!');
  assert.equal((await reply()).text, REPLIES['!'].text);
});

const used = async () => Number(/^\d+/.exec(await text('usage'))[0]);
test('reset forgets and keeps the text, clear removes it too', async () => {
  const full = await used();
  await page.click('#reset');
  assert.match(await page.locator('.cut').textContent(), /has forgotten/);
  assert.ok((await page.locator('.message.past').count()) > 4);
  await say('Hello!');
  await reply();
  const fresh = await used();
  assert.ok(fresh < full && fresh < 80, `${fresh} tokens after ${full}`);
  await picture('desktop-reset');
  await page.click('#clear');
  assert.equal(await page.locator('.message').count(), 0);
  await say('Hello!');
  assert.equal((await reply()).text, REPLIES['!'].text);
  assert.equal(await used(), fresh);
});

test('what is typed is read along, unless that is turned off', async () => {
  const lastRead = () => page.evaluate(() => window.asked.filter(({ type }) => type === 'prepare').at(-1)?.args[0].at(-1).content);
  const isRead = (words) => page.waitForFunction(
    (words) => window.asked.filter(({ type }) => type === 'prepare').at(-1)?.args[0].at(-1).content === words, words);
  await page.click('#clear');
  await isRead('');
  await page.type('#input', 'Hello the', { delay: 10 });
  await isRead('Hello the');
  // In the middle of reading: the reply does not wait for its end, and is the same.
  await page.type('#input', 're!');
  await page.press('#input', 'Enter');
  assert.equal((await reply()).text, REPLIES['!'].text);
  await isRead('');

  if (!(await shown('panel'))) await page.click('#panel-toggle');
  await page.click('#tab-settings');
  await page.click('#read-ahead');
  await page.fill('#input', 'Not yet');
  await page.waitForTimeout(400);
  assert.equal(await lastRead(), '');
  await page.click('#read-ahead');
  await page.fill('#input', 'Now');
  await isRead('Now');
  await page.fill('#input', '');
});

test('a reply at its longest says so', async () => {
  await page.click('#clear');
  await page.fill('#maxTokens', '12');
  await page.press('#maxTokens', 'Tab');
  await say('Hello?');
  assert.match((await reply()).foot, /^12 tokens.*longest reply reached/);
  await page.fill('#maxTokens', '500');
  await page.press('#maxTokens', 'Tab');
});

test('nothing that was written left the page', () => {
  assert.deepEqual(requests.slice(before.requests), []);
  // The browser itself may ask whether the service worker is still the same.
  assert.deepEqual(site.log.slice(before.log).filter((line) => !/"GET \/(sw|lib\/files)\.js HTTP/.test(line)), []);
  assert.deepEqual(models.seen.slice(before.models), []);
});

test('a worker reads ahead as the page itself does', async () => {
  const seen = await page.evaluate(async (address) => {
    const { load } = await import('./lib/tinyrustlm.js');
    const runs = [];
    for (const worker of [true, false]) {
      const model = await load(address, { worker, cache: false });
      const messages = (end) => [{ role: 'user', content: `${'as it was in the beginning '.repeat(12)}${end}` }];
      const tokens = await model.prepare(messages('another end'));
      const seen = [];
      const { text, promptTokens } = await model.chat(messages('!'), { maxTokens: 500, onProgress: ({ loaded }) => seen.push(loaded) }).run();
      const refused = await model.prepare(messages('!'), { signal: AbortSignal.abort() }).then(() => '', ({ name }) => name);
      runs.push({ text, refused, again: seen.length, whole: seen[0] === promptTokens, more: tokens > promptTokens && promptTokens > 128 });
      model.free();
    }
    return runs;
  }, address());
  const expected = { text: REPLIES['!'].text, refused: 'AbortError', again: 1, whole: true, more: true };
  assert.deepEqual(seen, [expected, expected]);
});

test('free gives the model back', async () => {
  await page.click('#free');
  await page.locator('#start').waitFor();
  assert.equal(await shown('talk'), false);
  for (const id of ['reset', 'clear', 'free']) assert.equal(await shown(id), false);
});

test('a file is chosen, and another is dropped', async () => {
  await page.setInputFiles('#file', speaker);
  await loaded();
  await say('Hello!');
  assert.equal((await reply()).text, REPLIES['!'].text);
  await page.click('#free');
  await page.locator('#start').waitFor();
  const data = await page.evaluateHandle((base64) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], 'dropped.slm'));
    return transfer;
  }, readFileSync(speaker).toString('base64'));
  await page.dispatchEvent('#drop', 'dragenter', { dataTransfer: data });
  assert.ok(await page.evaluate(() => document.body.classList.contains('dragging')));
  await page.dispatchEvent('#drop', 'drop', { dataTransfer: data });
  await loaded();
  assert.match(await text('model-name'), /^dropped\.slm/);
});

test('without any server, page and model open from what the browser keeps', async () => {
  await page.evaluate(() => navigator.serviceWorker.ready);
  await site.stop();
  await models.close();
  await page.reload();
  await page.locator('#known-list button').click();
  await loaded();
  await say('Hello!');
  assert.equal((await reply()).text, REPLIES['!'].text);
  // The address it came from works as well, though nobody answers there any more.
  await page.click('#free');
  await loadAddress(address());
  await loaded();
});

test('the page on a phone, dark', async () => {
  const phone = await context.browser().newContext({
    viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: 'dark',
  });
  const again = await startPage();
  try {
    const small = await phone.newPage();
    small.on('pageerror', (error) => faults.push(error));
    await small.goto(again.url);
    await picture('phone-start', small);
    await small.setInputFiles('#file', { name: 'cat.slm', mimeType: '', buffer: Buffer.from('cat') });
    await small.locator('#start-error').waitFor();
    await picture('phone-error', small);
    await small.setInputFiles('#file', speaker);
    await small.locator('#talk').waitFor();
    for (const message of ['Hello!', 'Hello.']) {
      await small.fill('#input', message);
      await small.tap('#send');
      await small.waitForFunction((count) => document.querySelectorAll('.message.model .foot:not(:empty)').length === count, message === 'Hello!' ? 1 : 2);
    }
    assert.equal(await small.locator('.message.model .text').last().textContent(), REPLIES['.'].text);
    await picture('phone-chat', small);
    await small.tap('#panel-toggle');
    await picture('phone-settings', small);
    await small.tap('#tab-tokens');
    await picture('phone-tokens', small);
    // Fingers need room.
    const cramped = await small.$$eval('button', (all) => all.map((b) => [b.id, b.getBoundingClientRect()]).filter(([id, r]) => id && r.width && (r.height < 24 || r.width < 24)).map(([id]) => id));
    assert.deepEqual(cramped, []);
  } finally {
    await again.stop();
    await phone.close();
  }
});

test('no script of the page ever failed', () => assert.deepEqual(faults, []));
