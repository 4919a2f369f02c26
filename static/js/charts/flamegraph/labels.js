// Labels that fit. A name is shortened to its frame: to its short name, then at its end; without room for three
// characters it is omitted. Widths of ASCII characters are added, which is exact without kerning; other text is measured.

const FEWEST = 3;
const LONGEST = 600;
const ASCII = /^[\x20-\x7e]*…?$/;
const ELLIPSIS = '…';
// Control characters and direction characters.
// eslint-disable-next-line no-control-regex
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** Whether a label has only ASCII characters and an ellipsis. */
export function isAscii(label) {
  return ASCII.test(label);
}

/** A name without characters that cannot be displayed in a line. */
export function plain(name) {
  return name.replace(INVISIBLE, '\ufffd');
}

export class Labels {
  #context;
  #widths = new Float64Array(128);
  #names = [];
  #short = [];
  #known = [];
  #knownShort = [];
  #ellipsis = 0;

  /** @param context a 2D context whose font is set; its text properties are set here */
  constructor(context) {
    this.#context = context;
    context.fontKerning = 'none';
    context.textRendering = 'optimizeSpeed';
    for (let code = 32; code < 127; code++) {
      this.#widths[code] = context.measureText(String.fromCharCode(code)).width;
    }
    this.#ellipsis = context.measureText(ELLIPSIS).width;
    this.narrowest = FEWEST * Math.min(this.#widths[105], this.#widths[108]);
  }

  /** Set the names for `fit`, and their short ones if they differ, by index. */
  use(names, short = []) {
    if (names === this.#names) return;
    this.#names = names;
    this.#short = short;
    this.#known = new Array(names.length);
    this.#knownShort = new Array(names.length);
  }

  /** As much of name `index` as fits in `room` pixels; empty if that is too short. */
  fit(index, room) {
    if (room < this.narrowest) return '';
    let name = (this.#known[index] ??= this.#measure(this.#names[index]));
    if (name.full <= room) return name.text;
    if (this.#short[index]) {
      name = this.#knownShort[index] ??= this.#measure(this.#short[index]);
      if (name.full <= room) return name.text;
    }
    const inside = room - this.#ellipsis;
    const { sums } = name;
    let low = 0;
    let high = sums.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (sums[middle] <= inside) low = middle;
      else high = middle - 1;
    }
    if (low < FEWEST - 1) return '';
    if (name.cut !== low) {
      name.cut = low;
      name.shown = name.text.slice(0, name.ends ? name.ends[low - 1] : low).replace(/[\s…]+$/, '') + ELLIPSIS;
    }
    return name.shown;
  }

  #measure(raw) {
    const start = raw.slice(0, LONGEST);
    const ascii = ASCII.test(start) && !start.includes(ELLIPSIS);
    const longest = ascii ? LONGEST : LONGEST / 3;
    const text = plain(raw.slice(0, longest));
    // Grapheme clusters (a letter with its accent, a compound emoji) are not split.
    const ends = ascii ? null : Array.from(boundaries(text));
    const count = ends ? ends.length : text.length;
    const sums = new Float64Array(count + 1);
    for (let i = 0; i < count; i++) {
      const width = ends
        ? this.#context.measureText(text.slice(0, ends[i])).width
        : sums[i] + this.#widths[text.charCodeAt(i)];
      sums[i + 1] = Math.max(sums[i], width);
    }
    const full = raw.length <= longest ? sums[count] : Infinity;
    return { text, ends, sums, full, cut: -1, shown: '' };
  }
}

const segmenter = typeof Intl.Segmenter === 'function' ? new Intl.Segmenter() : null;

/** The ends of grapheme clusters. */
function* boundaries(text) {
  let end = 0;
  for (const part of segmenter ? segmenter.segment(text) : text) {
    end += (part.segment ?? part).length;
    yield end;
  }
}
