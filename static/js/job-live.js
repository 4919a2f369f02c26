// The page of a job keeps itself up to date: it asks at once while things change, and less and less often while they
// do not. Without this module the page is loaded again by a meta refresh.

import './ticks.js';
import { addCopyButtons } from './copy.js';
import { localTimes } from './controls.js';
import { getJSON } from './http.js';
import { OutputView } from './job-output.js';

const FIRST_MS = 300;
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
  const choice = box.querySelector('[data-forward-choice]');
  choice.checked = localStorage.getItem(CHOICE) === 'yes';
  choice.addEventListener('change', () => localStorage.setItem(CHOICE, choice.checked ? 'yes' : 'no'));
}

// A press that the server has not answered yet is shown, so that nobody presses twice.
document.addEventListener('submit', (event) => {
  const button = event.target.querySelector('[data-cancel]');
  if (!button) return;
  setTimeout(() => { button.disabled = true; button.textContent = 'Cancelling'; });
});

function place(regions) {
  for (const [name, html] of Object.entries(regions)) {
    const region = page.querySelector(`[data-region="${name}"]`);
    if (!region) continue;
    const focused = region.contains(document.activeElement) ? document.activeElement : null;
    const key = focused && [focused.tagName, focused.textContent.trim()].join(' ');
    region.innerHTML = html;
    localTimes(region);
    addCopyButtons(region);
    if (!key) continue;
    const same = [...region.querySelectorAll('a, button, input')];
    (same.find((element) => [element.tagName, element.textContent.trim()].join(' ') === key) ?? same[0])?.focus();
  }
  if (regions.state) showForward();
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
  const words = new URLSearchParams({ version: page.dataset.version });
  if (view) {
    words.set('offset', view.next);
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
  const changed = Boolean(answer.regions);
  const printed = view ? view.take(answer.output) : false;
  if (changed) {
    page.dataset.version = answer.version;
    place(answer.regions);
    announce(answer);
  }
  delay = changed || printed ? FIRST_MS : Math.min(SLOWEST_MS, delay * 1.5);
  // The end is the end once nothing of the output is missing.
  if (answer.final && !printed) {
    watched = false;
    if (answer.open_url && localStorage.getItem(CHOICE) === 'yes') location.assign(answer.open_url);
  }
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
