// Times as text, and the marks of the ruler.

import { chosenUnit } from '../unit.js';

const NO_BREAK = '\u00a0';
/** @type {[number, string][]} */
const UNITS = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
  [1, 'ns'],
];

/**
 * The distance of marks: 1, 2 or 5 times a power of ten, at least `least` ns.
 * @param {number} least
 */
export function stepOf(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return power * ([1, 2, 5].find((factor) => factor * power >= least) ?? 10);
}

/**
 * A time with enough digits to distinguish it from one `step` later: "1,173.456 ms".
 * @param {number} ns
 * @param {number} step ns
 * @param {number} largest ns: the maximum of a scale with one unit
 */
export function moment(ns, step, largest = ns) {
  const [size, name] = chosenUnit() ?? UNITS.find(([unit]) => step >= unit / 1000 && (Math.abs(largest) >= unit || step >= unit)) ?? UNITS[3];
  const digits = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  const text = (ns / size).toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  // Avoid "-0" for a mark at the start. Firefox before 116 has no signDisplay: 'negative'.
  return `${text.replace(/^-(?=[0.]*$)/, '')}${NO_BREAK}${name}`;
}

/**
 * A time in ns precision: "1,173.4561 ms".
 * @param {number} ns
 */
export function exactMoment(ns) {
  const [size, name] = chosenUnit() ?? [1e6, 'ms'];
  return `${(Math.round(ns) / size).toLocaleString('en', { maximumFractionDigits: Math.log10(size) })}${NO_BREAK}${name}`;
}

/**
 * Nanoseconds as exact milliseconds for the URL.
 * @param {number} ns
 */
export function milliseconds(ns) {
  const whole = Math.round(ns);
  const sign = whole < 0 ? '-' : '';
  const digits = String(Math.abs(whole)).padStart(7, '0');
  const part = digits.slice(-6).replace(/0+$/, '');
  return `${sign}${digits.slice(0, -6)}${part ? `.${part}` : ''}`;
}

/**
 * Milliseconds as text to nanoseconds; NaN if invalid.
 * @param {string} text
 */
export function nanoseconds(text) {
  const found = /^(-?)(\d{1,15})(?:\.(\d{1,12}))?$/.exec(text.trim());
  if (!found) return NaN;
  const ns = Number(found[2]) * 1e6 + Math.round(Number(`0.${found[3] ?? 0}`) * 1e6);
  return found[1] ? -ns : ns;
}
