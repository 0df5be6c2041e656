// A server of files with the faults that networks have, as the path's last part asks for:
//     /name.slm            the file            /name.slm/missing    404                   /name.slm/page     200 with a page of HTML
//     /name.slm/cut        ends half way       /name.slm/slow       never gets past half  /name.slm/damaged  one byte is another

import { createReadStream, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm', '.json': 'application/json' };

/** `roots` are searched in order. Gives `{base, seen, close}`; `seen` lists the paths that were asked for. */
export async function serve(...roots) {
  const seen = [];
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://x').pathname));
    seen.push(path);
    const [, name, fault] = /^(.*?\.slm)\/(\w+)$/.exec(path) ?? [undefined, path, undefined];
    const file = roots.map((root) => join(root, name)).find((file) => statSync(file, { throwIfNoEntry: false })?.isFile());
    const headers = { 'access-control-allow-origin': '*', 'cache-control': 'no-store' };
    if (!file || fault === 'missing') return response.writeHead(404, headers).end('not here');
    if (fault === 'page') return response.writeHead(200, { ...headers, 'content-type': 'text/html' }).end('<!doctype html><title>Sign in</title>');
    const { size } = statSync(file);
    response.writeHead(200, { ...headers, 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-length': size });
    if (!fault) return createReadStream(file).pipe(response);
    const bytes = readFileSync(file);
    if (fault === 'damaged') bytes[bytes.length - 100] ^= 1;
    if (fault === 'damaged') return response.end(bytes);
    response.write(bytes.subarray(0, size >> 1), () => fault === 'cut' && setTimeout(() => response.destroy(), 50));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    base: `http://127.0.0.1:${server.address().port}`,
    seen,
    close: () => (server.closeAllConnections(), new Promise((resolve) => server.close(resolve))),
  };
}
