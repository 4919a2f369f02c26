// A context menu: by mouse, long touch and keyboard.

/** @typedef {{text: string, key?: string, action?: () => unknown, href?: string, checked?: boolean, disabled?: boolean} | null} Entry */

export class Menu {
  #box = document.createElement('ul');
  #items = [];
  #back = null;
  #typed = '';
  #typedAt = 0;
  #scrolled = 0;

  constructor() {
    this.#box.className = 'flame-menu';
    this.#box.setAttribute('role', 'menu');
    this.#box.hidden = true;
    this.#box.addEventListener('keydown', (event) => this.#key(event));
    this.#box.addEventListener('contextmenu', (event) => event.preventDefault());
    document.body.append(this.#box);
    addEventListener('pointerdown', (event) => this.#box.contains(/** @type {Node} */ (event.target)) || this.close(false));
    addEventListener('blur', () => this.close(false));
    addEventListener('resize', () => this.close(false));
    addEventListener('scroll', () => Math.abs(scrollY - this.#scrolled) > 4 && this.close(false), { passive: true });
  }

  get open() {
    return !this.#box.hidden;
  }

  /**
   * @param label what the menu is about
   * @param entries [{text, key, action | href, checked, disabled}], null for a line between
   * @param place of the window; back: the element that gets the focus when the menu closes
   */
  show(label, entries, { x, y }, back) {
    this.#back = back;
    // The scroll event of bringing the frame into view may still arrive.
    this.#scrolled = scrollY;
    this.#box.setAttribute('aria-label', label);
    this.#items = [];
    this.#box.replaceChildren(...entries.map((entry) => (entry ? this.#item(entry) : separator())));
    this.#box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.#box;
    const left = Math.max(4, Math.min(x, document.documentElement.clientWidth - width - 4));
    const top = Math.max(4, Math.min(y, window.innerHeight - height - 4));
    this.#box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
    this.#items[0]?.focus({ preventScroll: true });
  }

  close(giveBack = true) {
    if (this.#box.hidden) return;
    this.#box.hidden = true;
    if (giveBack) this.#back?.focus({ preventScroll: true });
  }

  #item({ text, action, href, checked, disabled = false }) {
    const line = document.createElement('li');
    line.setAttribute('role', 'none');
    const item = document.createElement(href && !disabled ? 'a' : 'button');
    item.setAttribute('role', checked === undefined ? 'menuitem' : 'menuitemcheckbox');
    if (checked !== undefined) item.setAttribute('aria-checked', String(checked));
    if (disabled) item.setAttribute('aria-disabled', 'true');
    item.tabIndex = -1;
    item.className = 'flame-menu__item';
    item.textContent = text;
    if (item instanceof HTMLAnchorElement) item.href = href;
    else item.type = 'button';
    item.addEventListener('click', (event) => {
      if (disabled) return event.preventDefault();
      this.close();
      action?.();
    });
    item.addEventListener('pointermove', () => item.focus({ preventScroll: true }));
    this.#items.push(item);
    line.append(item);
    return line;
  }

  #key(event) {
    const at = this.#items.indexOf(document.activeElement);
    const count = this.#items.length;
    const go = (index) => this.#items[(index + count) % count]?.focus({ preventScroll: true });
    if (event.key === 'ArrowDown') go(at + 1);
    else if (event.key === 'ArrowUp') go(at < 0 ? count - 1 : at - 1);
    else if (event.key === 'Home') go(0);
    else if (event.key === 'End') go(count - 1);
    else if (event.key === 'Escape' || event.key === 'Tab') this.close();
    else if (event.key === ' ') /** @type {HTMLElement} */ (document.activeElement).click();
    else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) this.#type(event.key, at);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #type(key, at) {
    const now = performance.now();
    this.#typed = now - this.#typedAt < 700 ? this.#typed + key.toLowerCase() : key.toLowerCase();
    this.#typedAt = now;
    const from = this.#typed.length === 1 ? at + 1 : Math.max(0, at);
    const turned = [...this.#items.slice(from), ...this.#items.slice(0, from)];
    turned.find((item) => item.textContent.toLowerCase().startsWith(this.#typed))?.focus({ preventScroll: true });
  }
}

function separator() {
  const line = document.createElement('li');
  line.setAttribute('role', 'separator');
  line.className = 'flame-menu__line';
  return line;
}
