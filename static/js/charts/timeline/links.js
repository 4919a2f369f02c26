// Links from details of the timeline to other pages of the result.

import { link } from '../flamegraph/state.js';
import { exactly } from '../flamegraph/format.js';
import { milliseconds } from './time.js';

/** Related pages. words: parameters of the selection. pages: URLs by name. */
export function linksOf(details, words, pages) {
  const found = [];
  const add = (page, text, more, without = []) => {
    const href = pages[page];
    if (!href) return;
    const all = new URLSearchParams(words);
    for (const word of without) all.delete(word);
    for (const [word, value] of Object.entries(more)) {
      // Stacks match every pattern of focus.
      if (word === 'focus' && !all.getAll(word).includes(value)) all.append(word, value);
      else if (word !== 'focus') all.set(word, value);
    }
    found.push({ text, href: link(href, all) });
  };
  if (details.what === 'samples') {
    const range = { event: details.event, 'start-ms': milliseconds(details.start_ns), 'end-ms': milliseconds(details.end_ns) };
    if (!details.thread) {
      add('flamegraph', 'Flame graph of this time', range);
      return found;
    }
    add('flamegraph', 'Flame graph of this time and thread', { ...range, thread: details.thread });
    const [rank, pid] = details.thread.split('/');
    if (pid !== '-') {
      add('flamegraph', 'Flame graph of this time and process', { ...range, process: `${rank}/${pid}` }, ['thread']);
    }
    return found;
  }
  const device = details.work !== null;
  if (device && details.work.kind !== 'memcpy' && details.work.kind !== 'memset') {
    add('kernels', 'All launches of this kernel', { search: details.name });
  } else if (['operator', 'annotation'].includes(details.kind)) {
    // Steps are one annotation there.
    add('operators', 'All calls of this', { search: details.name.replace(/#\d+$/, '') });
  }
  add('flamegraph', 'Flame graph of this time', {
    event: device ? 'device time' : 'host time',
    'start-ms': milliseconds(details.start_ns),
    'end-ms': milliseconds(details.start_ns + Math.max(details.duration_ns, 1)),
  });
  add('flamegraph', 'Stacks with this', { focus: exactly(details.name), event: device ? 'device time' : 'host time' });
  return found;
}
