// The page of a target during a check: shows its progress, and reloads when it is done. Without this module a meta
// refresh reloads the page.

import { getJSON } from './http.js';

const FIRST_MS = 400;
const SLOWEST_MS = 3000;

const place = document.querySelector('[data-check]');
const status = document.querySelector('[data-check-status]');
let address = place.dataset.check;
let delay = FIRST_MS;

async function ask() {
  try {
    const answer = await getJSON(address);
    if (answer.final) {
      location.replace(answer.url);
      return;
    }
    address = address.replace(/[^/]*$/, answer.id);
    if (answer.mark !== place.dataset.mark) {
      place.innerHTML = answer.html;
      place.dataset.mark = answer.mark;
      status.textContent = answer.text;
      delay = FIRST_MS;
    }
    // After a reload, the page continues with the latest check.
    history.replaceState(null, '', answer.url);
  } catch (error) {
    status.textContent = error.message;
    if (error.status >= 400 && error.status < 500) return;
  }
  delay = Math.min(SLOWEST_MS, delay * 1.4);
  setTimeout(ask, delay);
}

setTimeout(ask, delay);
