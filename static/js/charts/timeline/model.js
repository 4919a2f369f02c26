// Responses of the server as typed arrays: the boxes of a band's rows, or the values of a counter. Times are ns.

/**
 * Columns of a band's rows: gap and length are in units of the answer, each gap from the end of the box before.
 * @typedef {{rows: number[], gap: number[], length: number[], name: number[], count: number[], fill: number[],
 *   out?: number[]}} BoxColumns
 */

/** @typedef {{gap: number[], low: (number | null)[], high: (number | null)[], last: (number | null)[]}} ValueColumns */

/** @typedef {{start_ns: number, unit_ns: number}} Answer */

/** @typedef {{function: number[], name: string[], short: string[], kind: number[], shade: number[]}} NameColumns */

/** The boxes of some rows of one track in a time range. */
export class Boxes {
  /**
   * @param {BoxColumns} columns of the answer's band
   * @param {Answer} answer
   * @param {number[]} names the indices of the response's names among all names
   */
  constructor(columns, { start_ns: start, unit_ns: unit }, names) {
    const count = columns.gap.length;
    this.unit = unit;
    this.bounds = new Int32Array(columns.rows.length + 1);
    this.x0 = new Float64Array(count);
    this.x1 = new Float64Array(count);
    this.name = Int32Array.from(columns.name, (place) => names[place]);
    this.count = Int32Array.from(columns.count);
    this.fill = Uint8Array.from(columns.fill);
    this.out = columns.out ? Uint8Array.from(columns.out) : null;
    let at = 0;
    columns.rows.forEach((length, row) => {
      let time = 0;
      for (const stop = at + length; at < stop; at++) {
        time += columns.gap[at];
        this.x0[at] = start + time * unit;
        time += columns.length[at];
        this.x1[at] = start + time * unit;
      }
      this.bounds[row + 1] = at;
    });
  }

  get size() {
    return this.x0.length;
  }

  /**
   * The first box of a row that ends after `time`.
   * @param {number} row
   * @param {number} time ns
   */
  first(row, time) {
    let low = this.bounds[row];
    let high = this.bounds[row + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x1[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /**
   * The box of a row at `time`, or the nearest that is at most `slack` away; -1 for none.
   * @param {number} row
   * @param {number} time ns
   * @param {number} slack ns
   */
  hit(row, time, slack) {
    if (row < 0 || row + 1 >= this.bounds.length) return -1;
    const stop = this.bounds[row + 1];
    let best = -1;
    let distance = slack;
    for (let at = Math.max(this.bounds[row], this.first(row, time - slack) - 1); at < stop; at++) {
      if (this.x0[at] > time + slack) break;
      const away = Math.max(0, this.x0[at] - time, time - this.x1[at]);
      if (away <= distance) {
        best = at;
        distance = away;
        if (away === 0 && this.x1[at] > time) break;
      }
    }
    return best;
  }
}

/** The values of a counter in a time range: each holds until the next. */
export class Values {
  /**
   * @param {ValueColumns} columns of the answer's band
   * @param {Answer} answer
   */
  constructor(columns, { start_ns: start, unit_ns: unit }) {
    /** @param {number | null} value */
    const number = (value) => value ?? NaN;
    let time = 0;
    this.at = Float64Array.from(columns.gap, (gap) => start + (time += gap) * unit);
    this.low = Float64Array.from(columns.low, number);
    this.high = Float64Array.from(columns.high, number);
    this.last = Float64Array.from(columns.last, number);
  }

  get size() {
    return this.at.length;
  }

  /**
   * The index of the value at `time`, -1 before the first.
   * @param {number} time ns
   */
  find(time) {
    let low = 0;
    let high = this.at.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.at[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

/** All known names, each with its function (-1: none), kind and shade, in columns. */
export class Names {
  /** @type {string[]} */
  text = [];
  /** Short names, empty where they are the names. @type {string[]} */
  short = [];
  /** @type {number[]} */
  functions = [];
  /** @type {string[]} */
  kinds = [];
  /** @type {number[]} */
  shades = [];
  /** @type {Map<string, number>} */
  #places = new Map();

  /**
   * The indices of the names of a response.
   * @param {NameColumns} names
   * @param {string[]} kinds
   */
  add({ function: functions, name, short, kind, shade }, kinds) {
    return functions.map((id, n) => {
      const key = id < 0 ? `${kind[n]} ${name[n]}` : `${id} ${kind[n]}`;
      let place = this.#places.get(key);
      if (place === undefined) {
        this.#places.set(key, (place = this.text.length));
        this.text.push(name[n]);
        this.short.push(short[n] ?? '');
        this.functions.push(id);
        this.kinds.push(kinds[kind[n]]);
        this.shades.push(shade[n]);
      } else if (name[n]) {
        this.text[place] ||= name[n];
        this.short[place] ||= short[n] ?? '';
      }
      return place;
    });
  }
}

/**
 * Where a box is, for the marks.
 * @param {{entry: {track: {id: any}}, part: {what: string, first: number}, row: number, data: Boxes,
 *   index: number}} box
 */
export function markOf({ entry, part, row, data, index }) {
  return {
    track: entry.track.id,
    depth: part.what === 'rows' || part.what === 'stacks' ? part.first + row : 0,
    start: data.x0[index],
    end: data.x1[index],
  };
}
