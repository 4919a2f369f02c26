// Pointer, wheel, touch and keys on the timeline.

const CLICK_PX = 4;
const HANDLE_PX = 7;
const WHEEL_STEP = 0.0016;
const PAN_PER_S = 0.9;
const ZOOM_PER_S = 6;
const HELD = { a: ['pan', -1], d: ['pan', 1], w: ['zoom', -1], s: ['zoom', 1] };

/**
 * @param view a View
 * @param root the element with the parts
 * @param does hover(place | null), click(place), open(place), range([from, to] | null, isDone), zoom([from, to]),
 *   key(name) → handled,
 *   jump() before the stretch of time changes in one step
 *   gesture(ms, isHeld) before an event of a gesture changes it
 */
export function listen(view, root, does) {
  const part = (name) => root.querySelector(`[data-timeline="${name}"]`);
  for (const name of ['pinned', 'sticky']) dragTracks(view, part(name).querySelector('canvas'), does);
  dragRange(view, part('ruler'), does);
  dragOverview(view, part('overview'), does);
  holdKeys(view, does);
}

function dragTracks(view, canvas, does) {
  const fingers = new Map();
  let drag = null;

  const begin = (event) => {
    // Touch scrolls, as usual.
    const moves = event.shiftKey || event.button === 1 || event.pointerType === 'touch';
    const action = moves ? 'move' : view.dragAction;
    drag = {
      x: event.clientX,
      y: event.clientY,
      start: view.start,
      end: view.end,
      scroll: view.scroll.scrollTop,
      moved: false,
      from: action === 'move' ? null : view.timeAt(event.clientX),
      action,
    };
  };

  canvas.addEventListener('pointerdown', (event) => {
    if (event.pointerType === 'mouse' && event.button > 1) return;
    // Prevent autoscroll by the middle button.
    if (event.button === 1) event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, event);
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()];
      const at = view.timeAt((a.clientX + b.clientX) / 2);
      does.jump();
      drag = { pinch: Math.abs(a.clientX - b.clientX) || 1, start: view.start, end: view.end, moved: true, at };
    } else begin(event);
  });

  canvas.addEventListener('pointermove', (event) => {
    view.pointer = { x: event.clientX, y: event.clientY };
    if (!fingers.has(event.pointerId)) {
      does.hover({ x: event.clientX, y: event.clientY });
      return;
    }
    fingers.set(event.pointerId, event);
    if (drag?.pinch) {
      if (fingers.size < 2) return;
      const [a, b] = [...fingers.values()];
      const factor = drag.pinch / Math.max(8, Math.abs(a.clientX - b.clientX));
      const middle = (a.clientX + b.clientX) / 2 - view.left;
      const span = (drag.end - drag.start) * factor;
      const from = drag.at - (middle / view.width) * span;
      view.show(from, from + span);
      return;
    }
    const dx = event.clientX - drag.x;
    const dy = event.clientY - drag.y;
    if (!drag.moved && Math.abs(dx) < CLICK_PX && Math.abs(dy) < CLICK_PX) return;
    if (!drag.moved) {
      does.hover(null);
      if (drag.from === null) does.jump();
    }
    drag.moved = true;
    if (drag.from !== null) {
      does.range(ordered(drag.from, view.timeAt(event.clientX)), false);
      return;
    }
    canvas.classList.add('timeline__canvas--dragged');
    const ns = ((drag.end - drag.start) / view.width) * dx;
    view.show(drag.start - ns, drag.end - ns);
    view.scroll.scrollTop = drag.scroll - dy;
  });

  const finish = (event) => {
    if (!fingers.delete(event.pointerId)) return;
    canvas.classList.remove('timeline__canvas--dragged');
    if (fingers.size) {
      begin([...fingers.values()][0]);
      drag.moved = true;
      return;
    }
    if (drag && !drag.moved && event.type === 'pointerup' && event.button === 0) does.click({ x: event.clientX, y: event.clientY });
    else if (drag?.from != null && drag.moved) {
      const range = ordered(drag.from, view.timeAt(event.clientX));
      if (drag.action === 'zoom') does.zoom(range);
      else does.range(range, true);
    }
    drag = null;
  };
  canvas.addEventListener('pointerup', finish);
  canvas.addEventListener('pointercancel', finish);
  canvas.addEventListener('pointerleave', () => {
    view.pointer = null;
    does.hover(null);
  });
  canvas.addEventListener('dblclick', (event) => does.open({ x: event.clientX, y: event.clientY }));
  canvas.addEventListener('wheel', (event) => wheel(view, event, does), { passive: false });
}

/** Ctrl zooms, as does a pinch on a touchpad; Shift or a sideways wheel moves; else the browser scrolls. */
function wheel(view, event, does) {
  const unit = event.deltaMode === 1 ? 32 : event.deltaMode === 2 ? 400 : 1;
  const dx = (event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX) * unit;
  const dy = event.shiftKey ? 0 : event.deltaY * unit;
  if (event.ctrlKey || event.metaKey) {
    // A pinch sends small steps.
    const step = WHEEL_STEP * (Math.abs(dy) < 30 ? 6 : 1);
    does.gesture(event.timeStamp);
    view.zoom(Math.exp(dy * step), view.timeAt(event.clientX));
  } else if (Math.abs(dx) > Math.abs(dy)) {
    does.gesture(event.timeStamp);
    view.pan(dx * view.nsPerPixel);
  }
  // Pinned tracks do not scroll; the list below does.
  else if (!view.scroll.contains(event.currentTarget) && view.canScroll(dy)) view.scroll.scrollTop += dy;
  else return;
  event.preventDefault();
}

function dragRange(view, ruler, does) {
  let from = null;
  let began = 0;
  ruler.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    ruler.setPointerCapture(event.pointerId);
    began = event.clientX;
    from = view.timeAt(event.clientX);
  });
  ruler.addEventListener('pointermove', (event) => {
    if (from === null || Math.abs(event.clientX - began) < CLICK_PX) return;
    does.range(ordered(from, view.timeAt(event.clientX)), false);
  });
  ruler.addEventListener('pointerup', (event) => {
    if (from === null) return;
    const isClick = Math.abs(event.clientX - began) < CLICK_PX;
    does.range(isClick ? null : ordered(from, view.timeAt(event.clientX)), true);
    from = null;
  });
  ruler.addEventListener('pointercancel', () => {
    from = null;
  });
  ruler.addEventListener('wheel', (event) => wheel(view, event, does), { passive: false });
}

/** The window in the minimap: dragging its edges resizes it, dragging inside moves it, clicking outside moves it there.
 * If everything is visible, dragging draws a new one. */
function dragOverview(view, overview, does) {
  let drag = null;
  const place = (event) => {
    const box = overview.getBoundingClientRect();
    const { start, end } = view.extent;
    const ns = (x) => start + (Math.min(Math.max(x / box.width, 0), 1)) * (end - start);
    const x = event.clientX - box.left;
    const edge = (time) => ((time - start) / (end - start)) * box.width;
    const [left, right] = [edge(view.start), edge(view.end)];
    const [toLeft, toRight] = [Math.abs(x - left), Math.abs(x - right)];
    let part = 'inside';
    if (Math.min(toLeft, toRight) <= HANDLE_PX) part = toLeft < toRight ? 'start' : 'end';
    else if (x < left || x > right) part = 'beside';
    else if (view.atHome) part = 'new';
    return { at: ns(x), x, part };
  };
  overview.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    overview.setPointerCapture(event.pointerId);
    const { at, x, part } = place(event);
    does.jump();
    if (part === 'beside') {
      const half = (view.end - view.start) / 2;
      view.show(at - half, at + half);
    }
    drag = { part, x, at, start: view.start, end: view.end };
  });
  overview.addEventListener('pointermove', (event) => {
    const { at, x, part } = place(event);
    if (!drag) {
      overview.dataset.part = part;
      return;
    }
    if (Math.abs(x - drag.x) < CLICK_PX && drag.part === 'new') return;
    if (drag.part === 'new') view.show(...ordered(drag.at, at));
    else if (drag.part === 'start') view.show(...ordered(at, drag.end));
    else if (drag.part === 'end') view.show(...ordered(drag.start, at));
    else view.show(drag.start + at - drag.at, drag.end + at - drag.at);
  });
  const finish = () => {
    drag = null;
  };
  overview.addEventListener('pointerup', finish);
  overview.addEventListener('pointercancel', finish);
  overview.addEventListener('wheel', (event) => wheel(view, event, does), { passive: false });
}

/** Keys that act while held, and those that act once. */
function holdKeys(view, does) {
  const held = new Set();
  // A short press can end before the next frame.
  const pressed = new Set();
  let last = null;
  let frame = 0;

  const step = (now) => {
    frame = 0;
    // The effect of a single press. The time of a frame is its start, which can be before the press on a busy machine.
    const seconds = last === null ? 0.016 : Math.min(0.05, Math.max(0, now - last) / 1000);
    const isHeld = last !== null;
    last = now;
    let [pan, zoom] = [0, 0];
    for (const key of new Set([...held, ...pressed])) {
      const [what, direction] = HELD[key];
      if (what === 'pan') pan += direction;
      else zoom += direction;
    }
    pressed.clear();
    if (pan || zoom) does.gesture(now, isHeld);
    if (pan) view.pan(pan * PAN_PER_S * seconds * (view.end - view.start));
    if (zoom) view.zoom(ZOOM_PER_S ** (zoom * seconds), zoomPoint(view));
    if (held.size) frame = requestAnimationFrame(step);
  };

  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || does.isBusy(event.target)) return;
    const key = event.key.toLowerCase();
    if (key in HELD && !event.shiftKey) {
      event.preventDefault();
      held.add(key);
      pressed.add(key);
      if (!frame) {
        last = null;
        frame = requestAnimationFrame(step);
      }
    } else if (does.key(event)) event.preventDefault();
  });
  addEventListener('keyup', (event) => held.delete(event.key.toLowerCase()));
  addEventListener('blur', () => held.clear());
}

/** The fixed point of zooming by keys: the pointer, else the selection, else the middle. */
export function zoomPoint(view) {
  if (view.pointer) return view.timeAt(view.pointer.x);
  const { selected, start, end } = view;
  if (selected && selected.end > start && selected.start < end) {
    return (Math.max(selected.start, start) + Math.min(selected.end, end)) / 2;
  }
  return (start + end) / 2;
}

function ordered(a, b) {
  return a < b ? [a, b] : [b, a];
}
