// The layer over the tracks: ruler, minimap, selected time range, marks of pointer and keyboard, and flows.

import { plain } from '../flamegraph/labels.js';
import { weight } from '../flamegraph/format.js';
import { moment, stepOf } from './time.js';

const MARK_PX = 110;
const ARROW = 4;
const HANDLE = { width: 6, height: 18 };
const LONGEST_UNIT = 60;

export class Overlay {
  #view;
  #canvas;
  #ruler;
  #overview;
  #cursor;
  #busyShown = null;
  #ratio = 1;
  #font = '';

  constructor(root, view) {
    this.#view = view;
    const part = (name) => root.querySelector(`canvas[data-timeline="${name}"]`);
    this.#canvas = part('overlay');
    this.#ruler = part('ruler');
    this.#overview = part('overview');
    this.#cursor = root.querySelector('[data-timeline="cursor"]');
  }

  measure(ratio) {
    this.#ratio = ratio;
    const style = getComputedStyle(this.#ruler);
    this.#font = `${style.fontSize} ${style.fontFamily}`;
    this.#canvas.hidden = false;
    for (const canvas of [this.#canvas, this.#ruler, this.#overview]) {
      const [w, h] = [canvas.clientWidth, canvas.clientHeight].map((n) => Math.max(1, Math.round(n * ratio)));
      if (canvas.width !== w || canvas.height !== h) {
        canvas.width = w;
        canvas.height = h;
      }
    }
  }

  paint() {
    const palette = this.#view.model.palette();
    this.#paintRuler(palette);
    this.#paintOverview(palette);
    this.#paintMarks(palette);
  }

  #context(canvas) {
    const context = canvas.getContext('2d');
    context.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.font = this.#font;
    context.textBaseline = 'middle';
    return context;
  }

  #paintRuler(palette) {
    const context = this.#context(this.#ruler);
    const { start, end, width, nsPerPixel, range } = this.#view;
    const high = this.#ruler.clientHeight;
    if (range) {
      const [left, right] = range.map((ns) => this.#view.xOf(ns));
      context.fillStyle = palette.accentSoft;
      context.fillRect(left, 0, Math.max(1, right - left), high);
    }
    const step = stepOf(MARK_PX * nsPerPixel);
    context.fillStyle = palette.quiet;
    context.strokeStyle = palette.line;
    context.lineWidth = 1;
    context.beginPath();
    for (let at = Math.ceil(start / step) * step; at <= end; at += step) {
      const x = Math.round(this.#view.xOf(at)) + 0.5;
      context.moveTo(x, 0);
      context.lineTo(x, high);
      if (x < width - 20) context.fillText(moment(at, step, Math.max(end, -start)), x + 4, high / 2 + 1);
    }
    context.stroke();
    if (range) this.#writeRange(context, palette, range, high);
  }

  #writeRange(context, palette, [from, to], high) {
    const text = weight(to - from, 'ns');
    const wide = context.measureText(text).width + 10;
    const [left, right] = [this.#view.xOf(from), this.#view.xOf(to)];
    const middle = Math.min(Math.max((left + right) / 2, wide / 2), this.#view.width - wide / 2);
    context.fillStyle = palette.accent;
    context.fillRect(middle - wide / 2, 1, wide, high - 2);
    context.fillStyle = palette.onAccent;
    context.fillText(text, middle - wide / 2 + 5, high / 2 + 1);
  }

  #paintOverview(palette) {
    const context = this.#context(this.#overview);
    const { extent, busy, start, end, range } = this.#view;
    const wide = this.#overview.clientWidth;
    const high = this.#overview.clientHeight;
    const x = (ns) => ((ns - extent.start) / (extent.end - extent.start)) * wide;
    context.drawImage(this.#busy(palette, busy, wide, high), 0, 0, wide, high);
    if (range) {
      context.fillStyle = palette.accent;
      context.fillRect(x(range[0]), high - 3, Math.max(2, x(range[1]) - x(range[0])), 3);
    }
    const [left, right] = [Math.max(0, x(start)), Math.min(wide, x(end))];
    context.fillStyle = palette.veil;
    context.fillRect(0, 0, left, high);
    context.fillRect(right, 0, wide - right, high);
    context.strokeStyle = palette.accent;
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, 0.5, Math.max(2, right - left - 1), high - 1);
    this.#handle(context, palette, left, high, wide);
    this.#handle(context, palette, right, high, wide);
  }

  /** The handle of an edge of the window. */
  #handle(context, palette, x, high, wide) {
    const left = Math.min(Math.max(x - HANDLE.width / 2, 0), wide - HANDLE.width);
    context.fillStyle = palette.accent;
    context.beginPath();
    context.roundRect(left, (high - HANDLE.height) / 2, HANDLE.width, HANDLE.height, 2);
    context.fill();
  }

  /** The minimap, drawn once: each strip is scaled to its maximum, which is labeled at its top. */
  #busy(palette, busy, wide, high) {
    const known = this.#busyShown;
    if (known?.palette === palette && known.busy === busy && known.wide === wide && known.ratio === this.#ratio) {
      return known.canvas;
    }
    const canvas = document.createElement('canvas');
    canvas.width = this.#overview.width;
    canvas.height = this.#overview.height;
    const context = canvas.getContext('2d');
    context.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
    context.font = this.#font;
    context.textBaseline = 'top';
    const { extent } = this.#view;
    const rows = [busy?.host, busy?.device].filter(Boolean);
    rows.forEach(({ bin_ns: bin, values, most, top, unit }, row) => {
      const bottom = ((row + 1) * high) / rows.length;
      const room = high / rows.length - 2;
      const step = (bin / (extent.end - extent.start)) * wide;
      context.fillStyle = row === 0 ? palette.series : palette.device;
      values.forEach((value, n) => {
        const tall = most > 0 ? (value / most) * room : 0;
        context.fillRect(n * step, bottom - tall, Math.min(step + 0.5, wide - n * step), tall);
      });
      if (most <= 0) return;
      context.fillStyle = palette.line;
      context.fillRect(0, bottom - room, wide, 1);
      const whole = plain(`${unit}: ${top}`.slice(0, LONGEST_UNIT));
      const text = context.measureText(whole).width > wide / 4 ? plain(`${top}`) : whole;
      context.lineWidth = 3;
      context.lineJoin = 'round';
      context.strokeStyle = palette.surface;
      context.strokeText(text, 4, bottom - room + 2);
      context.fillStyle = palette.text;
      context.fillText(text, 4, bottom - room + 2);
    });
    this.#busyShown = { palette, busy, wide, ratio: this.#ratio, canvas };
    return canvas;
  }

  #paintMarks(palette) {
    const view = this.#view;
    this.#cursor.hidden = view.pointer === null;
    if (view.pointer) this.#cursor.style.transform = `translateX(${Math.round(view.pointer.x - view.left)}px)`;
    // It is as large as the tracks and expensive to draw, so hide it if there are no marks.
    const isNeeded = view.range !== null || view.flows.length > 0 || view.hovered !== null || view.selected !== null;
    this.#canvas.hidden = !isNeeded;
    if (!isNeeded) return;
    const context = this.#context(this.#canvas);
    const high = this.#canvas.clientHeight;
    if (view.range) {
      const [left, right] = view.range.map((ns) => view.xOf(ns));
      context.fillStyle = palette.veil;
      context.fillRect(0, 0, Math.max(0, left), high);
      context.fillRect(right, 0, Math.max(0, view.width - right), high);
      context.fillStyle = palette.accent;
      context.fillRect(left - 1, 0, 1, high);
      context.fillRect(right, 0, 1, high);
    }
    for (const flow of view.flows) this.#flow(context, palette, flow);
    this.#box(context, palette, view.hovered, 1);
    this.#box(context, palette, view.selected, 2);
  }

  #box(context, palette, mark, wide) {
    if (!mark) return;
    const place = this.#view.place(mark.track, mark.depth);
    if (!place || place.isHidden) return;
    const left = Math.max(-4, this.#view.xOf(mark.start));
    const right = Math.min(this.#view.width + 4, this.#view.xOf(mark.end));
    if (right < 0 || left > this.#view.width) return;
    context.strokeStyle = palette.strong;
    context.lineWidth = wide;
    const inset = wide / 2;
    const room = Math.max(3, right - left);
    context.strokeRect(left + inset, place.y + inset, room - wide, place.height - wide - 1);
  }

  /** A curve from the end of the source to the start of the target. */
  #flow(context, palette, { source, target, kind, isFaint }) {
    const from = this.#view.place(source.track, source.depth);
    const to = this.#view.place(target.track, target.depth);
    if (!from || !to) return;
    const x0 = this.#view.xOf(target.start >= source.end ? source.end : source.start);
    const x1 = this.#view.xOf(target.start);
    if (Math.max(x0, x1) < -50 || Math.min(x0, x1) > this.#view.width + 50) return;
    const y0 = from.y + from.height / 2;
    const y1 = to.y + to.height / 2;
    const bend = Math.max(16, Math.min(120, Math.abs(x1 - x0) / 2));
    context.strokeStyle = kind === 'launch' ? palette.accent : palette.other;
    context.globalAlpha = isFaint ? 0.45 : 0.9;
    context.lineWidth = isFaint ? 1 : 1.5;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.stroke();
    context.fillStyle = context.strokeStyle;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - ARROW * 1.6, y1 - ARROW);
    context.lineTo(x1 - ARROW * 1.6, y1 + ARROW);
    context.fill();
    context.globalAlpha = 1;
  }
}
