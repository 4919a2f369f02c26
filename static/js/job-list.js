// Updates a list of jobs while one of them is running. With data-job-list="reload", the page is loaded again at the end.

import './ticks.js';
import { localTimes } from './controls.js';

const EVERY_MS = 3000;

async function refresh() {
  const list = document.querySelector('[data-job-list]');
  if (!list?.querySelector('[data-ticks]')) return;
  const reloads = list.dataset.jobList === 'reload';
  // A link that has the focus is not replaced. The end is not missed because of it.
  const isFree = () => !list.contains(document.activeElement);
  if (!document.hidden && (reloads || isFree())) {
    try {
      const response = await fetch(location.href, { credentials: 'same-origin', headers: { Accept: 'text/html' } });
      if (response.redirected) {
        location.assign(response.url);
        return;
      }
      const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
      const content = fresh.querySelector('[data-job-list]');
      if (response.status === 404 || (response.ok && content && reloads && !content.querySelector('[data-ticks]'))) {
        location.reload();
        return;
      }
      if (response.ok && content && isFree()) {
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
