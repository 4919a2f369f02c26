// "Running now" on the page of results: updates itself; reports ended jobs without moving the list.

import './ticks.js';
import { getJSON } from './http.js';

const EVERY_MS = 2000;
const section = document.querySelector('[data-running]');
let known = section?.dataset.running ?? '';

async function refresh() {
  if (!document.hidden) {
    try {
      const answer = await getJSON('/jobs/running');
      const rows = section.querySelector('[data-running-rows]');
      if (!rows.contains(document.activeElement)) rows.innerHTML = answer.html;
      const gone = known.split(' ').some((id) => id && !answer.ids.includes(id));
      if (gone) section.querySelector('[data-running-done]').hidden = false;
      known = answer.ids.join(' ');
    } catch {
      // The server is unreachable, maybe only temporarily.
    }
  }
  setTimeout(refresh, EVERY_MS);
}

if (section) setTimeout(refresh, EVERY_MS);
