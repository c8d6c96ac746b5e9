// What is decided of a request, and what the answer says of it: for the edge worker and for the server beside this file.
import { RequestError } from 'tallymesh/limits';

/**
 * Asks the mesh whether a client may make one more request.
 *
 * @param limiter - of `limits()`.
 * @param {string} name - the limit, which somebody has set; of ASCII, with no quotes, as it goes into headers.
 * @param {string} client - who asks: see `network` below.
 * @param {'open' | 'closed'} whenUnknown - whether requests go on that could not be asked for: because no node answers, or
 *   the limit is not set. `open` prefers serving too much to serving nothing; `closed` is for what must not be tried
 *   without end, such as passwords.
 * @returns whether it goes on; the headers of the answer, either way; and if not, the status and the text.
 */
export async function judge(limiter, name, client, whenUnknown) {
  let answer;
  try {
    answer = await limiter.allow(`${name}:${client}`);
  } catch (error) {
    // What was not even asked for, such as a key that is too long, is the client's doing, and opens nothing.
    const open = whenUnknown === 'open' && error instanceof RequestError;
    // Somebody has to see it: with `open` there is no limit for as long as this lasts.
    console.error(`rate limit ${name}, ${open ? 'let through' : 'refused'}: ${error.message}`);
    if (open) return { goesOn: true, headers: {} };
    return { goesOn: false, status: 503, ...problem({ 'retry-after': '1' }, { title: 'Service Unavailable', status: 503 }) };
  }
  const headers = rateLimit(name, answer);
  if (answer.allowed) return { goesOn: true, headers };
  headers['retry-after'] = String(seconds(answer.retryAfterMs));
  const exceeded = {
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Too Many Requests',
    status: 429,
    'violated-policies': [name],
  };
  return { goesOn: false, status: 429, ...problem(headers, exceeded) };
}

/**
 * The fields of "RateLimit header fields for HTTP" (draft-ietf-httpapi-ratelimit-headers-11): what the policy is, and what
 * is left of it. It is a draft, in which these names and parameters have changed before; `retry-after` is a standard.
 */
function rateLimit(name, { limit, left, begins, ends, allowed, retryAfterMs }) {
  // Some of it other nodes may hold: the one that is asked gets that when it is short.
  const remaining = allowed ? left.here + left.pending + left.elsewhere : 0n;
  // Of a refusal it is known by the node's clock, and else by the one here.
  const rest = seconds(allowed ? Math.max(ends - Date.now(), 0) : retryAfterMs);
  const headers = { ratelimit: `"${name}";r=${number(remaining)};t=${rest}` };
  if (limit !== undefined) headers['ratelimit-policy'] = `"${name}";q=${number(limit)};w=${seconds(ends - begins)}`;
  return headers;
}

/** Rounded up, so that nobody comes back too early. */
const seconds = (ms) => Math.ceil(ms / 1_000);

/** A number in a header has at most 15 digits. */
const number = (count) => (count < 10n ** 15n ? count : 10n ** 15n - 1n);

/** A body that programs can read (RFC 9457). No cache may keep it. */
const problem = (headers, body) => ({
  headers: { ...headers, 'content-type': 'application/problem+json', 'cache-control': 'no-store' },
  body: JSON.stringify(body),
});

/**
 * Who asks, by address: of IPv6 the network of 64 bits, as one client has all addresses of that. Where clients sign in,
 * their name or key is better: many may share an address.
 */
export function network(address) {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped) return mapped[1];
  if (!address.includes(':')) return address;
  const [head, tail] = address.replace(/%.*/, '').split('::').map((part) => part.split(':').filter(Boolean));
  const groups = tail ? [...head, ...Array(8 - head.length - tail.length).fill('0'), ...tail] : head;
  return `${groups.slice(0, 4).join(':')}::`;
}
