// The job form while somebody types: the exact command, and what speaks against it, at the field it concerns.
// Everything is said by the server; without this module the same is said after a press of a button.

import { EventPicker } from './job-events.js';
import { postJSON } from './http.js';

const TYPING_MS = 250;
const RESTING_MS = 900;
const LEVELS = { error: 'Error', warning: 'Warning', hint: 'Hint' };

const form = document.querySelector('[data-job-form]');
const command = form.querySelector('[data-preview-command]');
const note = form.querySelector('[data-preview-note]');
const status = form.querySelector('[data-preview-status]');
const start = form.querySelector('[data-start]');
// Fields that nobody has come to yet are not blamed for being empty.
const touched = new Set();
let timer = 0;
let request = null;

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
    if (wrong && place.closest('details')) place.closest('details').open = true;
  }
  const preview = form.querySelector('[data-preview]');
  if (answer.command) {
    showCommand(answer.command);
    delete preview.dataset.stale;
    note.textContent = 'Only the directory of the recording is still to be named.';
  } else {
    preview.dataset.stale = '';
    const typed = [...said.values()].flat().some((one) => one.level === 'error');
    if (!typed) showCommand('');
    note.textContent = typed ? 'It is shown when what is marked is put right.' : 'It appears here as soon as there is a command.';
  }
  const counts = [...said.values()].flat().filter((one) => one.level !== 'hint').length;
  status.textContent = counts ? `${counts} ${counts === 1 ? 'thing needs' : 'things need'} attention` : '';
}

/** Each piece between blanks holds together, so that a line is not broken behind a hyphen. */
function showCommand(text) {
  const pieces = text ? text.split(' ') : [];
  command.replaceChildren(...pieces.flatMap((piece, number) => {
    const span = document.createElement('span');
    span.textContent = piece;
    return number ? [' ', span] : [span];
  }));
}

/** Ask for the preview; `check`: with a look at paths and command, by the machine's worker. */
async function ask(check) {
  request?.abort();
  request = new AbortController();
  const typed = new FormData(form);
  if (check) typed.set('check', '1');
  try {
    show(await postJSON('/jobs/preview', new URLSearchParams(typed), { signal: request.signal }));
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
  if (event.target.name === 'event_query' || event.target.name === 'preset_name') return;
  touch(event.target);
  start.textContent = 'Start';
  later(event.target.type === 'radio' || event.target.type === 'checkbox' ? 0 : TYPING_MS);
});

form.addEventListener('focusout', (event) => touch(event.target));

form.addEventListener('keydown', (event) => {
  const line = event.target instanceof HTMLInputElement && event.target.name !== 'event_query';
  if (event.key !== 'Enter' || event.defaultPrevented || !(line || event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  form.requestSubmit(event.target.name === 'preset_name' ? form.querySelector('[data-save]') : start);
});

// One press, one job. The server holds two presses together, too, by the form's id.
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
  for (const control of form.elements) if (control.value && control.type !== 'radio') touch(control);
}
picker.show();
if (form.elements.command.value || form.elements.pid.value) ask(true);
