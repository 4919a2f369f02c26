// Details of the clicked slice or samples.

import { kindName } from '../flamegraph/describe.js';
import { percent, weight } from '../flamegraph/format.js';
import { plain } from '../flamegraph/labels.js';
import { exactMoment } from './time.js';

const LONGEST = 4000;
const FEW = 12;

export class Panel {
  #box;
  #title;
  #body;
  #does;
  #find;
  #name = '';

  /** @param does close(), go(place), zoom(), range(), find(name): searches a function; links(details) → [{text, href}] */
  constructor(root, does) {
    const part = (name) => root.querySelector(`[data-timeline="${name}"]`);
    this.#box = part('panel');
    this.#title = part('panel-title');
    this.#body = part('panel-body');
    this.#does = does;
    this.#find = this.#box.querySelector('[data-panel="find"]');
    this.#find.addEventListener('click', () => does.find(this.#name));
    for (const name of ['close', 'zoom', 'range']) {
      this.#box.querySelector(`[data-panel="${name}"]`).addEventListener('click', () => does[name]());
    }
  }

  get open() {
    return !this.#box.hidden;
  }

  hide() {
    this.#box.hidden = true;
  }

  /** Show details from the server. */
  show(details) {
    const draw = { slice: () => this.#slice(details), samples: () => this.#samples(details) }[details.what];
    this.#title.textContent = title(details);
    this.#name = ['slice', 'samples'].includes(details.what) ? (details.name ?? '') : '';
    this.#find.hidden = !this.#name;
    this.#body.replaceChildren(...(draw ? draw() : other(details)));
    this.#body.scrollTop = 0;
    this.#box.hidden = false;
  }

  fail(message) {
    this.#title.textContent = 'Not shown';
    this.#body.replaceChildren(element('p', '', message));
    this.#box.hidden = false;
  }

  #slice(of) {
    const rows = [
      ['Kind', kindWords(of)],
      ['Start', exactMoment(of.start_ns)],
      ['Duration', exactly(of.duration_ns)],
      ['Self', of.work ? null : `${exactly(of.self_ns)} · ${percent(of.self_ns, of.duration_ns)}`],
      ['Thread', of.thread_name + (of.rank === null ? '' : `, rank ${of.rank}`)],
      ['Step', of.steps.join(', ') || null],
    ];
    const parts = [facts(rows), this.#links(of)];
    if (of.work) parts.push(this.#work(of.work));
    if (of.launched) {
      const { count, total_ns: total, first } = of.launched;
      const many = count === 1 ? 'Launched 1 kernel or memcpy' : `Launched ${count.toLocaleString('en')} kernels and memcpy`;
      parts.push(this.#places(`${many}, ${weight(total, 'ns')} in all`, first, count));
    }
    if (of.flows.length) {
      parts.push(this.#places('Flows', of.flows, of.flows.length, (flow) => flowName(flow)));
    }
    const keys = Object.entries(of.arguments);
    if (keys.length) parts.push(section('Arguments', facts(keys.map(([key, value]) => [key, shown(value)]))));
    if (of.stack.length > 1) parts.push(section('Call stack', stack(of.stack)));
    if (of.call_stack) parts.push(section('Python stack', stack(of.call_stack.split(';').reverse())));
    return parts.filter(Boolean);
  }

  #work(work) {
    const { configuration: c } = work;
    const grid = (axis) => [c[`${axis}_x`], c[`${axis}_y`], c[`${axis}_z`]].filter((n) => n !== undefined).join(' × ');
    const device = work.device === null ? null : `GPU ${work.device}${work.device_name ? `, ${work.device_name}` : ''}`;
    const rows = [
      ['Device', device],
      ['Stream', String(work.stream)],
      ['Bytes', work.bytes === null ? null : weight(work.bytes, 'bytes')],
      ['Grid', grid('grid') || null],
      ['Block', grid('block') || null],
      ['Registers', c.registers ?? null],
      ['Shared memory', c.shared_bytes === undefined ? null : weight(c.shared_bytes, 'bytes')],
      ['Blocks per SM', c.blocks_per_sm ?? null],
      ['Occupancy', c.occupancy_percent === undefined ? null : `${c.occupancy_percent} %, estimated`],
      ['Launch delay', work.delay_ns === null ? null : weight(work.delay_ns, 'ns')],
    ];
    const made = section('On the device', facts(rows));
    const from = [work.launch, work.operator].filter(Boolean);
    if (from.length) made.append(this.#list(from, (place, n) => (n === 0 && work.launch ? 'launched by' : 'operator')));
    return made;
  }

  #samples(of) {
    const rows = [
      ['Thread', of.thread_name],
      ['From', exactMoment(of.start_ns)],
      ['Length', weight(of.end_ns - of.start_ns, 'ns')],
      ['Samples', of.samples.toLocaleString('en')],
      [of.event, weight(of.weight, of.unit)],
    ];
    const table = element('table', 'timeline__table');
    for (const one of of.functions) {
      const row = table.insertRow();
      const name = element('th');
      name.title = plain(one.module);
      const find = element('button', 'timeline__go', plain(one.name.slice(0, LONGEST)));
      find.type = 'button';
      find.dir = 'auto';
      find.setAttribute('aria-label', `Find ${plain(one.name.slice(0, LONGEST))}`);
      find.addEventListener('click', () => this.#does.find(one.name));
      name.append(find);
      row.append(name, element('td', '', percent(one.weight, of.weight)), element('td', '', weight(one.weight, of.unit)));
    }
    if (of.left_out) table.insertRow().append(element('td', '', `and ${of.left_out} more`));
    const parts = [facts(rows), this.#links(of), section('Functions', table)];
    if (of.stack.length) parts.push(section('The heaviest stack', stack(of.stack)));
    return parts;
  }

  #links(of) {
    const links = this.#does.links(of);
    if (!links.length) return null;
    const line = element('p', 'timeline__links');
    for (const { text, href } of links) {
      const anchor = element('a', '', text);
      anchor.href = href;
      line.append(anchor);
    }
    return line;
  }

  #places(heading, places, count, note) {
    const made = section(heading, this.#list(places.slice(0, FEW), note));
    if (count > FEW) made.append(element('p', 'muted', `and ${(count - FEW).toLocaleString('en')} more`));
    return made;
  }

  #list(places, note = (_place, _n) => '') {
    const list = element('ul', 'timeline__places');
    places.forEach((place, n) => {
      const item = element('li');
      const go = element('button', 'timeline__go', plain(place.name.slice(0, 300)));
      go.type = 'button';
      go.dir = 'auto';
      go.addEventListener('click', () => this.#does.go(place));
      const text = note(place, n);
      if (text) item.append(element('span', 'muted', `${text} `));
      item.append(go, element('span', 'muted', ` ${weight(place.duration_ns, 'ns')}`));
      list.append(item);
    });
    return list;
  }
}

/** The kind, with the category in the file if it adds information. */
function kindWords({ kind, category }) {
  const name = kindName(kind);
  return category && category.toLowerCase().replace(/_/g, ' ') !== name.toLowerCase() ? `${name} (${category})` : name;
}

function flowName({ kind, direction }) {
  if (kind === 'forward_backward') return direction === 'to' ? 'backward:' : 'forward:';
  return direction === 'to' ? 'leads to' : 'comes from';
}

function title(of) {
  if (of.what === 'samples') {
    const count = of.samples === 1 ? 'A sample' : `${of.samples.toLocaleString('en')} samples`;
    return of.name ? `${plain(of.name.slice(0, LONGEST))}: ${count.toLowerCase()}` : count;
  }
  if (of.what === 'instants') return of.count === 1 ? plain(of.instants[0].name) : `${of.count} instants`;
  return plain(of.name.slice(0, LONGEST));
}

function other(of) {
  if (of.what === 'step') return [facts([['Start', exactMoment(of.start_ns)], ['Duration', exactly(of.duration_ns)]])];
  return (of.instants ?? []).map((one) => {
    const rows = Object.entries(one.arguments).map(([key, value]) => [key, shown(value)]);
    return section(plain(one.name), facts([['At', exactMoment(one.time_ns)], ...rows]));
  });
}

function exactly(ns) {
  const short = weight(ns, 'ns');
  return ns >= 1000 ? `${short} (${ns.toLocaleString('en')} ns)` : short;
}

function shown(value) {
  const text = typeof value === 'string' ? value : typeof value === 'number' ? String(value) : JSON.stringify(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/** A list of [label, value]; those without a value are omitted. */
function facts(rows) {
  const list = element('dl', 'timeline__facts');
  for (const [label, value] of rows) {
    if (value === null || value === undefined || value === '') continue;
    const term = element('dt', '', plain(String(label)));
    const content = element('dd', '', plain(String(value)));
    content.dir = 'auto';
    list.append(term, content);
  }
  return list;
}

function section(heading, content) {
  const made = element('section', 'timeline__section');
  made.append(element('h3', '', heading), content);
  return made;
}

/** A call stack given outermost first: the innermost on top. */
function stack(names) {
  const list = element('ol', 'timeline__stack');
  for (const name of names.slice(-200).reverse()) {
    const item = element('li', '', plain(name.slice(0, LONGEST)));
    item.dir = 'auto';
    list.append(item);
  }
  return list;
}

function element(tag, className, text = '') {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}
