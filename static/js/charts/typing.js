// A search box: what is typed becomes the state's `q` after a pause. Until then no other change of the state touches it.

const PAUSE_MS = 180;

export class Typing {
  #input;
  #state;
  #pending = 0;

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

  /** Search for what is typed now, without a pause. */
  take() {
    clearTimeout(this.#pending);
    this.#pending = 0;
    this.#state.change({ q: this.#input.value });
  }

  clear() {
    this.#input.value = '';
    this.take();
  }

  /** Show what the state says, unless somebody types. */
  show(pattern) {
    if (this.#pending) return;
    if (document.activeElement !== this.#input || pattern === '') this.#input.value = pattern;
  }
}
