// Limits at nodes that are played here: refusals, answers that get lost, and clocks. Real nodes are met in tests/runtimes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { install } from './install.mjs';
import { broken, FAST, json, play, problem, refusal, silent } from './played.mjs';

const { load } = install();
const { limits, RequestError, TallymeshError } = await load('tallymesh/limits');

const MINUTE = 60_000;
/** When the present period began, and when it ends. */
const BEGINS = Date.now() - MINUTE / 2;
const ENDS = BEGINS + MINUTE;
const left = (here) => ({ here: String(here), pending: '0', elsewhere: '20' });
const lefts = (here) => ({ here: BigInt(here), pending: 0n, elsewhere: 20n });
const period = (key, here, begins = BEGINS, limit = 100) => () =>
  json({ key, name: key.split(':')[0], limit: String(limit), left: left(here), begins: String(begins), ends: String(begins + MINUTE) });
const reached = (more = {}, after = '7') => () =>
  problem(429, 'limit_reached', { held: left(1), ends: String(ENDS), ...more }, { 'retry-after': after });

/** Limits at two nodes. */
const at = (fetch, options = {}) => limits({ urls: ['http://a', 'http://b/'], fetch, ...FAST, ...options });

const A = 'http://a/v1/spaces/default/limits';
const B = 'http://b/v1/spaces/default/limits';
const urls = (asked) => asked.map(({ url }) => url);
const keys = (asked) => asked.map(({ headers }) => headers['idempotency-key']);

test('what is allowed is one request with a key of its own, and tells what is left', async () => {
  const { asked, fetch } = play(period('login:ann', 41), period('login:ann', 36));
  const limiter = at(fetch, { ticket: 'a.b-c.d_e' });
  assert.deepEqual(await limiter.allow('login:ann'), {
    allowed: true, key: 'login:ann', name: 'login', limit: 100n, left: lefts(41), begins: new Date(BEGINS), ends: new Date(ENDS), retryAfterMs: 0,
  });
  await limiter.allow('login:ann', 5n, { waitMs: 200, idempotencyKey: 'request-7' });
  const [first, second] = asked;
  assert.deepEqual([first.method, first.url, first.body], ['POST', `${A}/login%3Aann/allow`, { cost: '1' }]);
  assert.deepEqual(second.body, { cost: '5' });
  const { 'idempotency-key': key, ...headers } = first.headers;
  assert.match(key, /^[0-9a-f]{32}$/);
  assert.deepEqual(headers, { authorization: 'Bearer a.b-c.d_e', 'content-type': 'application/json' });
  assert.deepEqual(second.headers, { ...headers, 'idempotency-key': 'request-7', 'tallymesh-rights-wait-ms': '200' });
});

test('that nothing is left is an answer, which is not asked for again', async () => {
  const { asked, fetch } = play(period('login:ann', 1), reached({ asked: '2' }));
  const limiter = at(fetch);
  await limiter.allow('login:ann');
  assert.deepEqual(await limiter.allow('login:ann', 3), {
    allowed: false, key: 'login:ann', name: 'login', limit: 100n, left: lefts(1), asked: 2n,
    begins: new Date(BEGINS), ends: new Date(ENDS), applied: 'no', retryAfterMs: 7_000,
  });
  assert.equal(asked.length, 2);
});

test('a refusal of a period that is not known asks for it, once', async () => {
  const { asked, fetch } = play(reached(), period('login:ann', 1), reached(), reached({}, '8'), broken, reached(), period('api:ann', 1, ENDS, 9));
  const limiter = at(fetch);
  const first = await limiter.allow('login:ann', 2);
  assert.deepEqual([first.name, first.limit, first.begins], ['login', 100n, new Date(BEGINS)]);
  await limiter.allow('login:ann', 2);
  assert.deepEqual(urls(asked), [`${A}/login%3Aann/allow`, `${A}/login%3Aann`, `${A}/login%3Aann/allow`]);
  // It is refused, whatever becomes of that.
  const other = await limiter.allow('login:bob', 2);
  assert.deepEqual([other.allowed, other.name, other.limit, other.begins, other.ends], [false, undefined, undefined, undefined, new Date(ENDS)]);
  // The next period has begun by then.
  const next = await limiter.allow('api:ann');
  assert.deepEqual([next.limit, next.begins, next.ends], [9n, new Date(BEGINS), new Date(ENDS)]);
  assert.equal(asked.length, 7);
});

test('how long to wait goes by the clock of the node', async () => {
  // In a day, and a day ago: the clock here is off. In a minute, as both say. And one that is not told of.
  const ends = (ms) => ({ ends: String(Date.now() + ms) });
  const day = 24 * 60 * MINUTE;
  const answers = [reached(ends(day), '7'), reached(ends(-day), '7'), reached(ends(-day), ''), reached(ends(MINUTE), '60'), reached({ ends: undefined }, '')];
  const { fetch } = play(...answers.flatMap((it) => [it, broken]));
  const limiter = at(fetch);
  const waits = [];
  for (const _ of answers) waits.push((await limiter.allow('login:ann')).retryAfterMs);
  assert.deepEqual(waits.slice(0, 3), [7_000, 6_000, 0]);
  assert.ok(waits[3] >= 59_000 && waits[3] <= 60_000, String(waits[3]));
  assert.ok(waits[4] > 0 && waits[4] <= 1_000, String(waits[4]));
});

test('an answer that is lost is asked for again under its key, and a refusal then says that it may count', async () => {
  const { asked, fetch } = play(broken, period('login:ann', 41), broken, reached(), broken);
  const limiter = at(fetch);
  assert.equal((await limiter.allow('login:ann')).allowed, true);
  assert.deepEqual(urls(asked), [`${A}/login%3Aann/allow`, `${B}/login%3Aann/allow`]);
  assert.equal(keys(asked)[0], keys(asked)[1]);
  const refused = await limiter.allow('login:bob');
  assert.deepEqual([refused.allowed, refused.applied], [false, 'unknown']);
  assert.notEqual(keys(asked)[2], keys(asked)[1]);
});

test('other refusals are errors with the codes of the node', async () => {
  const { asked, fetch } = play(() => problem(404, 'no_limit'), () => problem(403, 'forbidden'), () => problem(429, 'rate_limited'), period('login', 1), broken, broken);
  const limiter = at(fetch);
  const error = await refusal(limiter.allow('login'));
  assert.ok(error instanceof RequestError && error instanceof TallymeshError);
  assert.deepEqual([error.name, error.code, error.applied, error.status, error.idempotencyKey], ['RequestError', 'no_limit', 'no', 404, keys(asked)[0]]);
  assert.equal((await refusal(limiter.list())).code, 'forbidden');
  // A limit of the node itself, for its clients, is waited for.
  assert.equal((await limiter.allow('login')).allowed, true);
  const lost = await refusal(at(fetch, { retries: 1 }).allow('login'));
  assert.deepEqual([lost.code, lost.applied], ['link_lost', 'unknown']);
  assert.match(lost.message, new RegExp(`ask again with idempotencyKey "${lost.idempotencyKey}"`));
  assert.equal(asked.length, 6);
});

test('what cannot be asked is refused before any request, with the value and the limit', async () => {
  const { asked, fetch } = play();
  const limiter = at(fetch);
  const of = { limit: 1, periodMs: 1_000 };
  for (const [wrong, code, said] of [
    [limiter.allow(7), 'key_type', /not number/],
    [limiter.allow('\ud800'), 'key_unicode', /Unicode/],
    [limiter.allow('k'.repeat(446)), 'limit_key', /1 to 445 bytes.* not 446/],
    [limiter.get('é'.repeat(223)), 'limit_key', /not 446/],
    [limiter.allow(''), 'limit_key', /not 0/],
    [limiter.allow('.'), 'limit_key', /"\."/],
    [limiter.get('..'), 'limit_key', /"\.\."/],
    [limiter.allow('a', -1), 'amount_range', /-1.*0 to 2\^63 - 1/],
    [limiter.allow('a', 2n ** 63n), 'amount_range', /9223372036854775808/],
    [limiter.allow('a', 1.5), 'amount_not_integer', /1\.5/],
    [limiter.allow('a', 2 ** 53), 'amount_unsafe', /9007199254740992/],
    [limiter.allow('a', 1, { waitMs: 20_001 }), 'millis', /20001.*0 to 20000/],
    [limiter.allow('a', 1, { waitMs: NaN }), 'millis', /NaN/],
    [limiter.allow('a', 1, { idempotencyKey: 'a b' }), 'idempotency_key', /"a b".*1 to 255/],
    [limiter.set('n'.repeat(129), of), 'limit_name', /1 to 128 bytes.* not 129/],
    [limiter.remove(''), 'limit_name', /not 0/],
    [limiter.set('a', { ...of, limit: 0 }), 'limit_range', /0 is no limit.*1 to 9223372036854775807/],
    [limiter.set('a', { ...of, limit: 2n ** 63n }), 'limit_range', /9223372036854775808/],
    [limiter.set('a', { ...of, limit: '5' }), 'limit_range', /string is no limit/],
    [limiter.set('a', { ...of, periodMs: 999 }), 'period_range', /999.*1000 to 31622400000/],
    [limiter.set('a', { ...of, periodMs: 31_622_400_001 }), 'period_range', /31622400001/],
    [limiter.set('a', { ...of, periodMs: undefined }), 'period_range', /undefined/],
    [limiter.set('a', of, { waitMs: -1 }), 'millis', /-1/],
  ]) {
    const error = await refusal(wrong);
    assert.ok(error instanceof TallymeshError && !(error instanceof RequestError), String(error));
    assert.equal(error.code, code);
    assert.match(error.message, said);
  }
  assert.deepEqual(asked, []);
  for (const [options, code] of [['mailto:a', 'url'], [[], 'url'], [{ urls: ['http://a'], ticket: 'a b' }, 'ticket']]) {
    assert.throws(() => limits(options), { code });
  }
});

test('limits are set, listed and taken away', async () => {
  const login = { name: 'login', limit: '100', period_ms: MINUTE, since: '2' };
  const all = (...limits) => () => json({ number: '2', limits });
  const other = { ...login, name: 'api' };
  const { asked, fetch } = play(all(other, login), broken, all(other, login), all(), all(other, login), all());
  const limiter = at(fetch);
  const told = { name: 'login', limit: 100n, periodMs: MINUTE, since: 2n };
  assert.deepEqual(await limiter.set('login', { limit: 100n, periodMs: MINUTE }), told);
  assert.deepEqual(await limiter.set('login', { limit: 100, periodMs: MINUTE }, { waitMs: 0 }), told);
  await limiter.remove('login');
  assert.deepEqual(await limiter.list(), [{ ...told, name: 'api' }, told]);
  assert.deepEqual(await limiter.list(), []);
  const [first, , again, removed, listed] = asked;
  assert.deepEqual([first.method, first.url, first.body], ['PUT', `${A}/login`, { limit: '100', period_ms: MINUTE, wait_ms: 10_000 }]);
  assert.equal(first.headers['idempotency-key'], undefined);
  assert.deepEqual([again.url, again.body.wait_ms], [`${B}/login`, 0]);
  assert.deepEqual([removed.method, removed.url, removed.body], ['DELETE', `${B}/login`, null]);
  assert.deepEqual([listed.method, listed.url], ['GET', B]);
});

test('a change without a majority is told, and not waited for again', async () => {
  const { asked, fetch } = play(() => problem(503, 'undecided', { applied: 'unknown' }));
  const error = await refusal(at(fetch).set('login', { limit: 1, periodMs: MINUTE }));
  assert.deepEqual([error.code, error.applied, error.idempotencyKey, asked.length], ['undecided', 'unknown', undefined, 1]);
  assert.match(error.message, /asking again is harmless/);
});

test('a period is read, if a limit covers the key', async () => {
  const { asked, fetch } = play(period('50% off/é', 3), () => problem(404, 'no_limit'), () => problem(404, 'space_not_open'));
  const limiter = at(fetch, { space: 'shop' });
  const { limit, left, ends } = await limiter.get('50% off/é');
  assert.deepEqual([limit, left, ends], [100n, lefts(3), new Date(ENDS)]);
  assert.equal(await limiter.get('other'), undefined);
  assert.equal((await refusal(limiter.get('other'))).code, 'space_not_open');
  assert.deepEqual([asked[0].url, asked[0].method], ['http://a/v1/spaces/shop/limits/50%25%20off%2F%C3%A9', 'GET']);
});

test('an abort before anything was sent throws its reason, and one after it says that it may count', async () => {
  const reason = new Error('the visitor left');
  const { asked, fetch } = play(silent);
  const limiter = at(fetch);
  assert.equal(await refusal(limiter.allow('login', 1, { signal: AbortSignal.abort(reason) })), reason);
  assert.equal(asked.length, 0);
  const under = new AbortController();
  const way = refusal(limiter.allow('login', 1, { signal: under.signal }));
  under.abort(reason);
  const error = await way;
  assert.deepEqual([error.code, error.applied, error.cause], ['aborted', 'unknown', reason]);
});

test('what was allowed in an earlier period says nothing of this one', async () => {
  const { asked, fetch } = play(period('login:ann', 1, BEGINS - MINUTE, 9), reached(), period('login:ann', 1));
  const limiter = at(fetch);
  await limiter.allow('login:ann');
  const { limit, begins } = await limiter.allow('login:ann', 2);
  assert.deepEqual([limit, begins, asked.length], [100n, new Date(BEGINS), 3]);
});

test('of the keys whose periods are known those are forgotten that were not met for longest', async () => {
  const names = Array.from({ length: 1_024 }, (_, index) => `login:${index}`);
  const met = [...names, 'login:0', 'login:1024'];
  const { asked, fetch } = play(...met.map((key) => period(key, 1)), reached(), reached(), period('login:1', 1));
  const limiter = at(fetch);
  for (const key of met) await limiter.allow(key);
  assert.equal((await limiter.allow('login:0')).limit, 100n);
  assert.equal(asked.length, met.length + 1);
  assert.equal((await limiter.allow('login:1')).limit, 100n);
  assert.equal(asked.length, met.length + 3);
});
