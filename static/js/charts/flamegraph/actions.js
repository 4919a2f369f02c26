// The actions on a frame of a flame graph.

import { copyText } from '../../copy.js';
import { getJSON } from '../../http.js';
import { describedAt } from './describe.js';
import { exactly, isShortened } from './format.js';
import { link } from './state.js';

const LONGEST_SEARCH = 900;

/**
 * What the context menu offers on a node.
 * @param panel the Panel with the node
 * @param {number} node
 * @param {import('./state.js').State} state of the page
 * @param {boolean} canSearch whether the page has a search
 * @returns {import('./menu.js').Entry[]}
 */
export function listActions(panel, node, state, canSearch) {
  const { picture, zoomed } = panel.view;
  const name = picture.name(node);
  const pattern = exactly(name);
  const none = picture.functionId(node) < 0;
  const { sandwich, hotspots, code } = panel.root.dataset;
  const or = (word) => (state.get(word) ? `${state.get(word)}|${pattern}` : pattern);
  const change = (changes) => () => state.change(changes);
  /** @type {import('./menu.js').Entry[]} */
  const list = [
    { text: 'Zoom to this frame', action: () => panel.zoomTo(picture.ids[node]), disabled: node === zoomed },
    { text: 'Show the whole graph', action: () => panel.zoomTo(null), disabled: picture.depth[zoomed] === 0 },
    null,
    { text: 'Focus: only stacks with this function', action: change({ focus: [...new Set([...state.all('focus'), pattern])] }), disabled: none },
    { text: 'Ignore: drop stacks with this function', action: change({ ignore: or('ignore') }), disabled: none },
    { text: "Hide this function's frames", action: change({ hide: or('hide') }), disabled: none },
    { text: 'Show from: start stacks at this function', action: change({ 'show-from': pattern }), disabled: none },
    {
      text: 'Collapse recursion',
      action: change({ recursion: !state.flag('recursion') }),
      checked: state.flag('recursion'),
    },
    null,
  ];
  const id = String(picture.functionId(node));
  if (sandwich) {
    const words = state.selection();
    for (const word of ['invert', 'focus']) words.delete(word);
    // Only digits would be interpreted as an id.
    words.set('function', isShortened(name) || /^\d*$/.test(name) ? id : name);
    list.push({ text: 'Callers and callees', href: link(sandwich, words), disabled: none });
  }
  if (code) {
    const words = state.selection();
    words.set('function', isShortened(name) || /^\d*$/.test(name) ? id : name);
    list.push({ text: 'Source and assembly', href: link(code, words), disabled: none });
  }
  if (hotspots) {
    const words = state.selection();
    words.set('search', name.split('…', 1)[0].slice(0, LONGEST_SEARCH));
    list.push({ text: 'Show in hotspots', href: link(hotspots, words), disabled: none });
  }
  if (canSearch) list.push({ text: 'Search for this function', action: change({ q: pattern }), disabled: none });
  list.push({ text: 'Copy name', action: () => copyName(panel, name, node) });
  return list;
}

/** The full name, even if the picture has a shortened one. */
async function copyName(panel, name, node) {
  const about = describedAt(panel.root, panel.picture, node);
  if (!about || !isShortened(name)) await copyText(name);
  else {
    try {
      await copyText((await getJSON(about)).name);
    } catch (error) {
      panel.say(error.message);
      return;
    }
  }
  panel.say('Copied.');
}
