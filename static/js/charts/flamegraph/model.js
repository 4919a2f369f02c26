// The layout of the nodes of a response. Pure: independent of page and canvas.
//
// x is in units of weight, from 0 at the left edge of the zoomed frame to `span` at its right edge. The frames above
// the zoomed one ("lead") are in the first rows over the whole width, so that a frame keeps its row when zoomed.

/**
 * In a difference: the weights of the same frames in the profile that is not drawn, scaled to this one if the difference
 * is normalized. measured: its unscaled total. reversed: whether it is the newer one. evidence: of each frame, the index
 * of one of the texts: why there is no evidence of a change; 0 for evidence.
 * @typedef {{total: number, measured: number, reversed: boolean, self: Float64Array, totals: Float64Array,
 *   evidence: Uint8Array, texts: string[]}} Base
 */

/**
 * The formula that colors the frames: see perfloom.charts.flamegraph. null and NaN: missing.
 * @typedef {{name: string, unit: string, part: string, log: boolean, note: string, low: number | null,
 *   mean: number | null, high: number | null}} Formula
 */

/**
 * The formula in each frame. shades: from -64 (the low end of the scale) over 0 (the mean) to 64.
 * @typedef {Formula & {value: Float64Array, shades: Float64Array}} Values
 */

/**
 * A frame above the zoomed one.
 * @typedef {{id: number, depth: number, function: number, total: number, base_total?: number, value?: number | null,
 *   shade?: number | null}} Above
 */

/**
 * Columns of the nodes in preorder. start: only in time order.
 * @typedef {{id: number[], depth: number[], function: number[], self: number[], total: number[], start?: number[],
 *   base_self?: number[], base_total?: number[], evidence?: number[], value?: (number | null)[], shade?: (number | null)[]}} Nodes
 */

/**
 * The JSON of /flamegraph, as perfloom.charts.flamegraph.build_payload describes it.
 * @typedef {{event: string, unit: string, total: number, pruned: number, kinds: string[], group: string, zoom: Above[],
 *   functions: {id: number[], name: string[], short: string[], module: string[], kind: number[]}, nodes: Nodes,
 *   base?: {total: number, measured: number, reversed: boolean, evidence?: string[]}, values?: Formula}} Wire
 */

export class Picture {
  /** @param {Wire} wire */
  constructor(wire) {
    const { zoom, functions, nodes } = wire;
    const lead = Math.max(0, zoom.length - 1);
    const topDepth = zoom.length ? zoom[lead].depth : 0;
    const sent = nodes.id.length;
    const count = sent ? lead + sent : 0;

    this.wire = wire;
    this.event = wire.event;
    this.group = wire.group;
    this.unit = wire.unit;
    this.whole = wire.total;
    this.pruned = wire.pruned;
    this.lead = count ? lead : 0;
    this.count = count;
    this.kinds = wire.kinds;
    this.names = functions.name.slice();
    this.shortNames = functions.short.slice();
    this.modules = functions.module.slice();
    this.functionKinds = functions.kind.slice();
    this.functionIds = functions.id.slice();

    this.ids = new Float64Array(count);
    this.depth = new Int32Array(count);
    this.func = new Int32Array(count);
    this.self = new Float64Array(count);
    this.total = new Float64Array(count);
    this.x0 = new Float64Array(count);
    this.x1 = new Float64Array(count);
    this.parent = new Int32Array(count).fill(-1);
    this.end = new Int32Array(count);
    /** @type {Base | null} */
    this.base = wire.base
      ? {
          ...wire.base,
          texts: wire.base.evidence ?? [],
          self: new Float64Array(count),
          totals: new Float64Array(count),
          evidence: new Uint8Array(count),
        }
      : null;

    /** @type {Values | null} */
    this.values = wire.values ? { ...wire.values, value: new Float64Array(count), shades: new Float64Array(count) } : null;

    this.span = sent ? nodes.total[0] : 0;
    if (count) {
      this.#addLead(zoom.slice(0, lead));
      this.#addNodes(nodes, lead, topDepth);
    }
    this.rows = this.#deepest() + 1;
    this.rowStart = new Int32Array(this.rows + 1);
    this.rowNodes = new Int32Array(count);
    this.#fillRows();
  }

  /** @type {Map<number, number> | null} */
  #byId = null;

  /**
   * The node with this id, or -1.
   * @param {number} id
   */
  find(id) {
    if (!this.#byId) {
      this.#byId = new Map();
      for (let i = 0; i < this.count; i++) this.#byId.set(this.ids[i], i);
    }
    return this.#byId.get(id) ?? -1;
  }

  /** The node of the requested zoom. */
  get top() {
    return this.lead;
  }

  get empty() {
    return !(this.span > 0);
  }

  /** @param {number} node */
  name(node) {
    return this.names[this.func[node]];
  }

  /** @param {number} node */
  module(node) {
    return this.modules[this.func[node]];
  }

  /** @param {number} node */
  kind(node) {
    return this.kinds[this.functionKinds[this.func[node]]];
  }

  /**
   * The profile's id of the node's function; negative if it is not a function (the root, a group).
   * @param {number} node
   */
  functionId(node) {
    return this.functionIds[this.func[node]];
  }

  /**
   * From the root to the node itself.
   * @param {number} node
   */
  path(node) {
    const nodes = [];
    for (let i = node; i >= 0; i = this.parent[i]) nodes.push(i);
    return nodes.reverse();
  }

  /**
   * Position in `rowNodes` of the first node in row `depth` that ends right of x.
   * @param {number} depth
   * @param {number} x
   */
  firstIn(depth, x) {
    const { rowStart, rowNodes, x1 } = this;
    let low = rowStart[depth];
    let high = rowStart[depth + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x1[rowNodes[middle]] > x) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /**
   * The node in row `depth` at x, or the nearest that is less than `slack` away; -1 for none.
   * @param {number} depth
   * @param {number} x
   */
  hit(depth, x, slack = 0) {
    if (depth < 0 || depth >= this.rows) return -1;
    const { rowStart, rowNodes, x0, x1 } = this;
    const at = this.firstIn(depth, x);
    const here = at < rowStart[depth + 1] ? rowNodes[at] : -1;
    if (here >= 0 && x0[here] <= x && x1[here] > x0[here]) return here;
    let best = -1;
    let distance = slack;
    if (here >= 0 && x0[here] - x < distance) {
      best = here;
      distance = x0[here] - x;
    }
    if (at > rowStart[depth] && x - x1[rowNodes[at - 1]] < distance) best = rowNodes[at - 1];
    return best;
  }

  /**
   * The node next to `node` in its row: step 1 to the right, -1 to the left; -1 at the end.
   * @param {number} node
   * @param {number} step
   */
  beside(node, step) {
    const depth = this.depth[node];
    const { rowStart, rowNodes } = this;
    let low = rowStart[depth];
    let high = rowStart[depth + 1] - 1;
    // Ids in a row ascend with x.
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rowNodes[middle] < node) low = middle + 1;
      else high = middle;
    }
    const next = low + step;
    return next >= rowStart[depth] && next < rowStart[depth + 1] ? rowNodes[next] : -1;
  }

  /**
   * The widest child of `node`, or -1 for a leaf.
   * @param {number} node
   */
  widestChild(node) {
    let best = -1;
    for (let i = node + 1; i < this.end[node]; i = this.end[i]) {
      if (best < 0 || this.x1[i] - this.x0[i] > this.x1[best] - this.x0[best]) best = i;
    }
    return best;
  }

  /** @param {number} node */
  children(node) {
    let count = 0;
    for (let i = node + 1; i < this.end[node]; i = this.end[i]) count++;
    return count;
  }

  /**
   * @param {number} node
   * @param {number} ancestor
   */
  isInside(node, ancestor) {
    return node >= ancestor && node < this.end[ancestor];
  }

  /** @param {Above[]} zoom */
  #addLead(zoom) {
    zoom.forEach((above, i) => {
      this.ids[i] = above.id;
      this.depth[i] = above.depth;
      this.func[i] = above.function;
      this.total[i] = above.total;
      // Their self weights are unknown.
      this.self[i] = NaN;
      this.x1[i] = this.span;
      this.parent[i] = i - 1;
      if (this.base) {
        this.base.totals[i] = above.base_total ?? NaN;
        this.base.self[i] = NaN;
      }
      if (this.values) {
        this.values.value[i] = above.value ?? NaN;
        this.values.shades[i] = above.shade ?? NaN;
      }
    });
  }

  /**
   * @param {Nodes} nodes
   * @param {number} lead
   * @param {number} topDepth
   */
  #addNodes(nodes, lead, topDepth) {
    const { ids, depth, func, self, total, x0, x1, parent, end, base, values } = this;
    const sent = nodes.id.length;
    const starts = nodes.start;
    let deepest = 0;
    for (let i = 0; i < sent; i++) if (nodes.depth[i] > deepest) deepest = nodes.depth[i];
    // By depth: the position of the next child, and the last node.
    const cursor = new Float64Array(deepest + 2);
    const last = new Int32Array(deepest + 2).fill(-1);
    for (let i = 0; i < sent; i++) {
      const at = lead + i;
      const d = nodes.depth[i];
      ids[at] = nodes.id[i];
      depth[at] = topDepth + d;
      func[at] = nodes.function[i];
      self[at] = nodes.self[i];
      total[at] = nodes.total[i];
      const left = starts ? starts[i] - starts[0] : cursor[d];
      x0[at] = left;
      x1[at] = left + total[at];
      cursor[d] = x1[at];
      cursor[d + 1] = left;
      parent[at] = d > 0 ? last[d - 1] : lead - 1;
      last[d] = at;
      if (base) {
        base.self[at] = nodes.base_self?.[i] ?? NaN;
        base.totals[at] = nodes.base_total?.[i] ?? NaN;
        base.evidence[at] = nodes.evidence?.[i] ?? 0;
      }
      if (values) {
        values.value[at] = nodes.value?.[i] ?? NaN;
        values.shades[at] = nodes.shade?.[i] ?? NaN;
      }
    }
    const count = lead + sent;
    for (let i = count - 1; i >= 0; i--) {
      if (end[i] === 0) end[i] = i + 1;
      const above = parent[i];
      if (above >= 0 && end[above] < end[i]) end[above] = end[i];
    }
  }

  #deepest() {
    let deepest = -1;
    for (const depth of this.depth) if (depth > deepest) deepest = depth;
    return deepest;
  }

  #fillRows() {
    const { count, depth } = this;
    for (let i = 0; i < count; i++) this.rowStart[depth[i] + 1]++;
    for (let d = 0; d < this.rows; d++) this.rowStart[d + 1] += this.rowStart[d];
    const fill = this.rowStart.slice();
    // In preorder the nodes of one depth come from left to right.
    for (let i = 0; i < count; i++) this.rowNodes[fill[depth[i]]++] = i;
  }
}

/** @typedef {[number, number]} Extent a visible range of x: from, to */

/**
 * The range of x of a node.
 * @param {Picture} picture
 * @param {number} node
 * @returns {Extent}
 */
export function extent(picture, node) {
  return [picture.x0[node], picture.x1[node]];
}

/**
 * Interpolates between two ranges, at t from 0 to 1: widths change by equal factors, so that deep zooms look steady.
 * @param {Extent} from
 * @param {Extent} to
 * @param {number} t
 * @returns {Extent}
 */
export function between([a0, b0], [a1, b1], t) {
  if (t >= 1) return [a1, b1];
  const w0 = b0 - a0;
  const w1 = b1 - a1;
  if (!(w0 > 0) || !(w1 > 0)) return [a1, b1];
  if (Math.abs(w0 - w1) < 1e-9 * w0) return [a0 + (a1 - a0) * t, b0 + (b1 - b0) * t];
  const width = w0 * Math.pow(w1 / w0, t);
  const left = a0 + ((a1 - a0) * (w0 - width)) / (w0 - w1);
  return [left, left + width];
}
