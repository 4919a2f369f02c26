// Small enhancements: selects that submit their form, menus that close, times in the local time zone.

/** @type {NodeListOf<HTMLSelectElement>} */
const submitting = document.querySelectorAll('[data-submit-on-change]');
for (const control of submitting) {
  control.addEventListener('change', () => control.form?.requestSubmit());
}

// The submit button is only needed without scripts.
for (const button of document.querySelectorAll('[data-without-scripts]')) button.hidden = true;

// Omit empty fields from the URL.
for (const form of document.querySelectorAll('form[data-drop-empty]')) {
  form.addEventListener('formdata', (/** @type {FormDataEvent} */ event) => {
    for (const [name, value] of [...event.formData.entries()]) {
      if (value === '') event.formData.delete(name);
    }
  });
}

/** @returns {NodeListOf<HTMLDetailsElement>} */
function openMenus() {
  return document.querySelectorAll('details.menu[open]');
}

document.addEventListener('click', (event) => {
  for (const menu of openMenus()) {
    if (!menu.contains(/** @type {Node} */ (event.target))) menu.open = false;
  }
});

document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  for (const menu of openMenus()) {
    menu.open = false;
    menu.querySelector('summary')?.focus();
  }
});

// Two results can be compared; fewer lead to a page that asks for the rest.
/** @type {HTMLFormElement | null} */
const compare = document.querySelector('form[data-compare]');
if (compare) {
  const button = compare.querySelector('button');
  /** @type {NodeListOf<HTMLInputElement>} */
  const inputs = document.querySelectorAll(`input[form="${compare.id}"]`);
  const boxes = [...inputs];
  const count = () => {
    const ticked = boxes.filter((box) => box.checked).length;
    button.disabled = ticked > 2;
    button.textContent = ticked === 0 ? 'Compare' : `Compare ${ticked} of 2`;
  };
  for (const box of boxes) box.addEventListener('change', count);
  count();
}

const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** Show every <time data-local> below `root` in the reader's time zone; the server writes UTC. */
export function localTimes(root) {
  for (const element of root.querySelectorAll('time[data-local]')) {
    const date = new Date(element.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    element.title = element.textContent.trim();
    element.textContent = format.format(date);
    delete element.dataset.local;
  }
}

localTimes(document);
