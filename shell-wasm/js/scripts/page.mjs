// Completes the chat page: copies the library beside it and lists the page's files for its service worker.

import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const library = ['tinyrustlm.js', 'tinyrustlm-worker.js', 'tinyrustlm.wasm', 'tinyrustlm-scalar.wasm'];

await rm(at('../../web/lib'), { recursive: true, force: true });
await mkdir(at('../../web/lib'), { recursive: true });
for (const name of library) await copyFile(at(`../dist/${name}`), at(`../../web/lib/${name}`));
const page = (await readdir(at('../../web'))).filter((name) => /\.(html|css|js)$/.test(name) && name !== 'sw.js').sort();
const files = [...page, ...library.map((name) => `lib/${name}`)];
const hash = createHash('sha256');
for (const file of files) hash.update(file).update(await readFile(at(`../../web/${file}`)));
const listed = { version: hash.digest('hex').slice(0, 16), files: ['./', ...files] };
await writeFile(at('../../web/lib/files.js'), `self.PAGE = ${JSON.stringify(listed)};\n`);
