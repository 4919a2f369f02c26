// The state of the page is its query string only: copy the URL to show a colleague the same picture.

/** Parameters that are patterns of functions. */
export const PATTERNS = ['focus', 'ignore', 'hide', 'show', 'show-from'];
/** Parameters of requests to the server, except `zoom`. The first are those of perfloom.domain.selection and the time
 * unit. */
export const SELECTION = [
  'event',
  'thread',
  'process',
  'rank',
  'host',
  'start-ms',
  'end-ms',
  ...PATTERNS,
  'invert',
  'recursion',
  'step',
  'unit',
];
const SHAPE = ['group', 'order'];
const COMPARISON = ['base', 'other', 'normalise', 'reverse', 'names'];
const ASKED = [...SELECTION, ...SHAPE, ...COMPARISON];
/** With another value of these a node's id means something else. */
const RENUMBERING = new Set([
  'invert',
  'recursion',
  'hide',
  'show',
  'show-from',
  'group',
  'order',
  'base',
  'other',
  'reverse',
  'names',
]);
const ZOOMS = ['zoom', 'zoom-callers', 'zoom-callees'];
/** Parameters that do not add a step to the history. */
const PASSING = new Set(['q', 'colour', 'of', 'grow', 'view-ms', 'pin', 'fold', 'stacks', 'tracks', 'slice', 'flows']);

/** @typedef {string | boolean | null | undefined} Value */
/** @typedef {Record<string, Value | Value[]>} Changes new values of parameters */

export class State {
  #words;
  #changed;

  /** @param {(state: State) => void} changed called after every change, by this page or by the browser's Back and Forward */
  constructor(changed) {
    this.#words = new URLSearchParams(location.search);
    this.#changed = changed;
    addEventListener('popstate', () => {
      this.#words = new URLSearchParams(location.search);
      this.#changed(this);
    });
  }

  /** @param {string} word */
  get(word) {
    return this.#words.get(word) ?? '';
  }

  /** @param {string} word */
  all(word) {
    return this.#words.getAll(word);
  }

  /** @param {string} word */
  flag(word) {
    return ['1', 'true', 'yes', 'on'].includes(this.get(word));
  }

  get zoom() {
    const text = this.get('zoom');
    return /^\d+$/.test(text) ? Number(text) : null;
  }

  /** The parameters of requests, in a fixed order; without the zoom. */
  asked() {
    return this.#only(ASKED);
  }

  /** The parameters that apply to every page of a result. */
  selection() {
    return this.#only(SELECTION);
  }

  /**
   * The URL of this page with changed parameters ("" or null removes one).
   * @param {Changes} changes
   */
  address(changes) {
    return link(location.pathname, this.#with(changes));
  }

  /**
   * Change parameters; passing ones replace the current history entry, unless `isStep`.
   * @param {Changes} changes
   */
  change(changes, { isStep = false } = {}) {
    const words = this.#with(changes);
    if (words.toString() === this.#words.toString()) return;
    const passing = !isStep && Object.keys(changes).every((word) => PASSING.has(word));
    this.#words = words;
    const url = link(location.pathname, words);
    if (passing) history.replaceState(history.state, '', url);
    else history.pushState(null, '', url);
    this.#changed(this);
  }

  /**
   * Go to another query string of this page; the zoom is kept if it is still valid.
   * @param {string} query
   */
  visit(query) {
    const before = this.#words;
    this.#words = new URLSearchParams(query);
    /** @param {string} word */
    const same = (word) => before.getAll(word).join() === this.#words.getAll(word).join();
    for (const word of ZOOMS) {
      const zoom = before.get(word);
      this.#words.delete(word);
      if (zoom && [...RENUMBERING].every(same)) this.#words.set(word, zoom);
    }
    history.pushState(null, '', link(location.pathname, this.#words));
    this.#changed(this);
  }

  /**
   * Remove parameters that cannot be shown, without a history entry.
   * @param {Changes} changes
   */
  correct(changes) {
    this.#words = this.#with(changes);
    history.replaceState(history.state, '', link(location.pathname, this.#words));
  }

  /** @param {Changes} changes */
  #with(changes) {
    const words = new URLSearchParams(this.#words);
    for (const [word, value] of Object.entries(changes)) {
      words.delete(word);
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== '' && one !== null && one !== undefined && one !== false)
          words.append(word, one === true ? '1' : one);
      }
    }
    if (Object.keys(changes).some((word) => RENUMBERING.has(word))) ZOOMS.forEach((word) => words.delete(word));
    return words;
  }

  /** @param {string[]} names */
  #only(names) {
    const words = new URLSearchParams();
    for (const name of names) {
      for (const value of this.#words.getAll(name)) if (value !== '') words.append(name, value);
    }
    return words;
  }
}

/**
 * A path with a query appended, if any; the path can have a query already.
 * @param {string} path
 * @param {URLSearchParams} words
 */
export function link(path, words) {
  const query = words.toString();
  return query ? `${path}${path.includes('?') ? '&' : '?'}${query}` : path;
}
