// One graph with its data, breadcrumbs, legend, tooltip and menu.

import { RequestFailed } from '../../http.js';
import { describedAt, groupName, kindName, sentence } from './describe.js';
import { percent, ratio, short } from './format.js';
import { listen } from './keys.js';
import { plain } from './labels.js';
import { extent } from './model.js';
import { cssOf, kinds, modules, nodeColors } from './palette.js';
import { Source } from './source.js';
import { link } from './state.js';
import { FlameView } from './view.js';

const BUSY_AFTER_MS = 150;
const SAY_AFTER_MS = 150;
const RESIZED_AFTER_MS = 300;
const CRUMBS = 6;
const LEGEND = 10;
const PLAIN_MODES = new Set(['kind', 'module', 'hot']);

export class Panel {
  #root;
  #view;
  #source;
  #page;
  #asked = null;
  #zoom = null;
  #turn = 0;
  #request = null;
  #matched = null;
  #mode = 'kind';
  #saying = 0;
  #resizing = 0;
  #askedWidth = 0;
  #loading = false;

  /**
   * @param root the element with data-flamegraph; its data-source is the address of the pictures, data-part the key of
   *   the answer that holds them, data-zoom the state's word for its zoom
   * @param page what all graphs of the page share: state, palette(), moduleColors, tooltip, menu, entries(panel, node),
   *   covered()
   */
  constructor(root, page) {
    this.#root = root;
    this.#page = page;
    this.#source = new Source(root.dataset.part ?? null);
    this.zoomWord = root.dataset.zoom ?? 'zoom';
    this.#view = new FlameView(this.#child('stage'), {
      onHover: (node, place) => this.#hovered(node, place),
      covered: page.covered,
    });
    listen(this.#view, {
      zoom: (node) => this.zoomTo(this.#view.picture.ids[node]),
      out: () => this.#out(),
      announce: (node) => this.say(sentence(this.#view.picture, node, this.#view.zoomed)),
      tell: (node, place) => this.#tell(node, place),
      menu: (node, place) => this.#menu(node, place),
    });
    new ResizeObserver(() => this.#resized()).observe(root);
  }

  get view() {
    return this.#view;
  }

  #tell(node, place) {
    const { picture, zoomed } = this.#view;
    this.#page.tooltip.show(picture, node, zoomed, place, describedAt(this.#root, picture, node));
  }

  /** Whether the shown picture is the requested one. */
  get idle() {
    return this.#asked !== null && !this.#loading;
  }

  get root() {
    return this.#root;
  }

  get picture() {
    return this.#view.picture;
  }

  /** Show what the state says. */
  async update(state) {
    const up = (this.#root.dataset.grow ?? state.get('grow')) === 'up';
    if (up !== this.#view.up) {
      this.#view.grow(up);
      if (this.picture && !this.picture.empty) this.#view.reveal(this.#view.zoomed);
    }
    const mode = state.get('colour') || this.#root.dataset.color || 'kind';
    const words = state.asked();
    // The values of a formula are in the answer.
    if (!PLAIN_MODES.has(mode)) {
      words.set('colour', mode);
      if (state.get('of')) words.set('of', state.get('of'));
    }
    const asked = link(this.#root.dataset.source, words);
    const zoom = numeric(state.get(this.zoomWord));
    const repaint = mode !== this.#mode;
    this.#mode = mode;
    if (repaint) this.repaint();
    if (asked === this.#asked && zoom === this.#zoom) return;
    const fresh = asked !== this.#asked;
    this.#asked = asked;
    this.#zoom = zoom;
    await this.#load({ fresh });
  }

  /** Zoom to the node with this id; null: to the root. */
  zoomTo(id) {
    const picture = this.#view.picture;
    const isWhole = id === null || id === picture.ids[0];
    this.#page.state.change({ [this.zoomWord]: isWhole ? '' : String(id) });
  }

  /** Recolor after a change of mode or theme. */
  repaint() {
    const { picture } = this.#view;
    if (!picture) return;
    const palette = this.#page.palette();
    this.#view.recolor(palette, nodeColors(picture, this.#mode, palette, this.#page.moduleColors));
    this.#legend(palette);
  }

  /** Mark the functions with these ids (null: no search). */
  match(functionIds) {
    this.#matched = functionIds;
    this.#mark();
  }

  /** Mark the next matching frame; step 1 or -1. */
  nextMatch(step) {
    const { picture, focused } = this.#view;
    if (!picture || !this.#matched) return;
    const nodes = [];
    for (let i = picture.top; i < picture.count; i++) if (this.#matched.has(picture.functionId(i))) nodes.push(i);
    if (!nodes.length) return;
    const after = step > 0 ? nodes.find((node) => node > focused) : nodes.findLast((node) => node < focused);
    const node = after ?? (step > 0 ? nodes[0] : nodes.at(-1));
    this.#view.focus(node);
    this.#view.showFocus(true);
    this.say(sentence(picture, node, this.#view.zoomed));
  }

  /** fresh: the selection changed. finer: the same for more pixels. */
  async #load({ fresh = false, finer = false }) {
    const turn = ++this.#turn;
    this.#loading = true;
    const { picture } = this.#view;
    this.#request?.abort();
    this.#request = null;
    this.#page.tooltip.hide();
    if (!fresh && !finer && picture) {
      const node = this.#zoom === null ? picture.find(picture.ids[0]) : picture.find(this.#zoom);
      // The rows above the zoomed frame are not distinguished in this picture, so zooming to them needs a request.
      if (node >= picture.top) {
        this.#view.zoom(node);
        this.#around();
        this.say(`Zoomed to ${short(plain(picture.name(node)))}, ${percent(picture.total[node], picture.whole)}.`);
        if (node === picture.top || picture.pruned === 0) return this.#done();
      }
    }
    const request = (this.#request = new AbortController());
    const url = this.#url();
    const waiting = setTimeout(() => this.#busy(true), BUSY_AFTER_MS);
    try {
      const next = await this.#source.get(url, request.signal);
      await this.#view.settled();
      if (turn === this.#turn) this.#show(next, fresh);
    } catch (error) {
      if (error.name === 'AbortError' || turn !== this.#turn) return;
      this.#fail(error);
    } finally {
      clearTimeout(waiting);
      if (turn === this.#turn) this.#done();
    }
  }

  #done() {
    this.#loading = false;
    this.#busy(false);
  }

  #url() {
    this.#askedWidth = Math.max(512, Math.ceil(this.#root.clientWidth / 256) * 256);
    const words = new URLSearchParams(this.#asked.split('?')[1] ?? '');
    if (this.#zoom !== null) words.set('zoom', String(this.#zoom));
    words.set('width', String(this.#askedWidth));
    return link(this.#root.dataset.source, words);
  }

  #show(picture, fresh) {
    const before = this.#view.picture;
    const node = picture.count ? picture.top : 0;
    let from = null;
    if (before && !fresh && !before.empty && !picture.empty) {
      // The picture shown may be a part of this one (zoomed out), or this one a part of it (zoomed in).
      const was = picture.find(before.ids[this.#view.zoomed]);
      if (was > picture.top) from = extent(picture, was);
    }
    this.#child('error').hidden = true;
    this.#child('empty').hidden = !picture.empty;
    this.#child('stage').hidden = picture.empty;
    const palette = this.#page.palette();
    const fills = nodeColors(picture, this.#mode, palette, this.#page.moduleColors);
    this.#root.classList.toggle('flame--difference', picture.base !== null);
    this.#view.show(picture, node, { palette, fills, from });
    this.#legend(palette);
    this.#mark();
    this.#around();
    if (!before && this.#view.up && !picture.empty) this.#view.reveal(node);
    this.#correct();
  }

  /** If the frame in the URL has no weight in this selection, the server used its nearest ancestor with weight. */
  #correct() {
    const { picture } = this.#view;
    const shown = picture.top === 0 ? null : picture.ids[picture.top];
    if (picture.empty || this.#zoom === null || this.#zoom === shown) return;
    this.#zoom = shown;
    this.#page.state.correct({ [this.zoomWord]: shown === null ? '' : String(shown) });
    this.say('The frame that was zoomed to is not in this selection. What is there of its callers is shown.');
  }

  #fail(error) {
    const box = this.#child('error');
    const again = document.createElement('button');
    again.type = 'button';
    again.className = 'button';
    again.textContent = 'Try again';
    again.addEventListener('click', () => this.#load({ fresh: true }));
    const text = document.createElement('p');
    text.textContent = error.message;
    box.replaceChildren(text, again);
    box.hidden = false;
    if (!(error instanceof RequestFailed)) throw error;
  }

  #busy(on) {
    this.#root.classList.toggle('flame--busy', on);
    this.#child('stage').setAttribute('aria-busy', String(on));
  }

  #out() {
    const { picture, zoomed } = this.#view;
    const above = picture.parent[zoomed];
    if (above >= 0) this.zoomTo(picture.ids[above]);
  }

  #mark() {
    const { picture } = this.#view;
    if (!picture) return;
    if (!this.#matched) return this.#view.match(null);
    const matches = new Uint8Array(picture.count);
    for (let i = 0; i < picture.count; i++) matches[i] = this.#matched.has(picture.functionId(i)) ? 1 : 0;
    this.#view.match(matches);
  }

  #hovered(node, place) {
    if (node < 0 || this.#page.menu.open) this.#page.tooltip.hide();
    else this.#tell(node, place);
  }

  #menu(node, place) {
    const { picture } = this.#view;
    this.#page.tooltip.hide();
    this.#page.menu.show(
      `Actions for ${short(plain(picture.name(node)))}`,
      this.#page.entries(this, node),
      place,
      this.#view.canvas,
    );
  }

  /** Announce it to screen readers. */
  say(text) {
    clearTimeout(this.#saying);
    this.#saying = setTimeout(() => {
      this.#child('live').textContent = text;
    }, SAY_AFTER_MS);
  }

  #resized() {
    clearTimeout(this.#resizing);
    this.#resizing = setTimeout(() => {
      const { picture } = this.#view;
      if (picture?.pruned && this.#root.clientWidth > this.#askedWidth) this.#load({ finer: true });
    }, RESIZED_AFTER_MS);
  }

  /** The current position: breadcrumbs and the label of the canvas. */
  #around() {
    const { picture, zoomed } = this.#view;
    const label = this.#root.dataset.label ?? 'Flame graph';
    const parts = [label, picture.event];
    if (!picture.empty && picture.depth[zoomed] > 0) parts.push(`zoomed to ${short(plain(picture.name(zoomed)))}`);
    this.#view.canvas.setAttribute('aria-label', parts.filter(Boolean).join(', '));
    const { pruned } = picture;
    this.#child('left').textContent = pruned
      ? `${pruned.toLocaleString('en')} narrower frame${pruned === 1 ? ' is' : 's are'} not drawn; zoom in to see more.`
      : '';
    const list = this.#child('crumbs');
    if (!list) return;
    const path = picture.empty ? [] : picture.path(zoomed);
    const steps = path.map((node) => this.#crumb(node, zoomed));
    if (steps.length > CRUMBS) {
      const gap = document.createElement('li');
      const left = steps.length - CRUMBS + 1;
      // Of a very long path the server sends only both ends.
      gap.textContent = `${picture.depth[zoomed] + 1 - steps.length + left} more`;
      gap.className = 'flame__gap';
      steps.splice(2, left, gap);
    }
    list.querySelector('ol').replaceChildren(...steps);
  }

  #crumb(node, zoomed) {
    const { picture } = this.#view;
    const step = document.createElement('li');
    const name = short(plain(picture.name(node)), 40);
    const text = `${name} ${percent(picture.total[node], picture.whole)}`;
    step.title = short(plain(picture.name(node)), 300);
    if (node === zoomed) {
      step.textContent = text;
      step.setAttribute('aria-current', 'location');
      return step;
    }
    const anchor = document.createElement('a');
    const id = node === 0 ? '' : String(picture.ids[node]);
    anchor.href = this.#page.state.address({ [this.zoomWord]: id });
    anchor.textContent = text;
    anchor.addEventListener('click', (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.#page.state.change({ [this.zoomWord]: id });
    });
    step.append(anchor);
    return step;
  }

  #legend(palette) {
    const list = this.#child('legend');
    if (!list) return;
    const { picture } = this.#view;
    const entry = (fill, text, css = fill.startsWith('linear') ? 'flame__swatch--ramp' : '') => {
      const item = document.createElement('li');
      const swatch = document.createElement('span');
      swatch.className = `flame__swatch ${css}`.trim();
      swatch.style.background = fill;
      item.append(swatch, text);
      return item;
    };
    const ramp = (words) =>
      `linear-gradient(90deg, ${[0, 0.5, 1].map((t) => cssOf(words[Math.round(t * (words.length - 1))])).join()})`;
    let entries;
    if (picture.empty) entries = [];
    else if (picture.base) {
      entries = [entry(ramp(palette.diff), 'less – same – more')];
      if (picture.base.evidence.some((one) => one > 0)) entries.push(entry(cssOf(palette.few), 'no evidence'));
    } else if (picture.values) entries = this.#scale(picture.values, palette, entry, ramp);
    else if (this.#mode === 'hot') entries = [entry(ramp(palette.hot), 'no self weight – most')];
    else if (this.#mode === 'module') {
      const every = modules(picture);
      entries = every
        .slice(0, LEGEND)
        .map(({ module }) =>
          entry(cssOf(palette.modules[this.#page.moduleColors.slot(module)]), plain(short(module, 40))),
        );
      if (every.length > LEGEND) {
        const more = document.createElement('li');
        more.textContent = `and ${every.length - LEGEND} more modules`;
        entries.push(more);
      }
    } else {
      // Frames of a kind have different shades.
      entries = kinds(picture).map((kind) =>
        entry(ramp(palette.kinds.get(kind)), kindName(kind), 'flame__swatch--shades'),
      );
    }
    const hasLabels = picture.functionIds.some((id) => id < 0);
    if (hasLabels && !picture.base && !picture.values && this.#mode !== 'hot') {
      entries.unshift(entry(cssOf(palette.shades('group')[0]), groupName(picture.group)));
    }
    list.replaceChildren(...entries);
  }

  /** The legend of a formula: the ends of its scale, the mean, and what has no value. */
  #scale({ name, part, unit, log, note, low, mean, high }, palette, entry, ramp) {
    const title = `${short(plain(name), 60)} (${part})`;
    const none = entry(cssOf(palette.few), '– no value');
    const notes = note ? [entry('none', note, 'flame__swatch--none')] : [];
    if (low === null) return [entry('none', `${title} has no mean`, 'flame__swatch--none'), none, ...notes];
    const ends = `≤ ${ratio(low, unit)} – mean ${ratio(mean, unit)} – ≥ ${ratio(high, unit)}`;
    return [entry(ramp(palette.diff), `${title}: ${ends}, ${log ? 'logarithmic' : 'linear'} scale`), none, ...notes];
  }

  #child(name) {
    const place = `[data-flame="${name}"]`;
    // If there is only one graph, the bar above shows the position.
    return this.#root.querySelector(place) ?? document.querySelector(`[data-flame-bar] ${place}`);
  }
}

function numeric(text) {
  return /^\d+$/.test(text) ? Number(text) : null;
}
