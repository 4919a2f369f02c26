// The names of the tracks, on the left: only visible ones have elements. Tracks can be folded to one row and pinned.

import { plain } from '../flamegraph/labels.js';
import { Tracks } from './tracks.js';

const OVERSCAN_PX = 300;
const SVG = 'http://www.w3.org/2000/svg';

export class Rail {
  #pinned;
  #rest;
  #scroll;
  #tracks;
  #does;
  #shown = '';
  /** Labels by track, so that one that is pressed or focused is still there after an update. */
  #labels = new Map();

  /** @param does fold(track), pin(track), only(track) */
  constructor(root, tracks, does) {
    const part = (name) => root.querySelector(`[data-timeline="${name}"]`);
    this.#pinned = part('pinned').querySelector('[data-timeline="rail"]');
    this.#rest = part('tall').querySelector('[data-timeline="rail"]');
    this.#scroll = part('scroll');
    this.#tracks = tracks;
    this.#does = does;
    this.#scroll.addEventListener('scroll', () => this.#show(), { passive: true });
    new ResizeObserver(() => this.#show()).observe(this.#scroll);
  }

  /** Update after a new layout of the tracks. */
  update() {
    this.#shown = '';
    replaceChildren(this.#pinned, this.#tracks.pinned.map((entry) => this.#keptLabel(entry)));
    this.#show();
  }

  #show() {
    const entries = this.#tracks.rest;
    const top = this.#scroll.scrollTop - OVERSCAN_PX;
    const bottom = this.#scroll.scrollTop + this.#scroll.clientHeight + OVERSCAN_PX;
    const first = Tracks.first(entries, top);
    let last = first;
    while (last < entries.length && entries[last].y < bottom) last++;
    const key = `${first} ${last} ${entries.length}`;
    if (key === this.#shown) return;
    this.#shown = key;
    // Do not remove the focused element.
    const focused = this.#rest.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.focusKey : null;
    replaceChildren(this.#rest, entries.slice(first, last).map((entry) => this.#keptLabel(entry)));
    if (focused) this.#rest.querySelector(`[data-focus-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  /** The label of an entry at its place: the one from before if it says the same. */
  #keptLabel(entry) {
    const { track, isFolded, isPinned, parts } = entry;
    const places = parts.map(({ label, top, height }) => [label, top, height]);
    const content = track && JSON.stringify([track.name, track.group, track.thread, track.not_drawn, isFolded, isPinned, places]);
    const kept = track && this.#labels.get(track.key);
    const label = kept?.content === content && kept ? kept.label : this.#label(entry);
    if (track) this.#labels.set(track.key, { content, label });
    label.style.top = `${entry.y}px`;
    label.style.height = `${entry.height}px`;
    return label;
  }

  #label(entry) {
    const label = document.createElement('div');
    if (!entry.track) {
      label.className = 'timeline__heading';
      label.append(text('span', '', entry.heading));
      label.title = plain(entry.heading);
      return label;
    }
    const { track } = entry;
    label.className = 'timeline__label';
    label.dataset.kind = track.kind;
    label.setAttribute('role', 'group');
    label.setAttribute('aria-label', plain(track.name));
    if (Tracks.folds(track) || Tracks.stacks(track)) {
      const fold = button(entry.isFolded ? '▸' : '▾', `${entry.isFolded ? 'Unfold' : 'Fold'} ${plain(track.name)}`);
      fold.setAttribute('aria-expanded', String(!entry.isFolded));
      fold.dataset.focusKey = `fold ${track.key}`;
      fold.addEventListener('click', () => this.#does.fold(track));
      label.append(fold);
    }
    const name = text('span', 'timeline__name', track.name);
    const hidden = track.not_drawn ? `${track.not_drawn} is not drawn: it overlaps an earlier sample of the thread` : '';
    name.title = plain([track.name, track.group, track.thread, hidden].filter(Boolean).join('\n'));
    label.append(name);
    if (hidden) {
      const mark = text('span', 'timeline__clipped', `−${track.not_drawn.split('(')[0].trim()}`);
      mark.title = hidden;
      mark.setAttribute('role', 'img');
      mark.setAttribute('aria-label', hidden);
      label.append(mark);
    }
    const pin = button('', `${entry.isPinned ? 'Unpin' : 'Pin to the top'}: ${plain(track.name)}`);
    pin.className = 'timeline__pin';
    pin.append(pinSign());
    pin.setAttribute('aria-pressed', String(entry.isPinned));
    pin.dataset.focusKey = `pin ${track.key}`;
    pin.addEventListener('click', () => this.#does.pin(track));
    label.append(pin);
    for (const part of entry.parts) {
      if (!part.label) continue;
      const under = text('span', 'timeline__part', part.label);
      under.title = plain(part.label);
      under.style.top = `${part.top}px`;
      under.style.height = `${part.height}px`;
      label.append(under);
    }
    return label;
  }
}

/** Make these the children, without moving those that are in place: a button that was removed while it is pressed gets no
 * click. */
function replaceChildren(parent, wanted) {
  const kept = new Set(wanted);
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove();
  wanted.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
}

/** The pin icon. */
function pinSign() {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 12 12');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', 'M4 0h4v1H7.6l.4 4 1.5 1.6V7.5H6.6V11L6 12l-.6-1V7.5H2.5V6.600L4 5l.4-4H4z');
  svg.append(path);
  return svg;
}

function text(tag, className, content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = plain(content);
  return made;
}

function button(sign, hint) {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = 'timeline__fold';
  made.textContent = sign;
  made.title = hint;
  made.setAttribute('aria-label', hint);
  return made;
}
