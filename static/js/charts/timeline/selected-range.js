// The samples of the selected time, below the tracks: the flame graph and the top functions. They are requested when
// they come into view, so that they do not delay the tracks.

import { listActions } from '../flamegraph/actions.js';
import { Menu } from '../flamegraph/menu.js';
import { ModuleColors, Palette } from '../flamegraph/palette.js';
import { Panel } from '../flamegraph/panel.js';
import { link } from '../flamegraph/state.js';
import { Tooltip } from '../flamegraph/tooltip.js';

/** What the server draws; the flame graph is drawn here. */
const PARTS = ['[data-selected="head"]', '[data-selected="functions"]'];
const NEAR = '200px';
const NO_ANSWER = 'These functions are not shown, because the server did not answer. Check that Perfloom is running, then reload the page.';

export class SelectedRange {
  #root;
  #state;
  #panel;
  #menu = new Menu();
  #palette = null;
  #isNear = false;
  /** @type {string | null} the parameters of what is shown or requested */
  #shown;
  /** @type {AbortController | null} */
  #request = null;

  /**
   * @param {HTMLElement} root
   * @param {import('../flamegraph/state.js').State} state of the page
   */
  constructor(root, state) {
    this.#root = root;
    this.#state = state;
    this.#shown = 'isPending' in root.dataset ? null : state.selection().toString();
    this.#panel = new Panel(root.querySelector('[data-flamegraph]'), {
      state,
      tooltip: new Tooltip(),
      menu: this.#menu,
      moduleColors: new ModuleColors(),
      palette: () => (this.#palette ??= new Palette(document.documentElement)),
      covered: () => 0,
      entries: (panel, node) => listActions(panel, node, state, true),
    });
    const seen = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        seen.disconnect();
        this.#isNear = true;
        this.update();
      },
      { rootMargin: NEAR },
    );
    seen.observe(root);
    document.addEventListener('perfloom:theme', () => {
      this.#palette = null;
      this.#panel.repaint();
    });
  }

  /** The graph, for tests. */
  get panel() {
    return this.#panel;
  }

  /** Whether all shows the selection, or is not in view yet. */
  get idle() {
    return !this.#isNear || (this.#panel.idle && this.#request === null);
  }

  /** Whether a menu of the graph is open. */
  get isMenuOpen() {
    return this.#menu.open;
  }

  /** Show the state. */
  update() {
    if (!this.#isNear) return;
    this.#panel.update(this.#state);
    const words = this.#state.selection().toString();
    if (words !== this.#shown) this.#load(words);
  }

  /**
   * Mark these functions.
   * @param {Set<number> | null} functions their ids, null for no search
   */
  match(functions) {
    this.#panel.match(functions);
  }

  /**
   * Show the whole graph if an element of it has the focus and it is zoomed; returns whether it was.
   * @param {EventTarget | null} target
   */
  zoomOut(target) {
    if (!(target instanceof Node) || !this.#panel.root.contains(target) || this.#state.zoom === null) return false;
    this.#state.change({ zoom: '' });
    return true;
  }

  /** @param {string} words */
  async #load(words) {
    this.#shown = words;
    this.#request?.abort();
    const request = (this.#request = new AbortController());
    try {
      const url = link(this.#root.dataset.source ?? '', new URLSearchParams(words));
      const response = await fetch(url, { signal: request.signal, headers: { Accept: 'text/html' } });
      const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
      if (request !== this.#request) return;
      if (!response.ok || !fresh.querySelector(PARTS[1])) throw new Error(String(response.status));
      for (const place of PARTS) {
        const [old, next] = [this.#root.querySelector(place), fresh.querySelector(place)];
        if (old && next) old.replaceWith(document.adoptNode(next));
      }
    } catch (caught) {
      const error = /** @type {Error} */ (caught);
      if (error.name === 'AbortError' || request !== this.#request) return;
      this.#shown = null;
      this.#fail();
    }
    this.#request = null;
  }

  #fail() {
    const text = document.createElement('p');
    text.className = 'muted';
    text.textContent = NO_ANSWER;
    this.#root.querySelector(PARTS[1])?.replaceChildren(text);
  }
}
