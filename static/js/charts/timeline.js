// The page of a timeline: connects its parts. Its state is its URL.
//
// view-ms=from-to is the visible range, start-ms and end-ms the selected one; pin, fold, stacks, tracks, slice, flows and
// q are parameters of this page. Elements are found by data attributes.

import { getJSON } from '../http.js';
import { isTyping } from '../keys.js';
import { PATTERNS, State, link } from './flamegraph/state.js';
import { Surroundings } from './surroundings.js';
import { exactly, weight } from './flamegraph/format.js';
import { Flows } from './timeline/flows.js';
import { listen, zoomPoint } from './timeline/input.js';
import { linksOf } from './timeline/links.js';
import { Names, markOf } from './timeline/model.js';
import { Fills } from './timeline/paint.js';
import { TimelinePalette } from './timeline/palette.js';
import { Panel } from './timeline/panel.js';
import { Rail } from './timeline/rail.js';
import { Search } from './timeline/search.js';
import { SelectedRange } from './timeline/selected-range.js';
import { Source } from './timeline/source.js';
import { milliseconds, nanoseconds } from './timeline/time.js';
import { Tip, facts } from './timeline/tip.js';
import { TrackState } from './timeline/track-state.js';
import { Tracks } from './timeline/tracks.js';
import { View } from './timeline/view.js';
import { VisibleRange } from './timeline/visible-range.js';

const SURROUNDINGS = ['.tabs', '.selection'];
const AGAIN_MS = 700;

class Timeline {
  constructor(root) {
    this.root = root;
    this.url = root.dataset.source;
    this.state = new State(() => this.update());
    this.tracks = new Tracks();
    this.shapes = new TrackState(this.state, this.tracks);
    this.names = new Names();
    this.palette = null;
    this.found = this.fills = null;
    this.loaded = null;
    this.sliceWord = '';
    this.asked = null;
    this.details = null;
    this.stepWindow = null;
    this.part = (name) => root.querySelector(`[data-timeline="${name}"]`);
    this.source = new Source(this.url, () => this.state.selection(), this.names, (error) => this.came(error));
    this.tip = new Tip();
    this.rail = new Rail(root, this.tracks, {
      fold: (track) => this.shapes.fold(track),
      pin: (track) => this.shapes.pin(track),
    });
    this.view = new View(
      root,
      {
        tracks: this.tracks,
        names: this.names,
        source: this.source,
        fills: () => (this.fills ??= new Fills(this.names, this.colors(), this.found)),
        palette: () => this.colors(),
      },
      () => {
        this.visible.change();
        this.flows.update(this.details);
      },
    );
    this.visible = new VisibleRange(this.view, this.state);
    this.panel = new Panel(root, {
      close: () => this.select(null),
      find: (name) => this.find(name),
      go: (place) => this.load(place.slice),
      zoom: () => this.zoomTo(this.view.selected),
      range: () => this.setRange(this.view.selected && [this.view.selected.start, this.view.selected.end]),
      links: (details) => linksOf(details, this.state.selection(), this.root.dataset),
    });
    const selected = document.querySelector('[data-timeline="selected-range"]');
    this.selectedRange = selected ? new SelectedRange(selected, this.state) : null;
    this.form = root.querySelector('form[data-timeline="search"]');
    this.search = new Search(this.form, this.state, this.url, {
      found: (functions) => {
        this.found = functions;
        this.fills = null;
        this.selectedRange?.match(functions);
        this.view.redraw();
      },
      go: (hit) => this.goToHit(hit),
      from: () => this.view.selected?.start ?? this.view.start,
    });
    this.flows = new Flows(this.view, this.state, this.url, this.part('flows-status'));
    this.surroundings = new Surroundings(this.state, SURROUNDINGS);
    this.listen();
    this.update();
  }

  /** Whether everything visible is loaded and drawn. */
  get idle() {
    return this.tracks.list.length > 0 && !this.visible.isNew && this.source.idle && this.view.resting && this.view.timing.count > 0;
  }

  colors() {
    return (this.palette ??= new TimelinePalette(document.documentElement));
  }

  listen() {
    listen(this.view, this.root, {
      hover: (place) => this.hover(place),
      click: (place) => this.click(place),
      open: (place) => this.open(place),
      range: (range, isDone) => this.setRange(range, isDone),
      zoom: (range) => {
        this.showRange();
        this.visible.beginStep();
        this.view.show(...range, { moving: true });
      },
      jump: () => this.visible.beginStep(),
      gesture: (at, isHeld) => this.visible.continueGesture(at, isHeld),
      key: (event) => this.key(event),
      isBusy: (target) =>
        isTyping(target) ||
        this.selectedRange?.isMenuOpen ||
        document.querySelector('dialog[open], details.menu[open]') !== null,
    });
    const filter = this.part('filter');
    filter.addEventListener('input', () => this.state.change({ tracks: filter.value }));
    const flows = this.part('flows');
    flows.addEventListener('change', () => this.state.change({ flows: flows.checked ? '1' : '' }));
    for (const button of this.root.querySelectorAll('[data-view]')) {
      button.addEventListener('click', () => this.act(button.dataset.view));
    }
    document.addEventListener('perfloom:theme', () => {
      this.palette = null;
      this.fills = null;
      this.view.redraw();
    });
    document.fonts?.ready.then(() => this.view.measure());
  }

  act(name) {
    const { view } = this;
    if (['in', 'out', 'fit', 'range'].includes(name)) this.visible.beginStep();
    if (name === 'in') view.zoom(0.5, zoomPoint(view));
    else if (name === 'out') view.zoom(2, zoomPoint(view));
    else if (name === 'fit') view.fit();
    else if (name === 'range') view.show(...view.range, { moving: true });
    else if (name === 'clear') this.setRange(null);
    else if (name === 'fold') this.shapes.foldAll();
    else if (name === 'unfold') this.shapes.unfoldAll();
  }

  /** Show the state of the URL. */
  async update() {
    const { state, view } = this;
    this.surroundings.update();
    this.selectedRange?.update();
    const words = state.selection();
    const ofTracks = new URLSearchParams(words);
    for (const word of ['start-ms', 'end-ms', ...PATTERNS, 'invert', 'recursion']) ofTracks.delete(word);
    const loaded = ofTracks.toString();
    const shown = PATTERNS.map((word) => words.getAll(word).join('\t')).join('\n');
    if (this.loaded !== loaded || this.patterns !== shown) {
      this.patterns = shown;
      this.source.clear();
    }
    if (this.loaded !== loaded) {
      this.loaded = loaded;
      if (!(await this.loadTracks(words))) return;
    } else if (!this.tracks.list.length) return;
    this.showRange();
    this.showControls();
    this.tracks.layOut({
      pinned: this.shapes.pinned,
      folded: this.shapes.folded,
      isStacked: this.shapes.isStacked,
      filter: state.get('tracks'),
    });
    this.rail.update();
    view.layOut();
    this.visible.read();
    this.search.update();
    this.showSlice();
    this.flows.update(this.details);
    view.redraw();
  }

  async loadTracks(words) {
    const asked = this.loaded;
    let answer;
    try {
      answer = await getJSON(link(this.url, words));
    } catch (error) {
      this.fail(error.message);
      return false;
    }
    if (asked !== this.loaded) return false;
    if (answer.preparing) {
      this.say(answer.preparing);
      setTimeout(() => {
        this.loaded = null;
        this.update();
      }, AGAIN_MS);
      return false;
    }
    this.part('preparing').hidden = true;
    this.part('error').hidden = true;
    this.tracks.set(answer.tracks);
    this.showEmpty(answer.tracks.length === 0);
    this.view.extent = { start: answer.first_ns, end: answer.last_ns };
    this.view.busy = answer.busy;
    this.stepWindow = answer.step ?? null;
    if (this.visible.isNew) {
      this.view.start = answer.first_ns;
      this.view.end = answer.last_ns;
    }
    // Hide what a recording without slices does not have.
    const nested = answer.tracks.some((track) => track.rows > 0 && track.kind !== 'steps');
    for (const control of this.root.querySelectorAll('[data-of-slices]')) control.hidden = !nested;
    const inRows = nested || answer.tracks.some(Tracks.stacks);
    for (const control of this.root.querySelectorAll('[data-of-rows]')) control.hidden = !inRows;
    const left = answer.left_out;
    this.part('left').textContent = left ? `${left.toLocaleString('en')} less busy tracks are left out; filter, or select threads.` : '';
    return true;
  }

  /** Without tracks, show the reason only. */
  showEmpty(isEmpty) {
    this.root.classList.toggle('timeline--empty', isEmpty);
    document.querySelector('[data-timeline="empty"]').hidden = !isEmpty;
  }

  came(error) {
    if (error) this.fail(error.message);
    else this.part('error').hidden = true;
    this.view.redraw();
  }

  fail(message) {
    const box = this.part('error');
    box.textContent = message;
    box.hidden = false;
  }

  say(text) {
    const note = this.part('preparing');
    note.textContent = text;
    note.hidden = false;
  }

  announce(text) {
    this.part('live').textContent = text;
  }

  showControls() {
    const filter = this.part('filter');
    if (document.activeElement !== filter) filter.value = this.state.get('tracks');
    this.part('flows').checked = this.state.flag('flows');
    const { range } = this.view;
    this.part('range').hidden = range === null;
    if (range) this.part('range-text').textContent = weight(range[1] - range[0], 'ns');
  }

  showRange() {
    const { extent } = this.view;
    const [from, to] = ['start-ms', 'end-ms'].map((word) => nanoseconds(this.state.get(word)));
    const some = !Number.isNaN(from) || !Number.isNaN(to);
    if (some) this.view.range = [Number.isNaN(from) ? extent.start : from, Number.isNaN(to) ? extent.end : to];
    else this.view.range = this.stepWindow;
  }

  setRange(range, isDone = true) {
    this.view.range = range;
    this.view.redraw({ onlyMarks: true });
    if (!isDone) return;
    this.visible.settle();
    const [from, to] = range ? [Math.round(range[0]), Math.max(Math.round(range[1]), Math.round(range[0]) + 1)] : [];
    if (range) this.state.change({ 'start-ms': milliseconds(from), 'end-ms': milliseconds(to) });
    else this.state.change({ 'start-ms': '', 'end-ms': '', step: '' });
    this.announce(range ? `Selected ${weight(to - from, 'ns')}. The other pages show this time only.` : 'All time selected.');
  }

  hover(place) {
    const { view } = this;
    const box = place && !view.moving ? view.boxAt(place.x, place.y) : null;
    view.hovered = box && box.part.what !== 'counter' ? markOf(box) : null;
    view.redraw({ onlyMarks: true });
    this.root.classList.toggle('timeline--on', box !== null);
    if (!box) {
      this.tip.hide();
      return;
    }
    this.tip.show(facts(box, this.names, view.nsPerPixel), place);
    const name = box.data.name?.[box.index];
    if (name !== undefined && !this.names.text[name]) this.fillName(name, place);
  }

  /** Names of boxes without a label are loaded on hover. */
  async fillName(name, place) {
    const functions = this.url.replace(/timeline$/, 'functions');
    try {
      this.names.text[name] = (await getJSON(`${functions}/${this.names.functions[name]}`)).name;
    } catch {
      return;
    }
    const { pointer } = this.view;
    if (pointer && pointer.x === place.x && pointer.y === place.y) this.hover(place);
  }

  async click(place) {
    const box = this.view.boxAt(place.x, place.y);
    this.view.scroll.focus({ preventScroll: true });
    if (!box || box.part.what === 'counter') {
      this.select(null);
      return;
    }
    this.view.selected = markOf(box);
    this.view.redraw({ onlyMarks: true });
    const words = this.state.selection();
    const { x0, x1, count, unit } = box.data;
    // With rounded times, a box can begin before the end of the previous one.
    const inset = count[box.index] === 1 && unit > 1 ? Math.min(unit, (x1[box.index] - x0[box.index]) / 4) : 0;
    const [from, to] = [x0[box.index] + inset, x1[box.index] - inset];
    // Search events without duration around their time, others not where adjacent ones begin.
    const slack = from === to ? 1 : 0;
    words.set('band', box.part.band);
    words.set('row', String(box.part.first + box.row));
    words.set('from', String(Math.floor(from) - slack));
    words.set('to', String(Math.ceil(to) + 2 * slack));
    const asked = (this.asked = { slice: this.state.get('slice') });
    try {
      const details = await getJSON(`${this.url}/at?${words}`);
      if (asked === this.asked) this.present(details);
    } catch (error) {
      this.panel.fail(error.message);
    }
  }

  open(place) {
    const box = this.view.boxAt(place.x, place.y);
    if (box && box.part.what !== 'counter') this.zoomTo(markOf(box));
    else if (!box) this.act('fit');
  }

  /** Search a function: its occurrences are marked, and N and P go from one to the next. */
  find(name) {
    this.state.change({ q: exactly(name) });
    this.announce('N and P go to the next and previous occurrence.');
  }

  zoomTo(mark) {
    if (!mark) return;
    this.visible.beginStep();
    const span = Math.max(mark.end - mark.start, 1);
    this.view.show(mark.start - span * 0.05, mark.end + span * 0.05, { moving: true });
  }

  /** Zoom to the selected time, else to the slice; with neither, to the range of the next drag. */
  zoomToSelection() {
    const { view } = this;
    if (view.range) this.act('range');
    else if (view.selected) this.zoomTo(view.selected);
    else this.toggleDrag('zoom');
  }

  /** Switch the action of dragging; if it is active already, back to selecting time. */
  toggleDrag(action) {
    const { view } = this;
    view.dragAction = view.dragAction === action ? 'select' : action;
    this.root.dataset.drag = view.dragAction;
    for (const hint of this.root.querySelectorAll('[data-drag-hint]')) hint.hidden = hint.dataset.dragHint !== view.dragAction;
    this.announce({ select: 'Dragging selects time.', zoom: 'Dragging zooms.', move: 'Dragging moves.' }[view.dragAction]);
  }

  key(event) {
    // With Caps Lock, letters are capitals.
    const key = event.shiftKey || event.key.length > 1 ? event.key : event.key.toLowerCase();
    const { view } = this;
    if (key === 'Escape') {
      if (this.selectedRange?.zoomOut(event.target)) return true;
      if (view.dragAction !== 'select') this.toggleDrag('select');
      else if (this.panel.open || view.selected) this.select(null);
      else if (this.search.active) this.search.clear();
      else if (view.range) this.setRange(null);
      else return false;
      return true;
    }
    if (event.shiftKey) return false;
    const inside = view.stage.contains(event.target) || event.target === document.body;
    if (key === 'f') {
      if (view.selected) this.zoomTo(view.selected);
      else this.act('fit');
    } else if (key === 'r' && view.selected) this.setRange([view.selected.start, view.selected.end]);
    else if (key === 'z') this.zoomToSelection();
    else if (key === 'p' && !this.search.active) this.toggleDrag('move');
    else if (key === 'n' && !this.search.active && this.details?.name) this.find(this.details.name);
    else if (key === 'n' || key === 'p') this.search.next(key === 'p');
    else if (!inside || event.target.closest?.('button, a')) return false;
    else if (key.startsWith('Arrow')) return this.arrow(key);
    else if (key === 'Enter' && view.selected) this.zoomTo(view.selected);
    else return false;
    return true;
  }

  arrow(key) {
    const { view, details } = this;
    if (details?.what !== 'slice') {
      if (key === 'ArrowLeft' || key === 'ArrowRight') {
        this.visible.continueGesture(performance.now());
        view.pan(((view.end - view.start) / 10) * (key === 'ArrowLeft' ? -1 : 1));
        return true;
      }
      return false;
    }
    const word = { ArrowLeft: 'previous', ArrowRight: 'next', ArrowUp: 'parent', ArrowDown: 'child' }[key];
    if (details[word] !== null) this.load(details[word]);
    return true;
  }

  select(details) {
    this.asked = null;
    this.view.selected = null;
    this.details = details;
    this.panel.hide();
    this.state.change({ slice: '' });
    this.flows.update(this.details);
    this.view.redraw();
  }

  present(details) {
    const { view } = this;
    this.details = details;
    this.asked = { slice: String(details.slice ?? '') };
    if (details.what === 'slice') {
      const { start_ns: start, duration_ns: duration } = details;
      view.selected = { track: details.track, depth: details.depth, start, end: start + duration };
      this.state.change({ slice: String(details.slice) });
      this.announce(`${details.name}, ${weight(duration, 'ns')}`);
    } else {
      this.state.change({ slice: '' });
      this.announce(details.name || `${details.samples ?? details.count} ${details.what}`);
    }
    this.panel.show(details);
    // The panel can be at the same position.
    if (details.what === 'slice') view.revealRow(details.track, details.depth);
    this.flows.update(this.details);
    view.redraw();
  }

  async load(slice, { reveal = true } = {}) {
    const asked = (this.asked = { slice: String(slice) });
    try {
      const details = await getJSON(`${this.url}/slices/${slice}`);
      // Another item may have been requested, or the panel closed.
      if (asked !== this.asked) return;
      if (details.preparing) this.asked = null;
      else this.present(details);
      if (reveal && this.asked) this.view.reveal(this.view.selected.start, this.view.selected.end);
    } catch (error) {
      this.panel.fail(error.message);
    }
  }

  showSlice() {
    const asked = this.state.get('slice');
    // Unchanged while another slice is loading: other changes of the URL must not restore the old one.
    if (asked === this.sliceWord) return;
    this.sliceWord = asked;
    if (asked === (this.asked?.slice ?? '')) return;
    if (/^\d{1,10}$/.test(asked)) this.load(asked, { reveal: this.state.get('view-ms') === '' });
    else if (asked === '' && this.details?.what === 'slice') this.select(null);
  }

  goToHit(hit) {
    const { view } = this;
    if (hit.depth !== null) {
      this.load(hit.row);
      return;
    }
    view.selected = { track: hit.track, depth: 0, start: hit.start_ns, end: hit.start_ns };
    this.details = null;
    view.reveal(hit.start_ns, hit.start_ns);
    view.revealRow(hit.track, 0);
    view.redraw();
    this.announce(hit.name);
  }
}

const root = document.querySelector('[data-timeline="root"]');
const shown = root ? new Timeline(root) : null;

/** The timeline of this page, for tests and pictures. */
export function timeline() {
  return shown;
}
