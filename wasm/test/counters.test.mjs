import assert from 'node:assert/strict';
import { test } from 'node:test';
import { install } from './install.mjs';
import { until } from './link.mjs';
import { FakeSocket } from './socket.mjs';

const { Counters, open, Replica } = await install().load();

const microtask = () => new Promise((resolve) => queueMicrotask(resolve));

/** A transport to a replica of this process. */
const toward = (other, url = 'memory:') => (replica) => {
  const ends = [];
  const side = (at) => ({ send: (frame) => queueMicrotask(() => ends[at].receive(frame)), close: () => {} });
  ends[0] = replica.attach(side(1));
  ends[1] = other.attach(side(0));
  const connection = {
    url,
    state: 'online',
    error: undefined,
    pause: () => {},
    resume: () => {},
    close: () => {
      connection.state = 'closed';
      ends[0].close();
      queueMicrotask(() => ends[1].close());
    },
    subscribe: () => () => {},
  };
  return connection;
};

test('counters are kept in sync with each peer that is named, and tell how it stands', async () => {
  FakeSocket.made = [];
  const other = await open();
  other.add('likes', 2);
  const transports = ['http://node/', toward(other), new URL('ws://another/its/own')];
  const counters = await open({ transports, WebSocket: FakeSocket, ticket: 'a.b', retryMinMs: 1 });
  assert.ok(counters instanceof Counters && counters instanceof Replica);
  await until(() => counters.get('likes') === 2n, [counters]);
  counters.add('likes');
  await until(() => other.get('likes') === 3n, [other]);
  assert.deepEqual(FakeSocket.made.map(({ url }) => url), ['ws://node/v1/spaces/default/sync', 'ws://another/its/own']);
  assert.ok(FakeSocket.made.every(({ protocols }) => protocols[1] === 'tallymesh.ticket.a.b'));
  FakeSocket.made[0].open();
  assert.equal(counters.status().peers[0].heardAt, undefined, 'nothing was said yet');
  const before = Date.now();
  FakeSocket.made[0].onmessage({ data: FakeSocket.made[0].sent[0].slice().buffer });
  assert.ok(counters.status().peers[0].heardAt >= before);
  FakeSocket.made[0].lose();
  const { peers, counters: count } = counters.status();
  assert.equal(count, 1);
  assert.deepEqual(peers.map(({ state }) => state), ['waiting', 'online', 'connecting']);
  assert.deepEqual(peers.map(({ error }) => error?.code), ['link_lost', undefined, undefined]);
  const { connections } = counters;
  await counters.close();
  assert.deepEqual(connections.map(({ state }) => state), ['closed', 'closed', 'closed']);
  assert.equal(FakeSocket.made[1].readyState, 3);
  assert.equal(other.status().links, 0);
  assert.throws(() => counters.add('likes'), { code: 'freed' });
});

test('a peer that cannot be named leaves nothing open', async () => {
  FakeSocket.made = [];
  const other = await open();
  const transports = [toward(other), 'http://node/', 'mailto:node'];
  await assert.rejects(open({ transports, WebSocket: FakeSocket }), { code: 'url', message: /mailto:/ });
  assert.equal(other.status().links, 0);
  assert.deepEqual(FakeSocket.made.map(({ readyState }) => readyState), [3]);
});

test('what was counted last is told and sent before counters are closed or freed', async () => {
  for (const end of [(it) => it.close(), (it) => it[Symbol.asyncDispose](), (it) => it.free()]) {
    const other = await open();
    const counters = await open({ transports: [toward(other)] });
    const heard = [];
    counters.subscribe('likes', (value) => {
      heard.push(value);
      counters.free();
    });
    counters.add('likes', 5);
    await end(counters);
    await microtask();
    assert.equal(other.get('likes'), 5n);
    assert.deepEqual(heard, [5n]);
    await counters.close();
    counters.free();
  }
});

test('a watch tells the value, and each one that it changes to', async () => {
  const counters = await open();
  counters.add('likes', 1);
  const watch = counters.watch('likes');
  const next = async () => (await watch.next()).value;
  assert.equal(await next(), 1n);
  const changed = next();
  counters.add('other');
  counters.add('likes');
  assert.equal(await changed, 2n);
  counters.add('likes');
  await microtask();
  counters.add('likes');
  await microtask();
  assert.equal(await next(), 4n, 'nobody asked for 3');
  counters.add('likes', 0);
  const deleted = next();
  await microtask();
  counters.delete('likes');
  assert.equal(await deleted, undefined);
  const last = watch.next();
  await counters.close();
  assert.deepEqual(await last, { value: undefined, done: true });
  await assert.rejects(counters.watch('likes').next(), { code: 'freed' });
});

test('a watch is ended by its signal, and by a break', async () => {
  const counters = await open();
  const abort = new AbortController();
  const watch = counters.watch('likes', { signal: abort.signal });
  assert.deepEqual(await watch.next(), { value: undefined, done: false });
  const waiting = watch.next();
  await microtask();
  abort.abort(new Error('enough'));
  await assert.rejects(waiting, { message: 'enough' });
  assert.deepEqual(await watch.next(), { value: undefined, done: true });
  await assert.rejects(counters.watch('likes', { signal: AbortSignal.abort() }).next(), { name: 'AbortError' });
  const seen = [];
  for await (const value of counters.watch('likes')) {
    seen.push(value);
    if (value === 2n) break;
    counters.add('likes');
  }
  assert.deepEqual(seen, [undefined, 1n, 2n]);
});

test('listeners to a prefix hear of all counters that begin with it', async () => {
  const counters = await open();
  const heard = [];
  const stop = counters.subscribe({ prefix: 'cart:' }, (value, key) => heard.push([key, value]));
  counters.subscribe('cart:tea', (value) => heard.push(['tea', value]));
  counters.add('cart:tea');
  counters.add('cart');
  counters.add('cart:');
  await microtask();
  assert.deepEqual(heard.splice(0), [['tea', 1n], ['cart:tea', 1n], ['cart:', 1n]]);
  stop();
  stop();
  counters.add('cart:tea');
  await microtask();
  assert.deepEqual(heard, [['tea', 2n]]);
  for (const watched of [undefined, {}, { prefix: 7 }, 7, null]) {
    assert.throws(() => counters.subscribe(watched, () => {}), { code: 'key_type' });
  }
});

test('a transaction is made by a function, all of it or nothing', async () => {
  const counters = await open();
  const at = new Date(Date.now() + 60_000);
  counters.add('old');
  const told = counters.transact((t) => {
    t.add('sold');
    t.set('stock', 9);
    t.reset('views');
    t.delete('old');
    t.expire('sold', at);
    t.persist('stock');
  });
  assert.deepEqual(told, [false, false, false, true, true, false]);
  assert.deepEqual(counters.list(), [['sold', 1n], ['stock', 9n], ['views', 0n]]);
  assert.deepEqual(counters.expiresAt('sold'), at);
  const { clock } = counters.status();
  const stop = new Error('no');
  assert.throws(() => counters.transact((t) => {
    t.add('sold');
    throw stop;
  }), stop);
  assert.throws(() => counters.transact((t) => {
    t.add('sold');
    t.add('sold', 0.5);
  }), { code: 'amount_not_integer' });
  assert.throws(() => counters.transact(async (t) => t.add('sold')), { code: 'transaction_over' });
  let late;
  assert.deepEqual(counters.transact((t) => void (late = t)), []);
  assert.throws(() => late.add('sold'), { code: 'transaction_over', message: /add/ });
  assert.deepEqual([counters.get('sold'), counters.status().clock], [1n, clock]);
});

test('a key keeps a byte order mark that it begins with', async () => {
  const counters = await open();
  const other = await open();
  const heard = [];
  other.subscribe({ prefix: '' }, (value, key) => heard.push([key, value]));
  counters.add('\uFEFFa');
  counters.add('a', 5);
  assert.deepEqual(counters.list(), [['a', 5n], ['\uFEFFa', 1n]]);
  other.merge(counters.delta());
  await microtask();
  assert.deepEqual(heard.sort(), [['a', 5n], ['\uFEFFa', 1n]]);
});
