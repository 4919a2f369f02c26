// The timeline on the page: visible time range and tracks, and one drawing per animation frame. Independent of data
// source, input and surroundings.

import { Painter } from './paint.js';
import { Overlay } from './overlay.js';
import { levelOf } from './source.js';
import { Tracks } from './tracks.js';

const MOVE_MS = 180;
const LEAST_NS = 20;

export class View {
  /** Whether the server still prepares the coarser levels. */
  busy = false;
  #root;
  #parts;
  #painters;
  #overlay;
  #frame = 0;
  #motion = null;
  #stale = true;
  #styled = '';
  #canvasWidth = 1;
  #seen = { pinned: 0, rest: 0 };
  #changed;
  #observer;

  /**
   * @param root the element with parts marked data-timeline
   * @param model tracks, names, source, fills (called for those of the present theme and search), palette
   * @param changed called with (start, end) when the stretch of time has changed
   */
  constructor(root, model, changed) {
    this.#root = root;
    this.#changed = changed;
    this.model = model;
    const part = (name) => root.querySelector(`[data-timeline="${name}"]`);
    this.#parts = {
      stage: part('stage'),
      pinned: part('pinned'),
      scroll: part('scroll'),
      tall: part('tall'),
      sticky: part('sticky'),
    };
    this.#painters = {
      pinned: new Painter(this.#parts.pinned.querySelector('canvas')),
      rest: new Painter(this.#parts.sticky.querySelector('canvas')),
    };
    this.#overlay = new Overlay(root, this);
    this.extent = { start: 0, end: 1 };
    this.start = 0;
    this.end = 1;
    this.hovered = null;
    this.selected = null;
    this.range = null;
    this.flows = [];
    this.pointer = null;
    // What dragging does: select time, zoom to it, or move.
    this.dragAction = 'select';
    this.timing = { last: 0, most: 0, count: 0, sum: 0 };
    this.#parts.scroll.addEventListener('scroll', () => this.redraw(), { passive: true });
    this.#observer = new ResizeObserver(() => this.measure());
    this.#observer.observe(this.#parts.stage);
    this.#observer.observe(this.#parts.scroll);
  }

  get scroll() {
    return this.#parts.scroll;
  }

  get stage() {
    return this.#parts.stage;
  }

  get moving() {
    return this.#motion !== null;
  }

  /** Whether everything is drawn. */
  get resting() {
    return this.#motion === null && this.#frame === 0;
  }

  /** Width of the tracks in CSS pixels, and where they begin in the window. */
  get width() {
    return this.#canvasWidth;
  }

  get left() {
    return this.#parts.sticky.querySelector('canvas').getBoundingClientRect().left;
  }

  get nsPerPixel() {
    return (this.end - this.start) / this.#canvasWidth;
  }

  get level() {
    return levelOf(this.nsPerPixel);
  }

  /** Whether the initial range is visible. */
  get atHome() {
    return this.start <= this.extent.start && this.end >= this.extent.end;
  }

  get drawn() {
    const { pinned, rest } = this.#painters;
    return { boxes: pinned.drawn.boxes + rest.drawn.boxes, labels: pinned.drawn.labels + rest.drawn.labels };
  }

  /** The time at a position in the window. */
  timeAt(clientX) {
    return this.start + (clientX - this.left) * this.nsPerPixel;
  }

  /** The position of a time, from the left of the tracks. */
  xOf(ns) {
    return (ns - this.start) / this.nsPerPixel;
  }

  /** Show `start` to `end`, clamped to the recording; moving: animate. */
  show(start, end, { moving = false } = {}) {
    const [from, to] = this.#bounded(start, end);
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    if (moving && !still) {
      this.#motion = { from: [this.start, this.end], to: [from, to], begun: null };
      this.redraw();
      return;
    }
    this.#motion = null;
    if (from === this.start && to === this.end) return;
    this.start = from;
    this.end = to;
    this.#changed(from, to);
    this.redraw();
  }

  /** Scale the visible range by `factor`, keeping `at` (ns) in place. */
  zoom(factor, at) {
    this.#motion = null;
    const span = Math.min(this.extent.end - this.extent.start, Math.max(LEAST_NS, (this.end - this.start) * factor));
    const share = (at - this.start) / (this.end - this.start);
    this.show(at - share * span, at + (1 - share) * span);
  }

  /** Move by a number of ns. */
  pan(ns) {
    this.show(this.start + ns, this.end + ns);
  }

  /** Show everything. */
  fit() {
    this.show(this.extent.start, this.extent.end, { moving: true });
  }

  /** Center a time range if it is not well visible. */
  reveal(start, end) {
    const span = this.end - this.start;
    const long = end - start;
    if (long > span || long < span / 400) {
      const wide = Math.max(long * 4, LEAST_NS);
      this.show((start + end - wide) / 2, (start + end + wide) / 2, { moving: true });
    } else if (start < this.start + span / 50 || end > this.end - span / 50) {
      const middle = (start + end) / 2;
      this.show(middle - span / 2, middle + span / 2, { moving: true });
    }
  }

  /** Scroll to a row. */
  revealRow(id, depth) {
    const row = this.model.tracks.row(id, depth ?? 0);
    if (!row || row.entry.isPinned) return;
    const { scroll } = this.#parts;
    const seen = scroll.clientHeight;
    if (row.y < scroll.scrollTop + 4) scroll.scrollTop = row.y - seen / 3;
    else if (row.y + row.height > scroll.scrollTop + seen - 4) scroll.scrollTop = row.y - (2 * seen) / 3;
  }

  /** Whether the list of tracks can be scrolled by a number of pixels. */
  canScroll(dy) {
    const { scrollTop, scrollHeight, clientHeight } = this.scroll;
    return dy < 0 ? scrollTop > 0 : scrollTop + clientHeight < scrollHeight;
  }

  /** Update after a new layout of the tracks. */
  layOut() {
    const { tracks } = this.model;
    this.#parts.pinned.hidden = tracks.pinned.length === 0;
    this.#parts.pinned.style.height = `${tracks.pinnedHeight}px`;
    this.#parts.tall.style.height = `${tracks.height}px`;
    this.measure();
  }

  measure() {
    const ratio = window.devicePixelRatio || 1;
    const { sticky, scroll, pinned } = this.#parts;
    sticky.style.height = `${scroll.clientHeight}px`;
    this.#canvasWidth = Math.max(1, sticky.querySelector('canvas').clientWidth);
    this.#seen = { pinned: pinned.hidden ? 0 : pinned.clientHeight, rest: scroll.clientHeight };
    const style = getComputedStyle(sticky);
    const size = parseFloat(style.fontSize) || 12;
    const key = [ratio, size, style.fontFamily].join();
    if (key !== this.#styled) {
      this.#styled = key;
      for (const painter of Object.values(this.#painters)) painter.style(size, style.fontFamily, ratio);
    }
    this.#overlay.measure(ratio);
    this.redraw();
  }

  redraw({ onlyMarks = false } = {}) {
    if (!onlyMarks) this.#stale = true;
    if (!this.#frame) this.#frame = requestAnimationFrame((now) => this.#draw(now));
  }

  /** The item at a position in the window: {entry, part, row, y, height, time} with y within its list, or null. */
  at(clientX, clientY) {
    const { tracks } = this.model;
    const pinned = this.#parts.pinned.getBoundingClientRect();
    const rest = this.#parts.scroll.getBoundingClientRect();
    const inPinned = !this.#parts.pinned.hidden && clientY >= pinned.top && clientY < pinned.bottom;
    if (!inPinned && (clientY < rest.top || clientY >= rest.bottom)) return null;
    const y = inPinned ? clientY - pinned.top : clientY - rest.top + this.scroll.scrollTop;
    const found = Tracks.at(inPinned ? tracks.pinned : tracks.rest, y);
    return found?.part ? { ...found, time: this.timeAt(clientX) } : null;
  }

  /** The box or value at a position in the window: the result of `at`, and {data, index, band}; null for none. */
  boxAt(clientX, clientY) {
    const found = this.at(clientX, clientY);
    if (!found) return null;
    const slack = 2.5 * this.nsPerPixel;
    let best = null;
    this.model.source.cover(found.part.band, this.start, this.end, this.level, (data, from, to) => {
      if (best || found.time < from - slack || found.time >= to + slack) return;
      const index = found.part.what === 'counter' ? data.find(found.time) : data.hit(found.row, found.time, slack);
      if (index >= 0) best = { ...found, data, index };
    });
    return best;
  }

  /** The position of a row on the overlay, from its top: {y, height, isHidden: -1 above, 1 below}; null where it is not. */
  place(id, depth) {
    const row = this.model.tracks.row(id, depth ?? 0);
    if (!row) return null;
    if (row.entry.isPinned) return { y: row.y, height: row.height, isHidden: 0 };
    const y = row.y - this.scroll.scrollTop;
    const isHidden = y + row.height <= 0 ? -1 : y >= this.#seen.rest ? 1 : 0;
    const inside = Math.min(Math.max(y, -row.height), this.#seen.rest);
    return { y: this.#seen.pinned + inside, height: row.height, isHidden };
  }

  #bounded(start, end) {
    const { extent } = this;
    const span = Math.min(Math.max(end - start, LEAST_NS), extent.end - extent.start);
    const middle = (start + end) / 2;
    let from = end - start === span ? start : middle - span / 2;
    from = Math.min(Math.max(from, extent.start), extent.end - span);
    return [from, from + span];
  }

  #draw(now) {
    this.#frame = 0;
    if (this.#motion) {
      this.#motion.begun ??= now;
      const t = Math.min(1, (now - this.#motion.begun) / MOVE_MS);
      const eased = 1 - (1 - t) ** 3;
      const { from, to } = this.#motion;
      // By the logarithm of its length, for constant zoom speed.
      const before = from[1] - from[0];
      const after = to[1] - to[0];
      const span = before * (after / before) ** eased;
      const share = Math.abs(after - before) < 1e-9 * before ? eased : (span - before) / (after - before);
      this.start = from[0] + (to[0] - from[0]) * share;
      this.end = t < 1 ? this.start + span : to[1];
      if (t >= 1) {
        this.start = to[0];
        this.#motion = null;
      }
      this.#changed(this.start, this.end);
      this.#stale = true;
      if (this.#motion) this.redraw();
    }
    if (this.#stale) this.#paint();
    this.#stale = false;
    this.#overlay.paint();
  }

  #paint() {
    const begun = performance.now();
    const { tracks, names, source, fills, palette } = this.model;
    const level = this.level;
    const scene = { start: this.start, end: this.end, level, source, fills: fills(), palette: palette(), names };
    const bands = [];
    for (const [which, entries, top] of [
      ['pinned', tracks.pinned, 0],
      ['rest', tracks.rest, this.scroll.scrollTop],
    ]) {
      const painter = this.#painters[which];
      const height = this.#seen[which];
      painter.use(names.text, names.short);
      painter.resize(this.#canvasWidth, height);
      if (height) bands.push(...painter.paint({ ...scene, entries, top, height }));
    }
    if (bands.length) source.want(bands, this.start, this.end, level);
    const took = performance.now() - begun;
    if (this.timing.count === 0) performance.mark('timeline-painted');
    this.timing.last = took;
    this.timing.most = Math.max(this.timing.most, took);
    this.timing.count++;
    this.timing.sum += took;
    this.#root.dataset.level = String(level);
  }
}
