// The events of a job: chips for selected events, and a search in the output of perf list. The text area below is
// authoritative and can be edited directly.

import { getJSON } from './http.js';

const TYPING_MS = 120;
const NEAR_END_PX = 200;

/** The events of a text: one per line or separated by commas, but not inside pmu/…/ or {…}. As app/recording/fields/events.py. */
export function splitEvents(text) {
  const events = [];
  for (const line of text.split(/\r?\n/)) {
    let start = 0;
    let depth = 0;
    let terms = false;
    for (let at = 0; at < line.length; at += 1) {
      const sign = line[at];
      if (sign === '/' && !/^[ \t{]*mem:/.test(line.slice(start, at))) terms = !terms;
      else if (terms) continue;
      else if (sign === '{') depth += 1;
      else if (sign === '}') depth -= 1;
      else if (sign === ',' && depth <= 0) {
        events.push(line.slice(start, at));
        start = at + 1;
      }
    }
    events.push(line.slice(start));
  }
  return events.map((event) => event.trim()).filter(Boolean);
}

// Placeholders of perf list for numbers and terms: rNNN, cpu/t1=v1[,…]/, mem:<addr>[/len].
const PLACEHOLDER = /^(r)N+$|^(.*?)(?:<\w+>|t1=v1|\[,|\[\/)/;

function element(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== 'role') made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export class EventPicker {
  constructor(root, changed) {
    this.changed = changed;
    this.text = root.querySelector('#f-events');
    this.chips = root.querySelector('[data-event-chips]');
    this.input = root.querySelector('#event-query');
    this.popup = root.querySelector('[data-event-popup]');
    this.group = '';
    this.options = [];
    this.active = -1;
    this.next = null;
    this.asked = 0;
    this.build(root);
  }

  build(root) {
    this.groups = element('div', { className: 'chips events__groups', role: 'group', ariaLabel: 'Groups of events' });
    this.list = element('ul', { className: 'events__list', id: 'event-list', role: 'listbox', ariaLabel: 'Events' });
    this.said = element('p', { className: 'events__said', role: 'status' });
    this.popup.append(this.groups, this.list, this.said);
    const details = root.querySelector('[data-event-text]');
    details.open = this.text.getAttribute('aria-invalid') === 'true';
    for (const [name, value] of Object.entries({
      role: 'combobox', 'aria-expanded': 'false', 'aria-controls': 'event-list', 'aria-autocomplete': 'list',
    })) this.input.setAttribute(name, value);
    this.text.addEventListener('input', () => this.show());
    this.input.addEventListener('input', () => this.later());
    this.input.addEventListener('click', () => this.open());
    this.input.addEventListener('keydown', (event) => this.key(event));
    root.querySelector('.events__search').addEventListener('focusout', (event) => {
      if (!event.currentTarget.contains(event.relatedTarget)) this.close();
    });
    this.popup.addEventListener('mousedown', (event) => {
      // The search keeps the focus, to continue typing.
      if (!event.target.closest('button')) event.preventDefault();
    });
    this.list.addEventListener('click', (event) => {
      const option = event.target.closest('[role="option"]');
      if (option) this.choose(option);
    });
    this.list.addEventListener('scroll', () => {
      if (this.list.scrollTop + this.list.clientHeight > this.list.scrollHeight - NEAR_END_PX) this.more();
    });
    this.chips.addEventListener('click', (event) => {
      const button = event.target.closest('button');
      if (button) this.remove(button.dataset.event);
    });
  }

  target() {
    return this.text.form.elements.target.value;
  }

  chosen() {
    return splitEvents(this.text.value);
  }

  write(events) {
    this.text.value = events.join('\n');
    this.show();
    this.changed();
  }

  /** Draw the chips for the content of the text area. */
  show() {
    const events = this.chosen();
    this.chips.hidden = events.length === 0;
    this.chips.replaceChildren(...events.map((event) => element(
      'span', { className: 'chip chip--active' },
      element('span', { className: 'mono', textContent: event, title: event }),
      element('button', { type: 'button', className: 'chip__remove', ariaLabel: `Remove ${event}`, 'data-event': event }, '×'),
    )));
  }

  add(events) {
    const before = this.chosen();
    this.write([...before, ...events.filter((event) => !before.includes(event))]);
  }

  remove(event) {
    this.write(this.chosen().filter((other) => other !== event));
    this.input.focus();
    this.mark();
  }

  choose(option) {
    const name = option.dataset.event;
    const pattern = PLACEHOLDER.exec(name);
    if (pattern) {
      this.input.value = pattern[1] ?? pattern[2];
      this.input.focus();
      this.ask();
    } else if (option.hasAttribute('data-typed')) {
      this.add(splitEvents(name));
      this.input.value = '';
      this.ask();
    } else if (this.chosen().includes(name)) {
      this.remove(name);
    } else {
      this.add([name]);
    }
    this.mark();
  }

  key(event) {
    if (event.key === 'Escape' && !this.popup.hidden) {
      event.preventDefault();
      this.close();
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      if (this.popup.hidden) this.open();
      else this.step(event.key === 'ArrowDown' ? 1 : -1);
    } else if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      const words = this.input.value.trim();
      // Words separated by blanks are a search; one word can be an event that is not in the list.
      const option = this.options[this.active] ?? (/\s/.test(words) && !words.includes(',') ? this.options[0] : null);
      if (option) this.choose(option);
      else if (words) {
        this.add(splitEvents(this.input.value));
        this.input.value = '';
        this.ask();
      }
    } else if (event.key === 'Backspace' && this.input.value === '') {
      const last = this.chosen().at(-1);
      if (last) this.remove(last);
    }
  }

  step(by) {
    if (this.active + by >= this.options.length) this.more();
    this.activate(Math.max(-1, Math.min(this.options.length - 1, this.active + by)));
  }

  activate(number) {
    this.options[this.active]?.removeAttribute('data-active');
    this.active = number;
    const option = this.options[number];
    if (option) {
      option.setAttribute('data-active', '');
      option.scrollIntoView({ block: 'nearest' });
      this.input.setAttribute('aria-activedescendant', option.id);
    } else {
      this.input.removeAttribute('aria-activedescendant');
    }
  }

  open() {
    if (!this.popup.hidden) return;
    this.popup.hidden = false;
    this.input.setAttribute('aria-expanded', 'true');
    this.ask();
  }

  close() {
    clearTimeout(this.timer);
    this.popup.hidden = true;
    this.input.setAttribute('aria-expanded', 'false');
    this.activate(-1);
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.open(); this.ask(); }, TYPING_MS);
  }

  async ask() {
    this.list.scrollTop = 0;
    await this.fetch(0);
  }

  async more() {
    if (this.next !== null) await this.fetch(this.next);
  }

  async fetch(offset) {
    const mine = ++this.asked;
    const query = this.input.value.trim();
    this.next = null;
    try {
      const answer = await getJSON(`/jobs/events?${new URLSearchParams({ target: this.target(), query, group: this.group, offset })}`);
      // A later search replaced this one.
      if (mine !== this.asked) return;
      if (this.group && !answer.groups.some((group) => group.name === this.group) && answer.groups.length) {
        this.group = '';
        await this.fetch(0);
        return;
      }
      this.next = answer.next;
      this.draw(answer, query, offset);
    } catch (error) {
      this.said.textContent = error.message;
    }
  }

  draw(answer, query, offset) {
    if (offset === 0) {
      this.activate(-1);
      this.options = [];
      this.list.replaceChildren();
      this.lastGroup = '';
      this.drawGroups(answer.groups);
      if (query && !/\s/.test(query) && !answer.events.some((event) => event.name === query)) this.option(query, 'as it is', '', true);
    }
    for (const event of answer.events) {
      if (!query && event.group !== this.lastGroup) {
        this.lastGroup = event.group;
        this.list.append(element('li', { className: 'events__group', role: 'presentation', textContent: event.group }));
      }
      this.option(event.name, query ? event.group : '', event.description, false);
    }
    this.mark();
    const count = answer.total.toLocaleString();
    if (answer.total) this.said.textContent = `${count} on ${answer.host}`;
    else this.said.textContent = answer.host ? `None of these words is known to perf on ${answer.host}.` : 'No worker has listed its events yet. Type any event.';
  }

  drawGroups(groups) {
    const total = groups.reduce((sum, group) => sum + group.matches, 0);
    const all = [{ name: '', matches: total }, ...groups];
    this.groups.hidden = groups.length < 2 && !this.group;
    this.groups.replaceChildren(...all.map((group) => {
      const button = element('button', { type: 'button', className: 'chip' }, element('span', { textContent: group.name || 'all' }), ` ${group.matches.toLocaleString()}`);
      button.setAttribute('aria-pressed', String(this.group === group.name));
      button.addEventListener('click', () => {
        this.group = group.name;
        this.input.focus();
        this.ask();
      });
      return button;
    }));
  }

  option(name, group, description, typed) {
    const option = element(
      'li', { role: 'option', id: `event-${this.options.length}`, className: 'events__option', 'data-event': name },
      element('span', { className: 'mono events__name', textContent: name }),
      element('span', { className: 'events__about', textContent: [group, description].filter(Boolean).join(' · '), title: description }),
    );
    if (typed) option.dataset.typed = '';
    this.options.push(option);
    this.list.append(option);
  }

  mark() {
    const chosen = new Set(this.chosen());
    for (const option of this.options) option.setAttribute('aria-selected', String(chosen.has(option.dataset.event)));
  }
}
