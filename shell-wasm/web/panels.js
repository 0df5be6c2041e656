// The panel's other tabs: tokens of the last reply, the report, the model card.

import { $, bytes, count, facts, flatten, make, seconds } from './format.js';

export function setupPanels() {
  const tabs = [...document.querySelectorAll('[role=tab]')];
  const select = (tab) => {
    for (const other of tabs) {
      const on = other === tab;
      other.setAttribute('aria-selected', on);
      other.tabIndex = on ? 0 : -1;
      $(other.getAttribute('aria-controls')).hidden = !on;
    }
  };
  for (const [index, tab] of tabs.entries()) {
    tab.addEventListener('click', () => select(tab));
    tab.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(index + step + tabs.length) % tabs.length];
      select(next);
      next.focus();
    });
  }
  const open = (on) => {
    $('panel').hidden = !on;
    $('panel-toggle').setAttribute('aria-expanded', on);
    if (on && matchMedia('(max-width: 860px)').matches) $('panel-close').focus();
  };
  $('panel-toggle').addEventListener('click', () => open($('panel').hidden));
  $('panel-close').addEventListener('click', () => {
    open(false);
    $('panel-toggle').focus();
  });
  addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !$('panel').hidden && matchMedia('(max-width: 860px)').matches) open(false);
  });
  $('report-copy').addEventListener('click', () => navigator.clipboard?.writeText($('report-json').textContent));
  return { open };
}

/** Colour of a token: hue from calm to warm as the probability falls. */
function heat(logprob) {
  if (logprob === null || logprob === undefined) return 'transparent';
  const surprise = Math.min(-logprob / 5, 1);
  const hue = Math.round(170 - 160 * surprise ** 0.7);
  return `hsl(${hue} ${Math.round(45 + 35 * surprise)}% 50% / ${(0.16 + 0.55 * surprise).toFixed(2)})`;
}

/** Bytes as text a person can read: whole characters, blanks made visible, the rest as hex. */
function piece(data) {
  const text = new TextDecoder().decode(data);
  if (text.includes('\ufffd')) return [...data].map((byte) => `<${byte.toString(16).padStart(2, '0').toUpperCase()}>`).join('');
  return text.replaceAll(' ', '·').replaceAll('\n', '⏎').replaceAll('\t', '⇥') || '∅';
}

/** The tokens of a run, each with its bytes. `pieces` is a list of Uint8Array. */
export function showTokens(events, pieces) {
  const tokens = events.filter((event) => event.id !== null);
  $('tokens-hint').textContent = tokens.length
    ? 'Every token of the last reply, coloured by how likely the model found it. Choose one for its figures.'
    : 'No reply yet.';
  $('token-facts').replaceChildren();
  $('tokens').replaceChildren(
    ...tokens.map((event, index) => {
      const shown = piece(pieces[index]);
      const percent = `${(Math.exp(event.logprob) * 100).toPrecision(3)} %`;
      const button = make('button', { type: 'button', textContent: shown, 'aria-pressed': 'false', 'aria-label': `${shown}, ${percent}` });
      button.style.setProperty('--heat', heat(event.logprob));
      button.addEventListener('click', () => {
        for (const other of $('tokens').querySelectorAll('button')) other.setAttribute('aria-pressed', other === button);
        facts($('token-facts'), [
          ['Token', shown], ['Id', event.id], ['Probability', percent], ['Log-probability', event.logprob.toFixed(4)],
          ['Bytes', [...pieces[index]].map((byte) => byte.toString(16).padStart(2, '0')).join(' ')], ['Place in the reply', index + 1],
        ]);
      });
      return make('li', {}, button);
    }),
  );
}

export function showReport(report) {
  const stage = report.generation_stage ?? {};
  const speed = report.performance_metrics ?? {};
  const host = report.host ?? {};
  facts($('report-facts'), [
    'Generation',
    ['Prompt', stage.prompt_tokens !== undefined ? `${count(stage.prompt_tokens)} tokens` : undefined],
    ['Reply', stage.generated_tokens !== undefined ? `${count(stage.generated_tokens)} tokens` : undefined],
    ['Ended by', stage.stop_reason?.toLowerCase().replaceAll('_', ' ')],
    ['First token after', speed.time_to_first_token_ms === null ? undefined : seconds(speed.time_to_first_token_ms)],
    ['Speed', speed.tokens_per_second ? `${speed.tokens_per_second.toFixed(1)} tokens/s` : undefined],
    'Memory',
    ['Context in use', stage.context_utilization_bytes !== undefined ? bytes(stage.context_utilization_bytes) : undefined],
    ['Planned', stage.peak_memory_bytes !== undefined ? bytes(stage.peak_memory_bytes) : undefined],
    ['WebAssembly memory', host.wasm_memory_bytes ? bytes(host.wasm_memory_bytes) : undefined],
    'Model',
    ['Checksum', report.model_identity?.checksum], ['Precision', report.model_identity?.precision], ['Load', report.load_stage_status],
    'This host',
    ['Engine', host.engine], ['SIMD', host.wasm_features ? (host.wasm_features.simd128 ? 'yes' : 'no') : undefined],
    ['Cross-origin isolated', host.cross_origin_isolated === undefined ? undefined : host.cross_origin_isolated ? 'yes' : 'no'],
    ['Error', report.error_recovery?.stable_message],
  ]);
  $('report-json').textContent = JSON.stringify(report, null, 2);
}

export function showCard(card) {
  facts($('card-facts'), [
    ['Family', card.family], ['Precision', card.precision], ['File', bytes(card.fileBytes)], ['Layers', card.layerCount],
    ['Width', card.hiddenSize], ['Heads', `${card.headCount} (${card.kvHeadCount} for keys and values)`], ['FFN', card.ffnSize],
    ['Vocabulary', count(card.vocabSize)], ['Context', count(card.maxContext)], ['Chat template', card.hasTemplate ? 'yes' : 'none'],
    ['Weights by type', Object.entries(card.bytesByDtype).map(([type, size]) => `${type} ${bytes(size)}`).join(', ')],
    ['Checksum', card.checksum],
  ]);
  // The publisher's files, kept whole in there, and the origin of each tensor are no reading matter.
  const { kept, ledger, ...said } = card.provenance;
  const rows = flatten(said).filter(([path, value]) => path && String(value).length <= 300);
  if (kept) rows.push(['files kept', Object.keys(kept).join(', ')]);
  if (ledger) rows.push(['tensors traced', ledger.length]);
  facts($('card-provenance'), rows.length ? rows : [['Stated', 'nothing']]);
}
