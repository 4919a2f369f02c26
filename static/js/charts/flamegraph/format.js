// Numbers and patterns as text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const NS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];
const BYTES = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "bytes"],
];

/** A weight with its unit: 1234567 ns → "1.235 ms", 1234567 count → "1,234,567". */
export function weight(value, unit) {
  if (!Number.isFinite(value)) return "–";
  const steps = unit === "ns" ? NS : unit === "bytes" ? BYTES : null;
  if (!steps) return whole.format(value);
  const size = Math.abs(value);
  const [step, name] = steps.find(([least]) => size >= least) ?? steps.at(-1);
  return `${digits(value / step)} ${name}`;
}

/** Four significant digits, none thrown away before the point. */
function digits(value) {
  const size = Math.abs(value);
  const decimals = Number.isInteger(value) ? 0 : size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** A part of a whole: "12.3 %". What is there but too small to write is "<0.01 %". */
export function percent(part, all) {
  if (!(all > 0) || !Number.isFinite(part)) return "–";
  return percentage((100 * part) / all);
}

export function percentage(value) {
  if (value > 0 && value < 0.005) return "<0.01 %";
  const decimals = value >= 99.95 || value === 0 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(decimals)} %`;
}

/** A change with its sign: "+12.3 %", "−4 %", "±0 %". */
export function signed(text, value) {
  return (value > 0 ? "+" : value < 0 ? "−" : "±") + text;
}

const LONGEST_PATTERN = 1900;
// The server takes the middle out of names longer than this.
const SHORTENED_FROM = 200;

/** Whether this is not the whole name. */
export function isShortened(name) {
  return name.length >= SHORTENED_FROM && name.includes("…");
}

/** The RE2 pattern that matches this name alone; of a name that is too long, those that begin and end like it. */
export function exactly(name) {
  if (isShortened(name)) {
    const gap = name.indexOf("…");
    const most = LONGEST_PATTERN / 4;
    return `^${literally(head(name.slice(0, gap), most))}.*${literally(tail(name.slice(gap + 1), most))}$`;
  }
  const pattern = literally(name);
  return pattern.length <= LONGEST_PATTERN ? `^${pattern}$` : `^${literally(head(name, LONGEST_PATTERN / 2))}`;
}

// Characters of two code units are not cut in two.
function head(text, most) {
  return text.slice(0, most).replace(/[\ud800-\udbff]$/, "");
}

function tail(text, most) {
  return text.slice(-most).replace(/^[\udc00-\udfff]/, "");
}

function literally(text) {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

/** A name short enough to stand in a sentence. */
export function short(name, most = 80) {
  const parts = Array.from(name.slice(0, 4 * most));
  return parts.length > most ? `${parts.slice(0, most - 1).join("")}…` : name;
}
