// The heat map: shows the value of the cell under the pointer or the cursor, and selects the time of a range of cells by
// dragging, by two clicks or with the keyboard. Its data is in data attributes; without this module the page still works.

import { isTyping } from '../keys.js';
import { weight } from './flamegraph/format.js';
import { cellAfterKey, cellAt, cellNumbers, cellsPath, startOf, timeOf } from './heatmap/grid.js';
import { exactMoment, milliseconds } from './timeline/time.js';

const DRAG_PX = 4;
const SVG = 'http://www.w3.org/2000/svg';
/** Where the cursor was before the page was loaded again, so that the keyboard continues there. */
const CURSOR = 'perfloom:heatmap-cell';
const NOTHING = '\u00a0';

const root = document.querySelector('[data-heatmap="root"]');
if (root) start(root);

/** @param {HTMLElement} element */
function start(element) {
  const words = element.dataset;
  /** @type {import('./heatmap/grid.js').Grid} */
  const grid = {
    first: Number(words.first),
    column: Number(words.column),
    columns: Number(words.columns),
    rows: Number(words.rows),
  };
  const all = (words.values ?? '').split(',').map(Number);
  const values = new Map(cellNumbers(words.cells ?? '').map((cell, place) => [cell, all[place]]));
  const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (element.querySelector(`[data-heatmap="${name}"]`));
  const [plot, readout, live] = [part('plot'), part('readout'), part('live')];
  const marks = overlay(plot, grid);
  /** The first cell of the range, null before it is chosen. @type {number | null} */
  let anchor = null;
  /** @type {{ cell: number, x: number, y: number, moved: boolean } | null} */
  let drag = null;
  let cursor = 0;

  plot.tabIndex = 0;
  plot.setAttribute('role', 'application');
  plot.setAttribute('aria-roledescription', 'heat map');
  plot.setAttribute('aria-label', 'Heat map');
  plot.setAttribute('aria-describedby', 'heatmap-help');

  /** @param {PointerEvent} event */
  function cellOf(event) {
    const box = plot.getBoundingClientRect();
    return cellAt(grid, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  }

  /** @param {number} cell */
  function describe(cell) {
    const value = values.get(cell);
    const text = value === undefined ? 'no samples' : weight(value, words.unit ?? '');
    const [from, to] = timeOf(grid, anchor ?? cell, cell);
    return `${exactMoment(from)} to ${exactMoment(to)}${anchor === null ? `: ${text}` : ', click or press Enter to select it'}`;
  }

  /** Show where the pointer or the cursor is. @param {number} cell */
  function show(cell) {
    marks.draw(anchor === null ? cell : Math.min(anchor, cell), anchor === null ? cell : Math.max(anchor, cell), anchor !== null);
    readout.textContent = describe(cell);
  }

  function hide() {
    if (anchor === null) marks.clear();
    readout.textContent = NOTHING;
  }

  /** @param {number} cell */
  function select(cell) {
    if (anchor === null) {
      anchor = cell;
      show(cell);
      live.textContent = `The range starts at ${exactMoment(startOf(grid, cell))}. Select its last cell.`;
      return;
    }
    go(timeOf(grid, anchor, cell));
  }

  /** Load the page with this time, or with none. @param {[number, number] | null} time */
  function go(time) {
    const address = new URL(location.href);
    const [from, to] = time ?? [0, 0];
    for (const [word, value] of /** @type {[string, number][]} */ ([['start-ms', from], ['end-ms', to]])) {
      if (time) address.searchParams.set(word, milliseconds(value));
      else address.searchParams.delete(word);
    }
    address.searchParams.delete('page');
    location.assign(address);
  }

  plot.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    drag = { cell: cellOf(event), x: event.clientX, y: event.clientY, moved: false };
    plot.setPointerCapture(event.pointerId);
  });

  plot.addEventListener('pointermove', (event) => {
    const cell = cellOf(event);
    if (drag && !drag.moved && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) >= DRAG_PX) {
      drag.moved = true;
      anchor = drag.cell;
    }
    cursor = cell;
    show(cell);
  });

  plot.addEventListener('pointerup', (event) => {
    if (!drag) return;
    drag = null;
    cursor = cellOf(event);
    select(cursor);
  });

  plot.addEventListener('pointercancel', () => {
    if (drag?.moved) anchor = null;
    drag = null;
    marks.clear();
    hide();
  });
  plot.addEventListener('pointerleave', hide);
  plot.addEventListener('focus', () => {
    if (plot.matches(':focus-visible')) show(cursor);
  });
  plot.addEventListener('blur', hide);

  plot.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const next = cellAfterKey(grid, cursor, event.key);
    if (next !== null) {
      cursor = next;
      show(cursor);
      live.textContent = describe(cursor);
    } else if (event.key === 'Enter' || event.key === ' ') {
      if (anchor !== null) remember(cursor);
      select(cursor);
    } else return;
    event.preventDefault();
  });

  // While the event is captured, menus that Escape closes are still open.
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || isTyping(event.target) || document.querySelector('dialog[open], details.menu[open]')) return;
    if (anchor !== null || drag) {
      anchor = drag = null;
      marks.clear();
      hide();
      live.textContent = 'No range is being selected.';
    } else if (/[?&](start|end)-ms=/.test(location.search)) go(null);
  }, { capture: true });

  // Back shows the page as it was left, with the range that was selected last.
  addEventListener('pageshow', (event) => {
    if (!event.persisted) return;
    anchor = drag = null;
    marks.clear();
    hide();
  });

  const before = remembered();
  if (before !== null && before < grid.columns * grid.rows) {
    cursor = before;
    plot.focus({ preventScroll: true });
  }
}

/**
 * The outline of the cells that are being selected.
 * @param {HTMLElement} plot
 * @param {import('./heatmap/grid.js').Grid} grid
 */
function overlay(plot, grid) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', 'heat-frame');
  svg.setAttribute('viewBox', `0 0 ${grid.columns} ${grid.rows}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  svg.append(path);
  plot.append(svg);
  return {
    /**
     * @param {number} one
     * @param {number} other
     * @param {boolean} isRange
     */
    draw(one, other, isRange) {
      path.setAttribute('d', cellsPath(grid, one, other));
      path.setAttribute('class', isRange ? 'heat-edge heat-picked' : 'heat-edge');
    },
    clear: () => path.removeAttribute('d'),
  };
}

/** @param {number} cell */
function remember(cell) {
  try {
    sessionStorage.setItem(CURSOR, String(cell));
  } catch {
    // Without storage the cursor starts at the first cell.
  }
}

function remembered() {
  try {
    const text = sessionStorage.getItem(CURSOR);
    sessionStorage.removeItem(CURSOR);
    return text === null ? null : Number(text);
  } catch {
    return null;
  }
}
