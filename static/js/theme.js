// The colour switch without loading the page again. Says `perfloom:theme` on the document, for canvases to redraw.

/** @type {HTMLFormElement | null} */
const form = document.querySelector('[data-theme-form]');

form?.addEventListener('submit', (event) => {
  const theme = /** @type {HTMLButtonElement | null} */ (event.submitter)?.value;
  if (!theme) return;
  event.preventDefault();
  const secure = location.protocol === 'https:' ? '; Secure' : '';
  document.cookie = `perfloom-theme=${theme}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  document.documentElement.dataset.theme = theme;
  /** @type {HTMLMetaElement} */
  const scheme = document.querySelector('meta[name="color-scheme"]');
  scheme.content = theme === 'system' ? 'light dark' : theme;
  for (const button of form.querySelectorAll('button')) {
    button.setAttribute('aria-pressed', String(button.value === theme));
  }
  document.dispatchEvent(new CustomEvent('perfloom:theme', { detail: theme }));
});

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  document.dispatchEvent(new CustomEvent('perfloom:theme', { detail: 'system' }));
});
