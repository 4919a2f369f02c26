// The list of results: counts the selected ones, and updates itself: soon after a job ends, else every ten seconds if the
// results have changed.

import './ticks.js';
import { enhance } from './controls.js';
import { getJSON } from './http.js';

const EVERY_MS = 2000;
const LIST_EVERY_MS = 10_000;
/** @type {HTMLElement | null} */
const running = document.querySelector('[data-running]');
/** @type {HTMLElement | null} */
const list = document.querySelector('[data-result-list]');
/** @type {HTMLElement | null} The list, or the start page without results. */
const versioned = document.querySelector('[data-results-version]');
let version = versioned?.dataset.resultsVersion;
let known = (running?.dataset.running ?? '').split(' ').filter(Boolean);
let listed = performance.now();
let timer = 0;
let isRefreshing = false;

/** @returns {HTMLInputElement[]} */
function boxes() {
  return [...document.querySelectorAll('[data-rows] input[type="checkbox"]')].map(
    (box) => /** @type {HTMLInputElement} */ (box),
  );
}

/** Show on the buttons how many results are selected. */
function countSelected() {
  const all = boxes();
  const ticked = all.filter((box) => box.checked).length;
  /** @type {HTMLButtonElement | null} */
  const compare = document.querySelector('[data-compare-button]');
  /** @type {HTMLButtonElement | null} */
  const remove = document.querySelector('[data-delete-button]');
  /** @type {HTMLButtonElement | null} */
  const merge = document.querySelector('[data-merge-button]');
  /** @type {HTMLInputElement | null} */
  const every = document.querySelector('[data-select-all]');
  if (compare) {
    compare.disabled = ticked > 2;
    compare.textContent = ticked === 0 ? 'Compare' : `Compare ${ticked} of 2`;
  }
  if (merge) {
    merge.disabled = ticked < 2;
    merge.textContent = ticked < 2 ? 'Merge' : `Merge ${ticked}`;
  }
  if (remove) {
    remove.disabled = ticked === 0;
    remove.textContent = ticked === 0 ? 'Delete' : `Delete ${ticked}`;
  }
  if (every) {
    every.hidden = false;
    every.checked = ticked > 0 && ticked === all.length;
    every.indeterminate = ticked > 0 && ticked < all.length;
  }
}

/**
 * Whether a row must stay although the server no longer lists it here: it is selected, or has the focus.
 * @param {Element} row
 */
function isInUse(row) {
  return row.contains(document.activeElement) || row.querySelector('input:checked') !== null;
}

/**
 * Make the rows those of `fresh`, without replacing rows that are the same. Returns the number of new ones.
 * @param {Element} body
 * @param {Element} fresh
 */
function updateRows(body, fresh) {
  const present = new Map([...body.children].map((row) => [row.getAttribute('data-id'), row]));
  let added = 0;
  let place = body.firstElementChild;
  for (const row of [...fresh.children]) {
    const kept = present.get(row.getAttribute('data-id'));
    present.delete(row.getAttribute('data-id'));
    if (!kept) {
      row.classList.add('is-new');
      body.insertBefore(row, place);
      added += 1;
      continue;
    }
    kept.classList.remove('is-new');
    if (!kept.getAttribute('class')) kept.removeAttribute('class');
    let current = kept;
    if (kept.outerHTML !== row.outerHTML && !kept.contains(document.activeElement)) {
      const box = row.querySelector('input');
      if (box) box.checked = kept.querySelector('input')?.checked ?? false;
      kept.replaceWith(row);
      if (place === kept) place = row;
      current = row;
    }
    if (current === place) place = place.nextElementSibling;
    else body.insertBefore(current, place);
  }
  for (const row of present.values()) if (!isInUse(row)) row.remove();
  return added;
}

/**
 * Replace the contents of what `selector` finds, unless it has the focus.
 * @param {Element} root
 * @param {Element} fresh
 * @param {string} selector
 */
function updatePart(root, fresh, selector) {
  const [old, now] = [root.querySelector(selector), fresh.querySelector(selector)];
  if (old && now && old.innerHTML !== now.innerHTML && !old.contains(document.activeElement)) {
    old.innerHTML = now.innerHTML;
  }
}

/** Update the list. Returns how many results are new in it. */
async function updateList() {
  const response = await fetch(location.href, { credentials: 'same-origin', headers: { Accept: 'text/html' } });
  if (!response.ok) throw new Error(`The list could not be loaded: status ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const fresh = page.querySelector('[data-result-list]');
  if (!fresh || !list) return 0;
  enhance(fresh);
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  const [body, rows] = [list.querySelector('[data-rows]'), fresh.querySelector('[data-rows]')];
  let added = 0;
  if (body && rows) {
    added = updateRows(body, rows);
    for (const part of ['.pager', '[data-tags]']) updatePart(list, fresh, part);
    for (const { id } of list.querySelectorAll('select')) updatePart(list, fresh, `#${id}`);
  } else if (!body && rows && !list.contains(focused)) {
    added = rows.children.length;
    list.replaceChildren(...fresh.children);
  }
  if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
  countSelected();
  return added;
}

/**
 * Say what became of the jobs that ended.
 * @param {number} added new results
 */
function reportEnded(added) {
  const status = running?.querySelector('[data-running-done]');
  if (!status) return;
  const jobs = document.createElement('a');
  jobs.href = '/jobs';
  jobs.textContent = 'All jobs';
  if (added > 0) status.textContent = added === 1 ? '1 new result in the list.' : `${added} new results in the list.`;
  else status.replaceChildren('A job has ended without a new result in this list. ', jobs);
}

/** Update the rows of running jobs. Returns whether one of them has ended. */
async function updateRunning() {
  const answer = await getJSON('/jobs/running');
  const rows = running?.querySelector('[data-running-rows]');
  if (rows && !rows.contains(document.activeElement)) rows.innerHTML = answer.html;
  const hasEnded = known.some((id) => !answer.ids.includes(id));
  known = answer.ids;
  return hasEnded;
}

/** Update the list if the results have changed. Returns how many are new in it. */
async function updateIfChanged() {
  listed = performance.now();
  const answer = await getJSON('/results/version');
  if (answer.version === version) return 0;
  if (!list) {
    // The start page; a reload would take the focus from a link or a button.
    if (document.activeElement === document.body) location.reload();
    return 0;
  }
  const added = await updateList();
  ({ version } = answer);
  return added;
}

async function refresh() {
  clearTimeout(timer);
  if (document.hidden || isRefreshing) return;
  isRefreshing = true;
  try {
    const hasEnded = running !== null && (await updateRunning());
    if (!running || hasEnded || performance.now() - listed > LIST_EVERY_MS) {
      const added = await updateIfChanged();
      if (hasEnded || added > 0) reportEnded(added);
    }
  } catch {
    // The server is unreachable, maybe only temporarily.
  }
  isRefreshing = false;
  timer = setTimeout(refresh, running ? EVERY_MS : LIST_EVERY_MS);
}

document.addEventListener('change', ({ target }) => {
  if (!(target instanceof HTMLInputElement) || target.type !== 'checkbox') return;
  if (target.matches('[data-select-all]')) for (const box of boxes()) box.checked = target.checked;
  countSelected();
});
document.addEventListener('visibilitychange', () => {
  listed = -Infinity;
  refresh();
});
countSelected();
timer = setTimeout(refresh, running ? EVERY_MS : LIST_EVERY_MS);
