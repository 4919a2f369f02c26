// The import page with scripts: drop files, show progress, cancel. Without scripts the form is used.

import { csrfToken, postJSON } from './http.js';

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

/** @type {HTMLFieldSetElement} */
const together = form.querySelector('[data-together]');
/** @type {HTMLElement} */
const found = form.querySelector('[data-ranks]');

/**
 * What is uploaded. path: with the folders, of a dropped folder.
 * @type {{file: File, path: string}[]}
 */
let chosen = [];
let running = null;
let depth = 0;
// Whether the user has chosen between one and several results.
let decided = false;
let question = 0;

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
  return chosen.reduce((sum, { file }) => sum + file.size, 0);
}

function fail(message) {
  failure.textContent = message;
  failure.hidden = message === '';
}

/** @param {string} value */
function choice(value) {
  return /** @type {HTMLElement} */ (together.querySelector(`[data-choice="${value}"]`));
}

/**
 * Show a way to import the files. Empty texts hide it.
 * @param {string} value
 * @param {string} label
 * @param {string} hint
 */
function offer(value, label, hint) {
  const element = choice(value);
  element.hidden = label === '';
  element.querySelector('[data-label]').textContent = label;
  element.querySelector('[data-hint]').textContent = hint;
}

/** @param {string} value */
function select(value) {
  choice(value).querySelector('input').checked = true;
}

/** What files that become one result may be. of: the name of the first one. role: of that file. alone: without the others. */
const KINDS = [
  {
    of: /(?:^|[\\/])(?:meta\.db|experiment\.xml)(?:\.gz|\.zst|\.xz)?$/,
    one: 'database of HPCToolkit',
    many: 'databases of HPCToolkit',
    role: 'index',
    roles: 'indexes',
    alone: 'The files of a database cannot be read alone.',
  },
  {
    of: /\.\d{16}(?:\.gz|\.zst|\.xz)?$/,
    one: 'recording of perf record --switch-output',
    many: 'recordings of perf record --switch-output',
    role: 'first file',
    roles: 'first files',
    alone: 'Only the first file has the names and maps of all processes.',
  },
  {
    of: /$/,
    one: 'result set of PerfAnalyzer',
    many: 'result sets of PerfAnalyzer',
    role: 'index',
    roles: 'indexes',
    alone: 'Without the .results file, samples have no period.',
  },
];

/**
 * Propose to import the files of result sets, databases and recordings together, and each other file alone.
 * @param {number[][]} sets
 */
function proposeSets(sets) {
  const count = chosen.length;
  const results = sets.length + count - sets.flat().length;
  const label = results === 1 ? `Import as one result from ${count} files` : `Import as ${results} results from ${count} files`;
  const first = sets.map(([index]) => chosen[index].path);
  const kinds = KINDS.filter((kind) => first.some((path) => KINDS.find(({ of }) => of.test(path)) === kind));
  const [kind] = kinds;
  offer('auto', label, `The files of a ${kinds.map(({ one }) => one).join(' or a ')} become one result.`);
  offer('1', '', '');
  offer('0', `Import as ${count} results`, kind.alone);
  /** @type {HTMLInputElement | null} */
  const current = together.querySelector('input:checked');
  if (!decided || !current || choice(current.value).hidden) select('auto');
  const names = first.join(', ');
  if (kinds.length > 1) found.textContent = `${names} are files of ${kinds.map(({ many }) => many).join(' and ')}.`;
  else if (sets.length === 1) found.textContent = `${names} is the ${kind.role} of a ${kind.one}.`;
  else found.textContent = `${names} are the ${kind.roles} of ${sets.length} ${kind.many}.`;
  found.dataset.kind = 'good';
  found.hidden = false;
}

/** Ask the server what the files are, and propose how to import them. */
async function propose() {
  question += 1;
  const mine = question;
  together.hidden = chosen.length < 2;
  found.hidden = true;
  if (chosen.length < 2) return;
  const count = chosen.length;
  /** @type {{count: number, order: number[], reason: string, certain: boolean, others: number[]} | null} */
  let ranks = null;
  /** Of each result set, database and recording in several files the indices of its files. @type {number[][]} */
  let sets = [];
  let answered = true;
  try {
    ({ ranks, sets } = await postJSON('/import/ranks', { names: chosen.map(({ path }) => path) }));
  } catch {
    // Both ways remain possible.
    answered = false;
  }
  if (mine !== question) return;
  if (sets.length > 0) {
    proposeSets(sets);
    return;
  }
  const files = ranks && ranks.count < ranks.order.length ? ` from ${ranks.order.length} files` : '';
  const others = ranks?.others.length ?? 0;
  const apart = others === 0 ? '' : others === 1 ? ', the other file separately' : `, the other ${others} files separately`;
  offer('auto', ranks ? `Import as one result with ${ranks.count} ranks${files}${apart}` : '', 'Ordered by rank, as listed above.');
  offer('1', ranks && !others ? '' : `Import as one result with ${count} ranks`, 'Each file is a rank of one run, in the order above.');
  offer('0', `Import as ${count} results`, ranks ? 'The files are different runs.' : '');
  /** @type {HTMLInputElement | null} */
  const current = together.querySelector('input:checked');
  if (!decided || !current || choice(current.value).hidden) select(ranks ? 'auto' : '0');
  if (ranks) {
    chosen = [...ranks.order, ...ranks.others].map((at) => chosen[at]);
    listFiles();
    const check = ranks.certain ? '' : ' Check that they belong to one run.';
    found.textContent = `${others ? `${ranks.order.length} of these` : 'These'} files look like the ranks of one run. ${ranks.reason}${check}`;
  } else {
    found.textContent = answered
      ? 'No ranks recognized: the names do not contain a rank, or differ in more than the rank.'
      : 'The names could not be checked for ranks: no response from the server.';
  }
  found.dataset.kind = ranks ? 'good' : '';
  found.hidden = false;
}

function listFiles() {
  list.replaceChildren(...chosen.map(({ file, path }) => {
    const item = document.createElement('li');
    const name = document.createElement('span');
    name.className = 'wrap';
    name.textContent = path;
    const bytes = document.createElement('span');
    bytes.className = 'muted nowrap';
    bytes.textContent = size(file.size);
    item.append(name, bytes);
    return item;
  }));
  list.hidden = chosen.length === 0;
}

function showFiles() {
  listFiles();
  const empty = chosen.map(({ file }) => file).find((file) => file.size === 0);
  if (empty) fail(`${empty.name} is empty. Record again.`);
  else if (total() > limit) fail(`These files have ${size(total())}; this server takes up to ${form.dataset.limitText}.`);
  else fail('');
  send.disabled = !failure.hidden;
  void propose();
}

/**
 * All files of what was dropped, those of folders with their path.
 * @param {DataTransfer} transfer
 */
async function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return [...transfer.files].map((file) => ({ file, path: file.name }));
  /** @type {{file: File, path: string}[]} */
  const files = [];
  /** @param {any} entry */
  const add = async (entry) => {
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => { entry.file(resolve, reject); });
      if (!file.name.startsWith('.')) files.push({ file, path: entry.fullPath.replace(/^\//, '') });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      // It returns some of the entries at a time.
      const some = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
      if (some.length === 0) return;
      for (const one of some) await add(one);
    }
  };
  for (const entry of entries) await add(entry);
  return files.sort((a, b) => a.path.localeCompare(b.path, 'en', { numeric: true }));
}

/** @param {{file: File, path: string}[]} files */
function choose(files) {
  chosen = files;
  input.required = files.length === 0;
  showFiles();
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
  data.delete('file');
  for (const { file, path } of chosen) data.append('file', file, path);
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
input.addEventListener('change', () => choose([...input.files].map((file) => ({ file, path: file.name }))));
together.addEventListener('change', () => { decided = true; });

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
  droppedFiles(event.dataTransfer).then(choose, () => fail('The folder cannot be read. Choose its files instead.'));
});

for (const element of form.querySelectorAll('[data-with-scripts]')) element.hidden = false;
// A browser may restore them after a reload.
choose([...input.files].map((file) => ({ file, path: file.name })));
