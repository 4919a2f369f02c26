// Keys that work on every page. A page adds others by `onKey`, and documents them in its template block `keys`.

/** @type {Map<string, (event: KeyboardEvent) => void>} */
const handlers = new Map();
let prefix = '';
let prefixTimer = 0;

/**
 * Call `action(event)` for a key, or for two in a row ("g r"). Not called while text is being typed.
 * @param {string} keys
 * @param {(event: KeyboardEvent) => void} action
 */
export function onKey(keys, action) {
  handlers.set(keys, action);
}

/** @param {EventTarget | null} target */
export function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest('textarea, select')) return true;
  const input = target.closest('input');
  return input !== null && !['checkbox', 'radio', 'button', 'submit', 'file', 'range'].includes(input.type);
}

/** @param {string} id */
function openDialog(id) {
  const dialog = /** @type {HTMLDialogElement | null} */ (document.getElementById(id));
  if (dialog && !dialog.open) dialog.showModal();
}

document.addEventListener('keydown', (event) => {
  // Brackets are typed with AltGr on many keyboards, which some systems report as Ctrl and Alt.
  const isCommand = (event.ctrlKey || event.altKey) && !event.getModifierState('AltGraph');
  if (event.defaultPrevented || isCommand || event.metaKey || isTyping(event.target)) return;
  /** @type {HTMLDialogElement | null} */
  const open = document.querySelector('dialog[open]');
  if (open) {
    if (event.key === '?' && open.id === 'keys') open.close();
    return;
  }
  const action = handlers.get(prefix + event.key);
  clearTimeout(prefixTimer);
  const before = prefix;
  prefix = '';
  if (action) {
    event.preventDefault();
    action(event);
  } else if (before === '' && [...handlers.keys()].some((keys) => keys.startsWith(`${event.key} `))) {
    prefix = `${event.key} `;
    prefixTimer = setTimeout(() => { prefix = ''; }, 1200);
  }
});

onKey('?', () => openDialog('keys'));
onKey('/', () => {
  /** @type {HTMLInputElement | null} */
  const field = document.querySelector('[data-search]');
  field?.focus();
  field?.select();
});
for (const link of document.querySelectorAll('.top__nav a[data-key]')) onKey(`g ${link.dataset.key}`, () => link.click());
/** @returns {HTMLElement[]} */
const tabs = () => [...document.querySelectorAll('.tabs[data-numbered] > a')];
for (let digit = 1; digit <= 9; digit += 1) onKey(String(digit), () => tabs()[digit - 1]?.click());
for (const [key, step] of /** @type {[string, number][]} */ ([['[', -1], [']', 1]])) {
  onKey(key, () => {
    const all = tabs();
    all[all.findIndex((tab) => tab.ariaCurrent === 'page') + step]?.click();
  });
}

for (const button of document.querySelectorAll('[data-open]')) {
  button.hidden = false;
  button.addEventListener('click', () => openDialog(button.dataset.open ?? ''));
}
