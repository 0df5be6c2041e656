// The package as users get it: packed, unpacked into an empty project, imported by its name.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const root = fileURLToPath(new URL('../../../', import.meta.url));
export const fixture = (name) => join(root, 'fixtures/models', name);

let project;

/** Folder of the unpacked package; made once per process. */
export function installed() {
  if (project) return project;
  const folder = mkdtempSync(join(tmpdir(), 'tinyrustlm-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  execFileSync('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: join(root, 'shell-wasm/js') });
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  mkdirSync(join(folder, 'node_modules/tinyrustlm'), { recursive: true });
  execFileSync('tar', ['xzf', join(folder, tarball), '--strip-components=1', '-C', join(folder, 'node_modules/tinyrustlm')]);
  project = join(folder, 'node_modules/tinyrustlm');
  return project;
}

export const importPackage = () => import(pathToFileURL(join(installed(), 'dist/tinyrustlm.js')));
