// The page of a job keeps itself up to date: it asks at once while things change, and less and less often while they
// do not. Without this module the page is loaded again by a meta refresh.

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

// A press that the server has not answered yet is shown, so that nobody presses twice.
document.addEventListener('submit', (event) => {
  /** @type {HTMLButtonElement | null} */
  const button = /** @type {HTMLFormElement} */ (event.target).querySelector('[data-cancel]');
  if (!button) return;
  setTimeout(() => { button.disabled = true; button.textContent = 'Cancelling'; });
});

/** Put the parts that have changed in place of the old ones; whoever is at a button of one stays there. */
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
  // Two answers at once would both bring the same output.
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
    // What is gone or forbidden stays so; a server that is away may come back.
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
  // The end is the end once nothing of the output is missing.
  if (answer.final && !printed) {
    watched = false;
    const go = answer.state === 'stored' && answer.open_url && localStorage.getItem(CHOICE) === 'yes';
    if (go) location.assign(answer.open_url);
  }
}

/** How long ago the job was looked at where it runs; counts on until the next look. */
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
