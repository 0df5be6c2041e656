// Firefox over WebDriver BiDi, which it speaks by itself: no driver in between.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import WebSocket from 'ws';

/** Starts it without a window. Gives `{run(url, work, argument), close()}`. */
export async function startFirefox(program) {
  const profile = mkdtempSync(join(tmpdir(), 'firefox-'));
  const child = spawn(program, ['--headless', '--no-remote', '--profile', profile, '--remote-debugging-port', '0'], { stdio: ['ignore', 'ignore', 'pipe'] });
  const close = () => {
    child.kill();
    return new Promise((resolve) => child.once('exit', () => {
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
      resolve();
    }));
  };
  try {
    const address = await new Promise((resolve, reject) => {
      let log = '';
      child.stderr.on('data', (data) => {
        log += data;
        const found = /WebDriver BiDi listening on (ws:\S+)/.exec(log);
        if (found) resolve(found[1]);
      });
      child.once('exit', () => reject(new Error(`Firefox ended: ${log}`)));
      setTimeout(() => reject(new Error(`Firefox does not answer: ${log}`)), 60_000).unref();
    });
    const socket = new WebSocket(`${address}/session`);
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    const open = new Map();
    socket.on('message', (data) => {
      const { id, type, result, error, message } = JSON.parse(data);
      const call = open.get(id);
      open.delete(id);
      if (type === 'error') call?.reject(new Error(`${error}: ${message}`));
      else call?.resolve(result);
    });
    let next = 1;
    const ask = (method, params) => new Promise((resolve, reject) => {
      open.set(next, { resolve, reject });
      socket.send(JSON.stringify({ id: next++, method, params }));
    });
    const { capabilities } = await ask('session.new', { capabilities: {} });
    const { context } = await ask('browsingContext.create', { type: 'tab' });
    return {
      version: `${capabilities.browserName} ${capabilities.browserVersion}`,
      async run(url, work, argument) {
        await ask('browsingContext.navigate', { context, url, wait: 'complete' });
        const call = `(${work})(${JSON.stringify(argument)}).then(JSON.stringify)`;
        const { type, result, exceptionDetails } = await ask('script.evaluate', { expression: call, target: { context }, awaitPromise: true });
        if (type !== 'success') throw new Error(exceptionDetails.text);
        return JSON.parse(result.value);
      },
      close: () => (socket.close(), close()),
    };
  } catch (error) {
    await close();
    throw error;
  }
}
