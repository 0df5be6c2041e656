// Sampling settings: presets, sliders, seed, stop texts. Remembered in this browser only.

import { presets } from './lib/tinyrustlm.js';
import { $, make } from './format.js';

const SLIDERS = [
  ['temperature', 'Temperature', 0, 2, 0.05],
  ['topK', 'Top-k', 0, 200, 1],
  ['topP', 'Top-p', 0.05, 1, 0.01],
  ['minP', 'Min-p', 0, 0.5, 0.01],
  ['typicalP', 'Typical-p', 0.05, 1, 0.01],
  ['repetitionPenalty', 'Repetition penalty', 1, 1.5, 0.01],
  ['frequencyPenalty', 'Frequency penalty', 0, 1, 0.05],
  ['presencePenalty', 'Presence penalty', 0, 1, 0.05],
];
const OFF = {
  temperature: 0, topK: 0, topP: 1, minP: 0, typicalP: 1, repetitionPenalty: 1, frequencyPenalty: 0, presencePenalty: 0,
};
const FIELDS = ['seed', 'maxTokens', 'system', 'stop-text'];
const MEMORY = 'tinyrustlm-settings';

let current = { ...OFF, ...presets.chat };
let chosen = 'chat';

export function setupSettings() {
  $('presets').replaceChildren(
    ...Object.keys(presets).map((name) => {
      const radio = make('input', { type: 'radio', name: 'preset', value: name, checked: name === chosen });
      radio.addEventListener('change', () => choose(name));
      return make('label', {}, radio, make('span', { textContent: name[0].toUpperCase() + name.slice(1) }));
    }),
  );
  $('sliders').replaceChildren(
    ...SLIDERS.map(([name, title, min, max, step]) => {
      const output = make('output', { id: `${name}-value` });
      const range = make('input', { type: 'range', id: name, min, max, step });
      range.addEventListener('input', () => {
        current[name] = Number(range.value);
        chosen = '';
        show();
        save();
      });
      return make('label', { className: 'slider', htmlFor: name }, make('span', { textContent: title }), output, range);
    }),
  );
  for (const id of [...FIELDS, 'read-ahead']) $(id).addEventListener('change', save);
  restore();
  show();
}

/** The model's own defaults, when the file has some, come before the preset. */
export function adoptModelDefaults(card) {
  if (!card.sampling?.doSample || localStorage.getItem(MEMORY)) return;
  current = { ...OFF, ...card.sampling };
  chosen = '';
  if (card.sampling.maxTokens) $('maxTokens').value = card.sampling.maxTokens;
  show();
}

/** The options of a chat call. */
export function options() {
  const stop = $('stop-text').value.split('\n').filter((line) => line !== '');
  const picked = Object.fromEntries(SLIDERS.map(([name]) => [name, current[name]]));
  return { ...picked, seed: whole($('seed'), 0), maxTokens: whole($('maxTokens'), 512), stop };
}

export const readsAhead = () => $('read-ahead').checked;

export const systemMessage = () => $('system').value.trim();

function choose(name) {
  chosen = name;
  current = { ...OFF, ...presets[name] };
  $('maxTokens').value = current.maxTokens;
  show();
  save();
}

function show() {
  for (const radio of document.querySelectorAll('input[name=preset]')) radio.checked = radio.value === chosen;
  for (const [name, , , , step] of SLIDERS) {
    $(name).value = current[name];
    const off = current[name] === OFF[name];
    const text = name === 'temperature' && off ? 'greedy' : off ? 'off' : current[name].toFixed(step < 1 ? 2 : 0);
    $(`${name}-value`).textContent = text;
    $(name).setAttribute('aria-valuetext', text);
  }
}

function whole(field, otherwise) {
  const number = Math.floor(Number(field.value));
  return Number.isFinite(number) && number >= Number(field.min || 0) ? number : otherwise;
}

function save() {
  const fields = Object.fromEntries(FIELDS.map((id) => [id, $(id).value]));
  try {
    localStorage.setItem(MEMORY, JSON.stringify({ chosen, current, fields, ahead: readsAhead() }));
  } catch {
    // Private windows may refuse; the settings then last as long as the page.
  }
}

function restore() {
  try {
    const saved = JSON.parse(localStorage.getItem(MEMORY));
    if (!saved) return;
    chosen = saved.chosen;
    current = { ...OFF, ...saved.current };
    for (const [id, value] of Object.entries(saved.fields)) $(id).value = value;
    $('read-ahead').checked = saved.ahead ?? true;
  } catch {
    // Settings of another version are forgotten.
  }
}
