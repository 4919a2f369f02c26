// The tooltip next to the pointer.

import { getJSON } from '../../http.js';
import { facts } from './describe.js';
import { plain } from './labels.js';

const DISTANCE = 14;
const REST_MS = 200;

export class Tooltip {
  #box = document.createElement('div');
  #shown = null;
  /** The place in source code of functions, by the address of their description. @type {Map<string, string>} */
  #places = new Map();

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

  /** Show the facts of a node next to a position in the window. about: the address that describes its function, or ''. */
  show(picture, node, zoomed, { x, y }, about) {
    const key = [picture.ids[node], zoomed].join();
    if (this.#shown?.picture !== picture || this.#shown.key !== key) {
      this.#shown = { picture, key };
      this.#fill(facts(picture, node, zoomed), picture.base);
      if (this.#places.has(about)) this.#addPlace(this.#places.get(about));
      else if (about) setTimeout((shown) => this.#findPlace(about, shown), REST_MS, this.#shown);
    }
    this.#box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.#box;
    const right = document.documentElement.clientWidth;
    const left = x + DISTANCE + width > right ? Math.max(4, x - DISTANCE - width) : x + DISTANCE;
    const below = y + DISTANCE + height <= window.innerHeight;
    const top = below ? y + DISTANCE : Math.max(4, y - DISTANCE - height);
    this.#box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  /** Ask where a function is, if its tooltip is still shown. */
  async #findPlace(about, shown) {
    if (this.#shown !== shown) return;
    try {
      const { file, line } = await getJSON(about);
      this.#places.set(about, file ? [plain(file.replace(/^.*\//, '')), line].filter((part) => part !== null).join(':') : '');
    } catch {
      return;
    }
    if (this.#shown === shown) this.#addPlace(this.#places.get(about));
  }

  #addPlace(place) {
    if (place) this.#box.querySelector('.flame-tip__rows').before(element('p', 'flame-tip__origin', place));
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
