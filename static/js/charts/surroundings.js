// The parts of the page around a chart that depend on the selection: tabs and selection bar. If the selection changes
// without a new page, they are requested again; links within the page do not reload it.

import { showActiveTab } from '../tabs.js';

export class Surroundings {
  #places;
  #words;
  #reloads;
  #shown;
  #request = null;

  /**
   * @param state the page's State
   * @param places selectors of the parts to replace @param words the parameters that they depend on, as text
   * @param reloads whether other parts depend on it, so that the page is reloaded
   */
  constructor(state, places, words = () => state.selection().toString(), reloads = false) {
    this.#places = places;
    this.#words = words;
    this.#reloads = reloads;
    this.#shown = words();
    if (!reloads) listenToLinks(state);
  }

  /** Request the parts around the chart if the selection changed. */
  async update() {
    const wanted = this.#words();
    if (wanted === this.#shown) return;
    this.#shown = wanted;
    if (this.#reloads) {
      location.reload();
      return;
    }
    this.#request?.abort();
    this.#request = new AbortController();
    try {
      const response = await fetch(location.href, {
        signal: this.#request.signal,
        headers: { Accept: 'text/html' },
      });
      const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
      for (const place of this.#places) {
        const [old, next] = [document.querySelector(place), fresh.querySelector(place)];
        if (old && next) old.replaceWith(document.adoptNode(next));
      }
      showActiveTab();
      for (const button of document.querySelectorAll('.selection [data-without-scripts]')) button.hidden = true;
    } catch (error) {
      // The chart reports that the server does not respond.
      if (error.name !== 'AbortError') this.#shown = '';
    }
  }
}

/** Links of the selection bar to this page. */
function listenToLinks(state) {
  document.addEventListener('click', (event) => {
    /** @type {HTMLAnchorElement | null} */
    const anchor = event.target instanceof Element ? event.target.closest('.selection a[href]') : null;
    if (!anchor || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (anchor.origin !== location.origin || anchor.pathname !== location.pathname) return;
    event.preventDefault();
    state.visit(anchor.search);
  });
}
