// One flame graph on the page: a tall stage that scrolls with the page, and a canvas that covers the part in view.
// Handles pictures, zoom, and the marks of pointer and keyboard; independent of the data source.

import { Painter } from './paint.js';
import { between, extent } from './model.js';
import { mixed } from './palette.js';

const ZOOM_MS = 220;
const OVERSCAN = 0.5;
const MOST_HIGH = 8192;
const PALE = 0.55;
const SLACK_PX = 2;

export class FlameView {
  #stage;
  #canvas;
  #hoverMark;
  #focusMark;
  #painter;
  #picture = null;
  #palette = null;
  #fills = null;
  #pale = null;
  #matches = null;
  #shown = [0, 1];
  #motion = null;
  #zoomed = 0;
  #hovered = -1;
  #focused = -1;
  #up = false;
  #width = 1;
  #cssWidth = 1;
  #first = 0;
  #rows = 0;
  #frame = 0;
  #stale = false;
  #pointer = null;
  #listeners = new AbortController();
  #observer;
  /** @type {(node: number, pointer: {x: number, y: number} | null) => void} */
  #onHover;
  #covered;

  /**
   * @param stage the element that gets the graph's height
   * @param onHover called with the node under the pointer (-1: none) and the pointer's place
   * @param covered how many pixels at the top of the window are covered by elements in front of the graph
   */
  constructor(stage, { onHover = () => {}, covered = () => 0 } = {}) {
    this.#stage = stage;
    this.#canvas = stage.querySelector('canvas');
    this.#hoverMark = this.#mark('flame__hover');
    this.#focusMark = this.#mark('flame__focus');
    this.#painter = new Painter(this.#canvas);
    this.#onHover = onHover;
    this.#covered = covered;
    this.timing = { last: 0, most: 0, count: 0, sum: 0 };
    const { signal } = this.#listeners;
    window.addEventListener('scroll', () => this.#scrolled(), { passive: true, capture: true, signal });
    window.addEventListener('resize', () => this.#measure(), { signal });
    this.#canvas.addEventListener('pointermove', (event) => this.#pointed(event), { signal });
    this.#canvas.addEventListener('pointerleave', () => this.#pointed(null), { signal });
    this.#observer = new ResizeObserver((entries) => this.#measure(entries.at(-1)));
    try {
      this.#observer.observe(stage, { box: 'device-pixel-content-box' });
    } catch {
      this.#observer.observe(stage);
    }
    this.#measure();
  }

  destroy() {
    this.#listeners.abort();
    this.#observer.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  get picture() {
    return this.#picture;
  }

  get zoomed() {
    return this.#zoomed;
  }

  get focused() {
    return this.#focused;
  }

  get hovered() {
    return this.#hovered;
  }

  get up() {
    return this.#up;
  }

  get width() {
    return this.#cssWidth;
  }

  get canvas() {
    return this.#canvas;
  }

  /** The visible range of x. */
  get shown() {
    return this.#shown;
  }

  get moving() {
    return this.#motion !== null;
  }

  /** Frames and labels of the last drawing, for tests. */
  get drawn() {
    return this.#painter.drawn;
  }

  /**
   * Show `picture` zoomed to `node`. from: the stretch to move from, in the picture's x (none: no movement).
   * fills: the color of every node.
   */
  show(picture, node, { palette, fills, from = null }) {
    const focusedId = this.#focused >= 0 ? this.#picture.ids[this.#focused] : null;
    const anchor = this.#anchor(picture, node);
    this.#picture = picture;
    this.#matches = null;
    this.#hovered = -1;
    this.#focused = focusedId === null ? -1 : picture.find(focusedId);
    this.recolor(palette, fills);
    this.#layOut();
    this.#zoomed = node;
    anchor?.();
    this.#move(from);
  }

  /** New colors for the current picture. */
  recolor(palette, fills) {
    const ground = palette.ground;
    const seen = new Map();
    this.#palette = palette;
    this.#fills = fills;
    this.#pale = fills.map((fill) => {
      let pale = seen.get(fill);
      if (pale === undefined) seen.set(fill, (pale = mixed(fill, ground, PALE)));
      return pale;
    });
    this.#redraw();
  }

  /** Mark search matches: one byte per node, or null for no search. */
  match(matches) {
    this.#matches = matches;
    this.#redraw();
  }

  /** Zoom to a node of the present picture. */
  zoom(node) {
    this.#zoomed = node;
    this.#move(this.#shown);
  }

  /** Whether the root is at the bottom. */
  grow(up) {
    if (up === this.#up) return;
    this.#up = up;
    if (this.#picture) this.#layOut();
    this.#redraw();
  }

  /** Move the keyboard mark to a node (-1: remove it), and scroll to it. */
  focus(node) {
    this.#focused = node;
    if (node >= 0) this.reveal(node);
    this.#redraw();
  }

  /** Whether the keyboard mark is visible: not while the pointer is used. */
  showFocus(on) {
    this.#stage.classList.toggle('flame__stage--marked', on);
  }

  /** Scroll the page so that a node's row is visible. */
  reveal(node) {
    const { row } = this.#painter;
    const box = this.#stage.getBoundingClientRect();
    const top = box.top + this.#rowOf(node) * row;
    const cover = this.#covered() + row;
    const most = Math.max(cover, window.innerHeight - 3 * row);
    if (top < cover) window.scrollBy(0, top - cover);
    else if (top > most) window.scrollBy(0, top - most);
    this.#cover();
  }

  /** The node at a position in the window, or -1. */
  at(clientX, clientY) {
    if (!this.#picture || this.#picture.empty) return -1;
    const box = this.#stage.getBoundingClientRect();
    const row = Math.floor((clientY - box.top) / this.#painter.row);
    const depth = this.#up ? this.#picture.rows - 1 - row : row;
    const [from, to] = this.#shown;
    const perPixel = (to - from) / this.#cssWidth;
    const x = from + (clientX - box.left) * perPixel;
    if (x < from || x > to) return -1;
    return this.#picture.hit(depth, x, SLACK_PX * perPixel);
  }

  /** Where a node is in the window: {left, top, width, height}, cut off at the graph's sides. */
  box(node) {
    const stage = this.#stage.getBoundingClientRect();
    const { left, width } = this.#across(node);
    const { row } = this.#painter;
    return { left: stage.left + left, top: stage.top + this.#rowOf(node) * row, width, height: row };
  }

  #mark(name) {
    const mark = document.createElement('div');
    mark.className = name;
    mark.hidden = true;
    this.#stage.append(mark);
    return mark;
  }

  #rowOf(node) {
    const depth = this.#picture.depth[node];
    return this.#up ? this.#picture.rows - 1 - depth : depth;
  }

  #across(node) {
    const [from, to] = this.#shown;
    const scale = this.#cssWidth / (to - from);
    const left = Math.max(0, (this.#picture.x0[node] - from) * scale);
    const right = Math.min(this.#cssWidth, (this.#picture.x1[node] - from) * scale);
    return { left, width: Math.max(0, right - left) };
  }

  /** Keeps the zoomed row at its position on the screen while the height of the stage changes. */
  #anchor(picture, node) {
    if (!this.#picture || !this.#up || this.#stage.getBoundingClientRect().top >= 0) return null;
    const place = (shown, row) => this.#stage.getBoundingClientRect().top + (shown.rows - 1 - row) * this.#painter.row;
    const row = picture.depth[node] ?? 0;
    const before = place(this.#picture, row);
    return () => window.scrollBy(0, place(picture, row) - before);
  }

  #layOut() {
    this.#stage.style.height = `${Math.max(1, this.#picture.rows) * this.#painter.row}px`;
    this.#cover();
  }

  /** Move the canvas over the visible part of the stage, with a margin. */
  #cover() {
    if (!this.#picture) return;
    const { row, rowHeight } = this.#painter;
    const total = Math.max(1, this.#picture.rows);
    const screen = Math.ceil(window.innerHeight / row) + 1;
    const rows = Math.min(total, Math.floor(MOST_HIGH / rowHeight), Math.ceil(screen * (1 + 2 * OVERSCAN)));
    const top = -this.#stage.getBoundingClientRect().top / row;
    const seenFirst = Math.min(total - 1, Math.max(0, Math.floor(top)));
    const seenLast = Math.min(total, Math.max(0, Math.ceil(top) + screen));
    const covered = this.#first <= seenFirst && this.#first + this.#rows >= seenLast;
    if (rows === this.#rows && covered && this.#first + rows <= total) return;
    this.#rows = rows;
    this.#first = Math.max(0, Math.min(total - rows, Math.floor(top - (rows - screen) / 2)));
    this.#canvas.style.top = `${this.#first * row}px`;
    this.#canvas.style.height = `${rows * row}px`;
    this.#redraw();
  }

  #measure(entry) {
    const ratio = window.devicePixelRatio || 1;
    const box = this.#stage.getBoundingClientRect();
    const cssWidth = Math.max(1, box.width);
    // Use the rounding of the browser if available; with an emulated ratio it reports the real one.
    const exact = entry?.devicePixelContentBoxSize?.[0]?.inlineSize ?? NaN;
    const width = Math.max(1, Math.abs(exact - cssWidth * ratio) <= 1 ? exact : Math.round(cssWidth * ratio));
    const style = getComputedStyle(this.#stage);
    const size = parseFloat(style.fontSize) || 12;
    const family = style.fontFamily;
    const key = [ratio, size, family].join();
    if (key !== this.#styled) {
      this.#styled = key;
      this.#painter.style(size, family, ratio);
      this.#rows = 0;
      this.#watchRatio(ratio);
      if (this.#picture) this.#layOut();
    }
    this.#cssWidth = cssWidth;
    this.#width = width;
    this.#cover();
    this.#redraw();
  }

  #styled = '';
  #ratioQuery = null;

  #watchRatio(ratio) {
    this.#ratioQuery?.abort();
    this.#ratioQuery = new AbortController();
    const signal = AbortSignal.any?.([this.#ratioQuery.signal, this.#listeners.signal]) ?? this.#ratioQuery.signal;
    matchMedia(`(resolution: ${ratio}dppx)`).addEventListener('change', () => this.#measure(), { signal });
  }

  #scrolled() {
    this.#cover();
    if (this.#pointer) this.#redraw();
  }

  #pointed(event) {
    this.#pointer = event ? { x: event.clientX, y: event.clientY } : null;
    this.#redraw({ onlyMarks: true });
  }

  #move(from) {
    const to = extent(this.#picture, this.#zoomed);
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    if (from && !still && (from[0] !== to[0] || from[1] !== to[1])) {
      this.#motion = { from, to, start: null };
      this.#shown = from;
    } else {
      this.#motion = null;
      this.#shown = to;
    }
    this.#redraw();
  }

  #redraw({ onlyMarks = false } = {}) {
    if (!onlyMarks) this.#stale = true;
    if (!this.#frame) this.#frame = requestAnimationFrame((now) => this.#draw(now));
  }

  #draw(now) {
    this.#frame = 0;
    const picture = this.#picture;
    if (!picture) return;
    if (this.#motion) {
      this.#motion.start ??= now;
      const t = Math.min(1, (now - this.#motion.start) / ZOOM_MS);
      this.#shown = between(this.#motion.from, this.#motion.to, 1 - (1 - t) ** 3);
      this.#stale = true;
      if (t >= 1) {
        this.#motion = null;
        this.#settled?.();
      } else this.#redraw();
    }
    if (this.#stale && !picture.empty) this.#paint(picture);
    this.#stale = false;
    this.#hover();
    this.#place(this.#hoverMark, this.#hovered);
    this.#place(this.#focusMark, this.#focused);
  }

  #paint(picture) {
    const start = performance.now();
    const [from, to] = this.#shown;
    this.#painter.resize(this.#width, this.#rows);
    this.#painter.paint({
      picture,
      from,
      to,
      up: this.#up,
      first: this.#first,
      zoomDepth: picture.depth[this.#zoomed],
      fills: this.#fills,
      pale: this.#pale,
      matches: this.#matches,
      palette: this.#palette,
    });
    const took = performance.now() - start;
    if (this.timing.count === 0) performance.mark('flamegraph-painted');
    this.timing.last = took;
    this.timing.most = Math.max(this.timing.most, took);
    this.timing.count++;
    this.timing.sum += took;
  }

  #settled = null;

  /** Resolves when the current animation, if any, has ended. */
  settled() {
    if (!this.#motion) return Promise.resolve();
    return new Promise((resolve) => {
      const before = this.#settled;
      this.#settled = () => {
        this.#settled = null;
        before?.();
        resolve();
      };
    });
  }

  #hover() {
    const node = this.#pointer && !this.#motion ? this.at(this.#pointer.x, this.#pointer.y) : -1;
    if (node === this.#hovered && !this.#pointer) return;
    this.#hovered = node;
    this.#canvas.classList.toggle('flame__canvas--on', node >= 0);
    this.#onHover(node, this.#pointer);
  }

  #place(mark, node) {
    const { left, width } = node >= 0 ? this.#across(node) : { left: 0, width: 0 };
    mark.hidden = node < 0 || this.#picture.x1[node] < this.#shown[0] || this.#picture.x0[node] > this.#shown[1];
    if (mark.hidden) return;
    const { row } = this.#painter;
    mark.style.transform = `translate(${left}px, ${this.#rowOf(node) * row}px)`;
    mark.style.width = `${Math.max(2, width)}px`;
    mark.style.height = `${row}px`;
  }
}
