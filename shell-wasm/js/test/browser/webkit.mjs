// WebKitGTK's small browser over its WebDriver, on a screen that nobody sees.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';

/** The browser that comes with the driver. */
export function findMiniBrowser() {
  for (const lib of ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu']) {
    try {
      const folder = readdirSync(lib).filter((name) => /^webkit2?gtk-/.test(name)).find((name) => readdirSync(join(lib, name)).includes('MiniBrowser'));
      if (folder) return join(lib, folder, 'MiniBrowser');
    } catch {
      // Another architecture.
    }
  }
  return undefined;
}

/** Starts screen, driver and browser. Gives `{run(url, work, argument), close()}`. */
export async function startWebKit(driver, xvfb, browser) {
  const children = [];
  const start = (program, args, env = {}, stdio = ['ignore', 'ignore', 'ignore']) => {
    const child = spawn(program, args, { env: { ...process.env, ...env }, stdio });
    children.push(child);
    return child;
  };
  const close = () => Promise.all(children.map((child) => child.exitCode !== null || child.signalCode ? undefined : (child.kill(), once(child, 'exit'))));
  try {
    const screen = start(xvfb, ['-displayfd', '3', '-screen', '0', '1280x800x24', '-nolisten', 'tcp'], {}, ['ignore', 'ignore', 'ignore', 'pipe']);
    const [number] = await once(screen.stdio[3], 'data');
    const free = createServer().listen(0, '127.0.0.1');
    await once(free, 'listening');
    const { port } = free.address();
    free.close();
    // Its sandbox needs rights that containers do not give.
    start(driver, [`--port=${port}`], { DISPLAY: `:${String(number).trim()}`, WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1', WEBKIT_DISABLE_COMPOSITING_MODE: '1' });
    const ask = async (method, path, body) => {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, body: body && JSON.stringify(body) });
      const { value } = await answer.json();
      if (!answer.ok) throw new Error(`${path}: ${value.error}: ${value.message}`);
      return value;
    };
    for (let tries = 0; ; tries++) {
      if (await ask('GET', '/status').then(() => true, () => false)) break;
      if (tries > 100) throw new Error('WebKitWebDriver does not answer');
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const wanted = { 'webkitgtk:browserOptions': { binary: browser, args: ['--automation'] } };
    const { sessionId, capabilities } = await ask('POST', '/session', { capabilities: { alwaysMatch: wanted } });
    await ask('POST', `/session/${sessionId}/timeouts`, { script: 120_000 });
    return {
      version: `${capabilities.browserName} ${capabilities.browserVersion}`,
      async run(url, work, argument) {
        await ask('POST', `/session/${sessionId}/url`, { url });
        const script = `const done = arguments[1]; (${work})(arguments[0]).then((v) => done({ v }), (e) => done({ e: String(e) + e.stack }));`;
        const { v, e } = await ask('POST', `/session/${sessionId}/execute/async`, { script, args: [argument] });
        if (e) throw new Error(e);
        return v;
      },
      close: async () => (await ask('DELETE', `/session/${sessionId}`).catch(() => {}), close()),
    };
  } catch (error) {
    await close();
    throw error;
  }
}
