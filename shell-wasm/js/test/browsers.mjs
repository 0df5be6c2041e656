// The page and the package in Firefox and WebKitGTK: the same ids as in Node, with and without SIMD, and a reply on the page.
//     node shell-wasm/js/test/browsers.mjs       needs shell-wasm/build.sh, target/release/slm, and the browsers; what is missing is SKIPPED

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { findProgram } from './browser/chromium.mjs';
import { startFirefox } from './browser/firefox.mjs';
import { serve } from './browser/serve.mjs';
import { REPLIES, makeSpeaker } from './browser/speaker.mjs';
import { findMiniBrowser, startWebKit } from './browser/webkit.mjs';
import { importPackage, root } from './package.mjs';

const folder = join(root, 'target/page');
mkdirSync(folder, { recursive: true });
const speaker = makeSpeaker(folder, process.env.SLM ?? join(root, 'target/release/slm'));
const server = await serve(join(root, 'shell-wasm/web'), folder);
const MESSAGES = [{ role: 'user', content: 'Hello!' }];
const OPTIONS = { temperature: 1.3, seed: 4, maxTokens: 100 };

const { load } = await importPackage();
const model = await load(speaker, { context: 512 });
const expected = (await model.chat(MESSAGES, OPTIONS).run()).ids;
assert.equal(model.detokenize(expected), REPLIES['!'].text);

/** In the page: ids of a reply in a worker and beside the page, then the page's own conversation. */
async function work([messages, options]) {
  const { load, hasSimd } = await import('./lib/tinyrustlm.js');
  const runs = [];
  for (const [worker, simd] of [[true, undefined], [false, undefined], [true, false]]) {
    const model = await load('speaker.slm', { worker, simd, context: 512, cache: false });
    runs.push((await model.chat(messages, options).run()).ids);
    model.free();
  }
  const until = async (ready) => {
    for (let tries = 0; tries < 1500; tries++) {
      const found = ready();
      if (found) return found;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`the page did not get there: ${document.body.innerText}`);
  };
  const $ = (id) => document.getElementById(id);
  $('url').value = new URL('speaker.slm', location.href).href;
  $('url-form').requestSubmit();
  await until(() => !$('talk').hidden);
  $('input').value = messages[0].content;
  $('composer').requestSubmit();
  const foot = await until(() => document.querySelector('.message.model .foot')?.textContent);
  return { runs, simd: hasSimd(), foot, reply: document.querySelector('.message.model .text').textContent };
}

const firefox = findProgram(process.env.FIREFOX, 'firefox-esr', 'firefox');
const [driver, xvfb, mini] = [findProgram('WebKitWebDriver'), findProgram('Xvfb'), findMiniBrowser()];
const browsers = [
  ['Firefox', firefox && (() => startFirefox(firefox)), 'firefox-esr'],
  ['WebKitGTK', driver && xvfb && mini && (() => startWebKit(driver, xvfb, mini)), 'webkit2gtk-driver xvfb'],
];
let passed = 0;
for (const [name, start, packages] of browsers) {
  if (!start) {
    console.log(`SKIPPED ${name}: not found (apt-get install ${packages})`);
    continue;
  }
  let browser;
  try {
    browser = await start();
  } catch (error) {
    // Nothing of ours has run yet.
    console.log(`SKIPPED ${name}: it does not start here: ${error.message}`);
    continue;
  }
  try {
    const { runs, simd, foot, reply } = await browser.run(`${server.base}/index.html`, work, [MESSAGES, OPTIONS]);
    for (const ids of runs) assert.deepEqual(ids, expected, name);
    assert.equal(reply, REPLIES['!'].text);
    console.log(`ok ${browser.version}, ${simd ? 'SIMD' : 'no SIMD'}: ids as in Node; the page says ${JSON.stringify(reply)}, ${foot}`);
    passed++;
  } finally {
    await browser.close();
  }
}
await server.close();
console.log(`# pass ${passed}\n# fail 0`);
process.exit(0);
