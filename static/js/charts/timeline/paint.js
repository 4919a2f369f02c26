// Draws one list of tracks on a canvas.
//
// As in flame graphs, boxes are rasterized here, one line of pixels for each row, in an image as wide as the canvas; the
// browser then stretches each line to its row. So the cost of a frame depends on its pixels, not on the number of boxes.

import { Labels, isAscii } from '../flamegraph/labels.js';
import { SHADES, mixed } from '../flamegraph/palette.js';
import { counterValue, scaleOf } from './counters.js';
import { Tracks } from './tracks.js';

const PADDING = 4;
const LEAST_LABEL = 20;
const PALE = 0.72;
const FAINTEST = 0.4;

/** The colors of names for a theme and search, computed on demand. */
export class Fills {
  #names;
  #palette;
  #found;
  fills = [];
  pale = [];
  found = [];

  /** @param found a set of functions that are searched for, or null */
  constructor(names, palette, found) {
    this.#names = names;
    this.#palette = palette;
    this.#found = found;
  }

  /** Compute the colors of new names. */
  grow() {
    const { kinds, shades, functions } = this.#names;
    for (let n = this.fills.length; n < kinds.length; n++) {
      const ramp = this.#palette.kinds.get(kinds[n]) ?? this.#palette.kinds.get('unknown');
      const fill = ramp[shades[n] % SHADES];
      this.fills.push(fill);
      this.pale.push(mixed(fill, this.#palette.ground, PALE));
      this.found.push(this.#found?.has(functions[n]) ?? false);
    }
  }

  get searching() {
    return this.#found !== null;
  }
}

export class Painter {
  #canvas;
  #context;
  #lines = document.createElement('canvas');
  #linesContext;
  #image = null;
  #pixels = null;
  #labels = null;
  #font = '';
  #rows = 0;
  #written = [];

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d');
    this.#linesContext = this.#lines.getContext('2d', { willReadFrequently: true });
    this.ratio = 1;
    this.drawn = { boxes: 0, labels: 0 };
  }

  style(size, family, ratio) {
    this.ratio = ratio;
    this.size = size;
    this.#font = `${size}px ${family}`;
    this.#labels = null;
  }

  /** Resize the canvas, in CSS pixels. */
  resize(width, height) {
    const [w, h] = [Math.max(1, Math.round(width * this.ratio)), Math.max(1, Math.round(height * this.ratio))];
    if (this.#canvas.width !== w || this.#canvas.height !== h) {
      this.#canvas.width = w;
      this.#canvas.height = h;
      this.#labels = null;
    }
  }

  /**
   * @param scene entries: the list; top: how far it is scrolled; height: CSS pixels seen; start, end: ns; level; source;
   *   fills; palette
   * @returns the bands that are seen, as Source.want takes them
   */
  paint(scene) {
    const { entries, top, height } = scene;
    const width = this.#canvas.width;
    const context = this.#context;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, this.#canvas.height);
    scene.fills.grow();
    this.#rows = 0;
    this.#written = [];
    this.drawn.boxes = 0;
    const bands = [];
    const lines = [];
    const loading = [];
    const scales = [];
    for (let n = Tracks.first(entries, top); n < entries.length && entries[n].y < top + height; n++) {
      const entry = entries[n];
      if (!entry.track) {
        context.fillStyle = scene.palette.raised;
        context.fillRect(0, Math.round((entry.y - top) * this.ratio), width, Math.round(entry.height * this.ratio));
      } else {
        context.fillStyle = scene.palette.line;
        context.fillRect(0, Math.round((entry.y + entry.height - top) * this.ratio) - 1, width, 1);
      }
      for (const part of entry.parts) {
        const y = entry.y + part.top - top;
        if (y + part.height <= 0 || y >= height) continue;
        bands.push({ text: part.band, rows: part.rows });
        if (scene.source.isLoading(part.band)) {
          // One note per track, even if several parts are missing.
          if (loading.at(-1)?.entry !== entry) loading.push({ entry, y, height: Math.min(part.height, part.row || part.height) });
        } else if (part.what === 'counter') {
          this.#counter(scene, part.scale ?? entry.track, part, y);
          // The scale of the CPU use of each thread is the same.
          if (!part.scale) scales.push({ track: entry.track, y, height: part.height });
        }
        else this.#boxes(scene, part, y, height, lines);
      }
    }
    this.#show(lines, width);
    this.#write(scene.palette);
    this.#writeScales(scene.palette, scales);
    this.#writeLoading(scene.palette, loading);
    return bands;
  }

  #boxes(scene, part, y, height, lines) {
    for (let row = 0; row < part.rows; row++) {
      const at = y + row * part.row;
      if (at + part.row <= 0 || at >= height) continue;
      const line = this.#line();
      lines.push(at, part.row, part.ticks ? 0 : 1);
      scene.source.cover(part.band, scene.start, scene.end, scene.level, (data, from, to) => {
        this.#fill(scene, data, row, line, from, to, at, part);
      });
    }
  }

  /** A new empty line of the image. */
  #line() {
    const width = this.#canvas.width;
    if (!this.#image || this.#image.width !== width || this.#rows >= this.#image.height) {
      const rows = Math.max(64, this.#rows * 2);
      const before = this.#image?.width === width ? this.#pixels.subarray(0, this.#rows * width) : null;
      this.#lines.width = width;
      this.#lines.height = rows;
      this.#image = new ImageData(width, rows);
      this.#pixels = new Uint32Array(this.#image.data.buffer);
      if (before) this.#pixels.set(before);
    }
    const line = this.#rows++;
    this.#pixels.fill(0, line * width, (line + 1) * width);
    return line;
  }

  #fill(scene, data, row, line, from, to, y, part) {
    if (row + 1 >= data.bounds.length) return;
    const { start, end, fills } = scene;
    const pixels = this.#pixels;
    const width = this.#canvas.width;
    const scale = width / (end - start);
    const base = line * width;
    const edge0 = Math.round((from - start) * scale);
    const edge1 = Math.round((to - start) * scale);
    const gap = Math.max(1, Math.floor(this.ratio));
    const least = LEAST_LABEL * this.ratio;
    const { x0, x1, name, fill, count, out } = data;
    const stop = data.bounds[row + 1];
    const { ticks } = part;
    let drawn = 0;
    for (let at = data.first(row, from); at < stop; at++) {
      const left = (x0[at] - start) * scale;
      if (left >= edge1) break;
      const right = (x1[at] - start) * scale;
      const p0 = left <= edge0 ? edge0 : Math.round(left);
      const p1 = right >= edge1 ? edge1 : Math.round(right);
      const which = name[at];
      const isFound = fills.found[which];
      const color = isFound
        ? scene.palette.match
        : fills.searching || out?.[at] ? fills.pale[which] : fills.fills[which];
      drawn++;
      if (p1 > p0 && !ticks) {
        const wide = p1 - p0;
        const ends = wide > 3 * gap && right <= edge1 ? p1 - gap : p1;
        pixels.fill(fill[at] === 255 ? color : faded(color, fill[at] / 255), base + p0, base + ends);
        if (wide >= least && (count[at] === 1 || part.what === 'stacks') && scene.names.text[which]) {
          // A box that extends beyond this range is labeled once, where it becomes visible.
          const begins = x0[at] >= from || from <= start;
          if (begins) this.#written.push(which, y, part.row, p0, Math.min(width, Math.round(right)), isFound ? 1 : 0);
        }
      } else if (p0 >= edge0 && p0 < Math.max(edge1, edge0 + 1)) {
        // Less than a pixel: opacity by coverage, but always visible.
        const present = pixels[base + p0];
        if (isFound || present === 0) {
          pixels[base + p0] = isFound || ticks ? color : faded(color, Math.max(right - left, fill[at] / 255 / 2));
        } else if (present !== scene.palette.match) {
          const more = Math.min(255, (present >>> 24) + 255 * Math.max(0.1, right - left));
          pixels[base + p0] = ((present & 0xffffff) | (more << 24)) >>> 0;
        }
      }
    }
    this.drawn.boxes += drawn;
  }

  /** Stretch the lines to their rows. */
  #show(lines, width) {
    if (!this.#rows) return;
    const context = this.#context;
    const { ratio } = this;
    this.#linesContext.putImageData(this.#image, 0, 0, 0, 0, width, this.#rows);
    context.imageSmoothingEnabled = false;
    for (let n = 0; n < this.#rows; n++) {
      const y = Math.round(lines[3 * n] * ratio);
      const high = Math.round((lines[3 * n] + lines[3 * n + 1]) * ratio) - y - Math.max(1, Math.floor(ratio));
      context.drawImage(this.#lines, 0, n, width, 1, 0, y, width, high);
    }
  }

  #counter(scene, track, part, y) {
    const context = this.#context;
    const { start, end, palette } = scene;
    const { ratio } = this;
    const width = this.#canvas.width;
    const scale = width / (end - start);
    const { low, high: top } = scaleOf(track);
    const span = top - low || 1;
    const bottom = (y + part.height - 2) * ratio;
    const high = (part.height - 6) * ratio;
    const at = (value) => bottom - Math.min(1, (value - low) / span) * high;
    scene.source.cover(part.band, start, end, scene.level, (data, from, to) => {
      const edge1 = (to - start) * scale;
      context.beginPath();
      let open = false;
      const first = Math.max(0, data.find(from));
      for (let n = first; n < data.size && data.at[n] < to; n++) {
        const x = Math.max(data.at[n] - start, from - start) * scale;
        const next = n + 1 < data.size ? Math.min((data.at[n + 1] - start) * scale, edge1) : edge1;
        if (Number.isNaN(data.last[n])) {
          if (open) context.lineTo(x, bottom);
          open = false;
          continue;
        }
        if (!open) context.moveTo(x, bottom);
        open = true;
        context.lineTo(x, at(data.high[n]));
        if (data.low[n] < data.high[n]) context.lineTo(x, at(data.last[n]));
        context.lineTo(next, at(data.last[n]));
      }
      if (open) context.lineTo(edge1, bottom);
      context.closePath();
      context.fillStyle = palette.series;
      context.globalAlpha = 0.35;
      context.fill();
      context.globalAlpha = 1;
      context.strokeStyle = palette.series;
      context.lineWidth = ratio;
      context.stroke();
    });
  }

  #write(palette) {
    const context = this.#context;
    const { ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = this.#font;
    context.direction = 'ltr';
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    this.#labels ??= new Labels(context);
    this.#labels.use(this.#names, this.#short);
    this.drawn.labels = 0;
    const list = this.#written;
    for (const found of [0, 1]) {
      context.fillStyle = found ? palette.matchText : palette.text;
      for (let n = 0; n < list.length; n += 6) {
        if (list[n + 5] !== found) continue;
        const left = list[n + 3] / ratio + PADDING;
        const room = list[n + 4] / ratio - PADDING - left;
        const text = this.#labels.fit(list[n], room);
        if (text === '') continue;
        const middle = list[n + 1] + (list[n + 2] - 1) / 2 + this.size * 0.06;
        if (isAscii(text)) context.fillText(text, left, middle);
        else this.#writeClipped(text, left, list[n + 1], room, list[n + 2], middle);
        this.drawn.labels++;
      }
    }
  }

  /** Mark tracks without data. */
  #writeLoading(palette, loading) {
    this.#context.fillStyle = palette.quiet;
    for (const { y, height } of loading) this.#context.fillText('Loading…', PADDING * 2, y + height / 2);
  }

  #names = [];
  #short = [];

  /** The names of labels, and their short ones. */
  use(names, short) {
    this.#names = names;
    this.#short = short;
  }

  /** The values at the top and the bottom of counters, on a ground, so that they can be read on the curve. */
  #writeScales(palette, scales) {
    const context = this.#context;
    for (const { track, y, height } of scales) {
      const { low, high } = scaleOf(track);
      const rows = height >= 2.5 * this.size ? [[high, y + 0.7 * this.size], [low, y + height - 0.8 * this.size]] : [[high, y + height / 2]];
      for (const [value, middle] of rows) {
        const text = counterValue(track, value);
        context.globalAlpha = 0.75;
        context.fillStyle = palette.raised;
        context.fillRect(0, middle - 0.6 * this.size, context.measureText(text).width + 2 * PADDING, 1.2 * this.size);
        context.globalAlpha = 1;
        context.fillStyle = palette.quiet;
        context.fillText(text, PADDING, middle);
      }
    }
  }

  /** Combining marks can be stacked to any height above and below letters, so the height of text is limited. */
  #writeClipped(text, left, top, room, height, middle) {
    const context = this.#context;
    context.save();
    context.beginPath();
    context.rect(left, top, room, height - 1);
    context.clip();
    context.fillText(text, left, middle);
    context.restore();
  }
}

function faded(color, part) {
  const strength = FAINTEST + (1 - FAINTEST) * Math.min(1, Math.max(0, part));
  return ((color & 0xffffff) | (Math.round(255 * strength) << 24)) >>> 0;
}
