import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Picture, between, extent } from '../../static/js/charts/flamegraph/model.js';

// root 10 ─ a 6 (self 1) ─ b 3, c 2;  d 4
function wire(changes = {}) {
  return {
    event: 'cycles',
    unit: 'count',
    total: 10,
    pruned: 0,
    kinds: ['user', 'kernel'],
    zoom: [],
    functions: { id: [-1, 10, 11, 12, 13], name: ['root', 'a', 'b', 'c', 'd'], short: [], module: ['', 'm', 'm', 'm', 'n'], kind: [0, 0, 0, 1, 1] },
    nodes: { id: [0, 1, 2, 3, 4], depth: [0, 1, 2, 2, 1], function: [0, 1, 2, 3, 4], self: [0, 1, 3, 2, 4], total: [10, 6, 3, 2, 4] },
    ...changes,
  };
}

test('children follow each other from the left edge of their parent', () => {
  const picture = new Picture(wire());
  assert.equal(picture.span, 10);
  assert.equal(picture.rows, 3);
  const boxes = Array.from({ length: picture.count }, (_, node) => extent(picture, node));
  assert.deepEqual(boxes, [[0, 10], [0, 6], [0, 3], [3, 5], [6, 10]]);
  assert.deepEqual([...picture.parent], [-1, 0, 1, 1, 0]);
  assert.deepEqual([...picture.end], [5, 4, 3, 4, 5]);
});

test('boxes by time stand where they began, relative to the first', () => {
  const nodes = { ...wire().nodes, start: [100, 101, 101, 105, 107] };
  const picture = new Picture(wire({ nodes }));
  assert.deepEqual([...picture.x0], [0, 1, 1, 5, 7]);
  assert.deepEqual(extent(picture, 3), [5, 7]);
});

test('frames above the zoomed one take the whole width and weigh nothing themselves', () => {
  const zoom = [{ id: 90, depth: 0, function: 0, total: 50 }, { id: 91, depth: 1, function: 1, total: 20 }, { id: 0, depth: 2, function: 0, total: 10 }];
  const picture = new Picture(wire({ zoom }));
  assert.equal(picture.top, 2);
  assert.equal(picture.count, 7);
  assert.deepEqual(extent(picture, 0), [0, 10]);
  assert.ok(Number.isNaN(picture.self[1]));
  assert.deepEqual([...picture.depth], [0, 1, 2, 3, 4, 4, 3]);
  assert.deepEqual(picture.path(5), [0, 1, 2, 3, 5]);
  assert.equal(picture.find(91), 1);
});

test('a node is found by id, names by node', () => {
  const picture = new Picture(wire());
  assert.equal(picture.find(3), 3);
  assert.equal(picture.find(77), -1);
  assert.deepEqual([picture.name(3), picture.module(3), picture.kind(3), picture.functionId(0)], ['c', 'm', 'kernel', -1]);
});

test('a place hits the box below it, or the nearest within the slack', () => {
  const picture = new Picture(wire());
  assert.equal(picture.hit(1, 0), 1);
  assert.equal(picture.hit(1, 5.999), 1);
  assert.equal(picture.hit(1, 6), 4);
  assert.equal(picture.hit(2, 5.5), -1);
  assert.equal(picture.hit(2, 5.5, 1), 3);
  assert.equal(picture.hit(3, 1), -1);
  assert.equal(picture.hit(-1, 1), -1);
});

test('neighbors in a row, children, and what is inside', () => {
  const picture = new Picture(wire());
  assert.equal(picture.beside(1, 1), 4);
  assert.equal(picture.beside(4, 1), -1);
  assert.equal(picture.beside(3, -1), 2);
  assert.equal(picture.widestChild(0), 1);
  assert.equal(picture.widestChild(4), -1);
  assert.equal(picture.children(1), 2);
  assert.ok(picture.isInside(3, 1) && !picture.isInside(4, 1));
});

test('of a difference each node has its weight in the other profile', () => {
  const nodes = { ...wire().nodes, base_self: [0, 2, 2, 2, 2], base_total: [8, 6, 2, 2, 2], evidence: [0, 0, 2, 0, 1] };
  const picture = new Picture(wire({ nodes, base: { total: 8, measured: 16, reversed: false, evidence: ['', 'few', 'noise'] } }));
  assert.deepEqual([...picture.base.totals], [8, 6, 2, 2, 2]);
  assert.deepEqual([...picture.base.evidence], [0, 0, 2, 0, 1]);
  assert.equal(picture.base.texts[2], 'noise');
  assert.equal(picture.base.measured, 16);
});

test('without nodes a picture is empty', () => {
  const none = { id: [], depth: [], function: [], self: [], total: [] };
  const picture = new Picture(wire({ nodes: none }));
  assert.ok(picture.empty);
  assert.deepEqual([picture.count, picture.rows, picture.hit(0, 0)], [0, 0, -1]);
});

test('a zoom begins and ends at its stretches, and widths change by equal factors', () => {
  assert.deepEqual(between([0, 100], [40, 41], 0), [0, 100]);
  assert.deepEqual(between([0, 100], [40, 41], 1), [40, 41]);
  const [left, right] = between([0, 100], [40, 41], 0.5);
  assert.ok(Math.abs(right - left - 10) < 1e-9);
  assert.deepEqual(between([0, 10], [20, 30], 0.5), [10, 20]);
});
