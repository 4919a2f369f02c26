// The tooltip next to the pointer: a short description of a box.

import { kindName } from '../flamegraph/describe.js';
import { weight } from '../flamegraph/format.js';
import { counterValue } from './counters.js';
import { plain } from '../flamegraph/labels.js';
import { exactMoment, moment } from './time.js';

const DISTANCE = 14;
const LONGEST = 400;
const UNITS = { rows: 'slices', lane: 'samples', stacks: 'samples', ticks: 'samples', instants: 'instants', steps: 'steps' };

export class Tip {
  #box = document.createElement('div');

  constructor() {
    this.#box.className = 'flame-tip';
    this.#box.hidden = true;
    // The live region has its text.
    this.#box.setAttribute('aria-hidden', 'true');
    document.body.append(this.#box);
    addEventListener('pointerdown', () => this.hide());
  }

  hide() {
    this.#box.hidden = true;
  }

  /** Show {name, origin, rows: [[label, value]]} next to a position in the window. */
  show({ name, origin, rows }, { x, y }) {
    const title = element('p', 'flame-tip__name', plain(name.slice(0, LONGEST)));
    title.dir = 'auto';
    const parts = [title];
    if (origin) parts.push(element('p', 'flame-tip__origin', plain(origin)));
    const table = element('table', 'flame-tip__rows');
    for (const [label, value] of rows) {
      const row = table.insertRow();
      row.append(element('th', '', label), element('td', '', value));
    }
    if (rows.length) parts.push(table);
    this.#box.replaceChildren(...parts);
    this.#box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.#box;
    const right = document.documentElement.clientWidth;
    const left = x + DISTANCE + width > right ? Math.max(4, x - DISTANCE - width) : x + DISTANCE;
    const top = y + DISTANCE + height <= window.innerHeight ? y + DISTANCE : Math.max(4, y - DISTANCE - height);
    this.#box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
}

/** The description of a box from `View.boxAt`. name: the full name if known, else the shortened one. */
export function facts({ entry, part, data, index, time }, names, nsPerPixel) {
  const { track } = entry;
  if (part.what === 'counter') {
    const scale = part.scale ?? track;
    const value = (number) => counterValue(scale, number);
    const rows = [['at', moment(time, nsPerPixel)]];
    if (data.low[index] < data.high[index]) rows.push(['from', value(data.low[index])], ['to', value(data.high[index])]);
    else rows.push(['value', value(data.last[index])]);
    return { name: scale.name, origin: part.scale ? track.name : '', rows };
  }
  const place = data.name[index];
  const count = data.count[index];
  const [start, end] = [data.x0[index], data.x1[index]];
  const rows = [];
  const share = part.what === 'stacks' ? '' : ', most of the time this';
  if (count > 1) rows.push([UNITS[part.what], `${count.toLocaleString('en')}${share}`]);
  // The length of a sample is not a duration.
  const over = count > 1 || ['lane', 'stacks', 'ticks'].includes(part.what) ? 'over' : 'duration';
  if (!part.ticks || count > 1) rows.push([over, weight(end - start, 'ns')]);
  rows.push([count > 1 ? 'from' : 'at', exactMoment(start)]);
  if (count > 1 && data.fill[index] < 255) rows.push(['busy', `${Math.round((100 * data.fill[index]) / 255)} %`]);
  const origin = part.what === 'steps' ? '' : part.what === 'ticks' ? part.label : kindName(names.kinds[place]);
  return { name: names.text[place] || '…', origin, rows };
}

function element(tag, className, text = '') {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}
