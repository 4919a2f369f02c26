// Colors of frames. Every color comes from a custom property of static/css/flamegraph.css (light) or dark.css;
// app/charts/palette.py has the same values and the same choice of shade, so that the picture on the page and the SVG
// agree.

export const SHADES = 12;
export const MODULES = 16;
const HOT_STOPS = 5;
const RAMP = 64;
const KINDS = [
  'user',
  'kernel',
  'jit',
  'inlined',
  'python',
  'operator',
  'gpu_kernel',
  'runtime',
  'annotation',
  'communication',
  'memory',
  'unknown',
  'group',
];

/** @typedef {[number, number, number]} RGB red, green, blue: 0 to 255 */
/** @typedef {import('./model.js').Picture} Picture */

/**
 * 32-bit FNV-1a over the UTF-8 bytes of a text.
 * @param {string} text
 */
export function hash(text) {
  let h = 0x811c9dc5;
  for (const byte of encoder.encode(text)) h = Math.imul(h ^ byte, 0x01000193);
  return h >>> 0;
}

const encoder = new TextEncoder();

/**
 * The last part of a module's path, for colors and lists by module.
 * @param {string} module
 */
export function moduleName(module) {
  return module.replace(/\/+$/, '').split('/').pop() || '[unknown]';
}

/** The colors of one theme, as 32-bit words in the byte order of canvas pixels (R, G, B, A). */
export class Palette {
  /** @param {Element} element has the custom properties */
  constructor(element) {
    const style = getComputedStyle(element);
    /** @param {string} name */
    const read = (name) => parse(style.getPropertyValue(`--flame-${name}`).trim());
    /** @type {Map<string, Uint32Array>} */
    this.kinds = new Map();
    for (const kind of KINDS) {
      const name = kind.replace('_', '-');
      this.kinds.set(kind, ramp([read(`${name}-a`), read(`${name}-b`)], SHADES));
    }
    this.modules = Uint32Array.from({ length: MODULES }, (_, i) => word(read(`module-${i}`)));
    this.hot = ramp(
      Array.from({ length: HOT_STOPS }, (_, i) => read(`hot-${i}`)),
      RAMP,
    );
    this.diff = ramp([read('less'), read('same'), read('more')], 2 * RAMP + 1);
    this.few = word(read('few'));
    this.match = word(read('match'));
    this.text = css(read('text'));
    this.matchText = css(read('match-text'));
    this.diffText = css(read('diff-text'));
    this.ground = read('ground');
  }

  /**
   * The shades of one of KINDS.
   * @param {string} kind
   */
  shades(kind) {
    const shades = this.kinds.get(kind);
    if (!shades) throw new Error(`There is no kind "${kind}".`);
    return shades;
  }
}

/**
 * The color of each module: by its hash, or the next free one. Kept while the page is open, so that a module keeps its
 * color when zoomed.
 */
export class ModuleColors {
  /** @type {Map<string, number>} */
  #slots = new Map();
  /** @type {Set<number>} */
  #taken = new Set();

  /**
   * The index of a module's color among those of modules.
   * @param {string} module
   */
  slot(module) {
    const name = moduleName(module);
    let slot = this.#slots.get(name);
    if (slot === undefined) {
      slot = hash(name) % MODULES;
      if (this.#taken.size < MODULES) while (this.#taken.has(slot)) slot = (slot + 1) % MODULES;
      this.#taken.add(slot);
      this.#slots.set(name, slot);
    }
    return slot;
  }
}

/**
 * The color of every node of a picture.
 * @param {Picture} picture
 * @param {string} mode "kind", "module" or "hot"; a picture with a base is always colored by its difference, one
 *   with values by these
 * @param {Palette} palette
 * @param {ModuleColors} moduleColors
 */
export function nodeColors(picture, mode, palette, moduleColors) {
  const fills = new Uint32Array(picture.count);
  if (picture.base) differences(picture, picture.base, palette, fills);
  else if (picture.values) byValue(picture.values, palette, fills);
  else if (mode === 'hot') hot(picture, palette, fills);
  else {
    const ofFunction = mode === 'module' ? byModule(picture, palette, moduleColors) : byKind(picture, palette);
    for (let i = 0; i < picture.count; i++) fills[i] = ofFunction[picture.func[i]];
  }
  return fills;
}

/**
 * @param {Picture} picture
 * @param {Palette} palette
 */
function byKind(picture, palette) {
  const unknown = palette.shades('unknown');
  const group = palette.shades('group');
  return Uint32Array.from(picture.names, (name, i) => {
    if (picture.functionIds[i] < 0) return group[0];
    const shades = palette.kinds.get(picture.kinds[picture.functionKinds[i]]) ?? unknown;
    return shades[hash(name) % SHADES];
  });
}

/**
 * @param {Picture} picture
 * @param {Palette} palette
 * @param {ModuleColors} moduleColors
 */
function byModule(picture, palette, moduleColors) {
  // By weight, so that the heaviest modules have different colors.
  const ofFunction = new Uint32Array(picture.names.length).fill(palette.shades('group')[0]);
  for (const { functions, module } of modules(picture)) {
    const fill = palette.modules[moduleColors.slot(module)];
    for (const index of functions) ofFunction[index] = fill;
  }
  return ofFunction;
}

/**
 * The modules of a picture by self weight, heaviest first; functions by their index.
 * @param {Picture} picture
 */
export function modules(picture) {
  /** @type {Map<string, {module: string, self: number, functions: number[]}>} */
  const found = new Map();
  picture.names.forEach((_, index) => {
    if (picture.functionIds[index] < 0) return;
    const name = moduleName(picture.modules[index]);
    const entry = found.get(name);
    if (entry) entry.functions.push(index);
    else found.set(name, { module: name, self: 0, functions: [index] });
  });
  const self = new Float64Array(picture.names.length);
  for (let i = picture.top; i < picture.count; i++) self[picture.func[i]] += picture.self[i];
  for (const entry of found.values()) entry.self = entry.functions.reduce((sum, index) => sum + self[index], 0);
  return [...found.values()].sort((a, b) => b.self - a.self || (a.module < b.module ? -1 : 1));
}

/**
 * The kinds in a picture by self weight, heaviest first.
 * @param {Picture} picture
 */
export function kinds(picture) {
  /** @type {Map<string, number>} */
  const self = new Map();
  for (let i = picture.top; i < picture.count; i++) {
    if (picture.functionId(i) < 0) continue;
    const kind = picture.kind(i) ?? 'unknown';
    self.set(kind, (self.get(kind) ?? 0) + picture.self[i]);
  }
  return [...self].sort((a, b) => b[1] - a[1]).map(([kind]) => kind);
}

/**
 * @param {Picture} picture
 * @param {Palette} palette
 * @param {Uint32Array} fills
 */
function hot(picture, palette, fills) {
  let most = 0;
  for (let i = picture.top; i < picture.count; i++) if (picture.self[i] > most) most = picture.self[i];
  for (let i = 0; i < picture.count; i++) {
    // A square root, to distinguish the warm middle from the cold end.
    const share = most > 0 && picture.self[i] > 0 ? Math.sqrt(picture.self[i] / most) : 0;
    fills[i] = palette.hot[Math.min(RAMP - 1, Math.round(share * (RAMP - 1)))];
  }
}

/**
 * @param {Picture} picture
 * @param {import('./model.js').Base} base
 * @param {Palette} palette
 * @param {Uint32Array} fills
 */
function differences(picture, base, palette, fills) {
  const { totals, reversed, evidence } = base;
  const sign = reversed ? -RAMP : RAMP;
  for (let i = 0; i < picture.count; i++) {
    if (evidence[i]) fills[i] = palette.few;
    else fills[i] = palette.diff[RAMP + Math.round(change(picture.total[i], totals[i]) * sign)];
  }
}

/**
 * @param {import('./model.js').Values} values
 * @param {Palette} palette
 * @param {Uint32Array} fills
 */
function byValue({ shades }, palette, fills) {
  for (let i = 0; i < fills.length; i++) fills[i] = Number.isNaN(shades[i]) ? palette.few : palette.diff[RAMP + shades[i]];
}

/**
 * The change from `before` to `now`, from -1 (vanished) over 0 (the same) to 1 (new).
 * @param {number} now
 * @param {number} before
 */
export function change(now, before) {
  const larger = Math.max(now, before);
  return larger > 0 ? (now - before) / larger : 0;
}

/**
 * A pixel word mixed with a color: t = 0 is the word's, 1 the other's.
 * @param {number} fill
 * @param {RGB} color
 * @param {number} t
 */
export function mixed(fill, [r, g, b], t) {
  /**
   * @param {number} shift
   * @param {number} other
   */
  const part = (shift, other) => Math.round(((fill >>> shift) & 255) * (1 - t) + other * t);
  return ((255 << 24) | (part(16, b) << 16) | (part(8, g) << 8) | part(0, r)) >>> 0;
}

/**
 * A pixel word as a CSS color.
 * @param {number} fill
 */
export function cssOf(fill) {
  return `rgb(${fill & 255} ${(fill >>> 8) & 255} ${(fill >>> 16) & 255})`;
}

/** @param {RGB} color */
function css([r, g, b]) {
  return `rgb(${r} ${g} ${b})`;
}

/** @param {RGB} color */
function word([r, g, b]) {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/**
 * @param {RGB[]} stops
 * @param {number} count
 */
function ramp(stops, count) {
  const words = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    const at = count > 1 ? (i / (count - 1)) * (stops.length - 1) : 0;
    const low = Math.min(stops.length - 2, Math.floor(at));
    const t = at - low;
    const [from, to] = [stops[low], stops[low + 1]];
    /** @param {0 | 1 | 2} c */
    const part = (c) => Math.round(from[c] * (1 - t) + to[c] * t);
    words[i] = word([part(0), part(1), part(2)]);
  }
  return words;
}

/**
 * @param {string} color
 * @returns {RGB}
 */
function parse(color) {
  const digits = /^#([0-9a-f]{6})$/i.exec(color);
  if (!digits) throw new Error(`A color of the flame graph is not #rrggbb but "${color}".`);
  const value = parseInt(digits[1], 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}
