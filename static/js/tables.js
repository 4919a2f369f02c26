// Tables: the column chooser, and what depends on whether a table is wider than its panel.

// One short word in the URL instead of one for each check box.
/** @type {NodeListOf<HTMLFormElement>} */
const choosers = document.querySelectorAll('form[data-join]');
for (const form of choosers) {
  form.addEventListener('formdata', (/** @type {FormDataEvent} */ event) => {
    const name = form.dataset.join ?? '';
    event.formData.set(name, event.formData.getAll(name).join('.'));
  });
}

/**
 * `data-fits`: nothing has to be scrolled, so that the headings can follow the page. `data-scrolled`: columns are
 * under the first one, which then has a shadow.
 * @param {HTMLElement} wrap the element that scrolls
 * @param {Element} table
 */
function update(wrap, table) {
  wrap.toggleAttribute('data-fits', table.scrollWidth <= wrap.clientWidth);
  wrap.toggleAttribute('data-scrolled', wrap.scrollLeft > 0);
}

/** @type {NodeListOf<HTMLElement>} */
const wraps = document.querySelectorAll('.table-wrap--sheet');
for (const wrap of wraps) {
  const table = wrap.querySelector('table');
  if (!table) continue;
  const changed = () => update(wrap, table);
  new ResizeObserver(changed).observe(wrap);
  wrap.addEventListener('scroll', changed, { passive: true });
}
