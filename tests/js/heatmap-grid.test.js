import assert from 'node:assert/strict';
import { test } from 'node:test';

import { cellAfterKey, cellAt, cellNumbers, cellsPath, startOf, timeOf } from '../../static/js/charts/heatmap/grid.js';

const GRID = { first: 500, column: 1000, columns: 4, rows: 10 };

test('cells are numbered up a column, then in the next one', () => {
  assert.deepEqual([cellAt(GRID, 0, 0.99), cellAt(GRID, 0, 0), cellAt(GRID, 0.26, 1)], [0, 9, 10]);
  assert.deepEqual([cellAt(GRID, -5, 9), cellAt(GRID, 5, -9)], [0, 39]);
  assert.equal(startOf(GRID, 10), 1500);
});

test('a range has both of its cells, in any order', () => {
  assert.deepEqual(timeOf(GRID, 3, 12), [800, 1800]);
  assert.deepEqual(timeOf(GRID, 12, 3), [800, 1800]);
  assert.deepEqual(timeOf(GRID, 0, 0), [500, 600]);
});

test('keys move within the map', () => {
  const after = (cell, key) => cellAfterKey(GRID, cell, key);
  assert.deepEqual([after(3, 'ArrowUp'), after(3, 'ArrowDown'), after(3, 'ArrowRight'), after(13, 'ArrowLeft')], [4, 2, 13, 3]);
  assert.deepEqual([after(0, 'ArrowDown'), after(3, 'ArrowLeft'), after(39, 'ArrowUp'), after(35, 'ArrowRight')], [0, 3, 39, 35]);
  assert.deepEqual([after(7, 'Home'), after(7, 'End'), after(7, 'x')], [0, 39, null]);
});

test('the outline is that of the server', () => {
  assert.equal(cellsPath(GRID, 2, 3), 'M0 8V6H1V8Z');
  assert.equal(cellsPath(GRID, 32, 15), 'M1 5V0H3V7H4V10H2V5Z');
});

test('numbers come from differences', () => {
  assert.deepEqual(cellNumbers('3,1,10'), [3, 4, 14]);
  assert.deepEqual(cellNumbers(''), []);
});
