// The source of pictures: the server, or cached responses.

import { getJSON } from '../../http.js';
import { Picture } from './model.js';

const KEPT = 24;

/** Pictures by URL; recent ones are cached, so that going back is instant. */
export class Source {
  #kept = new Map();
  #part;

  /** @param part the key of the answer that holds the picture, or null if it is the response */
  constructor(part = null) {
    this.#part = part;
  }

  /** Throws what getJSON throws. */
  async get(url, signal) {
    let picture = this.#kept.get(url);
    if (picture) this.#kept.delete(url);
    else {
      const body = await getJSON(url, { signal });
      picture = new Picture(this.#part ? body[this.#part] : body);
    }
    this.#kept.set(url, picture);
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value);
    return picture;
  }
}
