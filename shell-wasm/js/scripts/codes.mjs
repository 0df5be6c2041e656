// The core's table of errors as a JavaScript module: number, name, class, sentence.

import { readFile } from 'node:fs/promises';

/** Reads `codes! { /// sentence \n Name = number, Class; }` out of the core's source. */
export async function readCodes(path) {
  const source = await readFile(path, 'utf8');
  const table = source.slice(source.lastIndexOf('codes! {'));
  const rows = [];
  let sentence = [];
  for (const line of table.split('\n')) {
    const doc = line.match(/^\s*\/\/\/ ?(.*)$/);
    const row = line.match(/^\s*(\w+) = (\d+), (\w+);/);
    if (doc) sentence.push(doc[1]);
    else if (row) {
      rows.push([Number(row[2]), row[1], sentence.join(' ').replace(/\[`?|`?\]/g, '')]);
      sentence = [];
    } else if (line.startsWith('}')) break;
  }
  if (rows.length < 10) throw new Error(`${path}: no table of errors found`);
  return rows;
}

export async function codesModule(path) {
  const rows = await readCodes(path);
  return `export const CODES = [\n${rows.map((row) => `  ${JSON.stringify(row)},`).join('\n')}\n];\n`;
}
