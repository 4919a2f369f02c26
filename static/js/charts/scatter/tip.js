// The tooltip of a dot, next to the pointer. Its text is in the table below the scatter, too.

const DISTANCE = 14;

export class DotTip {
  #box = document.createElement('div');

  constructor() {
    this.#box.className = 'flame-tip';
    this.#box.hidden = true;
    this.#box.setAttribute('aria-hidden', 'true');
    document.body.append(this.#box);
  }

  hide() {
    this.#box.hidden = true;
  }

  /**
   * @param {string} text a line with the name, then others
   * @param {number} x in the window
   * @param {number} y the same
   */
  show(text, x, y) {
    const parts = text.split('\n').map((line, number) => {
      const part = document.createElement('p');
      part.className = number ? 'flame-tip__origin' : 'flame-tip__name';
      part.dir = 'auto';
      part.textContent = line;
      return part;
    });
    this.#box.replaceChildren(...parts);
    this.#box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.#box;
    const { clientWidth, clientHeight } = document.documentElement;
    const left = x + DISTANCE + width > clientWidth ? Math.max(4, x - DISTANCE - width) : x + DISTANCE;
    const top = y + DISTANCE + height > clientHeight ? Math.max(4, y - DISTANCE - height) : y + DISTANCE;
    this.#box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
}
