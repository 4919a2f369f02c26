// Which tracks are pinned, folded, and shown as rows of call stacks: parameters of the address.

import { Tracks } from './tracks.js';

const NONE = '-';
/** The value of `stacks` for all tracks; `fold` then has those without rows of stacks. */
const ALL = 'all';

export class TrackState {
  #state;
  #tracks;

  /**
   * @param {import('../flamegraph/state.js').State} state of the page
   * @param {Tracks} tracks
   */
  constructor(state, tracks) {
    this.#state = state;
    this.#tracks = tracks;
  }

  /** The keys of the pinned tracks. */
  get pinned() {
    const words = this.#state.all('pin').filter(Boolean);
    return words.length ? words.filter((key) => key !== NONE) : this.#tracks.usuallyPinned();
  }

  /** The keys of the folded tracks. */
  get folded() {
    return new Set(this.#state.all('fold'));
  }

  /** Tells of a track whether it shows the rows of its call stacks. */
  get isStacked() {
    const keys = new Set(this.#state.all('stacks'));
    const { folded } = this;
    return (/** @type {{key: string}} */ track) => (keys.has(ALL) ? !folded.has(track.key) : keys.has(track.key));
  }

  /** Pin or unpin a track. */
  pin(track) {
    // No pinned tracks differs from the default.
    const keys = toggled(track.key, this.pinned);
    this.#state.change({ pin: keys.length ? keys : NONE });
  }

  /** Fold or unfold a track. */
  fold(track) {
    const stacks = this.#state.all('stacks');
    if (Tracks.stacks(track) && !stacks.includes(ALL)) this.#state.change({ stacks: toggled(track.key, stacks) });
    else this.#state.change({ fold: toggled(track.key, this.folded) });
  }

  foldAll() {
    this.#state.change({ fold: this.#tracks.list.filter(Tracks.folds).map((track) => track.key), stacks: '' });
  }

  unfoldAll() {
    this.#state.change({ fold: '', stacks: this.#tracks.list.some(Tracks.stacks) ? ALL : '' });
  }
}

/**
 * @param {string} key
 * @param {Iterable<string>} present
 */
function toggled(key, present) {
  const keys = new Set(present);
  if (!keys.delete(key)) keys.add(key);
  return [...keys];
}
