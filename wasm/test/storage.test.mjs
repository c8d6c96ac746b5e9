import assert from 'node:assert/strict';
import { test } from 'node:test';
import { install } from './install.mjs';
import { pair, until } from './link.mjs';
import { closedState } from './member.mjs';
import { FakeSocket } from './socket.mjs';
import { gate, PlayedStore } from './store.mjs';

const project = install();
const { open, TallymeshError } = await project.load();
const { stored } = await project.load('tallymesh/storage');

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('what was counted is there again, under another writer', async () => {
  const store = new PlayedStore();
  const first = await open({ storage: stored(store) });
  first.add('likes', 2);
  first.transact([{ op: 'set', key: 'price', value: 7 }, { op: 'add', key: 'gone' }]);
  first.delete('gone');
  first.expire('price', new Date(Date.now() + 3_600_000));
  const { writer } = first;
  await first.close();
  assert.throws(() => first.add('likes'), { code: 'freed' });
  const second = await open({ storage: stored(store) });
  assert.deepEqual(second.list(), [['likes', 2n], ['price', 7n]]);
  assert.ok(second.expiresAt('price') instanceof Date);
  assert.notEqual(second.writer, writer);
  second.add('likes');
  assert.equal(second.get('likes'), 3n);
  assert.equal(second.shards('likes').length, 2);
  await second.close();
  assert.equal(store.logs.size, 1, 'the log of before is gone');
});

test('spaces are kept apart', async () => {
  const store = new PlayedStore();
  const [a, b] = [await open({ space: 'a', storage: stored(store) }), await open({ space: 'b', storage: stored(store) })];
  a.add('k', 1);
  b.add('k', 2);
  await Promise.all([a.close(), b.close()]);
  const again = await open({ space: 'b', storage: stored(store) });
  assert.deepEqual(again.list(), [['k', 2n]]);
  await again.close();
});

test('nothing leaves before it is durable', async () => {
  const store = new PlayedStore();
  const counters = await open({ storage: stored(store) });
  const other = await open();
  const { opened, open: go } = gate();
  store.before = () => opened;
  counters.add('likes', 5);
  const sent = [];
  const link = counters.attach({ send: (frame) => sent.push(frame), close: () => {} });
  await turn();
  await turn();
  assert.equal(counters.status().storage.state, 'writing');
  assert.equal(sent.length, 0, 'not even a greeting');
  let flushed = false;
  const flush = counters.flush().then(() => (flushed = true));
  await turn();
  assert.ok(!flushed);
  go();
  await flush;
  assert.ok(sent.length > 0);
  assert.equal(counters.status().storage.state, 'durable');
  link.close();
  await counters.close();
  await other.close();
});

test('a wait for the storage ends when its signal is aborted; the write goes on', async () => {
  const store = new PlayedStore();
  const counters = await open({ storage: stored(store) });
  const { opened, open: go } = gate();
  store.before = () => opened;
  counters.add('likes');
  const given = new AbortController();
  const why = new Error('the user went on');
  const waiting = assert.rejects(counters.flush({ signal: given.signal }), why);
  await turn();
  given.abort(why);
  await waiting;
  await assert.rejects(counters.flush({ signal: given.signal }), why);
  const rest = counters.flush({ signal: new AbortController().signal });
  go();
  await rest;
  assert.equal(counters.status().storage.state, 'durable');
  await counters.close();
});

test('whatever a peer was told is found again, wherever the process was killed', async () => {
  // Of each frame that leaves: what was durable then.
  const store = new PlayedStore();
  const counters = await open({ storage: stored(store) });
  const other = await open();
  const seen = [];
  const links = {};
  links.a = counters.attach({
    send: (frame) => {
      const copy = store.copy();
      links.b.receive(frame);
      seen.push({ copy, clock: other.status().vector.get(counters.writer) ?? 0n, value: other.get('k') });
    },
    close: () => {},
  });
  links.b = other.attach({ send: (frame) => queueMicrotask(() => links.a.receive(frame)), close: () => {} });
  for (let at = 0; at < 40; at++) {
    counters.add('k', at);
    if (at % 7 === 3) counters.reset('k');
    if (at % 3 === 0) await turn();
    if (at % 10 === 0) await counters.flush();
  }
  await counters.flush();
  await until(() => other.get('k') === counters.get('k'), [other]);
  const { writer } = counters;
  let compared = 0;
  for (const { copy, clock, value } of seen) {
    if (clock === 0n) continue;
    const again = await open({ storage: stored(copy) });
    assert.ok((again.status().vector.get(writer) ?? 0n) >= clock);
    if (again.status().vector.get(writer) === clock) {
      assert.equal(again.get('k'), value);
      compared++;
    }
    again.free();
  }
  assert.ok(compared > 3, `only ${compared} were of one clock`);
  await counters.close();
  await other.close();
});

test('several logs are taken over, and each add counts once', async () => {
  const store = new PlayedStore();
  const tabs = [];
  for (let at = 1; at <= 3; at++) {
    const tab = await open({ storage: stored(store) });
    tab.add('k', 10 ** at);
    tabs.push(tab);
  }
  // Two of them heard of each other.
  const linked = pair(tabs[0], tabs[1]);
  await until(() => tabs[1].get('k') === 110n && tabs[0].get('k') === 110n, tabs);
  linked.cut();
  for (const tab of tabs) await tab.flush();
  store.kill();
  const next = await open({ storage: stored(store) });
  assert.equal(next.get('k'), 1_110n);
  assert.equal(store.logs.size, 1);
  for (const tab of tabs) tab.free();
  await next.close();
});

test('what another tab leaves behind is taken over by one that runs, which tells of it', async () => {
  const store = new PlayedStore();
  const [tab, killed] = [await open({ storage: stored(store) }), await open({ storage: stored(store) })];
  tab.add('k', 1);
  killed.add('k', 2);
  await killed.flush();
  const told = [];
  tab.subscribe('k', (value) => told.push(value));
  const [first] = [...store.logs.keys()];
  const other = [...store.logs.keys()].find((name) => name !== first);
  // It is the first that runs on: what it registered came before that of the second.
  assert.ok(await store.offers[0](other));
  assert.equal(tab.get('k'), 3n);
  await until(() => told.at(-1) === 3n, [tab]);
  assert.deepEqual([...store.logs.keys()], [first]);
  killed.free();
  await tab.close();
});

test('a storage that fails holds back what peers would be told, and is tried again', async () => {
  const store = new PlayedStore();
  const counters = await open({ storage: stored(store) });
  const states = [];
  counters.onStorage(({ state, error }) => states.push([state, error?.code]));
  let full = true;
  store.before = async () => {
    if (full) throw new DOMException('the quota is exceeded', 'QuotaExceededError');
  };
  const sent = [];
  counters.attach({ send: (frame) => sent.push(frame), close: () => {} });
  counters.add('k');
  await assert.rejects(counters.flush(), (error) => {
    assert.ok(error instanceof TallymeshError);
    assert.equal(error.code, 'storage_failed');
    return /quota/.test(error.message);
  });
  assert.equal(counters.status().storage.state, 'failing');
  assert.equal(counters.get('k'), 1n, 'it counts all the same');
  assert.equal(sent.length, 0);
  const mended = new Promise((resolve) => counters.onStorage(resolve));
  full = false;
  await mended; // by itself
  await counters.flush();
  assert.equal(counters.status().storage.state, 'durable');
  assert.ok(sent.length > 0);
  assert.deepEqual(states, [['failing', 'storage_failed'], ['writing', undefined]]);
  await counters.close();
  const again = await open({ storage: stored(store) });
  assert.equal(again.get('k'), 1n);
  await again.close();
});

test('closing says what could not be written, and closes', async () => {
  const store = new PlayedStore();
  const counters = await open({ storage: stored(store) });
  store.before = async () => {
    throw new Error('the disk is gone');
  };
  counters.add('k');
  await assert.rejects(counters.close(), { code: 'storage_failed', message: /disk is gone/ });
  assert.throws(() => counters.get('k'), { code: 'freed' });
  assert.equal(store.alive.size, 0);
});

test('what was counted just before free() is written', async () => {
  const store = new PlayedStore();
  const counters = await open({ storage: stored(store) });
  counters.add('k', 4);
  counters.free();
  await turn();
  const again = await open({ storage: stored(store) });
  assert.equal(again.get('k'), 4n);
  await again.close();
});

test('a log that has grown is written anew', async () => {
  const store = new PlayedStore();
  const counters = await open({ storage: stored(store) });
  let whole = 0;
  store.before = async (_, is) => void (whole += Number(is));
  for (let round = 0; round < 60; round++) {
    for (let at = 0; at < 1_000; at++) counters.add(`a key of some length ${at}`);
    await counters.flush();
  }
  assert.ok(whole >= 1 && whole < 20, `${whole}`);
  const bytes = [...store.logs.values()].flat().reduce((sum, { length }) => sum + length, 0);
  assert.ok(bytes < 1_000_000, `${bytes}`);
  await counters.close();
  const again = await open({ storage: stored(store) });
  assert.equal(again.get('a key of some length 999'), 60n);
  await again.close();
});

test('what is damaged is refused, and stays as it is', async () => {
  const store = new PlayedStore();
  const counters = await open({ storage: stored(store) });
  counters.add('k');
  await counters.close();
  const [[name, records]] = store.logs;
  for (const broken of [new Uint8Array(), new Uint8Array([1, 0, 0, 255]), new Uint8Array([1, 9, 9]), records[0].slice(0, -1)]) {
    store.logs.set(name, [broken]);
    await assert.rejects(open({ storage: stored(store) }), { code: 'storage_failed', message: /damaged/ });
    assert.deepEqual([...store.logs], [[name, [broken]]]);
    assert.equal(store.alive.size, 0);
  }
});

test('a store is asked for no space that is none, and its own refusal is told', async () => {
  const store = new PlayedStore();
  await assert.rejects(open({ space: '../etc', storage: stored(store) }), { code: 'space_name' });
  assert.equal(store.opened, 0);
  const shut = { kind: 'shut', open: async () => Promise.reject(new Error('it is shut')) };
  await assert.rejects(open({ storage: stored(shut) }), { code: 'storage_failed', message: /\(shut\) failed: it is shut/ });
});

test('where there is no storage, counters are in memory, and say so', async (t) => {
  const warn = t.mock.method(console, 'warn', () => {});
  const counters = await open({ storage: stored({ kind: 'none', open: async () => ({ none: 'there is no disk' }) }) });
  counters.add('k');
  const { storage } = counters.status();
  assert.deepEqual([storage.state, storage.error.code], ['memory', 'storage_none']);
  assert.equal(warn.mock.callCount(), 1);
  await counters.flush();
  await counters.close();
});

test('the key of the store is the owner\'s, and signs, unless the options name one', async () => {
  const store = new PlayedStore();
  const key = (fill) => ({ publicKey: new Uint8Array(32).fill(fill), sign: async () => new Uint8Array(64).fill(fill) });
  store.ownerKey = key(1);
  const own = key(2);
  for (const [options, fill] of [[{}, '01'], [{ ownerKey: own.publicKey, sign: own.sign }, '02']]) {
    FakeSocket.made = [];
    const counters = await open({ storage: stored(store), transports: ['http://node/'], WebSocket: FakeSocket, ticket: 't', ...options });
    const [socket] = FakeSocket.made;
    socket.open();
    const online = new Promise((resolve) => counters.connections[0].subscribe(resolve));
    socket.onmessage({ data: JSON.stringify({ challenge: '0c'.repeat(32), node: '0d'.repeat(32), role: 'editor' }) });
    assert.equal(await online, 'online');
    assert.deepEqual(JSON.parse(socket.sent[0]), { owner: fill.repeat(32), signature: fill.repeat(64) });
    await counters.close();
  }
});

test('what no member is known to hold is told, over starts', async () => {
  const store = new PlayedStore();
  const a = await open({ storage: stored(store) });
  a.merge(closedState(3));
  assert.equal(a.get('likes'), 3n);
  assert.equal(a.status().storage.unacknowledged, 0);
  a.add('likes');
  await a.close();
  const again = await open({ storage: stored(store) });
  assert.equal(again.get('likes'), 4n);
  assert.equal(again.status().members.number, 1n);
  assert.equal(again.status().storage.unacknowledged, 1);
  await again.close();
});
