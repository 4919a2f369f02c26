// The theme switch without reloading the page. Dispatches `perfloom:theme` on the document, for canvases to redraw.

const SYSTEM = '(prefers-color-scheme: dark)';
/**
 * The media query of css/dark.css by theme; as in templates/base.html.
 * @type {Record<string, string>}
 */
const DARK_MEDIA = { light: 'not all', dark: 'all', system: SYSTEM };

/** @type {HTMLFormElement | null} */
const form = document.querySelector('[data-theme-form]');

form?.addEventListener('submit', (event) => {
  const theme = /** @type {HTMLButtonElement | null} */ (event.submitter)?.value;
  if (!theme) return;
  event.preventDefault();
  const secure = location.protocol === 'https:' ? '; Secure' : '';
  document.cookie = `perfloom-theme=${theme}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  /** @type {HTMLLinkElement} */
  const dark = document.querySelector('link[data-dark]');
  dark.media = DARK_MEDIA[theme];
  document.documentElement.dataset.theme = theme;
  /** @type {HTMLMetaElement} */
  const scheme = document.querySelector('meta[name="color-scheme"]');
  scheme.content = theme === 'system' ? 'light dark' : theme;
  for (const button of form.querySelectorAll('button')) {
    button.setAttribute('aria-pressed', String(button.value === theme));
  }
  document.dispatchEvent(new CustomEvent('perfloom:theme', { detail: theme }));
});

matchMedia(SYSTEM).addEventListener('change', () => {
  document.dispatchEvent(new CustomEvent('perfloom:theme', { detail: 'system' }));
});
