// Updates the page of a job: polls immediately after changes, and less often without changes. Without this module a
// meta refresh reloads the page.

import { elapsed } from './ticks.js';
import { addCopyButtons } from './copy.js';
import { localTimes } from './controls.js';
import { getJSON } from './http.js';
import { OutputView } from './job-output.js';

const FIRST_MS = 300;
const COUNTING_MS = 1000;
const SLOWEST_MS = 3000;
const HIDDEN_MS = 15000;
const CHOICE = 'perfloom-open-result';

const page = document.querySelector('[data-job]');
const output = document.querySelector('[data-output]');
const view = output ? new OutputView(output) : null;
const trouble = document.querySelector('[data-job-trouble]');
let delay = FIRST_MS;
let timer = 0;
let asking = false;
let watched = page?.dataset.final === 'no';

function showForward() {
  const box = document.querySelector('[data-forward]');
  if (!box) return;
  box.hidden = false;
  /** @type {HTMLInputElement} */
  const choice = box.querySelector('[data-forward-choice]');
  choice.checked = localStorage.getItem(CHOICE) === 'yes';
  choice.addEventListener('change', () => localStorage.setItem(CHOICE, choice.checked ? 'yes' : 'no'));
}

// Show that a request is pending, to prevent a second click.
document.addEventListener('submit', (event) => {
  /** @type {HTMLButtonElement | null} */
  const button = /** @type {HTMLFormElement} */ (event.target).querySelector('[data-cancel]');
  if (!button) return;
  setTimeout(() => { button.disabled = true; button.textContent = 'Cancelling'; });
});

/** Replace the parts that changed, and keep the focus in them. */
function place(parts) {
  for (const [name, { mark, html }] of Object.entries(parts)) {
    const part = page.querySelector(`[data-part="${name}"]`);
    if (!part) continue;
    const focused = part.contains(document.activeElement) ? describe(document.activeElement) : '';
    part.innerHTML = html;
    part.dataset.mark = mark;
    localTimes(part);
    addCopyButtons(part);
    if (!focused) continue;
    const controls = [...part.querySelectorAll('a, button, input')];
    (controls.find((control) => describe(control) === focused) ?? controls[0])?.focus();
  }
  if (parts.state) showForward();
}

function describe(control) {
  return `${control.tagName} ${control.textContent.trim()}`;
}

function announce(answer) {
  document.querySelector('[data-job-status]').textContent = answer.label;
  document.title = document.title.replace(/^.*? · /, `${answer.label} · `);
}

async function ask() {
  clearTimeout(timer);
  // Two concurrent responses would contain the same output.
  if (asking) return;
  asking = true;
  const marks = [...page.querySelectorAll('[data-part]')].map((part) => part.dataset.mark);
  const words = new URLSearchParams({ known: marks.join(',') });
  if (view) {
    words.set('offset', String(view.next));
    words.set('mark', view.mark);
  }
  try {
    const answer = await getJSON(`/jobs/${page.dataset.job}/live?${words}`);
    trouble.hidden = true;
    take(answer);
  } catch (error) {
    trouble.textContent = error.message;
    trouble.hidden = false;
    delay = SLOWEST_MS;
    // Missing or forbidden pages stay so; an unreachable server may return.
    if (error.status >= 400 && error.status < 500) watched = false;
  }
  asking = false;
  if (watched) timer = setTimeout(ask, document.hidden ? HIDDEN_MS : delay);
}

function take(answer) {
  const changed = Object.keys(answer.parts).length > 0;
  const printed = view ? view.take(answer.output) : false;
  place(answer.parts);
  if (answer.parts.state) announce(answer);
  showSeen(answer.seen_s);
  delay = answer.parts.state || printed ? FIRST_MS : Math.min(changed ? COUNTING_MS : SLOWEST_MS, delay * 1.5);
  // Finished when all of the output was received.
  if (answer.final && !printed) {
    watched = false;
    const go = answer.state === 'stored' && answer.open_url && localStorage.getItem(CHOICE) === 'yes';
    if (go) location.assign(answer.open_url);
  }
}

/** The time since the job was last polled at its target; counts up until the next poll. */
function showSeen(seconds) {
  const old = page.querySelector('[data-seen]');
  if (!old || seconds === null) return;
  const fresh = document.createElement('span');
  fresh.dataset.seen = '';
  fresh.dataset.ticks = seconds.toFixed(1);
  fresh.textContent = elapsed(seconds);
  old.replaceWith(fresh);
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden || !watched) return;
  delay = FIRST_MS;
  ask();
});

if (page && watched) {
  showForward();
  timer = setTimeout(ask, FIRST_MS);
}
