// The visible range in the address (`view-ms`).

import { milliseconds, nanoseconds } from './time.js';

const SETTLED_MS = 250;
const GESTURE_MS = 500;

export class VisibleRange {
  #view;
  #state;
  // The word in the address; null before the first range is shown.
  #word = null;
  #timer = 0;
  #isStep = false;
  #gestured = -Infinity;

  /** @param view a View @param state the page's State */
  constructor(view, state) {
    this.#view = view;
    this.#state = state;
  }

  /** Whether no range was shown yet. */
  get isNew() {
    return this.#word === null;
  }

  /** Show the range in the address. */
  read() {
    const word = this.#state.get('view-ms');
    if (word === this.#word) return;
    const { isNew } = this;
    this.#word = word;
    // What comes after another range, such as that of Back, is a new step.
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#isStep = false;
    this.#gestured = -Infinity;
    const cut = word.indexOf('-', 1);
    const [from, to] = [nanoseconds(word.slice(0, cut)), nanoseconds(word.slice(cut + 1))];
    const { extent, range } = this.#view;
    if (to > from) this.#view.show(from, to);
    else if (isNew && range) {
      const [a, b] = range;
      this.#view.show(a - (b - a) * 0.1, b + (b - a) * 0.1);
    } else this.#view.show(extent.start, extent.end);
  }

  /** The range is about to change in one step, to which the browser's Back returns. */
  beginStep() {
    if (this.#timer) this.#write();
    this.#isStep = true;
  }

  /** Write a pending range and end the gesture, so that what follows is a later step. */
  settle() {
    if (this.#timer) this.#write();
    this.#gestured = -Infinity;
  }

  /**
   * An event of a gesture is about to change the range. Events within half a second of each other are one step.
   * @param {number} at when it happened, in ms of the document's clock
   * @param {boolean} isHeld whether a key is held since the previous event
   */
  continueGesture(at, isHeld = false) {
    if (!isHeld && at - this.#gestured > GESTURE_MS) this.beginStep();
    this.#gestured = at;
  }

  /** The range has changed: the address follows when it rests. */
  change() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#write(), SETTLED_MS);
  }

  #write() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const isStep = this.#isStep;
    this.#isStep = false;
    const { start, end, atHome } = this.#view;
    const word = atHome ? '' : `${milliseconds(start)}-${milliseconds(end)}`;
    if (word === this.#word) return;
    this.#word = word;
    this.#state.change({ 'view-ms': word }, { isStep });
  }
}
