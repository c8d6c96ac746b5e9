// Nodes that are played: answers that get lost, refusals and streams, for entries that ask over HTTP.
import assert from 'node:assert/strict';

export const FAST = { retryMinMs: 1, retryMaxMs: 4 };

export const json = (body, status = 200, headers = {}) => new Response(JSON.stringify(body), { status, headers });
export const problem = (status, code, more = {}, headers = {}) => json({ status, code, detail: `it is ${code}`, applied: 'no', ...more }, status, headers);
export const broken = () => {
  throw new TypeError('fetch failed');
};
/** Never answers; ends when it is aborted. */
export const silent = ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

/** Answers one request after the other; `asked` has what was asked. */
export function play(...answers) {
  const asked = [];
  const fetch = async (url, init) => {
    asked.push({ ...init, url, body: init.body && JSON.parse(init.body) });
    assert.ok(answers.length > 0, 'it asks once too often');
    return answers.shift()(init);
  };
  return { asked, fetch };
}

/** What a promise is rejected with. */
export const refusal = (promise) => promise.then(() => assert.fail('it was not refused'), (error) => error);

/** A stream of events that comes in such pieces, and then ends, or stays open. */
export const stream = (pieces, open = false) => ({ signal }) => new Response(new ReadableStream({
  start: (body) => {
    for (const piece of pieces) body.enqueue(Buffer.from(piece));
    if (open) signal.addEventListener('abort', () => body.error(signal.reason));
    else body.close();
  },
}));
