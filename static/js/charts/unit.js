// The time unit of the page: the parameter `unit` of the URL.

/** @type {Record<string, [number, string]>} */
const UNITS = { ns: [1, 'ns'], us: [1e3, 'µs'], ms: [1e6, 'ms'], s: [1e9, 's'] };

/** @type {string | null} */
let address = null;
/** @type {[number, string] | null} */
let unit = null;

/** [its length in ns, its label]; null if each time has its own unit. */
export function chosenUnit() {
  if (location.search !== address) {
    address = location.search;
    unit = UNITS[new URLSearchParams(address).get('unit') ?? ''] ?? null;
  }
  return unit;
}
