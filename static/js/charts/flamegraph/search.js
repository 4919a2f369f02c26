// The search box: the server searches all functions, including those too narrow to be drawn.

import { RequestFailed, getJSON } from '../../http.js';
import { Typing } from '../typing.js';
import { literalNote, percentage } from './format.js';
import { link } from './state.js';

export class Search {
  #form;
  /** @type {HTMLInputElement} */
  #input;
  /** @type {HTMLElement} */
  #result;
  #source;
  #found;
  /** @type {string | null} the URL of the latest request */
  #asked = null;
  /** @type {AbortController | null} */
  #request = null;
  #typing;

  /**
   * @param {HTMLFormElement & {elements: Record<string, any>}} form contains the input `q` and an element
   *   data-flame="matched"; data-flame-search is the URL of the search
   * @param {import('./state.js').State} state
   * @param {{found: (functions: Set<number> | null) => void, next: (step: number) => void}} callbacks found: called with
   *   the ids of functions, or null for no search; next: shows the next (1) or previous (-1) match
   */
  constructor(form, state, { found, next }) {
    this.#form = form;
    this.#input = form.elements.q;
    this.#result = /** @type {HTMLElement} */ (form.querySelector('[data-flame="matched"]'));
    this.#source = form.dataset.flameSearch ?? '';
    this.#found = found;
    this.#typing = new Typing(this.#input, state);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const isNew = state.get('q') !== this.#input.value;
      this.#typing.take();
      if (!isNew) next(1);
    });
    this.#input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && event.shiftKey) {
        event.preventDefault();
        next(-1);
      }
    });
    addEventListener('keydown', (event) => {
      const find =
        (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === 'f';
      // Pressed again, it opens the search of the browser.
      if (!find || document.activeElement === this.#input || document.querySelector('dialog[open]')) return;
      event.preventDefault();
      this.focus();
    });
  }

  focus() {
    this.#input.focus();
    this.#input.select();
  }

  /**
   * Show the state.
   * @param {import('./state.js').State} state
   */
  async update(state) {
    const pattern = state.get('q');
    this.#typing.show(pattern);
    const words = state.asked();
    words.set('q', pattern);
    const url = link(this.#source, words);
    if (url === this.#asked) return;
    this.#asked = url;
    this.#request?.abort();
    if (pattern === '') {
      this.#tell('');
      this.#found(null);
      return;
    }
    const request = (this.#request = new AbortController());
    try {
      const answer = await getJSON(url, { signal: request.signal });
      if (request !== this.#request) return;
      const count = answer.functions.length;
      const names = count === 1 ? '1 function' : `${count.toLocaleString('en')} functions`;
      const text = count ? `${percentage(answer.percent)} in ${names}` : 'No function matches';
      this.#tell(text + literalNote(answer));
      this.#found(new Set(answer.functions));
    } catch (caught) {
      const error = /** @type {Error} */ (caught);
      if (error.name === 'AbortError' || request !== this.#request) return;
      this.#asked = null;
      this.#tell(error.message, true);
      this.#found(null);
      if (!(error instanceof RequestFailed)) throw error;
    }
  }

  /** @param {string} text */
  #tell(text, isError = false) {
    this.#result.textContent = text;
    this.#result.title = text;
    this.#form.classList.toggle('flame-search--wrong', isError);
    if (isError) this.#input.setAttribute('aria-invalid', 'true');
    else this.#input.removeAttribute('aria-invalid');
  }
}
