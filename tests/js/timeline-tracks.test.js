import assert from 'node:assert/strict';
import test from 'node:test';

import { Tracks } from '../../static/js/charts/timeline/tracks.js';

const thread = {
  id: 't3',
  key: '-/1/3',
  kind: 'thread',
  name: 'worker 3',
  group: 'spin 1',
  rows: 0,
  lane: true,
  stacks: 20,
  ticks: [{ event: 2, name: 'page-faults', samples: 5 }],
  has_cpu_use: true,
  drawn: 'before',
};
const cpu = { id: 'x1', key: 'cpu/host/1', kind: 'cpu', name: 'CPU 1', group: 'CPUs', rows: 0, lane: true, drawn: 'before' };

/** The entries of tracks in this state, without headings. */
function layOut(list, { stacked = false, folded = [] } = {}) {
  const tracks = new Tracks();
  tracks.set(list);
  tracks.layOut({ pinned: [], folded: new Set(folded), isStacked: () => stacked, filter: '' });
  return { tracks, entries: tracks.rest.filter((entry) => entry.track) };
}

test('thread has a lane, ticks of other events and its CPU use', () => {
  const { entries } = layOut([thread, cpu]);
  assert.deepEqual(entries.map((entry) => entry.parts.map(({ what, band }) => `${what} ${band}`)), [
    ['lane t3.l', 'ticks t3.e2', 'counter w3'],
    ['lane x1'],
  ]);
  assert.equal(entries[0].isFolded, true);
});

test('unfolded thread has a row per call depth, in blocks', () => {
  const { tracks, entries } = layOut([thread], { stacked: true });
  const parts = entries[0].parts.filter((part) => part.what === 'stacks');
  assert.deepEqual(parts.map(({ band, first, rows }) => [band, first, rows]), [
    ['t3.k0-15', 0, 16],
    ['t3.k16-31', 16, 4],
  ]);
  // A mark of row 17 is in the second block.
  const { y, height } = tracks.row('t3', 17);
  assert.deepEqual([y - entries[0].y, height], [17 * 18, 18]);
});

test('slices are folded by their own state, not as stacks', () => {
  const nested = { ...thread, rows: 3, ticks: [], has_cpu_use: false };
  assert.deepEqual(layOut([nested]).entries[0].parts.map((part) => part.rows), [3]);
  assert.equal(layOut([nested], { stacked: true, folded: [nested.key] }).entries[0].parts[0].what, 'lane');
  assert.equal(Tracks.stacks(nested), false);
});
