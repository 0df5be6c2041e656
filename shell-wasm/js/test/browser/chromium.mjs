// Chromium of this machine, driven by playwright-core. CHROMIUM names another program.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';

export function findProgram(...names) {
  for (const name of names.filter(Boolean)) {
    for (const path of name.includes('/') ? [name] : process.env.PATH.split(delimiter).map((folder) => join(folder, name))) {
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // The next one.
      }
    }
  }
  return undefined;
}

export const program = findProgram(process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome');

/** A running browser; without one, says SKIPPED and ends the process: there is nothing else to test then. */
export async function startChromium(what, args = []) {
  if (!program) {
    console.log(`SKIPPED ${what}: no Chromium found (apt-get install chromium)`);
    process.exit(0);
  }
  return chromium.launch({ executablePath: program, args: ['--no-sandbox', ...args] });
}
