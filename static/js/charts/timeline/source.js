// The source of boxes. Loaded data is cached by band (a part of a track), level (cells of 2^level ns) and time range, so
// that panning and going back are instant, and missing data is drawn from other levels.

import { getJSON } from '../../http.js';
import { Boxes, Values } from './model.js';

const TILE = 512;
const MOST_KEPT = 1_500_000;
const MOST_BANDS = 120;
const MOST_ROWS = 400;
const AGAIN_MS = 500;
const TOGETHER_MS = 40;
const PATIENCE_MS = 150;

/** The coarsest level with cells of at most one pixel. */
export function levelOf(nsPerPixel) {
  return Math.max(0, Math.floor(Math.log2(nsPerPixel)));
}

export class Source {
  #url;
  #words;
  #names;
  #loaded;
  #kept = new Map();
  #size = 0;
  #clock = 0;
  #pending = new Set();
  #timer = 0;
  #wanted = null;

  /**
   * @param url of the timeline's data @param words the selection's words @param names collects the names
   * @param loaded called with an error, or null after data was loaded
   */
  constructor(url, words, names, loaded) {
    this.#url = url;
    this.#words = words;
    this.#names = names;
    this.#loaded = loaded;
    this.requests = 0;
  }

  /** Whether no request is active or queued. */
  get idle() {
    return this.#pending.size === 0 && this.#timer === 0;
  }

  /** Whether a band without data has been loading for a noticeable time. */
  isLoading(text) {
    if (this.#kept.get(text)?.length) return false;
    const since = performance.now() - PATIENCE_MS;
    for (const request of this.#pending) if (request.begun <= since && request.bands.has(text)) return true;
    return false;
  }

  /** Clear the cache, for another selection. */
  clear() {
    for (const request of this.#pending) request.abort.abort();
    this.#pending.clear();
    this.#kept.clear();
    this.#size = 0;
  }

  /**
   * Set the visible range; missing data is requested, then adjacent ranges.
   * @param bands [{text, rows}] @param start, end: ns @param level
   */
  want(bands, start, end, level) {
    this.#wanted = { bands, start, end, level };
    if (!this.#timer) {
      this.#timer = setTimeout(() => {
        this.#timer = 0;
        this.#load();
      }, TOGETHER_MS);
    }
  }

  /**
   * The data to draw a band between start and end: of this level if loaded, else of the next coarser, else of a finer
   * one. Calls draw(data, from, to, isExact), from left to right for each level.
   */
  cover(text, start, end, level, draw) {
    const known = this.#kept.get(text);
    if (!known) return;
    let open = [[start, end]];
    for (const chunk of inOrder(known, level)) {
      if (!open.length) return;
      const rest = [];
      for (const [from, to] of open) {
        const low = Math.max(from, chunk.start);
        const high = Math.min(to, chunk.end);
        if (low >= high) {
          rest.push([from, to]);
          continue;
        }
        chunk.used = this.#clock;
        draw(chunk.data, low, high, chunk.level === level);
        if (from < low) rest.push([from, low]);
        if (high < to) rest.push([high, to]);
      }
      open = rest;
    }
  }

  #load() {
    const { bands, start, end, level } = this.#wanted;
    this.#clock++;
    // Ranges that are no longer visible need not be loaded.
    for (const request of this.#pending) {
      if (request.level !== level || request.end <= start || request.start >= end) this.#drop(request);
    }
    const tile = TILE * 2 ** level;
    const align = (from, to) => [Math.floor(from / tile) * tile, Math.ceil(to / tile) * tile];
    if (this.#ask(bands, ...align(start, end), level)) return;
    if (this.#pending.size) return;
    const beside = (end - start) / 2;
    this.#ask(bands, ...align(start - beside, end + beside), level);
  }

  /** Request missing data; returns whether any is missing. */
  #ask(bands, start, end, level) {
    const groups = new Map();
    for (const band of bands) {
      for (const [from, to] of this.#missing(band.text, start, end, level)) {
        const key = `${from} ${to}`;
        if (!groups.has(key)) groups.set(key, { start: from, end: to, bands: [] });
        groups.get(key).bands.push(band);
      }
    }
    for (const group of groups.values()) {
      let part = [];
      let rows = 0;
      for (const band of group.bands) {
        if (part.length && (part.length >= MOST_BANDS || rows + band.rows > MOST_ROWS)) {
          this.#request(part, group.start, group.end, level);
          part = [];
          rows = 0;
        }
        part.push(band.text);
        rows += band.rows;
      }
      this.#request(part, group.start, group.end, level);
    }
    return groups.size > 0;
  }

  #missing(text, start, end, level) {
    let open = [[start, end]];
    const without = (from, to) => {
      open = open.flatMap(([a, b]) => [
        [a, Math.min(b, from)],
        [Math.max(a, to), b],
      ]).filter(([a, b]) => a < b);
    };
    for (const chunk of this.#kept.get(text) ?? []) if (chunk.level === level) without(chunk.start, chunk.end);
    for (const request of this.#pending) {
      if (request.level === level && request.bands.has(text)) without(request.start, request.end);
    }
    return open;
  }

  async #request(bands, start, end, level) {
    const request = { bands: new Set(bands), start, end, level, abort: new AbortController(), begun: performance.now() };
    this.#pending.add(request);
    setTimeout(() => {
      if (this.#pending.has(request)) this.#loaded(null);
    }, PATIENCE_MS + 10);
    this.requests++;
    const words = this.#words();
    words.set('from', String(start));
    words.set('to', String(end));
    words.set('width', String(Math.round((end - start) / 2 ** level)));
    words.set('bands', bands.join(','));
    let failed = null;
    try {
      const answer = await getJSON(`${this.#url}/view?${words}`, { signal: request.abort.signal });
      if (!this.#pending.has(request)) return;
      if (answer.preparing) {
        await new Promise((done) => { setTimeout(done, AGAIN_MS); });
      } else this.#keep(request, answer);
    } catch (error) {
      if (error.name === 'AbortError') return;
      failed = error;
    }
    this.#pending.delete(request);
    this.#loaded(failed);
  }

  #keep({ start, end, level }, answer) {
    const names = this.#names.add(answer.names, answer.kinds);
    for (const [text, columns] of Object.entries(answer.bands)) {
      const data = columns.rows ? new Boxes(columns, answer, names) : new Values(columns, answer);
      if (!this.#kept.has(text)) this.#kept.set(text, []);
      this.#kept.get(text).push({ start, end, level, data, used: this.#clock });
      this.#size += data.size + 50;
    }
    if (this.#size > MOST_KEPT) this.#forget();
  }

  /** Evict the least recently drawn half. */
  #forget() {
    const times = [...this.#kept.values()].flat().map((chunk) => chunk.used).sort((a, b) => a - b);
    const limit = times[times.length >> 1];
    this.#size = 0;
    for (const [text, chunks] of this.#kept) {
      const stays = chunks.filter((chunk) => chunk.used > limit || chunk.used === this.#clock);
      if (stays.length) this.#kept.set(text, stays);
      else this.#kept.delete(text);
      for (const chunk of stays) this.#size += chunk.data.size + 50;
    }
  }

  #drop(request) {
    this.#pending.delete(request);
    request.abort.abort();
  }
}

/** This level first, then the coarser ones from near to far, then the finer ones; within a level by time. */
function inOrder(chunks, level) {
  const rank = (chunk) => (chunk.level >= level ? chunk.level - level : 100 + level - chunk.level);
  return [...chunks].sort((a, b) => rank(a) - rank(b) || a.start - b.start);
}
