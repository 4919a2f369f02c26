// Order and layout of tracks: pinned ones on top, the others in a list that scrolls.

export const ROW = 18;
const LANE = 24;
const COUNTER = 44;
const INSTANTS = 10;
const TICKS = 13;
const CPU_USE = 18;
/** The scale of the CPU use of a thread: it runs on one CPU at a time. */
const ONE_CPU = { name: 'CPUs in use', unit: '', low: 0, high: 1 };
const STEPS = 20;
const HEADING = 26;
const GAP = 5;
const BLOCK = 16;
const MOST_PINNED_STEPS = 4;

/** How a track is drawn: its parts from top to bottom, as {what, band, top, height, row, first, rows, ticks, label,
 * scale}; label: of the part in the rail; scale: of a part that is a curve. */
function partsOf(track, folded, stacked) {
  const parts = [];
  let top = 0;
  const add = (part) => {
    parts.push({ top, row: 0, first: 0, rows: 1, ...part });
    top += part.height;
  };
  if (track.kind === 'steps') add({ what: 'steps', band: track.id, height: STEPS, row: STEPS });
  else if (track.kind === 'counter') add({ what: 'counter', band: track.id, height: COUNTER });
  else if (track.kind === 'cpu') {
    add({ what: 'lane', band: track.id, height: LANE, row: LANE, ticks: track.drawn === 'tick' });
  } else {
    const high = track.rows || track.lane ? INSTANTS : LANE;
    if (track.instants) add({ what: 'instants', band: `${track.id}.i`, height: high, row: high, ticks: true });
    const blocks = (what, letter, rows) => {
      for (let first = 0; first < rows; first += BLOCK) {
        const count = Math.min(BLOCK, rows - first);
        const band = `${track.id}.${letter}${first}-${first + BLOCK - 1}`;
        add({ what, band, height: count * ROW, row: ROW, first, rows: count, ticks: letter && track.drawn === 'tick' });
      }
    };
    if (stacked && Tracks.stacks(track)) blocks('stacks', 'k', track.stacks);
    else if (track.lane && (folded || !track.rows)) {
      add({ what: 'lane', band: `${track.id}.l`, height: LANE, row: LANE, ticks: track.drawn === 'tick' });
    } else if (track.rows) {
      blocks('rows', '', folded ? 1 : track.rows);
    }
    for (const { event, name } of track.ticks ?? []) {
      add({ what: 'ticks', band: `${track.id}.e${event}`, height: TICKS, row: TICKS, ticks: true, label: name });
    }
    if (track.has_cpu_use) {
      add({ what: 'counter', band: `w${track.id.slice(1)}`, height: CPU_USE, label: 'CPU use', scale: ONE_CPU });
    }
  }
  return parts;
}

export class Tracks {
  list = [];
  pinned = [];
  rest = [];
  pinnedHeight = 0;
  height = 0;
  #byId = new Map();
  #placed = new Map();

  /** Set the tracks from a response. */
  set(list) {
    this.list = list;
    this.#byId = new Map(list.map((track) => [track.id, track]));
  }

  get(id) {
    return this.#byId.get(id);
  }

  /** Whether a track can be folded to one row. */
  static folds(track) {
    return track.rows > 1;
  }

  /** Whether a track has rows of call stacks. */
  static stacks(track) {
    return track.stacks > 1 && !track.rows;
  }

  /** The tracks pinned by default: a few bands of steps. */
  usuallyPinned() {
    const steps = this.list.filter((track) => track.kind === 'steps');
    return steps.length <= MOST_PINNED_STEPS ? steps.map((track) => track.key) : [];
  }

  /** Lay out. pinned: keys, in their order; folded: a set of keys; isStacked: whether a track shows the rows of its
   * call stacks; filter: words that a name must contain. */
  layOut({ pinned, folded, isStacked, filter }) {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = (track) => {
      const text = `${track.name} ${track.group} ${track.key}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    this.#placed.clear();
    this.pinned = [];
    this.rest = [];
    let y = 0;
    const place = (track, isPinned) => {
      const isFolded = Tracks.stacks(track) ? !isStacked(track) : folded.has(track.key);
      const parts = partsOf(track, isFolded, !isFolded);
      const height = parts.reduce((sum, part) => sum + part.height, 0);
      const entry = { track, y, height, parts, isPinned, isFolded, heading: '' };
      this.#placed.set(track.id, entry);
      y += height + GAP;
      return entry;
    };
    const byKey = new Map(this.list.map((track) => [track.key, track]));
    for (const key of pinned) {
      const track = byKey.get(key);
      if (track) this.pinned.push(place(track, true));
    }
    this.pinnedHeight = y;
    y = 0;
    let group = null;
    const several = new Set(this.list.map((track) => track.group)).size > 1;
    for (const track of this.list) {
      if (this.#placed.has(track.id) || !shown(track)) continue;
      if (several && track.group !== group) {
        group = track.group;
        if (group) {
          this.rest.push({ track: null, y, height: HEADING, parts: [], heading: group });
          y += HEADING + GAP;
        }
      }
      this.rest.push(place(track, false));
    }
    this.height = y + GAP;
  }

  /** The entry of a track, undefined if it is not shown. */
  placed(id) {
    return this.#placed.get(id);
  }

  /** The position of a row of slices of a track: {entry, y, height} within its list; if folded, of its lane. */
  row(id, depth) {
    const entry = this.#placed.get(id);
    if (!entry) return null;
    for (const part of entry.parts) {
      if ((part.what === 'rows' || part.what === 'stacks') && depth >= part.first && depth < part.first + part.rows) {
        return { entry, y: entry.y + part.top + (depth - part.first) * part.row, height: part.row };
      }
    }
    const lane = entry.parts.find((part) => part.what !== 'instants');
    return lane ? { entry, y: entry.y + lane.top, height: lane.height } : null;
  }

  /** The item at a height of a list: {entry, part, row} or null. entries: `pinned` or `rest`. */
  static at(entries, y) {
    const entry = entries[Tracks.first(entries, y)];
    if (!entry || y < entry.y || y >= entry.y + entry.height) return null;
    for (const part of entry.parts) {
      const inside = y - entry.y - part.top;
      if (inside >= 0 && inside < part.height) {
        return { entry, part, row: part.row ? Math.floor(inside / part.row) : 0 };
      }
    }
    return { entry, part: null, row: 0 };
  }

  /** The first entry that reaches below a height. */
  static first(entries, y) {
    let low = 0;
    let high = entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (entries[middle].y + entries[middle].height <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
