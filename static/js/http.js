// Requests to our own server, with what it asks of a script.

export class RequestFailed extends Error {
  constructor(status, message, field) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

export function csrfToken() {
  return document.querySelector('meta[name="csrf-token"]')?.content ?? '';
}

/** JSON of `url`. Throws RequestFailed with the server's own sentence, or DOMException AbortError. */
export async function getJSON(url, { signal } = {}) {
  return read(await reach(url, { headers: { Accept: 'application/json' }, signal }));
}

/** POST `body` (FormData, URLSearchParams or a plain object, sent as JSON) and read the JSON answer. */
export async function postJSON(url, body, { signal } = {}) {
  const headers = { Accept: 'application/json', 'X-CSRF-Token': csrfToken() };
  let data = body;
  if (!(body instanceof FormData) && !(body instanceof URLSearchParams)) {
    headers['Content-Type'] = 'application/json';
    data = JSON.stringify(body ?? {});
  }
  return read(await reach(url, { method: 'POST', headers, body: data, signal }));
}

async function reach(url, options) {
  try {
    return await fetch(url, { credentials: 'same-origin', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new RequestFailed(0, 'The server does not answer. Look whether Perfloom still runs, then try again.');
  }
}

async function read(response) {
  let content = null;
  try {
    content = await response.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
  }
  if (!response.ok || content === null) {
    const message = content?.error ?? `The server answered with status ${response.status}. Reload the page.`;
    throw new RequestFailed(response.status, message, content?.field ?? null);
  }
  return content;
}
