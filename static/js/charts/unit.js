// The unit in which all times are to be written: the word `unit` of the address.

/** @type {Record<string, [number, string]>} */
const UNITS = { ns: [1, 'ns'], us: [1e3, 'µs'], ms: [1e6, 'ms'], s: [1e9, 's'] };

/** @type {string | null} */
let address = null;
/** @type {[number, string] | null} */
let unit = null;

/** [how many ns it has, how it is written]; null where each time takes the one that suits it. */
export function chosenUnit() {
  if (location.search !== address) {
    address = location.search;
    unit = UNITS[new URLSearchParams(address).get('unit') ?? ''] ?? null;
  }
  return unit;
}
