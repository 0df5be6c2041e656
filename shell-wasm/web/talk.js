// The conversation: messages on the page, and the run of a reply.

import { $, make, seconds } from './format.js';
import { options, readsAhead, systemMessage } from './settings.js';
import { showReport, showTokens } from './panels.js';

/** What is being written is read ahead at most this often, in ms. */
const READ_EVERY_MS = 400;
const TRIES = ['What is a good name for a small grey cat?', 'Explain rain to a child in two sentences.', 'Write a haiku about morning light.'];

export function setupTalk() {
  const log = $('log');
  const input = $('input');
  let model;
  let messages = [];
  let controller;
  let reading;
  let next;

  const conversation = (text) => {
    const system = systemMessage();
    return [...(system ? [{ role: 'system', content: system }] : []), ...messages, { role: 'user', content: text }];
  };

  /** In `ms` the model reads what the next prompt will begin with; the reply then waits for the rest alone. */
  function readAhead(ms) {
    next ??= setTimeout(async () => {
      await stopReading();
      if (!model || controller || !readsAhead()) return;
      const stop = new AbortController();
      // A template may refuse an unfinished conversation: the finished one will say so itself.
      const done = model.prepare(conversation(input.value), { signal: stop.signal }).catch(() => {}).finally(() => (reading = undefined));
      reading = { stop, done };
    }, ms);
  }

  async function stopReading() {
    clearTimeout(next);
    next = undefined;
    while (reading) {
      reading.stop.abort();
      await reading.done;
    }
  }

  const follow = () => log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  const toEnd = () => (log.scrollTop = log.scrollHeight);
  const grow = () => {
    input.style.height = 'auto';
    input.style.height = `${Math.min(input.scrollHeight, 200)}px`;
  };

  function empty() {
    const tries = TRIES.map((text) => {
      const button = make('button', { type: 'button', textContent: text });
      button.addEventListener('click', () => send(text));
      return button;
    });
    log.replaceChildren(
      make('div', { className: 'empty' },
        make('strong', { textContent: 'Say something' }),
        make('span', { textContent: 'The model answers on this device. Small models make mistakes; check what matters.' }),
        make('div', { className: 'tries' }, ...tries)),
    );
  }

  function bubble(kind, text, running = false) {
    const body = make('div', { className: 'text', textContent: text });
    const foot = make('div', { className: 'foot' });
    const who = kind === 'user' ? [] : [make('div', { className: 'who', textContent: 'Model' })];
    const element = make('article', { className: `message ${kind}${running ? ' running' : ''}`, 'aria-label': kind === 'user' ? 'You' : 'Model' }, ...who, body, foot);
    log.querySelector('.empty')?.remove();
    log.append(element);
    toEnd();
    return { element, body, foot };
  }

  function running(on) {
    $('send').hidden = on;
    $('stop').hidden = !on;
    for (const id of ['reset', 'clear', 'free']) $(id).disabled = on;
    log.setAttribute('aria-busy', on);
  }

  async function send(text) {
    if (controller || !model || !text.trim()) return;
    $('talk-error').hidden = true;
    input.value = '';
    grow();
    const sent = conversation(text);
    messages.push({ role: 'user', content: text });
    bubble('user', text);
    const { element, body, foot } = bubble('model', '', true);
    controller = new AbortController();
    running(true);
    await stopReading();
    const events = [];
    const run = model.chat(sent, {
      ...options(),
      signal: controller.signal,
      onProgress: ({ loaded, total }) => ($('status').textContent = `Reading, ${loaded} of ${total} tokens`),
    });
    let reply = '';
    const began = performance.now();
    let first;
    // What comes is shown once a frame, however fast it comes, in one text node: what belongs together is shaped together.
    const words = body.appendChild(document.createTextNode(''));
    let drawn = false;
    const draw = () => {
      drawn = false;
      const stay = follow();
      words.appendData(reply.slice(words.length));
      if (first !== undefined && controller) {
        const elapsed = performance.now() - first;
        $('status').textContent = elapsed > 300 ? `Writing, ${((events.length - 1) * 1000 / elapsed).toFixed(1)} tokens/s` : 'Writing';
      }
      if (stay) toEnd();
    };
    try {
      for await (const event of run) {
        first ??= performance.now();
        events.push(event);
        reply += event.text;
        if (!drawn) requestAnimationFrame(draw);
        drawn = true;
      }
      const { diagnostics, stopReason, ids } = run.result;
      foot.textContent = footText(ids.length, stopReason, diagnostics);
      showReport(diagnostics);
      $('usage').textContent = usage(diagnostics, ids.length);
    } catch (error) {
      if (error.name === 'AbortError') {
        foot.textContent = `Stopped after ${events.length} tokens, ${seconds(performance.now() - began)}`;
      } else {
        showError(error);
        foot.textContent = 'Ended by an error';
      }
    } finally {
      element.classList.remove('running');
      controller = undefined;
      running(false);
      draw();
      $('status').textContent = '';
      if (reply) messages.push({ role: 'assistant', content: reply });
      else messages.pop();
      if (matchMedia('(hover: hover)').matches) input.focus();
    }
    const ids = events.map((event) => event.id).filter((id) => id !== null);
    try {
      const pieces = [];
      for (const id of ids) pieces.push(await model.tokenBytes(id));
      showTokens(events, pieces);
      readAhead(0);
    } catch {
      // The model was freed meanwhile.
    }
  }

  function showError(error) {
    $('talk-error').replaceChildren(error.message, make('small', {
      textContent: [error.hint, error.code && `Error ${error.code}, ${error.codeName}`].filter(Boolean).join(' '),
    }));
    $('talk-error').hidden = false;
  }

  async function reset(clear) {
    $('talk-error').hidden = true;
    messages = [];
    $('usage').textContent = '';
    if (clear || !log.querySelector('.message')) {
      empty();
      showTokens([], []);
    } else {
      for (const old of log.querySelectorAll('.message')) old.classList.add('past');
      log.append(make('div', { className: 'cut', textContent: 'The model has forgotten what stands above' }));
      toEnd();
    }
    input.focus();
    try {
      await stopReading();
      await model.reset();
      readAhead(0);
    } catch (error) {
      showError(error);
    }
  }

  $('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    send(input.value);
  });
  input.addEventListener('input', () => {
    grow();
    readAhead(READ_EVERY_MS);
  });
  $('system').addEventListener('change', () => readAhead(0));
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && matchMedia('(hover: hover)').matches) {
      event.preventDefault();
      send(input.value);
    }
  });
  addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && controller) controller.abort();
  });
  $('stop').addEventListener('click', () => controller?.abort());
  $('reset').addEventListener('click', () => reset(false));
  $('clear').addEventListener('click', () => reset(true));

  return {
    begin(loaded) {
      model = loaded;
      messages = [];
      empty();
      showTokens([], []);
      input.focus();
      readAhead(0);
    },
    end() {
      controller?.abort();
      stopReading();
      model = undefined;
    },
  };
}

const REASONS = {
  eos_token: '', max_output: 'longest reply reached', context_full: 'context full', stop_string: 'stop text', stop_token_id: 'stop token',
  loop_detected: 'loop detected', cancelled: 'stopped',
};

function footText(tokens, reason, report) {
  const speed = report.performance_metrics?.tokens_per_second;
  return [`${tokens} tokens`, speed ? `${speed.toFixed(1)} tokens/s` : '', REASONS[reason] ?? reason].filter(Boolean).join(' · ');
}

function usage(report, generated) {
  const stage = report.generation_stage;
  return stage ? `${stage.prompt_tokens + generated} tokens in context` : '';
}
