// Arrows between slices: those of the slice that is told of, and where the address says so of all that is in sight.

import { getJSON } from '../../http.js';

const AFTER_MS = 150;

export class Flows {
  #view;
  #state;
  #url;
  #told;
  #asked = '';
  #timer = 0;

  /** @param told the element that says where there are too many */
  constructor(view, state, url, told) {
    this.#view = view;
    this.#state = state;
    this.#url = url;
    this.#told = told;
  }

  /** Show those of what is told of now, and what is in sight now. details: of a slice or something else, or null. */
  update(details) {
    clearTimeout(this.#timer);
    const own = details?.what === 'slice' ? flowsOf(details) : [];
    if (!this.#state.flag('flows')) {
      this.#told.textContent = '';
      this.#asked = '';
      this.#view.flows = own;
      return;
    }
    this.#timer = setTimeout(() => this.#ask(own, details), AFTER_MS);
  }

  async #ask(own, details) {
    const words = this.#state.selection();
    words.set('from', String(Math.floor(this.#view.start)));
    words.set('to', String(Math.ceil(this.#view.end)));
    const asked = `${words} ${details?.slice}`;
    if (asked === this.#asked) return;
    this.#asked = asked;
    try {
      const answer = await getJSON(`${this.#url}/flows?${words}`);
      if (asked !== this.#asked) return;
      this.#told.textContent = answer.flows ? '' : `${answer.count.toLocaleString('en')} in sight: zoom in`;
      this.#view.flows = [...flowsIn(answer), ...own];
      this.#view.redraw({ onlyMarks: true });
    } catch (error) {
      if (asked !== this.#asked) return;
      this.#asked = '';
      this.#told.textContent = error.message;
    }
  }
}

/** The flows of a slice, from the details of it. */
function flowsOf(details) {
  const place = ({ track, depth, start_ns: start, duration_ns: duration }) => ({ track, depth, start, end: start + duration });
  const self = place(details);
  const found = [];
  if (details.work?.launch) found.push({ kind: 'launch', source: place(details.work.launch), target: self });
  for (const one of details.launched?.first ?? []) found.push({ kind: 'launch', source: self, target: place(one) });
  for (const flow of details.flows) {
    const [source, target] = flow.direction === 'to' ? [self, place(flow)] : [place(flow), self];
    found.push({ kind: flow.kind, source, target });
  }
  return found;
}

/** The flows of all that is in sight, faint; none where there are too many. */
function flowsIn(answer) {
  const place = ([track, depth, start, end]) => ({ track, depth, start, end });
  return (answer.flows ?? []).map((flow) => ({
    kind: flow.kind,
    source: place(flow.source),
    target: place(flow.target),
    isFaint: true,
  }));
}
