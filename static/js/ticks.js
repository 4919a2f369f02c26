// Running timers: an element with data-ticks="SECONDS" counts up from when it was first seen.

// As app/domain/units.py: seconds of the smaller unit, how many of it the larger one has, below how many, names.
/** @type {[number, number, number, string, string][]} */
const LONG = [
  [1, 60, 2 * 3600, 'min', 's'],
  [60, 60, 2 * 1440, 'h', 'min'],
  [3600, 24, Infinity, 'd', 'h'],
];
const started = new WeakMap();

/** Seconds in the format of the server: with tenths below ten seconds. */
export function elapsed(seconds) {
  if (seconds < 99.5) return `${seconds.toFixed(seconds < 9.95 ? 1 : 0)}\u00a0s`;
  const whole = Math.round(seconds);
  if (whole < 120) return `${whole}\u00a0s`;
  const scale = LONG.find(([unit, , limit]) => Math.round(whole / unit) < limit);
  const [unit, per, , large, small] = scale;
  const parts = Math.round(whole / unit);
  const head = `${Math.floor(parts / per).toLocaleString('en')}\u00a0${large}`;
  return parts % per ? `${head} ${parts % per}\u00a0${small}` : head;
}

function tick() {
  const now = performance.now();
  for (const element of document.querySelectorAll('[data-ticks]')) {
    let start = started.get(element);
    if (start === undefined) {
      start = now - Number(element.dataset.ticks) * 1000;
      started.set(element, start);
    }
    const text = elapsed((now - start) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

tick();
setInterval(tick, 200);
