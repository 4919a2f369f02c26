// The search of the timeline: the server searches all functions, and finds the next hit.

import { RequestFailed, getJSON } from '../../http.js';
import { literalNote, percentage, weight } from '../flamegraph/format.js';
import { Typing } from '../typing.js';

export class Search {
  #form;
  /** @type {HTMLInputElement} */
  #input;
  /** @type {HTMLElement} */
  #result;
  #state;
  #url;
  #does;
  /** @type {string | null} the parameters of the latest request */
  #asked = null;
  /** @type {AbortController | null} */
  #request = null;
  #typing;
  /** @type {number | null} the row of the current hit */
  #hit = null;

  /**
   * @param {HTMLFormElement & {elements: Record<string, any>}} form
   * @param {import('../flamegraph/state.js').State} state
   * @param {string} url of the timeline's data
   * @param {{found: (functions: Set<number> | null) => void, go: (hit: any) => void, from: () => number}} does found:
   *   called with the ids of functions, or null for no search; go: shows a hit; from: the time (ns) to search from
   */
  constructor(form, state, url, does) {
    this.#form = form;
    this.#input = form.elements.q;
    this.#result = /** @type {HTMLElement} */ (form.querySelector('[data-timeline="matched"]'));
    this.#state = state;
    this.#url = url;
    this.#does = does;
    this.#typing = new Typing(this.#input, state);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#typing.take();
      this.next(false);
    });
    this.#input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && event.shiftKey) {
        event.preventDefault();
        this.#typing.take();
        this.next(true);
      }
    });
    for (const button of form.querySelectorAll('[data-hit]')) {
      button.addEventListener('click', () => this.next(button.dataset.hit === 'previous'));
    }
  }

  get active() {
    return this.#state.get('q') !== '';
  }

  clear() {
    this.#typing.clear();
  }

  /**
   * Go to the next hit, or the previous one.
   * @param {boolean} back
   */
  async next(back) {
    if (!this.active) return;
    const words = this.#words();
    words.set('from', String(Math.round(this.#does.from())));
    if (this.#hit !== null) words.set('row', String(this.#hit));
    if (back) words.set('back', '1');
    try {
      const hit = await getJSON(`${this.#url}/search/next?${words}`);
      this.#hit = hit.row;
      this.#does.go(hit);
      this.#number.textContent = `${(hit.number + 1).toLocaleString('en')} of ${hit.of.toLocaleString('en')}`;
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      if (error.status !== 404) this.#tell(error.message, true);
    }
  }

  /** Show the state. */
  async update() {
    const pattern = this.#state.get('q');
    this.#typing.show(pattern);
    const words = this.#words();
    const asked = words.toString();
    if (asked === this.#asked) return;
    this.#asked = asked;
    this.#hit = null;
    this.#request?.abort();
    this.#number.textContent = '';
    for (const button of this.#form.querySelectorAll('[data-hit]')) button.hidden = pattern === '';
    if (pattern === '') {
      this.#tell('');
      this.#does.found(null);
      return;
    }
    const request = (this.#request = new AbortController());
    try {
      const answer = await getJSON(`${this.#url}/search?${words}`, { signal: request.signal });
      if (request !== this.#request) return;
      this.#tell(summarize(answer) + literalNote(answer));
      this.#does.found(new Set(answer.functions));
    } catch (caught) {
      const error = /** @type {Error} */ (caught);
      if (error.name === 'AbortError' || request !== this.#request) return;
      this.#asked = null;
      this.#tell(error.message, true);
      this.#does.found(null);
      if (!(error instanceof RequestFailed)) throw error;
    }
  }

  get #number() {
    return /** @type {HTMLElement} */ (this.#form.querySelector('[data-timeline="number"]'));
  }

  #words() {
    const words = this.#state.selection();
    words.set('q', this.#state.get('q'));
    return words;
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

/**
 * @param {{hits: number, functions: number[], total: number, unit: string, percent: number | null}} answer
 * @returns {string}
 */
function summarize({ hits, functions, total, unit, percent }) {
  if (!hits) return functions.length ? 'Only outside of the selection' : 'No function matches';
  const share = percent === null ? '' : ` · ${percentage(percent)}`;
  return `${hits.toLocaleString('en')} · ${weight(total, unit)}${share}`;
}
