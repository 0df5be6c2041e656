// The page: choose a model, talk with it, look inside.

import { bytes, $ } from './format.js';
import { setupPanels, showCard, showReport } from './panels.js';
import { adoptModelDefaults, setupSettings } from './settings.js';
import { setupStart } from './start.js';
import { setupTalk } from './talk.js';

const turn = () => new Promise((resolve) => setTimeout(resolve, 0));

let model;
setupSettings();
const panel = setupPanels();
const talk = setupTalk();

function show(loaded, name) {
  model = loaded;
  const on = Boolean(loaded);
  $('start').hidden = on;
  for (const id of ['talk', 'reset', 'clear', 'free', 'panel-toggle']) $(id).hidden = !on;
  panel.open(on && matchMedia('(min-width: 1180px)').matches);
  $('model-name').textContent = on ? `${name} · ${loaded.card.precision} · ${bytes(loaded.card.fileBytes)}` : '';
}

setupStart(async (loaded, name) => {
  show(loaded, name);
  adoptModelDefaults(loaded.card);
  talk.begin(loaded);
  // What nobody looks at yet is filled in turns of their own: the page is free between them.
  await turn();
  showCard(loaded.card);
  await turn();
  await loaded.diagnostics().then(showReport, () => {}); // freed again by now: nothing to report
});

$('free').addEventListener('click', () => {
  talk.end();
  model?.free();
  show(undefined);
  $('file').focus();
});

// Keeps the page itself for offline use. The models have their own store.
if ('serviceWorker' in navigator && isSecureContext) navigator.serviceWorker.register('sw.js').catch(() => {});
