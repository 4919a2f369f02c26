// Updates the list of jobs while one of them is running.

import './ticks.js';
import { localTimes } from './controls.js';

const EVERY_MS = 3000;

async function refresh() {
  const list = document.querySelector('[data-job-list]');
  if (!list?.querySelector('[data-ticks]')) return;
  if (!document.hidden && !list.contains(document.activeElement)) {
    try {
      const response = await fetch(location.href, { credentials: 'same-origin', headers: { Accept: 'text/html' } });
      const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
      const content = fresh.querySelector('[data-job-list]');
      if (response.ok && content) {
        list.innerHTML = content.innerHTML;
        localTimes(list);
      }
    } catch {
      // The server is unreachable, maybe only temporarily.
    }
  }
  setTimeout(refresh, EVERY_MS);
}

setTimeout(refresh, EVERY_MS);
