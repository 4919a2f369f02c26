import assert from 'node:assert/strict';
import test from 'node:test';

import { counterValue, scaleOf } from '../../static/js/charts/timeline/counters.js';

test('counter value has unit and digits', () => {
  const count = { unit: 'count' };
  assert.equal(counterValue(count, 0.934567), '0.935');
  assert.equal(counterValue(count, 1496.25), '1,496');
  assert.equal(counterValue(count, 0), '0');
  assert.equal(counterValue(count, NaN), '–');
  assert.equal(counterValue({ unit: 'percent' }, 12.345), '12.3 %');
  assert.equal(counterValue({ unit: 'bytes' }, 2048), '2.00\u00a0KiB');
});

test('scale includes zero', () => {
  assert.deepEqual(scaleOf({ low: 3, high: 8 }), { low: 0, high: 8 });
  assert.deepEqual(scaleOf({ low: -2, high: -1 }), { low: -2, high: -1 });
  assert.deepEqual(scaleOf({}), { low: 0, high: 0 });
});
