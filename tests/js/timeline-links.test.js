// Links from details of the timeline to other pages.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { linksOf } from '../../static/js/charts/timeline/links.js';

const PAGES = { flamegraph: '/results/x/flamegraph' };
const SAMPLES = { what: 'samples', event: 'page-faults', thread: '-/100/101', start_ns: 0, end_ns: 1_000_000 };

/** The parameters of the links to the flame graph. */
const queries = (details, words) => linksOf(details, new URLSearchParams(words), PAGES).map(({ href }) => Object.fromEntries(new URL(href, 'http://x').searchParams));

test('samples lead to their own event, time, thread and process', () => {
  const time = { event: 'page-faults', 'start-ms': '0', 'end-ms': '1' };
  assert.deepEqual(queries(SAMPLES, 'host=n1&thread=1/2/3'), [
    { host: 'n1', ...time, thread: '-/100/101' },
    { host: 'n1', ...time, process: '-/100' },
  ]);
});

test('samples of a CPU lead to their time', () => {
  assert.deepEqual(queries({ ...SAMPLES, thread: null }, ''), [{ event: 'page-faults', 'start-ms': '0', 'end-ms': '1' }]);
});
