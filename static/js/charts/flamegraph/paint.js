// Draws a band of rows of a picture on a canvas.
//
// Frames are rasterized here, one line of pixels a row, in an image as wide as the canvas and as high as there are
// rows; the browser then stretches it to the rows' height in one operation. So the cost of an animation frame depends on
// its pixels, not on the number of frames of the profile. Text is drawn over it.

import { Labels, isAscii } from './labels.js';

const PADDING = 4;
const LEAST_LABEL = 18;

export class Painter {
  #canvas;
  #context;
  #lines = document.createElement('canvas');
  #linesContext;
  #image = null;
  #pixels = null;
  #labels = null;
  #font = '';

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d');
    this.#linesContext = this.#lines.getContext('2d', { willReadFrequently: true });
    this.ratio = 1;
    this.rowHeight = 18;
    this.drawn = { frames: 0, labels: 0 };
  }

  /** Height of a row in CSS pixels; a whole number of device pixels, so that rows are sharp. */
  get row() {
    return this.rowHeight / this.ratio;
  }

  /** @param size of the text in CSS pixels @param family as in CSS @param ratio device pixels in a CSS pixel */
  style(size, family, ratio) {
    this.ratio = ratio;
    this.rowHeight = Math.max(8, Math.round(size * 1.5 * ratio));
    this.size = size;
    this.#font = `${size}px ${family}`;
    this.#labels = null;
  }

  /** Make the canvas `width` device pixels wide and `rows` rows high. */
  resize(width, rows) {
    const height = rows * this.rowHeight;
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
      this.#labels = null;
    }
    if (!this.#image || this.#image.width !== width || this.#image.height !== rows) {
      this.#lines.width = width;
      this.#lines.height = Math.max(1, rows);
      this.#image = new ImageData(width, Math.max(1, rows));
      this.#pixels = new Uint32Array(this.#image.data.buffer);
    }
  }

  /**
   * @param scene picture; from, to: the stretch of x over the whole width; up: whether the root is at the bottom;
   *   first: the row of the screen at the canvas's top; zoomDepth: rows above it are pale; fills, pale: colors by node;
   *   matches: null, or 1 for every node that was searched for; palette
   */
  paint(scene) {
    const { picture, first, up } = scene;
    const width = this.#canvas.width;
    const rows = this.#image.height;
    const labels = [];
    this.drawn.frames = 0;
    this.#pixels.fill(0);
    for (let row = 0; row < rows; row++) {
      const depth = up ? picture.rows - 1 - (first + row) : first + row;
      if (depth >= 0 && depth < picture.rows) this.#line(scene, depth, row, width, labels);
    }
    const context = this.#context;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, this.#canvas.height);
    this.#linesContext.putImageData(this.#image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.#lines, 0, 0, width, rows, 0, 0, width, rows * this.rowHeight);
    const gap = this.#gap;
    for (let row = 1; row <= rows; row++) context.clearRect(0, row * this.rowHeight - gap, width, gap);
    this.#write(scene, labels);
  }

  /** Combining marks can be stacked to any height above and below letters, so the height of text is limited. */
  #writeClipped(text, left, top, room, baseline) {
    const context = this.#context;
    context.save();
    context.beginPath();
    context.rect(left, top, room, this.rowHeight / this.ratio);
    context.clip();
    context.fillText(text, left, baseline);
    context.restore();
  }

  get #gap() {
    return Math.max(1, Math.floor(this.ratio));
  }

  #line(scene, depth, row, width, labels) {
    const { picture, from, to, fills, pale, matches, palette, zoomDepth } = scene;
    const { rowNodes, x0, x1 } = picture;
    const pixels = this.#pixels;
    const base = row * width;
    const scale = width / (to - from);
    const gap = this.#gap;
    const least = LEAST_LABEL * this.ratio;
    const stop = picture.rowStart[depth + 1];
    const above = depth < zoomDepth;
    let pixel = -1;
    let cover = 0;
    let drawn = 0;
    for (let at = picture.firstIn(depth, from); at < stop; at++) {
      const node = rowNodes[at];
      const left = (x0[node] - from) * scale;
      if (left >= width) break;
      const right = (x1[node] - from) * scale;
      const p0 = left <= 0 ? 0 : Math.round(left);
      const p1 = right >= width ? width : Math.round(right);
      const found = matches !== null && matches[node] === 1;
      const fill = found ? palette.match : above || matches !== null ? pale[node] : fills[node];
      drawn++;
      if (p1 > p0) {
        const wide = p1 - p0;
        pixels.fill(fill, base + p0, base + (wide > 3 * gap && right <= width ? p1 - gap : p1));
        if (wide >= least) labels.push(node, row, p0, p1, found ? 1 : 0);
      } else if (p0 < width) {
        // Several frames within one pixel: opacity by coverage; matches are always visible.
        cover = pixel === p0 ? cover + (right - left) : right - left;
        if (found) pixels[base + p0] = fill;
        else if (pixel === p0 || pixels[base + p0] === 0) {
          const kept = pixel === p0 ? pixels[base + p0] : fill;
          if (kept !== palette.match) {
            pixels[base + p0] = ((kept & 0xffffff) | (Math.min(255, Math.ceil(cover * 255)) << 24)) >>> 0;
          }
        }
        pixel = p0;
      }
    }
    this.drawn.frames += drawn;
  }

  #write({ picture, palette }, labels) {
    const context = this.#context;
    const { ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = this.#font;
    context.direction = 'ltr';
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    this.#labels ??= new Labels(context);
    this.#labels.use(picture.names, picture.shortNames);
    const usual = picture.base || picture.values ? palette.diffText : palette.text;
    const middle = (this.rowHeight - this.#gap) / 2 / ratio + this.size * 0.04;
    this.drawn.labels = 0;
    for (const found of [0, 1]) {
      context.fillStyle = found ? palette.matchText : usual;
      for (let i = 0; i < labels.length; i += 5) {
        if (labels[i + 4] !== found) continue;
        const left = labels[i + 2] / ratio + PADDING;
        const room = labels[i + 3] / ratio - PADDING - left;
        const text = this.#labels.fit(picture.func[labels[i]], room);
        if (text === '') continue;
        const top = (labels[i + 1] * this.rowHeight) / ratio;
        if (isAscii(text)) context.fillText(text, left, top + middle);
        else this.#writeClipped(text, left, top, room, top + middle);
        this.drawn.labels++;
      }
    }
  }
}
