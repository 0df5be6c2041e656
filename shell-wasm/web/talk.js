// The conversation: messages on the page, and the run of a reply.

import { $, make, seconds } from './format.js';
import { options, systemMessage } from './settings.js';
import { showReport, showTokens } from './panels.js';

const TRIES = ['What is a good name for a small grey cat?', 'Explain rain to a child in two sentences.', 'Write a haiku about morning light.'];

export function setupTalk() {
  const log = $('log');
  const input = $('input');
  let model;
  let messages = [];
  let controller;

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
    messages.push({ role: 'user', content: text });
    bubble('user', text);
    const { element, body, foot } = bubble('model', '', true);
    controller = new AbortController();
    running(true);
    const system = systemMessage();
    const sent = system ? [{ role: 'system', content: system }, ...messages] : messages;
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
    try {
      await model.reset();
    } catch (error) {
      showError(error);
    }
    if (clear || !log.querySelector('.message')) {
      empty();
      showTokens([], []);
    } else {
      for (const old of log.querySelectorAll('.message')) old.classList.add('past');
      log.append(make('div', { className: 'cut', textContent: 'The model has forgotten what stands above' }));
      toEnd();
    }
    input.focus();
  }

  $('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    send(input.value);
  });
  input.addEventListener('input', grow);
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
    },
    end() {
      controller?.abort();
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
