// Descriptions of a frame: for the tooltip and for screen readers.

import { percent, ratio, short, signed, weight } from './format.js';
import { plain } from './labels.js';

const LONGEST = 600;
const KIND_NAMES = {
  user: 'user code',
  kernel: 'kernel',
  jit: 'JIT code',
  inlined: 'inlined',
  python: 'Python',
  operator: 'operator',
  gpu_kernel: 'GPU kernel',
  runtime: 'runtime call',
  annotation: 'annotation',
  communication: 'communication',
  memory: 'memcpy or memset',
  unknown: 'unknown kind',
};

/** A kind of frame in words. */
export function kindName(kind) {
  return KIND_NAMES[kind] ?? 'unknown kind';
}

/** What the rows of labels are, for a grouping: that of the whole without groups. */
export function groupName(group) {
  return { none: 'all', comm: 'thread name' }[group] ?? group;
}

/**
 * The address of the description of a node's function, '' if it has none.
 * @param {HTMLElement} root of the panel
 * @param {import('./model.js').Picture} picture
 * @param {number} node
 */
export function describedAt(root, picture, node) {
  const { functions: usual, reversedFunctions } = root.dataset;
  const functions = picture.base?.reversed ? reversedFunctions : usual;
  const id = picture.functionId(node);
  return functions && id >= 0 ? `${functions}/${id}` : '';
}

/** {name, origin, rows} of a node; rows: [label, percent, weight], of a difference [label, base, other, change]. */
export function facts(picture, node, zoomed) {
  const ofFunction = picture.functionId(node) >= 0;
  const kind = kindName(picture.kind(node));
  const module = plain(picture.module(node)).slice(0, LONGEST);
  return {
    name: plain(cut(picture.name(node))),
    origin: ofFunction ? [module, kind].filter(Boolean).join(' · ') : '',
    rows: picture.base ? differences(picture, node) : weights(picture, node, zoomed),
  };
}

function cut(name) {
  return name.length > LONGEST ? `${name.slice(0, LONGEST)}…` : name;
}

function weights(picture, node, zoomed) {
  const { unit, whole, total, self } = picture;
  const rows = [['Total', percent(total[node], whole), weight(total[node], unit)]];
  if (Number.isFinite(self[node])) rows.push(['Self', percent(self[node], whole), weight(self[node], unit)]);
  if (picture.depth[zoomed] > 0 && node !== zoomed && picture.isInside(node, zoomed)) {
    rows.push(['Of the zoomed frame', percent(total[node], total[zoomed]), '']);
  }
  if (picture.values) rows.push(valueRow(picture.values, node));
  return rows;
}

/** The formula in a frame, and its multiple of the mean. */
function valueRow({ name, part, unit, value, mean, log }, node) {
  const times = log && value[node] > 0 ? `${ratio(value[node] / mean, '')} × the mean` : '';
  return [`${short(plain(name), 60)} (${part})`, ratio(value[node], unit), times];
}

function differences(picture, node) {
  const { unit, whole, base } = picture;
  const drawn = { all: whole, scale: 1 };
  const beside = { all: base.total, scale: base.total > 0 ? base.measured / base.total : 1 };
  const text = (weighs, side) => `${percent(weighs, side.all)} (${weight(weighs * side.scale, unit)})`;
  const row = (label, here, there) => {
    if (!Number.isFinite(here) || !Number.isFinite(there)) return null;
    const [inBase, inOther] = base.reversed
      ? [
          [here, drawn],
          [there, beside],
        ]
      : [
          [there, beside],
          [here, drawn],
        ];
    return [label, text(inBase[0], inBase[1]), text(inOther[0], inOther[1]), changed([inBase[0], inBase[1]], [inOther[0], inOther[1]], unit)];
  };
  return [
    row('Total', picture.total[node], base.totals[node]),
    row('Self', picture.self[node], base.self[node]),
    base.evidence[node] ? [base.texts[base.evidence[node]], '', '', ''] : null,
  ].filter(Boolean);
}

/** If normalized, both totals are equal, and the change of the share is relevant. */
function changed([before, { all: allBefore }], [now, { all: allNow }], unit) {
  if (allBefore !== allNow) return signed(weight(Math.abs(now - before), unit), now - before);
  const points = allNow > 0 ? (100 * (now - before)) / allNow : 0;
  return signed(`${Math.abs(points).toFixed(2)} points`, Math.abs(points) < 0.005 ? 0 : points);
}

/** One sentence on a node, for the live region. */
export function sentence(picture, node, zoomed) {
  const { name, origin, rows } = facts(picture, node, zoomed);
  const children = picture.children(node);
  const lines = rows.map(([label, ...values]) =>
    picture.base
      ? `${label.toLowerCase()} in the base ${values[0]}, in the other ${values[1]}, ${values[2]}`
      : `${label.toLowerCase()} ${values.filter(Boolean).join(', ')}`,
  );
  return [
    short(name, 120),
    origin,
    ...lines,
    `level ${picture.depth[node] + 1}`,
    children === 1 ? '1 frame inside' : children ? `${children} frames inside` : 'no frames inside',
  ]
    .filter(Boolean)
    .join('. ');
}
