// Buttons with data-copy copy that text to the clipboard. Also for nodes added later (`addCopyButtons`).

export async function copyText(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Not allowed here; the fallback below may be.
    }
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'visually-hidden';
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}

export function addCopyButtons(root) {
  for (const button of root.querySelectorAll('[data-copy]')) button.hidden = false;
}

document.addEventListener('click', async (event) => {
  const button = event.target instanceof Element ? event.target.closest('[data-copy]') : null;
  if (!button) return;
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  button.textContent = (await copyText(button.dataset.copy)) ? 'Copied' : 'Select and copy by hand';
  setTimeout(() => { button.textContent = label; }, 1500);
});

addCopyButtons(document);
