// The page of a flame graph, a sandwich or a differential flame graph: puts the parts together.
//
// Everything is found by data attributes and reads its state from the address; without this script the same controls
// are plain forms and links.

import { isTyping } from '../keys.js';
import { listActions } from './flamegraph/actions.js';
import { Menu } from './flamegraph/menu.js';
import { ModuleColors, Palette } from './flamegraph/palette.js';
import { Panel } from './flamegraph/panel.js';
import { Search } from './flamegraph/search.js';
import { State, link } from './flamegraph/state.js';
import { Tooltip } from './flamegraph/tooltip.js';
import { Surroundings } from './surroundings.js';

// The parts of the page around the graph that depend on the selection.
const SURROUNDINGS = ['.tabs', '.selection', '[data-flame-actions]'];

const shared = {
  state: null,
  tooltip: new Tooltip(),
  menu: new Menu(),
  moduleColors: new ModuleColors(),
  palette: () => (palette ??= new Palette(document.documentElement)),
  covered: () => document.querySelector('[data-flame-bar]')?.getBoundingClientRect().bottom ?? 0,
  entries: (panel, node) => listActions(panel, node, shared.state, search !== null),
};
let palette = null;
let shown = [];
let search = null;
/** @typedef {HTMLInputElement | HTMLSelectElement} Field */

/** @type {HTMLFormElement & {elements: Record<string, any>} | null} */
let form = null;
let surroundings = null;

function start() {
  const roots = [...document.querySelectorAll('[data-flamegraph]')];
  if (!roots.length) return;
  shared.state = new State(update);
  shown = roots.map((root) => new Panel(root, shared));
  form = document.querySelector('form[data-flame-controls]');
  if (form?.elements.q) {
    search = new Search(form, shared.state, {
      found: (ids) => shown.forEach((panel) => panel.match(ids)),
      next: (step) => shown[0].nextMatch(step),
    });
  }
  surroundings = new Surroundings(shared.state, SURROUNDINGS, surroundingWords, reloads());
  listenToControls();
  listenToKeys();
  watchTheme();
  update(shared.state);
}

function update(state) {
  showControls(state);
  followLinks();
  surroundings.update();
  for (const panel of shown) panel.update(state);
  search?.update(state);
}

function listenToControls() {
  form?.addEventListener('submit', (event) => event.preventDefault());
  form?.addEventListener('change', (event) => {
    const target = /** @type {Field} */ (event.target);
    if (!target.name || target.name === 'q') return;
    const value = target instanceof HTMLInputElement && target.type === 'checkbox' && !target.checked ? '' : target.value;
    // Parameters that no longer apply after a change.
    const drops = form?.dataset.flameDrops?.split(' ') ?? [];
    const changes = { [target.name]: value === target.dataset.default ? '' : value };
    shared.state.change({ ...Object.fromEntries(drops.map((word) => [word, ''])), ...changes });
  });
}

function showControls(state) {
  for (const field of /** @type {Iterable<Field>} */ (form?.elements ?? [])) {
    if (!field.name || field.type === 'hidden' || field.name === 'q') continue;
    if (field instanceof HTMLInputElement && field.type === 'checkbox') field.checked = state.get(field.name) === field.value;
    else field.value = state.get(field.name) || field.dataset.default || '';
  }
}

/** Whether other parts of the page than the graph depend on the selection. */
function reloads() {
  return form?.hasAttribute('data-flame-reloads') ?? false;
}

/** Parameters on which other parts of the page depend. */
function surroundingWords() {
  const words = shared.state.selection();
  if (reloads()) for (const word of ['reverse', 'colour', 'of']) words.set(word, shared.state.get(word));
  return words.toString();
}

/** Links with the complete state of the page. */
function followLinks() {
  for (const anchor of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll('a[data-follow-state]'))) {
    const words = new URLSearchParams(location.search);
    words.set('download', '1');
    anchor.href = link(new URL(anchor.href).pathname, words);
  }
}

function listenToKeys() {
  addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.defaultPrevented || isTyping(event.target) || shared.menu.open) return;
    if (document.querySelector('dialog[open], details.menu[open]')) return;
    event.preventDefault();
    shared.tooltip.hide();
    shared.state.change(Object.fromEntries(shown.map((panel) => [panel.zoomWord, ''])));
  });
}

function watchTheme() {
  document.addEventListener('perfloom:theme', () => {
    palette = null;
    shown.forEach((panel) => panel.repaint());
  });
}

/** The graphs of this page. */
export function panels() {
  return shown;
}

start();
