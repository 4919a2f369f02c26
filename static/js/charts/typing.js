// A search box: its input becomes the parameter `q` after a pause. Until then, other changes of the state do not affect it.

const PAUSE_MS = 180;

export class Typing {
  #input;
  #state;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #pending;

  /**
   * @param {HTMLInputElement} input
   * @param {import('./flamegraph/state.js').State} state
   */
  constructor(input, state) {
    this.#input = input;
    this.#state = state;
    input.addEventListener('input', () => {
      clearTimeout(this.#pending);
      this.#pending = setTimeout(() => this.take(), PAUSE_MS);
    });
    input.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.preventDefault();
      if (input.value) this.clear();
      else input.blur();
    });
  }

  /** Search immediately. */
  take() {
    clearTimeout(this.#pending);
    this.#pending = undefined;
    this.#state.change({ q: this.#input.value });
  }

  clear() {
    this.#input.value = '';
    this.take();
  }

  /**
   * Show the state, unless the user is typing.
   * @param {string} pattern
   */
  show(pattern) {
    if (this.#pending) return;
    if (document.activeElement !== this.#input || pattern === '') this.#input.value = pattern;
  }
}
