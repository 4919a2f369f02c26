// Small enhancements: selects that submit their form, menus that close, times in the local time zone.

document.addEventListener('change', ({ target }) => {
  const control = /** @type {HTMLSelectElement | HTMLInputElement} */ (target);
  if (control.matches('[data-submit-on-change]')) control.form?.requestSubmit();
});

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

/**
 * Adapt the controls below `root` to a browser with scripts.
 * @param {ParentNode} root
 */
export function enhance(root) {
  // The submit button is only needed without scripts.
  for (const button of root.querySelectorAll('[data-without-scripts]')) button.hidden = true;
  // Omit empty fields from the URL.
  for (const form of root.querySelectorAll('form[data-drop-empty]')) {
    form.addEventListener('formdata', (/** @type {FormDataEvent} */ event) => {
      for (const [name, value] of [...event.formData.entries()]) {
        if (value === '') event.formData.delete(name);
      }
    });
  }
  localTimes(root);
}

enhance(document);
