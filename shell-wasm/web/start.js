// The start screen: a file, an address or a known model becomes a loaded one.

import { cachedModels, load } from './lib/tinyrustlm.js';
import { $, bytes, make } from './format.js';

/** `onLoaded(model, name)` is called with a model that runs in a worker. */
export function setupStart(onLoaded) {
  let controller;

  async function start(source, name, more = {}) {
    controller?.abort();
    controller = new AbortController();
    const { signal } = controller;
    busy(true, name);
    try {
      const model = await load(source, {
        worker: true,
        signal,
        context: Math.max(16, Number($('context').value) || 2048),
        maxModelBytes: Math.max(1, Number($('max-bytes').value) || 128) * (1 << 20),
        onHeader: (plan) => {
          $('loading-plan').textContent =
            `${bytes(plan.fileBytes)} of weights, and ${bytes(plan.kvBytes)} for ${plan.context} tokens of context.`;
        },
        onProgress: ({ phase, loaded, total }) => {
          $('loading-what').textContent = phase === 'check' ? 'Checking' : `Loading ${name}`;
          $('loading-bar').value = phase === 'check' ? 1 : loaded / total;
          $('loading-figures').textContent = phase === 'check' ? '' : `${bytes(loaded)} of ${bytes(total)}`;
        },
        ...more,
      });
      onLoaded(model, name);
    } catch (error) {
      if (error.name !== 'AbortError') fail(error, name);
    } finally {
      busy(false);
    }
  }

  const pick = (file) => file && start(file, file.name);
  $('file').addEventListener('change', (event) => {
    pick(event.target.files[0]);
    event.target.value = '';
  });
  $('loading-cancel').addEventListener('click', () => controller?.abort());
  $('url-form').addEventListener('submit', (event) => {
    event.preventDefault();
    const url = $('url').value.trim();
    if (url) start(url, nameOf(url));
  });

  let depth = 0;
  addEventListener('dragenter', (event) => {
    if (![...(event.dataTransfer?.types ?? [])].includes('Files')) return;
    depth++;
    document.body.classList.add('dragging');
  });
  addEventListener('dragleave', () => {
    depth = Math.max(0, depth - 1);
    if (depth === 0) document.body.classList.remove('dragging');
  });
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => {
    event.preventDefault();
    depth = 0;
    document.body.classList.remove('dragging');
    if (!$('start').hidden) pick(event.dataTransfer.files[0]);
  });

  showKnown(start);
  const wanted = new URLSearchParams(location.search).get('model');
  if (wanted) start(wanted, nameOf(wanted));
}

/** Models named in models.json beside this page, and those kept from earlier visits. */
async function showKnown(start) {
  const listed = await fetch('models.json').then((response) => (response.ok ? response.json() : []), () => []);
  const kept = new Set(await cachedModels());
  const rows = [];
  for (const { name, url, checksum, note } of listed) {
    rows.push([name, kept.has(checksum) ? 'kept in this browser' : note, url, { checksum }]);
    kept.delete(checksum);
  }
  for (const checksum of kept) rows.push([`Model ${checksum}`, 'kept in this browser', `./${checksum}.slm`, { checksum }]);
  if (rows.length === 0) return;
  $('known').hidden = false;
  $('known-list').replaceChildren(
    ...rows.map(([name, note, url, more]) => {
      const button = make('button', { type: 'button' }, make('span', { textContent: name }), make('small', { textContent: note ?? '' }));
      button.addEventListener('click', () => start(url, name, more));
      return make('li', {}, button);
    }),
  );
}

const nameOf = (url) => decodeURIComponent(url.split(/[?#]/)[0].split('/').pop()) || url;

function busy(on, name) {
  $('loading').hidden = !on;
  $('drop').inert = $('url-form').inert = $('known').inert = on;
  if (!on) return;
  $('start-error').hidden = true;
  $('loading-what').textContent = `Loading ${name}`;
  $('loading-figures').textContent = $('loading-plan').textContent = '';
  $('loading-bar').value = 0;
}

function fail(error, name) {
  $('start-error').replaceChildren(
    make('strong', { textContent: `${name} was not loaded. ` }), error.message,
    make('small', { textContent: [error.hint, error.code && `Error ${error.code}, ${error.codeName}`].filter(Boolean).join(' ') }),
  );
  $('start-error').hidden = false;
}
