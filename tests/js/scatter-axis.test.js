// The axes of a scatter: `node --test tests/js/*.test.js`.

import assert from 'node:assert/strict';
import test from 'node:test';

import { boxOf, edge, valueAt } from '../../static/js/charts/scatter/axis.js';

const LINEAR = { low: -1, high: 3, log: false };
const LOG = { low: 1, high: 10000, log: true };

test('a share of an axis is a value', () => {
  assert.equal(valueAt(LINEAR, 0.25), 0);
  assert.equal(valueAt(LINEAR, 1), 3);
  assert.ok(Math.abs(valueAt(LOG, 0.5) - 100) < 1e-9);
});

test('edges have six digits and are rounded away from the box', () => {
  assert.equal(edge(1234567.8, false), '1234560');
  assert.equal(edge(1234567.8, true), '1234570');
  assert.equal(edge(-0.123456789, false), '-0.123457');
  assert.equal(edge(-0.123456789, true), '-0.123456');
  assert.equal(edge(0, true), '0');
  assert.equal(edge(100, false), '100');
});

test('a box has the same edges whichever corner it starts at, and ends at the axes', () => {
  const box = boxOf({ x: LOG, y: LINEAR }, [0.75, 0.5], [0.25, 2]);
  assert.deepEqual(box, { 'x-from': '10', 'x-to': '1000', 'y-from': '1', 'y-to': '3' });
  assert.deepEqual(boxOf({ x: LOG, y: LINEAR }, [0.25, 2], [0.75, 0.5]), box);
});
