// Keyboard and pointer input of one graph, as callbacks.

const CLICK_PX = 4;

/**
 * @param view a FlameView
 * @param does zoom(node), out(), tell(node, place), menu(node, place), announce(node)
 */
export function listen(view, does) {
  const { canvas } = view;
  const visited = new Map();
  let touched = null;
  let menuKey = -Infinity;
  // Where the pointer was pressed, and whether it has moved since then; null while it is not pressed.
  let pressed = null;

  function step(key) {
    const picture = view.picture;
    const node = view.focused;
    if (node < 0) return view.zoomed;
    const inwards = view.up ? 'ArrowUp' : 'ArrowDown';
    if (key === inwards) {
      // Down the path that was taken up, else to the widest child.
      const before = picture.find(visited.get(picture.ids[node]) ?? NaN);
      return before >= 0 && picture.parent[before] === node ? before : picture.widestChild(node);
    }
    if (key === 'ArrowUp' || key === 'ArrowDown') {
      const above = picture.parent[node];
      if (above >= 0) visited.set(picture.ids[above], picture.ids[node]);
      return above;
    }
    if (key === 'Home') return view.zoomed;
    const next = picture.beside(node, key === 'ArrowRight' ? 1 : -1);
    if (next < 0) return -1;
    const [from, to] = view.shown;
    return picture.x1[next] > from && picture.x0[next] < to ? next : -1;
  }

  function place(node) {
    const box = view.box(node);
    return { x: box.left + Math.min(24, box.width / 2), y: box.top + box.height };
  }

  canvas.addEventListener('keydown', (event) => {
    view.showFocus(true);
    if (!view.picture || view.picture.empty || event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    if (['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'Home'].includes(key) && !event.shiftKey) {
      const node = step(key);
      if (node >= 0) {
        view.focus(node);
        does.announce(node);
      }
    } else if (key === 'Enter' || key === ' ') {
      if (view.focused >= 0) does.zoom(view.focused);
    } else if (key === 'Backspace') does.out();
    else if (key === 'ContextMenu' || (key === 'F10' && event.shiftKey)) {
      const node = view.focused >= 0 ? view.focused : view.zoomed;
      menuKey = event.timeStamp;
      view.focus(node);
      does.menu(node, place(node));
    } else return;
    event.preventDefault();
  });

  canvas.addEventListener('copy', (event) => {
    if (view.focused < 0 || !view.picture) return;
    event.clipboardData.setData('text/plain', view.picture.name(view.focused));
    event.preventDefault();
  });

  canvas.addEventListener('focus', () => {
    if (!view.picture || view.picture.empty || !canvas.matches(':focus-visible')) return;
    view.showFocus(true);
    if (view.focused < 0) view.focus(view.zoomed);
    does.announce(view.focused);
  });

  canvas.addEventListener('pointerdown', (event) => {
    touched = event.pointerType;
    pressed = { x: event.clientX, y: event.clientY, hasMoved: false };
    view.showFocus(false);
  });

  // Of the window: a drag can leave the canvas and return.
  addEventListener('pointermove', (event) => {
    if (event.buttons === 0) pressed = null;
    if (pressed && Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) > CLICK_PX) pressed.hasMoved = true;
  });

  canvas.addEventListener('click', (event) => {
    const wasDragged = pressed?.hasMoved ?? false;
    pressed = null;
    if (wasDragged) return;
    const node = view.at(event.clientX, event.clientY);
    if (node < 0) return;
    // Touch has no hover: the first touch shows the tooltip, the second zooms.
    const isShown = view.focused === node;
    view.focus(node);
    if (touched === 'touch' && !isShown) does.tell(node, { x: event.clientX, y: event.clientY });
    else does.zoom(node);
  });

  canvas.addEventListener('contextmenu', (event) => {
    // Some browsers also send this after the key.
    if (event.timeStamp - menuKey < 1000) return event.preventDefault();
    const node = view.at(event.clientX, event.clientY);
    if (node < 0) return;
    event.preventDefault();
    view.focus(node);
    does.menu(node, { x: event.clientX, y: event.clientY });
  });
}
