// Updates a list of jobs while one of them is running. With data-job-list="reload", the page is loaded again at the end.

import './ticks.js';
import { localTimes } from './controls.js';

const EVERY_MS = 3000;

async function refresh() {
  const list = document.querySelector('[data-job-list]');
  if (!list?.querySelector('[data-ticks]')) return;
  if (!document.hidden && !list.contains(document.activeElement)) {
    try {
      const response = await fetch(location.href, { credentials: 'same-origin', headers: { Accept: 'text/html' } });
      if (response.redirected) {
        location.assign(response.url);
        return;
      }
      const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
      const content = fresh.querySelector('[data-job-list]');
      if (response.ok && content) {
        list.innerHTML = content.innerHTML;
        localTimes(list);
        if (list.dataset.jobList === 'reload' && !list.querySelector('[data-ticks]')) location.reload();
      }
    } catch {
      // The server is unreachable, maybe only temporarily.
    }
  }
  setTimeout(refresh, EVERY_MS);
}

setTimeout(refresh, EVERY_MS);
