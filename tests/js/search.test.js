// The search boxes, with a form that has what they touch and nothing else.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

const listeners = [];
globalThis.location = { search: '', pathname: '/results/x/flamegraph' };
globalThis.addEventListener = (kind, action) => listeners.push([kind, action]);

const { Search: FlameSearch } = await import('../../static/js/charts/flamegraph/search.js');
const { Search: TimelineSearch } = await import('../../static/js/charts/timeline/search.js');

/** A form with a field `q`; `part(name)` is the element of that data attribute. */
class Form {
  constructor() {
    this.events = {};
    this.parts = new Map();
    this.dataset = { flameSearch: '/results/x/flamegraph/search' };
    this.input = { value: '', events: {}, attributes: {} };
    this.input.addEventListener = (kind, action) => { (this.input.events[kind] ??= []).push(action); };
    this.input.setAttribute = (name, value) => { this.input.attributes[name] = value; };
    this.input.removeAttribute = (name) => { delete this.input.attributes[name]; };
    this.elements = { q: this.input };
    this.classes = new Set();
    this.classList = { toggle: (name, on) => (on ? this.classes.add(name) : this.classes.delete(name)) };
  }

  addEventListener(kind, action) {
    this.events[kind] = action;
  }

  querySelector(selector) {
    if (!this.parts.has(selector)) this.parts.set(selector, { textContent: '' });
    return this.parts.get(selector);
  }

  querySelectorAll() {
    return [];
  }

  get text() {
    return [...this.parts].find(([selector]) => selector.includes('"matched"'))[1].textContent.replaceAll('\u00a0', ' ');
  }
}

/** The state of a page whose address has these words. */
function stateOf(words) {
  const given = new URLSearchParams(words);
  return {
    get: (word) => given.get(word) ?? '',
    change: (changes) => { for (const [word, value] of Object.entries(changes)) given.set(word, value); },
    asked: () => new URLSearchParams({ event: 'cycles' }),
    selection: () => new URLSearchParams({ event: 'cycles' }),
  };
}

let asked;
let answer;

beforeEach(() => {
  asked = [];
  answer = { status: 200, body: {} };
  globalThis.document = { activeElement: null, querySelector: () => null };
  globalThis.fetch = async (url) => {
    asked.push(String(url));
    return { ok: answer.status === 200, status: answer.status, json: async () => answer.body };
  };
});

test('the flame graph asks once for a pattern, and shows what was found', async () => {
  const [form, found, state] = [new Form(), [], stateOf('q=foo')];
  const search = new FlameSearch(form, state, { found: (ids) => found.push(ids), next: () => {} });
  answer.body = { functions: [3, 5], percent: 12.5 };
  await search.update(state);
  await search.update(state);
  assert.deepEqual(asked, ['/results/x/flamegraph/search?event=cycles&q=foo']);
  assert.deepEqual(found, [new Set([3, 5])]);
  assert.equal(form.text, '12.50 % in 2 functions');
  assert.equal(form.input.value, 'foo');
});

test('one function is one; none is said', async () => {
  const [form, state] = [new Form(), stateOf('q=foo')];
  const search = new FlameSearch(form, state, { found: () => {}, next: () => {} });
  answer.body = { functions: [3], percent: 0.001 };
  await search.update(state);
  assert.equal(form.text, '<0.01 % in 1 function');
  state.change({ q: 'bar' });
  answer.body = { functions: [], percent: 0 };
  await search.update(state);
  assert.equal(form.text, 'No function matches');
});

test('without a pattern nothing is asked', async () => {
  const [form, found, state] = [new Form(), [], stateOf('')];
  await new FlameSearch(form, state, { found: (ids) => found.push(ids), next: () => {} }).update(state);
  assert.deepEqual([asked, found, form.text], [[], [null], '']);
});

test("a pattern that the server refuses is marked, with the server's sentence, and may be asked again", async () => {
  const [form, found, state] = [new Form(), [], stateOf('q=(')];
  const search = new FlameSearch(form, state, { found: (ids) => found.push(ids), next: () => {} });
  answer = { status: 400, body: { error: 'No regular expression.' } };
  await search.update(state);
  await search.update(state);
  assert.equal(asked.length, 2);
  assert.equal(form.text, 'No regular expression.');
  assert.equal(form.input.attributes['aria-invalid'], 'true');
  assert.ok(form.classes.has('flame-search--wrong'));
  assert.deepEqual(found, [null, null]);
});

test('an answer that was overtaken is not shown', async () => {
  const [form, found, state] = [new Form(), [], stateOf('q=a')];
  const search = new FlameSearch(form, state, { found: (ids) => found.push(ids), next: () => {} });
  const waiting = [];
  globalThis.fetch = (_, { signal }) => new Promise((resolve, reject) => {
    waiting.push(resolve);
    signal.addEventListener('abort', () => reject(new DOMException('', 'AbortError')));
  });
  const first = search.update(state);
  state.change({ q: 'b' });
  const second = search.update(state);
  waiting[1]({ ok: true, status: 200, json: async () => ({ functions: [2], percent: 1 }) });
  await Promise.all([first, second]);
  assert.deepEqual(found, [new Set([2])]);
});

test('Enter leads to the next frame once the pattern is the one that is shown', () => {
  const [form, steps, state] = [new Form(), [], stateOf('q=foo')];
  new FlameSearch(form, state, { found: () => {}, next: (step) => steps.push(step) });
  const submit = () => form.events.submit({ preventDefault: () => {} });
  form.input.value = 'bar';
  submit();
  assert.equal(state.get('q'), 'bar');
  assert.deepEqual(steps, []);
  submit();
  assert.deepEqual(steps, [1]);
});

test('the timeline says how often, how long and what share', async () => {
  const [form, found, state] = [new Form(), [], stateOf('q=mul')];
  const search = new TimelineSearch(form, state, '/results/x/timeline', { found: (ids) => found.push(ids), go: () => {}, from: () => 0 });
  answer.body = { hits: 1200, functions: [4], total: 2_500_000, unit: 'ns', percent: 25 };
  await search.update();
  assert.equal(form.text, '1,200 · 2.50 ms · 25.00 %');
  assert.deepEqual(found, [new Set([4])]);
  state.change({ q: 'add' });
  answer.body = { hits: 0, functions: [4], total: 0, unit: 'ns', percent: null };
  await search.update();
  assert.notEqual(form.text, '');
  assert.ok(search.active);
});

test('the timeline goes from hit to hit', async () => {
  const [form, went, state] = [new Form(), [], stateOf('q=mul')];
  const search = new TimelineSearch(form, state, '/results/x/timeline', { found: () => {}, go: (hit) => went.push(hit.row), from: () => 12.4 });
  answer.body = { row: 7, number: 0, of: 1200 };
  await search.next(false);
  await search.next(true);
  assert.deepEqual(asked, [
    '/results/x/timeline/search/next?event=cycles&q=mul&from=12',
    '/results/x/timeline/search/next?event=cycles&q=mul&from=12&row=7&back=1',
  ]);
  assert.deepEqual(went, [7, 7]);
  assert.equal(form.querySelector('[data-timeline="number"]').textContent, '1 of 1,200');
});
