// The values of counters: the scale of their tracks, and their text.

import { weight } from '../flamegraph/format.js';

/** The values at the bottom and the top of a track. */
export function scaleOf(track) {
  const low = Math.min(0, track.low ?? 0);
  return { low, high: Math.max(track.high ?? 0, low) };
}

/** A value of a counter with its unit. */
export function counterValue(track, number) {
  if (Number.isNaN(number)) return '–';
  const unit = track.unit === 'bytes' || track.unit === 'ns' ? track.unit : '';
  const text = unit || Number.isInteger(number) || Math.abs(number) >= 1000 ? weight(number, unit) : String(Number(number.toPrecision(3)));
  return `${text}${track.unit === 'percent' ? ' %' : ''}`;
}
