// Budgets at nodes that are played here: answers that get lost, refusals and aborts. Real nodes are met in tests/runtimes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { install } from './install.mjs';
import { broken, FAST, json, play, problem, refusal, silent, stream } from './played.mjs';

const { load } = install();
const { budgets, BudgetError, TallymeshError } = await load('tallymesh/budgets');

const RIGHTS = { here: '50', pending: '0', elsewhere: '20' };
const GIFT = { key: 'gift', value: '70', floor: '0', rights: RIGHTS };

const spent = () => json({ results: [{ key: 'gift', budget: GIFT }] });

/** Budgets at two nodes. */
const at = (fetch, options = {}) => budgets({ urls: ['http://a', 'http://b/'], fetch, ...FAST, ...options });

const A = 'http://a/v1/spaces/default';
const B = 'http://b/v1/spaces/default';
const urls = (asked) => asked.map(({ url }) => url.replace(/\/(transactions|budgets|events).*/, ''));
const keys = (asked) => asked.map(({ headers }) => headers['idempotency-key']);

test('a write is one request with a key of its own, and tells the budget in bigints', async () => {
  const { asked, fetch } = play(spent, spent);
  const shop = at(fetch, { ticket: 'a.b-c.d_e' });
  assert.deepEqual(await shop.spend('gift', 25), { key: 'gift', value: 70n, floor: 0n, leased: 0n, rights: { here: 50n, pending: 0n, elsewhere: 20n } });
  await shop.spend('gift', 25n, { level: 'quorum', levelWaitMs: 0, waitMs: 5_000, idempotencyKey: 'order-7' });
  const [first, second] = asked;
  assert.deepEqual([first.method, first.url], ['POST', `${A}/transactions`]);
  assert.deepEqual(first.body, { ops: [{ op: 'spend', key: 'gift', amount: '25' }] });
  assert.deepEqual(second.body, first.body);
  const { 'idempotency-key': key, ...headers } = first.headers;
  assert.match(key, /^[0-9a-f]{32}$/);
  assert.deepEqual(headers, { authorization: 'Bearer a.b-c.d_e', 'content-type': 'application/json' });
  assert.deepEqual(second.headers, {
    ...headers,
    'idempotency-key': 'order-7',
    'tallymesh-level': 'quorum',
    'tallymesh-wait-ms': '0',
    'tallymesh-rights-wait-ms': '5000',
  });
});

test('each operation is asked for by its name', async () => {
  const done = { key: 'gift', budget: GIFT, to: [GIFT] };
  const { asked, fetch } = play(...Array.from({ length: 10 }, () => () => json({ results: [done, { key: 'sold', value: '3' }] })));
  const shop = at(fetch);
  await shop.mint('gift', 1);
  await shop.lowerFloor('gift', 2);
  await shop.raiseFloor('gift', 3);
  await shop.lowerCap('gift', 4);
  await shop.raiseCap('gift', 5);
  await shop.grant('gift', 'me', 6);
  await shop.grantRoom('gift', 'me', 7);
  const moved = await shop.transfer('gift', { cashback: 8, tax: 2n ** 63n - 1n });
  assert.deepEqual([moved.from.value, moved.to[0].value], [70n, 70n]);
  const [, sold] = await shop.transact([{ op: 'spend', key: 'gift', amount: 9 }, { op: 'add', key: 'sold', by: -1 }, { op: 'add', key: 'sold' }]);
  assert.deepEqual(sold, { key: 'sold', value: 3n });
  const of = (op, amount, more) => ({ op, key: 'gift', amount, ...more });
  assert.deepEqual(asked.flatMap(({ body }) => body.ops), [
    of('mint', '1'), of('lower_floor', '2'), of('raise_floor', '3'), of('lower_cap', '4'), of('raise_cap', '5'),
    of('grant', '6', { to: 'me' }), of('grant_room', '7', { to: 'me' }),
    { op: 'transfer', key: 'gift', to: [{ key: 'cashback', amount: '8' }, { key: 'tax', amount: '9223372036854775807' }] },
    of('spend', '9'), { op: 'add', key: 'sold', by: '-1' }, { op: 'add', key: 'sold', by: '1' },
  ]);
});

test('what cannot be asked is refused before any request', async () => {
  const { asked, fetch } = play();
  const shop = at(fetch);
  for (const [amount, code] of [
    [1.5, 'amount_not_integer'], [NaN, 'amount_not_integer'], ['5', 'amount_not_integer'], [undefined, 'amount_not_integer'],
    [2 ** 53, 'amount_unsafe'], [-1, 'amount_range'], [-1n, 'amount_range'], [2n ** 63n, 'amount_range'],
  ]) {
    for (const refused of [shop.spend('gift', amount), shop.transfer('gift', { other: amount }), shop.grant('gift', 'me', amount)]) {
      const error = await refusal(refused);
      assert.ok(error instanceof TallymeshError && error instanceof Error);
      assert.equal(error.code, code, String(amount));
    }
  }
  assert.equal((await refusal(shop.spend(7, 1))).code, 'key_type');
  assert.equal((await refusal(shop.get('\ud800'))).code, 'key_unicode');
  for (const idempotencyKey of ['', 'a b', 'é', 'k'.repeat(256)]) {
    assert.equal((await refusal(shop.spend('gift', 1, { idempotencyKey }))).code, 'idempotency_key');
  }
  assert.deepEqual(asked, []);
  for (const [options, code] of [['mailto:a', 'url'], ['a', 'url'], [[], 'url'], [{ urls: ['http://a'], ticket: 'a b' }, 'ticket']]) {
    assert.throws(() => budgets(options), { code });
  }
});

test('a write whose answer is lost is asked for again under its key, at the next node', async () => {
  const cut = () => new Response(new ReadableStream({
    start: (body) => body.enqueue(new TextEncoder().encode('{"resu')),
    pull: (body) => body.error(new TypeError('terminated')),
  }));
  const { asked, fetch } = play(broken, cut, () => problem(503, 'stopped', { applied: 'unknown' }), () => new Response('busy', { status: 502 }), spent, spent);
  const shop = at(fetch);
  assert.equal((await shop.spend('gift', 25)).value, 70n);
  assert.deepEqual(urls(asked), [A, B, A, B, A]);
  assert.equal(new Set(keys(asked)).size, 1);
  // The node that answered goes on being asked, and another write has another key.
  await shop.spend('gift', 25);
  assert.deepEqual(urls(asked).at(-1), A);
  assert.notEqual(keys(asked).at(-1), keys(asked)[0]);
});

test('a node that is away is not asked first again', async () => {
  const { asked, fetch } = play(broken, spent, spent, () => problem(409, 'rights_short'));
  const shop = at(fetch);
  await shop.spend('gift', 25);
  await shop.spend('gift', 25);
  assert.deepEqual(urls(asked), [A, B, B]);
});

test('a write that stays unanswered says that it may count, and under which key', async () => {
  const { asked, fetch } = play(broken, broken, broken, spent);
  const shop = at(fetch, { retries: 2 });
  const error = await refusal(shop.spend('gift', 25));
  assert.ok(error instanceof BudgetError && error instanceof TallymeshError);
  assert.deepEqual([error.code, error.applied, error.idempotencyKey], ['link_lost', 'unknown', keys(asked)[0]]);
  assert.match(error.message, new RegExp(`may count.*"${error.idempotencyKey}"`));
  assert.ok(error.cause instanceof TypeError);
  // So the caller can ask again.
  await shop.spend('gift', 25, { idempotencyKey: error.idempotencyKey });
  assert.equal(new Set(keys(asked)).size, 1);
});

test('a refusal tells what is held where, and is not asked for again', async () => {
  const { asked, fetch } = play(() => problem(409, 'rights_short', { held: RIGHTS, asked: '10', op: 0 }), () => problem(409, 'room_short', { held: RIGHTS }));
  const shop = at(fetch);
  const error = await refusal(shop.spend('gift', 60));
  assert.ok(error instanceof BudgetError);
  const { code, applied, held, asked: more, status, op, idempotencyKey } = error;
  assert.deepEqual({ code, applied, held, more, status, op }, {
    code: 'rights_short', applied: 'no', held: { here: 50n, pending: 0n, elsewhere: 20n }, more: 10n, status: 409, op: 0,
  });
  assert.equal(error.message, 'it is rights_short (rights_short)');
  assert.equal(idempotencyKey, keys(asked)[0]);
  assert.equal((await refusal(shop.mint('seats', 60))).asked, 0n);
  assert.equal(asked.length, 2);
});

test('a refusal after a try of which nothing is known says that the write may count', async () => {
  const { fetch } = play(broken, () => problem(409, 'rights_short', { held: RIGHTS }), () => problem(429, 'rate_limited'), () => problem(409, 'rights_short'));
  const shop = at(fetch);
  const error = await refusal(shop.spend('gift', 60));
  assert.deepEqual([error.code, error.applied], ['rights_short', 'unknown']);
  // One that was refused for sure changes nothing.
  assert.equal((await refusal(shop.spend('gift', 60))).applied, 'no');
});

test('a level that was not reached is told, and not waited for again', async () => {
  const { asked, fetch } = play(() => problem(503, 'level_not_reached', { applied: 'here' }));
  const error = await refusal(at(fetch).spend('gift', 1, { level: 'all' }));
  assert.deepEqual([error.code, error.applied, error.status, asked.length], ['level_not_reached', 'here', 503, 1]);
});

test('who asks too often waits as long as the node says', async () => {
  const { asked, fetch } = play(() => problem(429, 'rate_limited', {}, { 'retry-after': '1' }), spent);
  const begin = performance.now();
  await at(fetch).spend('gift', 1);
  assert.ok(performance.now() - begin >= 990);
  assert.deepEqual(urls(asked), [A, B]);
});

test('a node that says nothing is given up', async () => {
  const { asked, fetch } = play(silent, silent);
  const error = await refusal(at(fetch, { timeoutMs: 5, retries: 1 }).spend('gift', 1));
  assert.deepEqual([error.code, error.applied, asked.length], ['timeout', 'unknown', 2]);
  assert.match(error.message, /did not answer within 5 ms/);
});

test('what the node was asked to wait for is not held against it', async () => {
  const late = ({ signal }) => new Promise((resolve, reject) => {
    setTimeout(() => resolve(spent()), 50);
    signal.addEventListener('abort', () => reject(signal.reason));
  });
  const { asked, fetch } = play(late);
  await at(fetch, { timeoutMs: 10 }).spend('gift', 1, { waitMs: 20_000, level: 'quorum' });
  assert.equal(asked.length, 1);
});

test('an abort before anything was sent throws its reason, and one after it says that the write may count', async () => {
  const reason = new Error('the customer left');
  const { asked, fetch } = play(silent, () => problem(429, 'rate_limited', {}, { 'retry-after': '30' }), broken, silent);
  const shop = at(fetch);
  assert.equal(await refusal(shop.spend('gift', 1, { signal: AbortSignal.abort(reason) })), reason);
  assert.equal(asked.length, 0);

  const under = new AbortController();
  const way = refusal(shop.spend('gift', 1, { signal: under.signal, idempotencyKey: 'order-7' }));
  under.abort(reason);
  const error = await way;
  assert.deepEqual([error.code, error.applied, error.idempotencyKey, error.cause], ['aborted', 'unknown', 'order-7', reason]);

  // Between tries, the first of which was refused for sure.
  const waits = new AbortController();
  const refused = refusal(shop.spend('gift', 1, { signal: waits.signal }));
  await new Promise((resolve) => setImmediate(resolve));
  waits.abort(reason);
  assert.equal(await refused, reason);

  // Of a read there is nothing to be known.
  const reads = new AbortController();
  const read = refusal(shop.get('gift', { signal: reads.signal }));
  setTimeout(() => reads.abort(reason), 20);
  assert.equal(await read, reason);
});

test("an answer that is no node's is refused, and so is that of what is before one", async () => {
  const { asked, fetch } = play(() => new Response('<!doctype html>'), () => json({}), () => json(null), () => new Response('no', { status: 403 }), () => json({ code: 'A B' }, 400));
  const shop = at(fetch);
  for (const code of ['malformed', 'malformed', 'malformed', 'http_status', 'http_status']) {
    const error = await refusal(shop.spend('gift', 1));
    assert.deepEqual([error.code, error.applied], [code, 'unknown']);
  }
  assert.equal(asked.length, 5);
});

test('a budget is read by its name, whatever that is', async () => {
  const holders = [{ writer: 'ab', own: true, rights: '50', room: '5' }];
  const { asked, fetch } = play(
    () => json({ ...GIFT, cap: '100', room: RIGHTS, holders }),
    () => problem(404, 'no_budget'),
    () => json({ budgets: [{ ...GIFT, key: '..' }], next: '..' }),
    () => json({ budgets: [{ ...GIFT, key: '.a' }], next: null }),
    () => json({ budgets: [], next: null }),
    () => problem(404, 'space_not_open'),
  );
  const shop = at(fetch, { space: 'shop' });
  const budget = await shop.get('50% off/é', { level: 'all' });
  assert.deepEqual([budget.cap, budget.room.elsewhere, budget.holders[0]], [100n, 20n, { writer: 'ab', own: true, rights: 50n, room: 5n, leased: 0n }]);
  assert.equal(await shop.get('gift'), undefined);
  assert.equal((await shop.get('..')).key, '..');
  assert.equal(await shop.get('.'), undefined);
  assert.equal(await shop.get(''), undefined);
  assert.equal((await refusal(shop.get('gift'))).code, 'space_not_open');
  assert.equal(asked[0].url, 'http://a/v1/spaces/shop/budgets/50%25%20off%2F%C3%A9');
  assert.deepEqual(asked[0].headers, { 'tallymesh-level': 'all' });
  assert.deepEqual([asked[2].url, asked[2].method, asked[2].body], ['http://a/v1/spaces/shop/budgets?prefix=..&limit=1', 'GET', null]);
});

test('lists are asked for part by part, as they are taken', async () => {
  const page = (next, ...names) => () => json({ budgets: names.map((key) => ({ ...GIFT, key })), next });
  const { asked, fetch } = play(page('b', 'a', 'b'), broken, page(null, 'c'), page('e', 'd', 'e'));
  const shop = at(fetch);
  const names = [];
  for await (const { key } of shop.list('g&', { after: '9' })) names.push(key);
  assert.deepEqual(names, ['a', 'b', 'c']);
  assert.deepEqual(asked.map(({ url }) => url), [`${A}/budgets?prefix=g%26&after=9`, `${A}/budgets?prefix=g%26&after=b`, `${B}/budgets?prefix=g%26&after=b`]);
  for await (const { key } of shop.list()) if (key === 'd') break;
  assert.equal(asked.length, 4);
});

test('an address with a path stands for that of the space', async () => {
  const { asked, fetch } = play(spent, spent, spent);
  for (const url of ['https://shop.example/api/tally/?a=b', new URL('wss://shop.example/api/tally#c'), 'https://shop.example']) {
    await budgets({ urls: [url], space: 'a b', fetch }).mint('gift', 1);
  }
  assert.deepEqual(asked.map(({ url }) => url), [
    'https://shop.example/api/tally/transactions', 'https://shop.example/api/tally/transactions', 'https://shop.example/v1/spaces/a%20b/transactions',
  ]);
});

const budget = (value, key = 'gift') => `event: budget\ndata: ${JSON.stringify({ ...GIFT, key, value: String(value) })}\n\n`;

test('a budget is watched over the end of its stream', async () => {
  const text = `event: skipped\ndata: {}\n\ndata: {"key":"gift","value":null}\n\n${budget(70)}id: 00f1-3-0\n\n: \n\n${budget(69)}`;
  const { asked, fetch } = play(
    // One byte at a time.
    stream([...Buffer.from(text)].map((byte) => [byte])),
    () => problem(429, 'rate_limited'),
    stream([`id: 00f1-5-0\n${budget(68)}`, `${budget(67).slice(0, -1)}id: 00f1-6-0\n\n`], true),
  );
  const seen = [];
  for await (const now of at(fetch).watch('gift')) {
    seen.push(now.value);
    if (now.value === 67n) break;
  }
  assert.deepEqual(seen, [70n, 69n, 68n, 67n]);
  assert.deepEqual(asked.map(({ url, headers }) => [url, headers['last-event-id']]), [
    [`${A}/events?key=gift`, '0'], [`${B}/events?key=gift`, '00f1-3-0'], [`${A}/events?key=gift`, '00f1-3-0'],
  ]);
  assert.ok(asked.at(-1).signal.aborted, 'the stream is closed when nobody watches any more');
});

test('a budget that is not there yet is watched, too, and a prefix', async () => {
  const nothing = 'event: skipped\ndata: {}\n\ndata: {"key":"gift","value":null}\n\nid: 1-1-1\n\nid: 1-1-2\n\n';
  const { asked, fetch } = play(stream([nothing, budget(5)], true), stream([nothing, budget(1, 'g:a'), budget(2, 'g:b')], true));
  const seen = [];
  for await (const now of at(fetch).watch('gift')) {
    seen.push(now?.value);
    if (now) break;
  }
  assert.deepEqual(seen, [undefined, 5n]);
  const names = [];
  for await (const { key } of at(fetch).watch({ prefix: 'g:' })) {
    names.push(key);
    if (key === 'g:b') break;
  }
  assert.deepEqual(names, ['g:a', 'g:b']);
  assert.equal(asked[1].url, `${A}/events?prefix=g%3A`);
});

test('a watch ends when it is aborted or refused', async () => {
  const reason = new Error('enough');
  const ends = new AbortController();
  const { fetch } = play(stream([budget(5)], true), () => problem(401, 'ticket_expired'));
  const watch = at(fetch).watch('gift', { signal: ends.signal });
  assert.equal((await watch.next()).value.value, 5n);
  const next = refusal(watch.next());
  ends.abort(reason);
  assert.equal(await next, reason);
  const { code, applied, status } = await refusal(at(fetch).watch('gift').next());
  assert.deepEqual({ code, applied, status }, { code: 'ticket_expired', applied: undefined, status: 401 });
});
