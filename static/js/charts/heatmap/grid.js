// The cells of a heat map: which one is at a point, and the outline of a range of time. No use of the page.

/**
 * @typedef {object} Grid
 * @property {number} first when the first column starts, ns
 * @property {number} column the width of a column, ns
 * @property {number} columns
 * @property {number} rows
 */

/**
 * When a cell starts (ns). Cells are numbered in order of time: up in a column, then in the next one.
 * @param {Grid} grid
 * @param {number} cell
 */
export function startOf({ first, column, rows }, cell) {
  return first + cell * (column / rows);
}

/**
 * The number of the cell at a point of the map; points outside of the map are moved to its edge.
 * @param {Grid} grid
 * @param {number} x 0 to 1, from the left
 * @param {number} y 0 to 1, from the top
 */
export function cellAt({ columns, rows }, x, y) {
  /** @type {(share: number, count: number) => number} */
  const place = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
  return place(x, columns) * rows + rows - 1 - place(y, rows);
}

/**
 * The cell that a key moves to; null for another key.
 * @param {Grid} grid
 * @param {number} cell
 * @param {string} key
 */
export function cellAfterKey({ columns, rows }, cell, key) {
  const last = columns * rows - 1;
  if (key === 'Home') return 0;
  if (key === 'End') return last;
  const step = { ArrowUp: 1, ArrowDown: -1, ArrowRight: rows, ArrowLeft: -rows }[key];
  if (step === undefined) return null;
  const next = cell + step;
  return next < 0 || next > last ? cell : next;
}

/**
 * The time of all cells from one to another, in any order: [start, end) in ns.
 * @param {Grid} grid
 * @param {number} one
 * @param {number} other
 * @returns {[number, number]}
 */
export function timeOf(grid, one, other) {
  return [startOf(grid, Math.min(one, other)), startOf(grid, Math.max(one, other) + 1)];
}

/**
 * The outline of all cells from one to another in units of cells, as a path of SVG (app/charts/heat_map.py draws the
 * same).
 * @param {Grid} grid
 * @param {number} one
 * @param {number} other
 */
export function cellsPath({ rows }, one, other) {
  const [low, high] = one < other ? [one, other] : [other, one];
  const [first, last] = [Math.floor(low / rows), Math.floor(high / rows)];
  const [from, to] = [rows - (low % rows), rows - 1 - (high % rows)];
  if (first === last) return `M${first} ${from}V${to}H${first + 1}V${from}Z`;
  return `M${first} ${from}V0H${last}V${to}H${last + 1}V${rows}H${first + 1}V${from}Z`;
}

/**
 * The numbers of cells from their differences.
 * @param {string} text numbers separated by commas
 */
export function cellNumbers(text) {
  let cell = 0;
  return text ? text.split(',').map((step) => (cell += Number(step))) : [];
}
