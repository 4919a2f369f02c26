import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Boxes, Names, Values, markOf } from '../../static/js/charts/timeline/model.js';

// Two rows from 1000 ns in units of 10 ns: [1000, 1050), [1100, 1110) and [1020, 1080).
const COLUMNS = { rows: [2, 1], gap: [0, 5, 2], length: [5, 1, 6], name: [0, 1, 0], count: [1, 3, 1], fill: [255, 128, 255] };
const boxes = () => new Boxes(COLUMNS, { start_ns: 1000, unit_ns: 10 }, [7, 9]);

test('times are added up from gaps and lengths, row by row', () => {
  const made = boxes();
  assert.equal(made.size, 3);
  assert.deepEqual([...made.x0], [1000, 1100, 1020]);
  assert.deepEqual([...made.x1], [1050, 1110, 1080]);
  assert.deepEqual([...made.bounds], [0, 2, 3]);
  assert.deepEqual([...made.name], [7, 9, 7]);
  assert.equal(made.out, null);
});

test('the first box of a row that is not over', () => {
  const made = boxes();
  assert.deepEqual([[0, 900], [0, 1049], [0, 1050], [0, 1110], [1, 1000]].map(([row, time]) => made.first(row, time)), [0, 0, 1, 2, 2]);
});

test('a moment hits its box, or the nearest within the slack', () => {
  const made = boxes();
  assert.equal(made.hit(0, 1000, 0), 0);
  assert.equal(made.hit(0, 1049, 0), 0);
  assert.equal(made.hit(0, 1070, 10), -1);
  assert.equal(made.hit(0, 1070, 25), 0);
  assert.equal(made.hit(0, 1090, 25), 1);
  assert.equal(made.hit(1, 1100, 20), 2);
  assert.equal(made.hit(2, 1000, 1e9), -1);
  assert.equal(made.hit(-1, 1000, 1e9), -1);
});

test('a value holds until the next; what is not known is NaN', () => {
  const values = new Values({ gap: [0, 10, 5], low: [1, null, 3], high: [2, 5, 4], last: [2, 5, 4] }, { start_ns: 100, unit_ns: 2 });
  assert.deepEqual([...values.at], [100, 120, 130]);
  assert.ok(Number.isNaN(values.low[1]));
  assert.deepEqual([99, 100, 119, 120, 1e9].map((time) => values.find(time)), [-1, 0, 0, 1, 2]);
  assert.equal(values.size, 3);
});

test('a name that was met before keeps its place', () => {
  const names = new Names();
  const kinds = ['operator', 'gpu_kernel'];
  assert.deepEqual(names.add({ function: [5, -1], name: ['mul', 'step'], short: [], kind: [0, 0], shade: [1, 2] }, kinds), [0, 1]);
  assert.deepEqual(names.add({ function: [-1, 5, 5], name: ['step', 'mul', 'mul'], short: [], kind: [0, 0, 1], shade: [2, 1, 1] }, kinds), [1, 0, 2]);
  assert.deepEqual(names.kinds, ['operator', 'operator', 'gpu_kernel']);
});

test('a name that came without its text gets it later', () => {
  const names = new Names();
  names.add({ function: [5], name: [''], short: [], kind: [0], shade: [0] }, ['operator']);
  names.add({ function: [5], name: ['a::mul(int)'], short: ['a::mul'], kind: [0], shade: [0] }, ['operator']);
  assert.deepEqual(names.text, ['a::mul(int)']);
  assert.deepEqual(names.short, ['a::mul']);
});

test('a mark is where its box is; values have one row', () => {
  const box = { entry: { track: { id: 't' } }, part: { what: 'rows', first: 3 }, row: 1, data: boxes(), index: 2 };
  assert.deepEqual(markOf(box), { track: 't', depth: 4, start: 1020, end: 1080 });
  assert.equal(markOf({ ...box, part: { what: 'values', first: 3 } }).depth, 0);
});
