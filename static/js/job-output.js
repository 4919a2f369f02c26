// The output of a program as it arrives: text only, with carriage returns applied, limited to what a browser can
// handle.

const KEPT = 400_000;

/** `before` and `text` as in a terminal: a carriage return restarts its line. */
export function appended(before, text) {
  if (!text.includes('\r') && !before.endsWith('\r')) return before + text;
  const start = before.lastIndexOf('\n') + 1;
  const lines = (before.slice(start) + text).split('\n');
  const last = lines.length - 1;
  return before.slice(0, start) + lines.map((line, number) => {
    // An unfinished line keeps its carriage return, so that the following text overwrites it.
    const whole = line.endsWith('\r') ? line.slice(0, -1) : line;
    const shown = whole.slice(whole.lastIndexOf('\r') + 1);
    return number === last && line.endsWith('\r') ? `${shown}\r` : shown;
  }).join('\n');
}

export class OutputView {
  constructor(section) {
    this.section = section;
    this.node = section.querySelector('[data-output-text]');
    this.text = this.node.textContent;
    this.next = Number(section.dataset.offset);
    this.mark = section.dataset.mark;
  }

  /** Show the output of a response; returns whether there was any. */
  take(answer) {
    const anything = answer.reset || answer.next !== this.next;
    this.next = answer.next;
    this.mark = answer.mark;
    this.part('size').textContent = answer.size_text;
    this.part('empty').hidden = answer.size > 0;
    this.part('download').hidden = answer.size === 0;
    if (!anything) return false;
    if (answer.reset) {
      this.text = '';
      this.part('left').textContent = answer.offset ? 'the end of ' : '';
    }
    this.text = appended(this.text, answer.text);
    if (this.text.length > KEPT) {
      this.text = this.text.slice(this.text.indexOf('\n', this.text.length - KEPT * 0.75) + 1);
      this.part('left').textContent = 'the end of ';
    }
    this.node.textContent = this.text.replace(/\r$/, '');
    return true;
  }

  part(name) {
    return this.section.querySelector(`[data-output-${name}]`);
  }
}
