// The import page with scripts: drop files, show progress, cancel. Without scripts the form is used.

import { csrfToken } from './http.js';

/** @type {HTMLFormElement} */
const form = document.querySelector('[data-upload]');
const zone = form.querySelector('[data-drop]');
/** @type {HTMLInputElement} */
const input = form.querySelector('input[type="file"]');
const list = form.querySelector('[data-files]');
/** @type {HTMLButtonElement} */
const send = form.querySelector('[data-send]');
/** @type {HTMLButtonElement} */
const abort = form.querySelector('[data-abort]');
const progress = form.querySelector('[data-progress]');
const bar = progress.querySelector('progress');
const text = progress.querySelector('[data-progress-text]');
const failure = form.querySelector('[data-failure]');
const limit = Number(form.dataset.limit);

let running = null;
let depth = 0;

function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let power = 0;
  let value = bytes;
  while (value >= 1023.5 && power < units.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${power === 0 ? value : value.toPrecision(3)}\u00a0${units[power]}`;
}

function total() {
  return [...input.files].reduce((sum, file) => sum + file.size, 0);
}

function fail(message) {
  failure.textContent = message;
  failure.hidden = message === '';
}

function showFiles() {
  list.replaceChildren(...[...input.files].map((file) => {
    const item = document.createElement('li');
    const name = document.createElement('span');
    name.className = 'wrap';
    name.textContent = file.name;
    const bytes = document.createElement('span');
    bytes.className = 'muted nowrap';
    bytes.textContent = size(file.size);
    item.append(name, bytes);
    return item;
  }));
  list.hidden = input.files.length === 0;
  const empty = [...input.files].find((file) => file.size === 0);
  if (empty) fail(`${empty.name} is empty. Record again.`);
  else if (total() > limit) fail(`These files have ${size(total())}; this server takes up to ${form.dataset.limitText}.`);
  else fail('');
  send.disabled = !failure.hidden;
}

function busy(on) {
  send.disabled = on;
  abort.hidden = !on;
  progress.hidden = !on;
  input.disabled = on;
}

function answer(request) {
  let content = null;
  try {
    content = JSON.parse(request.responseText);
  } catch {
    // Reported below.
  }
  if (request.status >= 200 && request.status < 300 && content?.jobs?.length) {
    location.assign(content.jobs.length === 1 ? content.jobs[0].url : '/');
    return;
  }
  busy(false);
  fail(content?.error ?? `The server answered with status ${request.status}. Reload the page and try again.`);
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  if (running) return;
  const data = new FormData(form);
  const started = performance.now();
  running = new XMLHttpRequest();
  running.open('POST', form.action || location.href);
  running.setRequestHeader('Accept', 'application/json');
  running.setRequestHeader('X-CSRF-Token', csrfToken());
  running.upload.addEventListener('progress', ({ loaded, total: all, lengthComputable }) => {
    if (!lengthComputable) return;
    bar.value = loaded / all;
    const seconds = (performance.now() - started) / 1000;
    const speed = seconds > 0.5 ? `, ${size(loaded / seconds)}/s` : '';
    text.textContent = loaded < all
      ? `${size(loaded)} of ${size(all)}${speed}`
      : 'Sent; the server puts the files to disk.';
  });
  const end = (action) => (loaded) => {
    running = null;
    action(loaded.target);
  };
  running.addEventListener('load', end(answer));
  running.addEventListener('error', end(() => {
    busy(false);
    fail('No response from the server; nothing was imported. Check that Perfloom is running, then try again.');
  }));
  running.addEventListener('abort', end(() => busy(false)));
  fail('');
  bar.value = 0;
  text.textContent = 'Sending…';
  busy(true);
  running.send(data);
});

abort.addEventListener('click', () => running?.abort());
input.addEventListener('change', showFiles);

function carriesFiles(event) {
  return [...(event.dataTransfer?.types ?? [])].includes('Files');
}

// The whole window accepts files: a file dropped outside of the frame must not replace the page.
window.addEventListener('dragenter', (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  depth += 1;
  zone.dataset.over = '';
});
window.addEventListener('dragover', (event) => {
  if (carriesFiles(event)) event.preventDefault();
});
window.addEventListener('dragleave', (event) => {
  if (!carriesFiles(event)) return;
  depth -= 1;
  if (depth <= 0) delete zone.dataset.over;
});
window.addEventListener('drop', (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  depth = 0;
  delete zone.dataset.over;
  if (running) return;
  input.files = event.dataTransfer.files;
  showFiles();
});

for (const element of form.querySelectorAll('[data-with-scripts]')) element.hidden = false;
showFiles();
