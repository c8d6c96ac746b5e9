// Sequences at nodes that are played here: numbers whose answers get lost. Real nodes are met in tests/runtimes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { install } from './install.mjs';
import { broken, FAST, json, play, problem, refusal, silent, stream } from './played.mjs';

const { load } = install();
const { sequences, RequestError, TallymeshError } = await load('tallymesh/sequences');

const VISITS = {
  key: 'visits', next: '11', issued: '2', lost: '1',
  held: [{ first: '4', last: '10', writer: 'ab', owner: 'cd', own: true }],
  gaps: [{ first: '3', last: '3' }],
  watched: [{ number: '2', state: 'handed_out', writer: 'ab', own: true, below: '0' }, { number: '9', state: 'open', own: false }],
};
const READ = {
  key: 'visits', next: 11n, issued: 2n, lost: 1n,
  held: [{ first: 4n, last: 10n, writer: 'ab', owner: 'cd', own: true }],
  gaps: [{ first: 3n, last: 3n }],
  watched: [{ number: 2n, state: 'handed_out', writer: 'ab', own: true, below: 0n }, { number: 9n, state: 'open', own: false }],
};
const visits = (more = {}) => () => json({ ...VISITS, ...more });
const drawn = (number, more = {}) => () => json({ key: 'visits', number: String(number), ...more });

/** Sequences at two nodes. */
const at = (fetch, options = {}) => sequences({ urls: ['http://a', 'http://b/'], fetch, ...FAST, ...options });

const A = 'http://a/v1/spaces/default';
const B = 'http://b/v1/spaces/default';
const urls = (asked) => asked.map(({ url }) => url);

test('a number is drawn by one request with no key', async () => {
  const { asked, fetch } = play(drawn(17), drawn(2n ** 63n - 2n, { watched: true }));
  const shop = at(fetch, { ticket: 'a.b-c.d_e' });
  assert.deepEqual(await shop.next('visits'), { key: 'visits', number: 17n, watched: false, lost: 0 });
  assert.deepEqual(await shop.next('visits', { waitMs: 5_000 }), { key: 'visits', number: 2n ** 63n - 2n, watched: true, lost: 0 });
  const [first, second] = asked;
  assert.deepEqual([first.method, first.url, first.body], ['POST', `${A}/sequences/visits/next`, null]);
  assert.deepEqual(first.headers, { authorization: 'Bearer a.b-c.d_e' });
  assert.deepEqual(second.headers, { ...first.headers, 'tallymesh-rights-wait-ms': '5000' });
});

test('where an answer is lost another number is drawn, and it tells how many may be lost', async () => {
  // The second try was refused for sure: it lost nothing.
  const { asked, fetch } = play(broken, () => problem(429, 'rate_limited'), () => new Response('busy', { status: 502 }), drawn(19), drawn(20));
  const shop = at(fetch);
  assert.deepEqual(await shop.next('visits'), { key: 'visits', number: 19n, watched: false, lost: 2 });
  assert.deepEqual(urls(asked), [A, B, A, B].map((it) => `${it}/sequences/visits/next`));
  assert.equal((await shop.next('visits')).lost, 0);
});

test('a draw that stays unanswered says that a number may be lost, and one that was refused that none is', async () => {
  const { asked, fetch } = play(broken, broken, broken, () => problem(409, 'numbers_short'), broken, () => problem(409, 'numbers_short'));
  const shop = at(fetch, { retries: 1 });
  const error = await refusal(shop.next('visits'));
  assert.ok(error instanceof RequestError && error instanceof TallymeshError);
  assert.deepEqual([error.code, error.applied, error.idempotencyKey], ['link_lost', 'unknown', undefined]);
  assert.match(error.message, /a number may have been handed out, which nobody gets any more/);
  // With no retries it is asked once.
  assert.equal((await refusal(at(fetch, { retries: 0 }).next('visits'))).applied, 'unknown');
  assert.equal(asked.length, 3);
  const short = await refusal(shop.next('visits'));
  assert.deepEqual([short.code, short.applied, short.status, short.message], ['numbers_short', 'no', 409, 'it is numbers_short (numbers_short)']);
  assert.equal((await refusal(shop.next('visits'))).applied, 'unknown');
});

test('an abort of a draw says that a number may be lost, if it was sent', async () => {
  const reason = new Error('the visitor left');
  const { asked, fetch } = play(silent);
  const shop = at(fetch);
  assert.equal(await refusal(shop.next('visits', { signal: AbortSignal.abort(reason) })), reason);
  assert.equal(asked.length, 0);
  const under = new AbortController();
  const way = refusal(shop.next('visits', { signal: under.signal }));
  under.abort(reason);
  const error = await way;
  assert.deepEqual([error.code, error.applied, error.cause], ['aborted', 'unknown', reason]);
});

test('a sequence is begun and watched under a key, and each of both is made once', async () => {
  const { asked, fetch } = play(broken, visits(), visits(), visits(), () => problem(409, 'sequence_exists'));
  const shop = at(fetch);
  assert.deepEqual(await shop.begin('visits'), READ);
  await shop.watch('visits', 1_000_000, { idempotencyKey: 'w', level: 'quorum', levelWaitMs: 100 });
  await shop.unwatch('visits', 2n ** 63n - 2n);
  const [first, again, watch, unwatch] = asked;
  assert.deepEqual([first.method, first.url, first.body], ['POST', `${A}/sequences/visits`, null]);
  assert.match(first.headers['idempotency-key'], /^[0-9a-f]{32}$/);
  assert.deepEqual([again.url, again.headers], [`${B}/sequences/visits`, first.headers]);
  assert.deepEqual([watch.method, watch.url, watch.headers], ['PUT', `${B}/sequences/visits/watches/1000000`, {
    'idempotency-key': 'w', 'tallymesh-level': 'quorum', 'tallymesh-wait-ms': '100',
  }]);
  assert.deepEqual([unwatch.method, unwatch.url], ['DELETE', `${B}/sequences/visits/watches/9223372036854775806`]);
  const error = await refusal(shop.begin('visits'));
  assert.deepEqual([error.code, error.applied, error.status], ['sequence_exists', 'no', 409]);
});

test('what cannot be asked is refused before any request, with the value and the limit', async () => {
  const { asked, fetch } = play();
  const shop = at(fetch);
  for (const [wrong, code, said] of [
    [shop.next(7), 'key_type', /not number/],
    [shop.begin('\ud800'), 'key_unicode', /Unicode/],
    [shop.begin('n'.repeat(462)), 'sequence_name', /1 to 461 bytes.* not 462/],
    [shop.get(''), 'sequence_name', /not 0/],
    [shop.next('..'), 'sequence_name', /"\.\."/],
    [shop.next('visits', { waitMs: 0.5 }), 'millis', /0\.5.*0 to 20000/],
    [shop.get('visits', { level: 'all', levelWaitMs: 20_001 }), 'millis', /20001/],
    [shop.list('', { levelWaitMs: -1 }).next(), 'millis', /-1/],
    [shop.list(5).next(), 'key_type', /a prefix/],
    [shop.changes({}).next(), 'key_type', /a prefix/],
    [shop.begin('visits', { idempotencyKey: '' }), 'idempotency_key', /1 to 255/],
    [shop.watch('visits', 0), 'number_range', /0 is no number.*1 to 9223372036854775806/],
    [shop.watch('visits', 2n ** 63n - 1n), 'number_range', /9223372036854775807 is no/],
    [shop.watch('visits', 2 ** 53), 'number_range', /9007199254740992.*bigint/],
    [shop.unwatch('visits', '9'), 'number_range', /string is no/],
  ]) {
    const error = await refusal(wrong);
    assert.ok(error instanceof TallymeshError && !(error instanceof RequestError), String(error));
    assert.equal(error.code, code);
    assert.match(error.message, said);
  }
  assert.deepEqual(asked, []);
  for (const [options, code] of [['mailto:a', 'url'], [[], 'url'], [{ urls: ['http://a'], ticket: 'a b' }, 'ticket']]) {
    assert.throws(() => sequences(options), { code });
  }
});

test('sequences are read and listed', async () => {
  const { asked, fetch } = play(
    visits(), () => problem(404, 'no_sequence'), () => problem(404, 'space_not_open'),
    // A page goes on after a name, which may look like a number.
    () => json({ sequences: [VISITS], next: '007' }), broken, () => json({ sequences: [{ ...VISITS, key: 'w' }] }),
  );
  const shop = at(fetch, { space: 'shop' });
  assert.deepEqual(await shop.get('50% off/é', { level: 'all' }), READ);
  assert.equal(await shop.get('visits'), undefined);
  assert.equal((await refusal(shop.get('visits'))).code, 'space_not_open');
  const names = [];
  for await (const { key, next } of shop.list('v&', { after: '9' })) names.push([key, next]);
  assert.deepEqual(names, [['visits', 11n], ['w', 11n]]);
  assert.deepEqual([asked[0].url, asked[0].headers], ['http://a/v1/spaces/shop/sequences/50%25%20off%2F%C3%A9', { 'tallymesh-level': 'all' }]);
  assert.deepEqual(urls(asked).slice(3), [
    'http://a/v1/spaces/shop/sequences?prefix=v%26&after=9',
    'http://a/v1/spaces/shop/sequences?prefix=v%26&after=007',
    'http://b/v1/spaces/shop/sequences?prefix=v%26&after=007',
  ]);
});

const event = (issued, key = 'visits') => `event: sequence\ndata: ${JSON.stringify({ ...VISITS, key, issued: String(issued) })}\n\n`;

test('changes go on over the end of their stream, and begin with what is not there yet', async () => {
  const nothing = 'event: skipped\ndata: {}\n\ndata: {"key":"visits","value":null}\n\nid: 1-1-1\n\n';
  const { asked, fetch } = play(stream([nothing, event(3), 'id: 1-2-1\n\n']), stream([event(4)], true), stream([event(1, 'v:a'), event(2, 'v:b')], true));
  const seen = [];
  for await (const now of at(fetch).changes('visits')) {
    seen.push(now?.issued);
    if (now) assert.deepEqual([now.next, now.watched[0].number], [11n, 2n]);
    if (now?.issued === 4n) break;
  }
  assert.deepEqual(seen, [undefined, 3n, 4n]);
  assert.deepEqual(asked.map(({ url, headers }) => [url, headers['last-event-id']]), [[`${A}/events?key=visits`, '0'], [`${B}/events?key=visits`, '1-2-1']]);
  const names = [];
  for await (const { key } of at(fetch).changes({ prefix: 'v:' })) {
    names.push(key);
    if (key === 'v:b') break;
  }
  assert.deepEqual(names, ['v:a', 'v:b']);
  assert.ok(asked.at(-1).signal.aborted, 'the stream is closed when nobody looks any more');
});

test('changes end when they are aborted or refused', async () => {
  const reason = new Error('enough');
  const ends = new AbortController();
  const { fetch } = play(stream([event(5)], true), () => problem(401, 'ticket_expired'));
  const changes = at(fetch).changes('visits', { signal: ends.signal });
  assert.equal((await changes.next()).value.issued, 5n);
  const next = refusal(changes.next());
  ends.abort(reason);
  assert.equal(await next, reason);
  const { code, applied, status } = await refusal(at(fetch).changes('visits').next());
  assert.deepEqual({ code, applied, status }, { code: 'ticket_expired', applied: undefined, status: 401 });
});
