// The colors of the timeline: those of flame graphs for boxes, and those of the page for the rest.

import { Palette } from '../flamegraph/palette.js';

const OF_PAGE = {
  accent: '--accent',
  accentSoft: '--accent-soft',
  onAccent: '--on-accent',
  quiet: '--text-3',
  line: '--line',
  raised: '--raised',
  surface: '--surface',
  strong: '--text',
  veil: '--timeline-veil',
  series: '--timeline-series',
  device: '--timeline-device',
  other: '--timeline-flow',
};

export class TimelinePalette extends Palette {
  accent = '';
  accentSoft = '';
  onAccent = '';
  quiet = '';
  line = '';
  raised = '';
  surface = '';
  strong = '';
  veil = '';
  series = '';
  device = '';
  other = '';

  /** @param {Element} element has the custom properties */
  constructor(element) {
    super(element);
    const style = getComputedStyle(element);
    for (const [name, property] of Object.entries(OF_PAGE)) {
      this[/** @type {keyof typeof OF_PAGE} */ (name)] = style.getPropertyValue(property).trim();
    }
  }
}
