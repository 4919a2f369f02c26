// The tooltip next to the pointer.

import { facts } from './describe.js';

const DISTANCE = 14;

export class Tooltip {
  #box = document.createElement('div');
  #shown = null;

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
    this.#shown = null;
  }

  /** Show the facts of a node next to a position in the window. */
  show(picture, node, zoomed, { x, y }) {
    const key = [picture.ids[node], zoomed].join();
    if (this.#shown?.picture !== picture || this.#shown.key !== key) {
      this.#shown = { picture, key };
      this.#fill(facts(picture, node, zoomed), picture.base);
    }
    this.#box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.#box;
    const right = document.documentElement.clientWidth;
    const left = x + DISTANCE + width > right ? Math.max(4, x - DISTANCE - width) : x + DISTANCE;
    const below = y + DISTANCE + height <= window.innerHeight;
    const top = below ? y + DISTANCE : Math.max(4, y - DISTANCE - height);
    this.#box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  #fill({ name, origin, rows }, isDifference) {
    const title = element('p', 'flame-tip__name', name);
    title.dir = 'auto';
    const parts = [title];
    if (origin) parts.push(element('p', 'flame-tip__origin', origin));
    const table = element('table', 'flame-tip__rows');
    if (isDifference) {
      const head = table.createTHead().insertRow();
      head.append(...['', 'Base', 'Other', 'Change'].map((text) => element('th', '', text)));
    }
    for (const [label, ...values] of rows) {
      const row = table.insertRow();
      row.append(element('th', '', label), ...values.map((value) => element('td', '', value)));
    }
    parts.push(table);
    this.#box.replaceChildren(...parts);
  }
}

function element(tag, className, text = '') {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}
