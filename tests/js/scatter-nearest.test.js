// The dot next to the pointer: `node --test tests/js/*.test.js`.

import assert from 'node:assert/strict';
import test from 'node:test';

import { nearestDot } from '../../static/js/charts/scatter/nearest.js';

const PLOT = { width: 1000, height: 100 };

test('the nearest dot is found by its distance in pixels', () => {
  const dots = /** @type {[number, number][]} */ ([[0.5, 0.5], [0.52, 0.5], [0.5, 0.9]]);
  assert.equal(nearestDot(dots, [0.509, 0.5], PLOT, 24), 0);
  assert.equal(nearestDot(dots, [0.511, 0.5], PLOT, 24), 1);
  assert.equal(nearestDot(dots, [0.5, 0.8], PLOT, 24), 2);
  assert.equal(nearestDot(dots, [0.55, 0.5], PLOT, 24), -1);
  assert.equal(nearestDot([], [0.5, 0.5], PLOT, 24), -1);
});

test('of dots at one place, the one in front is found', () => {
  assert.equal(nearestDot([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.51], PLOT, 24), 1);
});
