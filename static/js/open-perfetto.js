// Opens Perfetto's UI in a new window and sends it the trace, by the documented protocol ("Deep
// linking to the Perfetto UI"): PING until it answers PONG, then one message with the bytes.

const panel = document.querySelector('[data-perfetto]');
const button = panel.querySelector('[data-open]');
const status = panel.querySelector('[data-status]');
const failure = panel.querySelector('[data-failure]');
const { site, origin, source, title, file } = panel.dataset;
const PING_MS = 100;
const PATIENCE_MS = 20_000;

let running = null;

function size(bytes) {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)}\u00a0kB` : `${(bytes / 1e6).toFixed(1)}\u00a0MB`;
}

function fail(message) {
  failure.textContent = message;
  failure.hidden = message === '';
}

/** The bytes of the trace; `seen` is called with the number received so far. */
async function fetched(seen, signal) {
  const response = await fetch(source, { headers: { Accept: 'application/json' }, signal });
  if (!response.ok) {
    const content = await response.json().catch(() => null);
    throw new Error(content?.error ?? `The server answered with status ${response.status}. Reload this page.`);
  }
  const parts = [];
  let total = 0;
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    total += value.length;
    seen(total);
  }
  return new Blob(parts).arrayBuffer();
}

/** Resolves when the window is ready. */
function answered(handle, signal) {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const ends = [];
    const end = (how, what) => {
      for (const one of ends) one();
      how(what);
    };
    const listen = (event) => {
      if (event.source === handle && event.origin === origin && event.data === 'PONG') {
        fail('');
        end(resolve);
      }
    };
    const timer = setInterval(() => {
      if (handle.closed) {
        end(reject, new Error(`The window was closed before it received the trace, or ${site} cuts itself off from other `
          + 'pages (Cross-Origin-Opener-Policy). Open it again, or open the trace manually as described below.'));
        return;
      }
      // Not secret, and before the page is loaded its origin differs.
      handle.postMessage('PING', '*');
      if (performance.now() - began > PATIENCE_MS && failure.hidden) {
        fail(`${site} does not answer yet. Check the network in its window. Without a network, set `
          + 'PERFLOOM_PERFETTO_URL to your own Perfetto, or open the trace manually as described below.');
      }
    }, PING_MS);
    window.addEventListener('message', listen);
    ends.push(() => clearInterval(timer), () => window.removeEventListener('message', listen));
    signal.addEventListener('abort', () => end(reject, new DOMException('', 'AbortError')), { once: true });
  });
}

async function open() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  fail('');
  const handle = window.open(site);
  if (!handle) {
    fail('The browser blocked the new window. Allow pop-ups of this page (look at the address bar), then press the '
      + 'button again; or open the trace manually as described below.');
    return;
  }
  status.textContent = 'Waiting for Perfetto…';
  try {
    let ready = false;
    const [buffer] = await Promise.all([
      fetched((bytes) => { if (!ready) status.textContent = `The trace is being written: ${size(bytes)} so far…`; }, signal),
      answered(handle, signal).then(() => { ready = true; }),
    ]);
    const bytes = buffer.byteLength;
    handle.postMessage({ perfetto: { buffer, title, fileName: file, downloadable: true } }, origin, [buffer]);
    status.textContent = `Sent: ${size(bytes)}. This page can be closed.`;
  } catch (error) {
    if (error.name === 'AbortError') return;
    running.abort();
    status.textContent = '';
    fail(error instanceof TypeError
      ? 'No response from the server. Check that Perfloom is running, then try again.' : error.message);
  }
}

button.hidden = false;
button.addEventListener('click', open);
