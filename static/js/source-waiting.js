// The Source page while its machine code is being read or changed: reloads the page when that is over. Without this module
// a meta refresh reloads it.

import { getJSON } from './http.js';

const FIRST_MS = 500;
const SLOWEST_MS = 5000;

const note = document.querySelector('[data-waiting]');
let delay = FIRST_MS;

async function ask() {
  if (!document.hidden) {
    try {
      const answer = await getJSON(note.dataset.waiting);
      // Files that were chosen for the next upload would be lost.
      const files = document.querySelector('#f-files');
      const chosen = files instanceof HTMLInputElement && files.files?.length;
      if (!answer.waiting && !chosen) {
        location.reload();
        return;
      }
    } catch (error) {
      if (error.status >= 400 && error.status < 500) return;
    }
  }
  delay = Math.min(SLOWEST_MS, delay * 1.4);
  setTimeout(ask, delay);
}

if (note) setTimeout(ask, delay);
