// The job form during input: the exact command, findings next to their fields, and facts of the selected target. All
// of it comes from the server; without this module it is shown after pressing a button.

import { EventPicker } from './job-events.js';
import { postJSON } from './http.js';

const TYPING_MS = 250;
const RESTING_MS = 900;
const LEVELS = { error: 'Error', warning: 'Warning', hint: 'Hint' };

/** @type {HTMLFormElement & {elements: Record<string, any>}} */
const form = document.querySelector('[data-job-form]');
const command = form.querySelector('[data-preview-command]');
const note = form.querySelector('[data-preview-note]');
const status = form.querySelector('[data-preview-status]');
/** @type {HTMLButtonElement} */
const start = form.querySelector('[data-start]');
// Fields that were not visited yet show no errors.
const touched = new Set();
let timer = 0;
let request = null;
let shownPlace = form.elements.target.value;

function touch(element) {
  if (element.name && element.name !== 'event_query') touched.add(element.name);
}

function finding(one) {
  const line = document.createElement('p');
  line.className = 'finding';
  line.dataset.level = one.level;
  const level = document.createElement('span');
  level.className = 'visually-hidden';
  level.textContent = `${LEVELS[one.level]}:`;
  line.append(level, ` ${one.message} `);
  if (one.advice) {
    const advice = document.createElement('span');
    advice.className = 'finding__advice';
    advice.textContent = one.advice;
    line.append(advice);
  }
  return line;
}

function show(answer) {
  const places = new Map([...form.querySelectorAll('[data-findings]')].map((place) => [place.dataset.findings, place]));
  const said = new Map([...places.values()].map((place) => [place, []]));
  for (const one of answer.findings) {
    if (one.level === 'error' && places.has(one.field) && one.field && !touched.has(one.field)) continue;
    said.get(places.get(one.field) ?? places.get('')).push(one);
  }
  for (const [place, findings] of said) {
    const key = JSON.stringify(findings);
    if (place.dataset.shown === key || place.dataset.findings === 'preset_name') continue;
    place.dataset.shown = key;
    place.replaceChildren(...findings.map(finding));
    const wrong = findings.some((one) => one.level === 'error');
    const control = form.querySelector(`#f-${place.dataset.findings || 'none'}:not([type="radio"], [type="checkbox"])`);
    if (wrong) control?.setAttribute('aria-invalid', 'true');
    else control?.removeAttribute('aria-invalid');
    const details = place.closest('details');
    if (wrong && details) details.open = true;
  }
  const preview = form.querySelector('[data-preview]');
  if (answer.command) {
    showCommand(answer.lines);
    delete preview.dataset.stale;
    note.textContent = answer.note;
  } else {
    preview.dataset.stale = '';
    const typed = [...said.values()].flat().some((one) => one.level === 'error');
    if (!typed) showCommand([]);
    const lacks = answer.findings.find((one) => one.level === 'error');
    note.textContent = typed ? 'Correct the marked fields to see the command.' : (lacks?.message ?? '');
  }
  showGroups(answer.groups);
  if (answer.place.name !== shownPlace) showPlace(answer.place);
  const counts = [...said.values()].flat().filter((one) => one.level !== 'hint').length;
  status.textContent = counts ? `${counts} ${counts === 1 ? 'thing needs' : 'things need'} attention` : '';
}

/** Each part between blanks is unbreakable, so that lines do not break after a hyphen. As rendered by the server. */
function showCommand(lines) {
  command.replaceChildren(...lines.map(([depth, pieces]) => {
    const shown = document.createElement('span');
    shown.className = 'preview__line';
    shown.dataset.depth = String(depth);
    shown.append(...pieces.flatMap((piece, number) => {
      const span = document.createElement('span');
      span.textContent = piece;
      return number ? [' ', span] : [span];
    }));
    return shown;
  }));
}

/** The events of each run of the command, if there are several. */
function showGroups(groups) {
  const list = form.querySelector('[data-groups-list]');
  list.replaceChildren(...groups.map((group) => {
    const item = document.createElement('li');
    const code = document.createElement('code');
    code.textContent = group.join(', ') || 'the default events';
    item.append(code);
    return item;
  }));
  form.querySelector('[data-groups]').hidden = groups.length === 0;
}

/** Facts of the target: its machine, queues and default events, and required passwords. */
function showPlace(place) {
  shownPlace = place.name;
  form.querySelector('[data-place-text]').textContent = place.text;
  form.querySelector('#h-mpi').textContent = place.suggested;
  form.querySelector('#h-queue').textContent = place.queue_hint;
  form.querySelector('[data-queues]').replaceChildren(...place.queues.map((queue) => {
    const option = document.createElement('option');
    option.value = queue.name;
    option.textContent = queue.text;
    return option;
  }));
  for (const span of form.querySelectorAll('[data-default-events]')) {
    span.textContent = `Without one: ${place.default_events[span.dataset.defaultEvents]}.`;
  }
  /** @type {HTMLInputElement} */ (form.querySelector('#event-query')).placeholder = `Search ${place.host ? `the events of ${place.host}` : 'events'}`;
  showSecrets(place.secrets);
}

function showSecrets(secrets) {
  const section = form.querySelector('[data-secrets]');
  section.querySelector('[data-secret-fields]').replaceChildren(...secrets.map((secret, number) => {
    const field = document.createElement('div');
    field.className = 'field';
    const label = document.createElement('label');
    label.htmlFor = `secret-${number + 1}`;
    label.textContent = secret.text;
    const input = document.createElement('input');
    Object.assign(input, { type: 'password', id: label.htmlFor, name: `secret:${secret.name}`, autocomplete: 'off' });
    field.append(label, input);
    return field;
  }));
  section.hidden = secrets.length === 0;
}

/** Request the preview; `check`: paths and command are checked by the worker of the machine. */
async function ask(check) {
  request?.abort();
  request = new AbortController();
  const typed = new FormData(form);
  // Secrets are sent only with the job.
  for (const name of [...typed.keys()]) if (name.startsWith('secret:')) typed.delete(name);
  if (check) typed.set('check', '1');
  try {
    show(await postJSON('/jobs/preview', new URLSearchParams(/** @type {any} */ (typed)), { signal: request.signal }));
    if (!check) timer = setTimeout(ask, RESTING_MS, true);
  } catch (error) {
    if (error.name !== 'AbortError') note.textContent = error.message;
  }
}

function later(delay) {
  clearTimeout(timer);
  timer = setTimeout(ask, delay, false);
}

form.addEventListener('input', (event) => {
  const control = /** @type {HTMLInputElement} */ (event.target);
  if (/^(event_query$|preset_name$|secret:)/.test(control.name)) return;
  touch(control);
  start.textContent = 'Start';
  later(/^(radio|checkbox|select-one)$/.test(control.type) ? 0 : TYPING_MS);
});

const target = form.elements.target;
target.addEventListener('change', () => {
  const { scheduler, sudo } = target.selectedOptions[0].dataset;
  Object.assign(form.dataset, { scheduler: scheduler ?? 'none', sudo: sudo ?? 'no' });
});

form.addEventListener('focusout', (event) => touch(event.target));

form.addEventListener('keydown', (event) => {
  const line = event.target instanceof HTMLInputElement && event.target.name !== 'event_query';
  if (event.key !== 'Enter' || event.defaultPrevented || !(line || event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  form.requestSubmit(/** @type {HTMLInputElement} */ (event.target).name === 'preset_name' ? form.querySelector('[data-save]') : start);
});

// Prevent double submission. The server also detects it, by the id of the form.
form.addEventListener('submit', (event) => {
  if (event.submitter?.getAttribute('formaction')) return;
  setTimeout(() => { start.disabled = true; });
});
window.addEventListener('pageshow', () => { start.disabled = false; });

const picker = new EventPicker(form.querySelector('[data-events]'), () => {
  touched.add('events');
  later(0);
});

const summary = document.querySelector('[data-summary]');
if (summary) {
  for (const control of form.elements) touch(control);
  summary.focus();
} else {
  for (const control of /** @type {Iterable<HTMLInputElement>} */ (form.elements)) {
    if (control.value && control.type !== 'radio') touch(control);
  }
}
picker.show();
if (form.elements.command.value || form.elements.pid.value) ask(true);
