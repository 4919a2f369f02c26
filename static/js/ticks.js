// Elapsed times that go on: an element with data-ticks="SECONDS" counts up from the moment it was first seen.

const started = new WeakMap();

/** Seconds as the server writes them: tenths below ten seconds. */
export function elapsed(seconds) {
  if (seconds < 99.5) return `${seconds.toFixed(seconds < 9.95 ? 1 : 0)}\u00a0s`;
  const whole = Math.round(seconds);
  const [large, small, per] = whole < 7200 ? ['min', 's', 60] : whole < 172800 ? ['h', 'min', 3600] : ['d', 'h', 86400];
  const rest = Math.floor((whole % per) / (per === 86400 ? 3600 : per === 3600 ? 60 : 1));
  const head = `${Math.floor(whole / per)}\u00a0${large}`;
  return rest ? `${head} ${rest}\u00a0${small}` : head;
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
