// The axes of a scatter: from a share of its box to a value and back. Pure.

/** @typedef {{low: number, high: number, log: boolean}} Axis */

/**
 * The value at a share of an axis, from 0 at its low end to 1.
 * @param {Axis} axis
 * @param {number} share
 */
export function valueAt({ low, high, log }, share) {
  if (!log) return low + share * (high - low);
  return low * 10 ** (share * (Math.log10(high) - Math.log10(low)));
}

/**
 * A number of an address: with six digits, rounded down, or up, so that a box keeps the dots at its edges.
 * @param {number} value
 * @param {boolean} up
 */
export function edge(value, up) {
  if (value === 0 || !Number.isFinite(value)) return '0';
  const step = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 5);
  const rounded = (up ? Math.ceil(value / step) : Math.floor(value / step)) * step;
  return String(Number(rounded.toPrecision(6)));
}

/**
 * The edges of a box between two places, each as shares of the plot from the left and from the bottom.
 * @param {{x: Axis, y: Axis}} axes
 * @param {[number, number]} one
 * @param {[number, number]} other
 * @returns {Record<string, string>}
 */
export function boxOf({ x, y }, one, other) {
  const inside = (/** @type {number} */ share) => Math.min(1, Math.max(0, share));
  const [left, right] = [one[0], other[0]].map(inside).sort((a, b) => a - b);
  const [bottom, top] = [one[1], other[1]].map(inside).sort((a, b) => a - b);
  return {
    'x-from': edge(valueAt(x, left), false),
    'x-to': edge(valueAt(x, right), true),
    'y-from': edge(valueAt(y, bottom), false),
    'y-to': edge(valueAt(y, top), true),
  };
}
