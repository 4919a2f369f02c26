// What the server draws around a chart and what depends on the selection: tabs, the bar of the selection. When the
// selection changes without a new page, these are asked for again; links that stay on the page need no new page.

import { showActiveTab } from '../tabs.js';

export class Surroundings {
  #places;
  #words;
  #reloads;
  #shown;
  #request = null;

  /**
   * @param state the page's State
   * @param places selectors of what is taken from the fresh page @param words the words that these depend on, as text
   * @param reloads whether there is so much more that the page is loaded anew
   */
  constructor(state, places, words = () => state.selection().toString(), reloads = false) {
    this.#places = places;
    this.#words = words;
    this.#reloads = reloads;
    this.#shown = words();
    if (!reloads) listenToLinks(state);
  }

  /** Ask the server for what stands around the chart, when the selection has changed. */
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
      // The chart itself tells that the server does not answer.
      if (error.name !== 'AbortError') this.#shown = '';
    }
  }
}

/** Links of the selection's bar that stay on this page. */
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
