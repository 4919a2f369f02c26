// The chart of the page Memory: shows the values under the pointer; a drag selects a time range, a click shows the blocks
// live at that time. Its data is in data attributes of the figure; without this module the page still works.

import { exactMoment } from './timeline/time.js';

const DRAG_PX = 4;
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

for (const figure of document.querySelectorAll('[data-memory]')) follow(figure);

function follow(figure) {
  const plot = figure.querySelector('.memory__plot');
  const shade = figure.querySelector('.memory__window');
  const readout = figure.querySelector('.memory__readout');
  const start = Number(figure.dataset.startMs);
  const end = Number(figure.dataset.endMs);
  const series = Object.entries(JSON.parse(figure.dataset.summary));
  let from = null;

  const share = (event) => {
    const box = plot.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const time = (at) => start + at * (end - start);
  const stop = () => {
    from = null;
    shade.hidden = true;
  };

  plot.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    from = { x: event.clientX, at: share(event) };
    plot.setPointerCapture(event.pointerId);
  });

  plot.addEventListener('pointermove', (event) => {
    const at = share(event);
    tell(at);
    if (from === null || Math.abs(event.clientX - from.x) < DRAG_PX) return;
    shade.hidden = false;
    shade.style.left = `${100 * Math.min(at, from.at)}%`;
    shade.style.width = `${100 * Math.abs(at - from.at)}%`;
  });

  plot.addEventListener('pointerup', (event) => {
    if (from === null) return;
    const [low, high] = [from.at, share(event)].sort((a, b) => a - b);
    const dragged = Math.abs(event.clientX - from.x) >= DRAG_PX;
    stop();
    if (dragged && high > low) {
      go({ 'start-ms': millis(time(low)), 'end-ms': millis(time(high)) });
    } else if (!dragged) {
      go({ 'start-ms': asked('start-ms'), 'end-ms': asked('end-ms'), 'at-ms': millis(time(low)), table: 'live' });
    }
  });

  plot.addEventListener('pointercancel', stop);
  plot.addEventListener('pointerleave', () => {
    readout.textContent = '';
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') stop();
  });

  function asked(word) {
    return new URLSearchParams(location.search).get(word) ?? '';
  }

  function go(words) {
    const address = new URL(figure.dataset.narrow, location.href);
    for (const [word, value] of Object.entries(words)) if (value !== '') address.searchParams.set(word, value);
    location.assign(address);
  }

  function tell(at) {
    const values = series.map(([name, all]) => {
      const value = all[Math.min(all.length - 1, Math.floor(at * all.length))];
      return `${name} ${size(value)}`;
    });
    readout.textContent = `${exactMoment(1e6 * time(at))}: ${values.join(', ')}`;
  }
}

function millis(value) {
  return String(Number(value.toFixed(6)));
}

function size(bytes) {
  let value = bytes;
  let unit = 0;
  while (value >= 1023.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toPrecision(3) : Math.round(value)} ${UNITS[unit]}`;
}
