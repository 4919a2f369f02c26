import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

import { exactMoment, milliseconds, moment, nanoseconds, stepOf } from '../../static/js/charts/timeline/time.js';

const at = (search) => { globalThis.location = { search }; };
const plain = (text) => text.replace('\u00a0', ' ');

beforeEach(() => at(''));

test('marks are 1, 2 or 5 times a power of ten apart', () => {
  assert.deepEqual([0.1, 1, 1.5, 3, 7, 10, 11, 49, 51].map(stepOf), [1, 1, 2, 5, 10, 10, 20, 50, 100]);
});

test('a moment has the digits that tell it from the next mark', () => {
  assert.equal(plain(moment(1_173_456_100, 1000)), '1,173.456 ms');
  assert.equal(plain(moment(1_173_456_100, 100)), '1,173,456.1 µs');
  assert.equal(plain(moment(2e9, 1e9)), '2 s');
  assert.equal(plain(moment(1500, 100)), '1.5 µs');
  assert.equal(plain(moment(7, 1)), '7 ns');
});

test('marks of one scale are in one unit', () => {
  assert.equal(plain(moment(500, 500, 2000)), '0.5 µs');
});

test('what is rounded to nothing has no sign', () => {
  assert.equal(plain(moment(-0.0001, 1, 10)), '0 ns');
  assert.equal(plain(moment(-0, 1e9)), '0 s');
  assert.equal(plain(moment(-4, 100, 2000)), '0.0 µs');
  assert.equal(plain(moment(-400, 100, 2000)), '-0.4 µs');
});

test('the unit of the address holds for every moment', () => {
  at('?unit=us');
  assert.equal(plain(moment(2e6, 1e6)), '2,000 µs');
  assert.equal(plain(exactMoment(1_234_567)), '1,234.567 µs');
  at('?unit=nonsense');
  assert.equal(plain(exactMoment(1_234_567)), '1.234567 ms');
});

test('milliseconds are exact, and come back', () => {
  const cases = { '0': 0, '0.000001': 1, '1': 1e6, '1.5': 1_500_000, '-2.25': -2_250_000, '9007199254.740991': Number.MAX_SAFE_INTEGER };
  for (const [text, ns] of Object.entries(cases)) {
    assert.equal(milliseconds(ns), text);
    assert.equal(nanoseconds(text), ns === 0 ? 0 : ns);
  }
  assert.equal(nanoseconds(' 3 '), 3e6);
});

test('what is no number is none', () => {
  for (const text of ['', 'x', '1e3', '1,5', '--1', '.5', '1.', '1234567890123456']) assert.ok(Number.isNaN(nanoseconds(text)), text);
});
