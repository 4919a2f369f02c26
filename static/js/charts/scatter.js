// The scatter: dragging selects the box of its dots. Without this module, the fields below it do the same.

import { isTyping } from '../keys.js';
import { boxOf } from './scatter/axis.js';
import { nearestDot } from './scatter/nearest.js';
import { DotTip } from './scatter/tip.js';

const DRAG_PX = 4;
const REACH_PX = 24;
const EDGES = ['x-from', 'x-to', 'y-from', 'y-to'];
const SVG = 'http://www.w3.org/2000/svg';
/** After a box is selected the page is loaded again, and the keyboard continues at what can be done with it. */
const SELECTED = 'perfloom:scatter-box';

const root = document.querySelector('[data-scatter="root"]');
if (root instanceof HTMLElement) start(root);

/** @param {HTMLElement} element */
function start(element) {
  const words = element.dataset;
  const axes = {
    x: { low: Number(words.xLow), high: Number(words.xHigh), log: words.xLog === '1' },
    y: { low: Number(words.yLow), high: Number(words.yHigh), log: words.yLog === '1' },
  };
  const plot = /** @type {HTMLElement} */ (element.querySelector('[data-scatter="plot"]'));
  const frame = document.createElementNS(SVG, 'svg');
  const box = document.createElementNS(SVG, 'rect');
  frame.setAttribute('class', 'scatter-drag');
  frame.setAttribute('aria-hidden', 'true');
  box.setAttribute('class', 'scatter-box');
  frame.append(box);
  plot.append(frame);
  frame.toggleAttribute('hidden', true);
  const circles = [...plot.querySelectorAll('.scatter-dots circle')];
  const dots = circles.map((dot) => /** @type {[number, number]} */ ([shareOf(dot, 'cx'), 1 - shareOf(dot, 'cy')]));
  const tip = new DotTip();
  let near = -1;

  /** Show the text of the dot next to the pointer. @param {PointerEvent} event */
  function pointAt(event) {
    const found = nearestDot(dots, placeOf(event), plot.getBoundingClientRect(), REACH_PX);
    if (found !== near) leave();
    near = found;
    if (near < 0) return;
    circles[near].classList.add('is-near');
    tip.show(circles[near].querySelector('title')?.textContent ?? '', event.clientX, event.clientY);
  }

  function leave() {
    if (near >= 0) circles[near].classList.remove('is-near');
    near = -1;
    tip.hide();
  }

  /** @type {{from: [number, number], moved: boolean, x: number, y: number} | null} */
  let drag = null;

  /**
   * Shares of the plot from the left and from the bottom.
   * @param {PointerEvent} event
   * @returns {[number, number]}
   */
  function placeOf(event) {
    const area = plot.getBoundingClientRect();
    return [(event.clientX - area.left) / area.width, 1 - (event.clientY - area.top) / area.height];
  }

  /**
   * @param {[number, number]} one
   * @param {[number, number]} other
   */
  function draw(one, other) {
    const percent = (/** @type {number} */ share) => `${100 * share}%`;
    box.setAttribute('x', percent(Math.min(one[0], other[0])));
    box.setAttribute('y', percent(1 - Math.max(one[1], other[1])));
    box.setAttribute('width', percent(Math.abs(one[0] - other[0])));
    box.setAttribute('height', percent(Math.abs(one[1] - other[1])));
    frame.toggleAttribute('hidden', false);
  }

  function stop() {
    drag = null;
    frame.toggleAttribute('hidden', true);
  }

  plot.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    leave();
    drag = { from: placeOf(event), moved: false, x: event.clientX, y: event.clientY };
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener('pointermove', (event) => {
    if (!drag) {
      pointAt(event);
      return;
    }
    drag.moved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) >= DRAG_PX;
    if (drag.moved) draw(drag.from, placeOf(event));
  });
  plot.addEventListener('pointerup', (event) => {
    if (drag?.moved) go(boxOf(axes, drag.from, placeOf(event)));
    else pointAt(event);
    stop();
  });
  plot.addEventListener('pointerleave', (event) => {
    // A finger leaves when it is lifted.
    if (event.pointerType !== 'touch') leave();
  });
  plot.addEventListener('pointercancel', stop);
  addEventListener('pageshow', (event) => {
    if (event.persisted) stop();
  });

  // Before the flame graph, which zooms out.
  document.addEventListener(
    'keydown',
    (event) => {
      if (event.key !== 'Escape' || isTyping(event.target) || document.querySelector('dialog[open], details.menu[open]')) return;
      const isHere = event.target instanceof Node && element.contains(event.target);
      if (drag) stop();
      else if (isHere && EDGES.some((word) => new URLSearchParams(location.search).has(word))) go(null);
      else return;
      event.preventDefault();
      event.stopPropagation();
    },
    { capture: true },
  );

  if (takeNote()) {
    element.scrollIntoView({ block: 'center' });
    const next = element.querySelector('[data-scatter="focus"], [data-scatter="clear"]');
    if (next instanceof HTMLElement) next.focus({ preventScroll: true });
  }
}

/** A position of a dot, as a share. @param {Element} dot @param {string} name */
function shareOf(dot, name) {
  return Number.parseFloat(dot.getAttribute(name) ?? '') / 100;
}

/** Load the page with this box, or with none. @param {Record<string, string> | null} edges */
function go(edges) {
  const address = new URL(location.href);
  for (const word of EDGES) {
    if (edges) address.searchParams.set(word, edges[word]);
    else address.searchParams.delete(word);
  }
  for (const word of ['page', 'dots']) address.searchParams.delete(word);
  // A fragment would take the focus from the element that gets it.
  address.hash = '';
  try {
    sessionStorage.setItem(SELECTED, '1');
  } catch {
    // Without storage the keyboard starts at the top of the page.
  }
  location.assign(address);
}

function takeNote() {
  try {
    const noted = sessionStorage.getItem(SELECTED) !== null;
    sessionStorage.removeItem(SELECTED);
    return noted;
  } catch {
    return false;
  }
}
