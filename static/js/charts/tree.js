// The call tree: rows are expanded without loading the page, and moved through with the keys of Firefox Profiler. The
// links of the table do the same without this module.

import { isTyping, onKey } from '../keys.js';

const tree = document.querySelector('[data-tree]');
if (tree) start(/** @type {HTMLElement} */ (tree));

/** Longer patterns are refused. */
const MAX_PATTERN_CHARS = 2000;

/** A pattern of exactly this name. A page shows U+FFFD for a direction character. @param {string} name */
function patternOf(name) {
  return `^${name.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&').replaceAll('\uFFFD', '.')}$`;
}

/** @param {HTMLElement} root */
function start(root) {
  /** @type {string | null} */
  let key = null;
  let requests = 0;

  const rows = () => /** @type {HTMLElement[]} */ ([...root.querySelectorAll('tbody tr')]);
  const current = () => rows().find((row) => row.dataset.key === key) ?? null;

  /** @param {HTMLElement | null | undefined} row @param {boolean} [moves] whether it gets the keyboard focus */
  function select(row, moves = true) {
    for (const other of rows()) {
      other.tabIndex = other === row ? 0 : -1;
      if (other === row) other.setAttribute('aria-selected', 'true');
      else other.removeAttribute('aria-selected');
    }
    if (!row) return;
    key = row.dataset.key ?? null;
    if (moves) row.focus();
  }

  function prepare() {
    const row = current() ?? rows()[0];
    for (const other of rows()) other.tabIndex = -1;
    if (row) row.tabIndex = 0;
  }

  /** Show the table of another address of this page. @param {string} url */
  async function show(url) {
    requests += 1;
    const mine = requests;
    root.setAttribute('aria-busy', 'true');
    try {
      const response = await fetch(url, { headers: { Accept: 'text/html' } });
      if (!response.ok) throw new Error(String(response.status));
      const text = await response.text();
      if (mine !== requests) return;
      const found = new DOMParser().parseFromString(text, 'text/html').querySelector('[data-tree]');
      if (!found) throw new Error('no table');
      root.replaceChildren(...found.childNodes);
      history.replaceState(history.state, '', url);
      prepare();
      if (key !== null) select(current());
    } catch {
      location.assign(url);
    } finally {
      root.removeAttribute('aria-busy');
    }
  }

  /** @param {HTMLElement} row */
  function toggle(row) {
    const link = /** @type {HTMLAnchorElement | null} */ (row.querySelector('a.tree__toggle'));
    if (link) void show(link.href.split('#')[0]);
  }

  /** Go to this page with one more pattern of a word. @param {string} word @param {string} pattern */
  function add(word, pattern) {
    const url = new URL(location.href);
    if (!url.searchParams.getAll(word).includes(pattern)) url.searchParams.append(word, pattern);
    if (pattern.length <= MAX_PATTERN_CHARS) visit(url);
  }

  /** Go to this page with a changed selection. @param {Record<string, string | null>} changes */
  function go(changes) {
    const url = new URL(location.href);
    for (const [word, value] of Object.entries(changes)) {
      if (value === null) url.searchParams.delete(word);
      else url.searchParams.set(word, value);
    }
    visit(url);
  }

  /** Go to an address of this page, without the state of the rows. @param {URL} url */
  function visit(url) {
    for (const word of ['toggle', 'expand', 'rows']) url.searchParams.delete(word);
    url.hash = '';
    location.assign(url);
  }

  /** Add a function to a pattern of the selection. @param {string} word @param {HTMLElement} row @param {boolean} joins */
  function restrict(word, row, joins) {
    if (!joins) {
      add(word, patternOf(row.dataset.name ?? ''));
      return;
    }
    const now = new URL(location.href).searchParams.get(word);
    const pattern = patternOf(row.dataset.name ?? '');
    const joined = now ? `${now}|${pattern}` : pattern;
    if (joined.length <= MAX_PATTERN_CHARS) go({ [word]: joined });
  }

  root.addEventListener('click', (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    const target = /** @type {HTMLElement} */ (event.target);
    const row = /** @type {HTMLElement | null} */ (target.closest('tbody tr'));
    if (!row) return;
    const link = target.closest('a');
    if (link && !link.classList.contains('tree__toggle')) return;
    select(row);
    if (!link) return;
    event.preventDefault();
    toggle(row);
  });

  root.addEventListener('dblclick', (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const row = /** @type {HTMLElement | null} */ (target.closest('tbody tr'));
    if (row && !target.closest('a')) toggle(row);
  });

  root.addEventListener('focusin', (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.matches('tbody tr') && target.dataset.key !== key) select(target, false);
  });

  /** @param {HTMLElement} row @param {number} step */
  function move(row, step) {
    const all = rows();
    select(all[all.indexOf(row) + step] ?? row);
  }

  /** @type {Record<string, (row: HTMLElement) => void>} */
  const keys = {
    ArrowDown: (row) => move(row, 1),
    ArrowUp: (row) => move(row, -1),
    Home: () => select(rows()[0]),
    End: () => select(rows().at(-1)),
    ArrowRight: (row) => {
      if (row.ariaExpanded === 'false') toggle(row);
      else if (row.ariaExpanded === 'true') move(row, 1);
    },
    ArrowLeft: (row) => {
      if (row.ariaExpanded === 'true') toggle(row);
      else select(rows().find((other) => other.dataset.key === row.dataset.parent && other.closest('table') === row.closest('table')) ?? row);
    },
    '*': (row) => { if (row.dataset.expand) void show(row.dataset.expand); },
    Enter: (row) => { if (row.dataset.callers) location.assign(row.dataset.callers); },
  };

  root.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || isTyping(event.target)) return;
    const target = /** @type {HTMLElement} */ (event.target);
    const row = /** @type {HTMLElement | null} */ (target.closest('tbody tr'));
    // A link keeps its Enter.
    if (!row || !keys[event.key] || (event.key === 'Enter' && target !== row)) return;
    event.preventDefault();
    keys[event.key](row);
  });

  /** @param {string} letter @param {(row: HTMLElement) => void} action */
  function onRow(letter, action) {
    onKey(letter, () => {
      const row = current();
      if (row) action(row);
    });
  }

  onRow('f', (row) => restrict('focus', row, false));
  onRow('d', (row) => restrict('ignore', row, true));
  onRow('m', (row) => restrict('hide', row, true));
  const switchOf = (/** @type {string} */ word) => () => {
    go({ [word]: new URL(location.href).searchParams.get(word) ? null : '1', function: null });
  };
  onKey('r', switchOf('recursion'));
  onKey('i', switchOf('invert'));
  prepare();
}
