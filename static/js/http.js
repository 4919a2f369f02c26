// Requests to our server, with the required headers.

export class RequestFailed extends Error {
  /**
   * @param {number} status of HTTP; 0: no answer
   * @param {string} message
   * @param {string | null} field of the form that the message is about
   */
  constructor(status, message, field = null) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

export function csrfToken() {
  /** @type {HTMLMetaElement | null} */
  const meta = document.querySelector('meta[name="csrf-token"]');
  return meta?.content ?? '';
}

/**
 * JSON of `url`. Throws RequestFailed with the server's message, or DOMException AbortError.
 * @param {string} url
 * @param {{signal?: AbortSignal}} options
 * @returns {Promise<any>}
 */
export async function getJSON(url, { signal } = {}) {
  return read(await reach(url, { headers: { Accept: 'application/json' }, signal }));
}

/**
 * POST `body` (FormData, URLSearchParams or a plain object, sent as JSON) and read the JSON answer.
 * @param {string} url
 * @param {FormData | URLSearchParams | object | null} body
 * @param {{signal?: AbortSignal}} options
 * @returns {Promise<any>}
 */
export async function postJSON(url, body, { signal } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: 'application/json', 'X-CSRF-Token': csrfToken() };
  /** @type {any} */
  let data = body;
  if (!(body instanceof FormData) && !(body instanceof URLSearchParams)) {
    headers['Content-Type'] = 'application/json';
    data = JSON.stringify(body ?? {});
  }
  return read(await reach(url, { method: 'POST', headers, body: data, signal }));
}

/**
 * Whether a request was aborted by its page.
 * @param {unknown} error
 */
function isAbort(error) {
  return error instanceof Error && error.name === 'AbortError';
}

/**
 * @param {string} url
 * @param {RequestInit} options
 */
async function reach(url, options) {
  try {
    return await fetch(url, { credentials: 'same-origin', ...options });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new RequestFailed(0, 'No response from the server. Check that Perfloom is running, then try again.');
  }
}

/** @param {Response} response */
async function read(response) {
  let content = null;
  try {
    content = await response.json();
  } catch (error) {
    if (isAbort(error)) throw error;
  }
  if (!response.ok || content === null) {
    const message = content?.error ?? `The server answered with status ${response.status}. Reload the page.`;
    throw new RequestFailed(response.status, message, content?.field ?? null);
  }
  return content;
}
