// Arrows between slices: flows of the selected slice, and, if enabled in the URL, all visible flows.

import { getJSON } from '../../http.js';

const AFTER_MS = 150;

export class Flows {
  #view;
  #state;
  #url;
  #status;
  #asked = '';
  #timer = 0;

  /** @param status the element that reports too many flows */
  constructor(view, state, url, status) {
    this.#view = view;
    this.#state = state;
    this.#url = url;
    this.#status = status;
  }

  /** Show the flows of the selected slice, and the visible ones. details: of a slice or another item, or null. */
  update(details) {
    clearTimeout(this.#timer);
    const own = details?.what === 'slice' ? flowsOf(details) : [];
    if (!this.#state.flag('flows')) {
      this.#status.textContent = '';
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
      this.#status.textContent = answer.flows ? '' : `${answer.count.toLocaleString('en')} visible: zoom in`;
      this.#view.flows = [...flowsIn(answer), ...own];
      this.#view.redraw({ onlyMarks: true });
    } catch (error) {
      if (asked !== this.#asked) return;
      this.#asked = '';
      this.#status.textContent = error.message;
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

/** All visible flows, faint; none if there are too many. */
function flowsIn(answer) {
  const place = ([track, depth, start, end]) => ({ track, depth, start, end });
  return (answer.flows ?? []).map((flow) => ({
    kind: flow.kind,
    source: place(flow.source),
    target: place(flow.target),
    isFaint: true,
  }));
}
