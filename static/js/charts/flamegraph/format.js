// Numbers and patterns as text. Numbers are written as app/domain/units.py writes them in tables.

import { chosenUnit } from '../unit.js';

const NO_BREAK = '\u00a0';
/** @type {[number, string][]} */
const NS = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
  [1, 'ns'],
];
/** @type {[number, number, number, string, string][]} */
const LONG = [
  // The smaller unit in ns, how many of it the larger has, below how many of it this pair is used, their names.
  [1e9, 60, 2 * 3600, 'min', 's'],
  [60e9, 60, 2 * 1440, 'h', 'min'],
  [3600e9, 24, Infinity, 'd', 'h'],
];
const BYTES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

// Instead of a unit if samples give only shares (app/domain/units.py).
const SAMPLED_ONLY = 'sampled, not counted';

/**
 * Says that a search was for plain text, because the input is not a regular expression.
 * @param {{is_literal: boolean}} answer
 * @returns {string}
 */
export function literalNote({ is_literal }) {
  return is_literal ? ' (plain text)' : '';
}

/**
 * A weight with its unit: 1234567 ns → "1.23 ms"; counts in full.
 * @param {number} value
 * @param {string} unit
 * @returns {string}
 */
export function weight(value, unit) {
  if (!Number.isFinite(value)) return '–';
  if (unit === SAMPLED_ONLY) return unit;
  if (value < 0) return `−${weight(-value, unit)}`;
  if (unit === 'ns') return duration(value);
  if (unit === 'bytes') return bytes(value);
  const digits = value.toLocaleString('en', { maximumFractionDigits: 0 });
  return ['', 'count', 'none'].includes(unit) || unit.includes(' ') ? digits : `${digits}${NO_BREAK}${unit}`;
}

/**
 * The value of a formula with four digits, as app/analysis/ratios/metrics.py writes it.
 * @param {number | null} value
 * @param {string} unit
 * @returns {string}
 */
export function ratio(value, unit) {
  if (value === null || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  const digits =
    size !== 0 && (size < 1e-4 || size >= 1e9)
      ? value.toExponential(3)
      : value.toLocaleString('en', { maximumSignificantDigits: size >= 1000 ? Math.ceil(Math.log10(size + 1)) : 4 });
  return digits.replace('-', '−') + (unit ? `${NO_BREAK}${unit}` : '');
}

/** @param {number} ns */
function duration(ns) {
  const chosen = chosenUnit();
  if (chosen) return `${chosen[0] === 1 ? ns.toLocaleString('en', { maximumFractionDigits: 0 }) : three(ns / chosen[0])}${NO_BREAK}${chosen[1]}`;
  if (ns === 0) return `0${NO_BREAK}s`;
  if (ns < 120e9) {
    const [step, name] = NS.find(([least]) => ns >= least) ?? NS[NS.length - 1];
    return `${step === 1 ? ns.toFixed(0) : three(ns / step)}${NO_BREAK}${name}`;
  }
  const [small, per, , large, rest] = LONG.find(([unit, , limit]) => Math.round(ns / unit) < limit) ?? LONG[LONG.length - 1];
  const parts = Math.round(ns / small);
  const whole = `${Math.floor(parts / per).toLocaleString('en')}${NO_BREAK}${large}`;
  return parts % per ? `${whole} ${parts % per}${NO_BREAK}${rest}` : whole;
}

/** @param {number} value */
function bytes(value) {
  let power = 0;
  while (power < BYTES.length - 1 && value / 1024 ** power >= 1023.5) power++;
  return `${power ? three(value / 1024 ** power) : value.toFixed(0)}${NO_BREAK}${BYTES[power]}`;
}

/**
 * Three significant digits, but all integer digits.
 * @param {number} value
 */
function three(value) {
  const small = value > 0 && value < 0.9995 ? Math.ceil(-Math.log10(value)) : 0;
  const decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2 + small;
  return value.toLocaleString('en', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/**
 * A part of a whole: "12.34 %".
 * @param {number} part
 * @param {number} all
 */
export function percent(part, all) {
  if (!(all > 0) || !Number.isFinite(part)) return '–';
  return percentage((100 * part) / all);
}

/**
 * 0–100 with two decimals; positive values too small to display are "<0.01 %".
 * @param {number} value
 */
export function percentage(value) {
  if (value > 0 && value < 0.005) return `<0.01${NO_BREAK}%`;
  return `${value ? value.toFixed(2) : '0'}${NO_BREAK}%`;
}

/**
 * A change with its sign: "+12.34 points", "−4 ms", "±0 s".
 * @param {string} text
 * @param {number} value
 */
export function signed(text, value) {
  return (value > 0 ? '+' : value < 0 ? '−' : '±') + text;
}

const LONGEST_PATTERN = 1900;
// The server shortens the middle of longer names.
const SHORTENED_FROM = 200;

/**
 * Whether this is not the whole name.
 * @param {string} name
 */
export function isShortened(name) {
  return name.length >= SHORTENED_FROM && name.includes('…');
}

/**
 * The RE2 pattern that matches this name alone; for a shortened name, names with the same start and end.
 * @param {string} name
 */
export function exactly(name) {
  if (isShortened(name)) {
    const gap = name.indexOf('…');
    const most = LONGEST_PATTERN / 4;
    return `^${literally(head(name.slice(0, gap), most))}.*${literally(tail(name.slice(gap + 1), most))}$`;
  }
  const pattern = literally(name);
  return pattern.length <= LONGEST_PATTERN ? `^${pattern}$` : `^${literally(head(name, LONGEST_PATTERN / 2))}`;
}

// Characters of two code units are not cut in two.
/**
 * @param {string} text
 * @param {number} most
 */
function head(text, most) {
  return text.slice(0, most).replace(/[\ud800-\udbff]$/, '');
}

/**
 * @param {string} text
 * @param {number} most
 */
function tail(text, most) {
  return text.slice(-most).replace(/^[\udc00-\udfff]/, '');
}

/**
 * @param {string} text
 */
function literally(text) {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

/**
 * A name short enough for a sentence.
 * @param {string} name
 */
export function short(name, most = 80) {
  const parts = Array.from(name.slice(0, 4 * most));
  return parts.length > most ? `${parts.slice(0, most - 1).join('')}…` : name;
}
