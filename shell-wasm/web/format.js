// Numbers and small pieces of the page.

export const $ = (id) => document.getElementById(id);

/** An element with properties and children. Text is always text: nothing is parsed as HTML. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes('-') || name === 'role') element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

export function bytes(count) {
  if (count < 1024) return `${count} B`;
  if (count < 1 << 20) return `${(count / 1024).toFixed(1)} KiB`;
  return `${(count / (1 << 20)).toFixed(count < 100 << 20 ? 1 : 0)} MiB`;
}

export const count = (number) => number.toLocaleString('en').replaceAll(',', '\u202f');

export const seconds = (ms) => (ms === null || ms === undefined ? '–' : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

/** A list of facts: `[term, value]` rows, or one string for a group's title. */
export function facts(list, rows) {
  list.replaceChildren(
    ...rows.flatMap((row) => {
      if (typeof row === 'string') return [make('dt', { className: 'group', textContent: row })];
      const [term, value] = row;
      return value === undefined || value === null || value === ''
        ? []
        : [make('dt', { textContent: term }), make('dd', { textContent: String(value) })];
    }),
  );
}

/** Nested data as rows: `a.b.c` and its value. */
export function flatten(value, path = '') {
  if (value === null || typeof value !== 'object') return [[path, value === null ? 'none' : value]];
  if (Array.isArray(value) && value.every((item) => item === null || typeof item !== 'object')) return [[path, value.join(', ')]];
  return Object.entries(value).flatMap(([key, item]) => flatten(item, path ? `${path}.${key}` : key));
}
