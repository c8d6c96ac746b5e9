import assert from 'node:assert/strict';
import { test } from 'node:test';
import { install } from './install.mjs';
import { pair, until } from './link.mjs';
import { absorbedState, budgetState, closedState, OWNER } from './member.mjs';

const { init, connect, open, Replica } = await install().load();
await init();

test('a replica that meets members says so, and goes on in the second module with all that it had', async () => {
  const replica = new Replica();
  const counter = replica.counter('likes');
  const other = replica.counter('views');
  replica.add('first', 2);
  counter.add(5);
  replica.set('price', 7);
  replica.expire('price', new Date(Date.now() + 3_600_000));
  const seen = [];
  replica.subscribe('likes', (value) => seen.push(value));
  const before = { ...replica.status(), json: replica.toJSON() };
  assert.equal(before.members, undefined);
  assert.throws(() => replica.merge(closedState(10)), { code: 'members_unsupported', message: /upgrade\(\)/ });
  assert.deepEqual(replica.status().vector, before.vector, 'nothing was changed');

  const upgraded = replica.upgrade();
  // What is done while the module loads.
  replica.add('likes');
  counter.add(1);
  await upgraded;
  await replica.upgrade();
  assert.equal(replica.writer, before.writer);
  assert.equal(replica.status().clock, before.clock + 2n);
  assert.equal(replica.get('first'), 2n);
  assert.ok(replica.expiresAt('price') instanceof Date);
  assert.equal(counter.value, 7n);
  replica.add('first');
  other.add(3);
  counter.add();
  assert.deepEqual(replica.list(), [['first', 3n], ['likes', 8n], ['price', 7n], ['views', 3n]]);
  assert.equal(replica.status().members, undefined);
  assert.equal(replica.status().pending, undefined, 'nobody answers for it');

  replica.merge(closedState(10));
  assert.equal(counter.value, 18n);
  assert.deepEqual(replica.status().members, { era: 0n, number: 1n, owners: [OWNER] });
  assert.equal(replica.status().home, undefined);
  assert.equal(replica.status().pending, 1, 'what was before counts as one');
  const writers = replica.writers();
  assert.deepEqual(writers.map(({ fate }) => fate), ['living', 'living']);
  assert.equal(writers.find(({ owner }) => owner === OWNER).writer, 'c0'.repeat(16));
  assert.equal(replica.leave(), false, 'no member has taken it in');
  counter.free();
  await until(() => seen.at(-1) === 18n, [replica]);
  replica.add('likes');
  assert.equal(replica.status().pending, 2, 'no member has heard of it');
  replica.free();
  assert.throws(() => replica.upgrade(), { code: 'freed' });
});

test('what is kept of a budget is passed on, and is no counter', async () => {
  const replica = new Replica();
  await replica.upgrade();
  const seen = [];
  replica.subscribe({ prefix: '' }, (value, key) => seen.push(key));
  replica.merge(budgetState(10));
  replica.add('likes');
  await until(() => seen.includes('likes'), [replica]);
  assert.deepEqual(seen, ['likes']);
  assert.deepEqual(replica.list(), [['likes', 1n]]);
  assert.deepEqual(Object.keys(replica.toJSON().counters), ['likes']);
  for (const key of ['\0bvgift', '\0']) {
    assert.equal(replica.get(key), undefined);
    assert.deepEqual(replica.shards(key), []);
    assert.throws(() => replica.subscribe({ prefix: key }, () => {}), { code: 'key_reserved' });
  }
  assert.ok(Buffer.from(replica.delta()).includes('\0bvgift'));
  replica.free();
});

test('only what differs is told by the second module', async () => {
  const [small, large] = [new Replica(), await open({ members: true })];
  small.add('k', 2);
  large.merge(small.delta());
  assert.deepEqual(large.list(), [['k', 2n]]);
  small.merge(large.delta());
  assert.deepEqual(small.writers(), [{ writer: small.writer, clock: 1n, fate: 'living' }]);
  assert.equal(small.leave(), false);
  assert.equal(large.leave(), false);
  assert.throws(() => new Replica({ members: true, space: 'no space' }), { code: 'space_name' });
});

test('what members took over tells of members too', async () => {
  const [small, large] = [new Replica(), await open({ members: true })];
  assert.throws(() => small.merge(absorbedState(10)), { code: 'members_unsupported' });
  large.merge(absorbedState(10));
  assert.equal(large.get('likes'), 10n);
});

test('a link that brings word of members is closed, and made again after the upgrade', async () => {
  const [page, guest] = [new Replica(), await open({ members: true })];
  guest.merge(closedState(10));
  page.add('likes');
  const counter = page.counter('likes');
  const reasons = [];
  const first = { a: undefined, b: undefined };
  const upgraded = new Promise((resolve) => {
    first.a = page.attach({
      send: (frame) => queueMicrotask(() => first.b.receive(frame)),
      close: (reason) => resolve(reasons.push(reason.code)),
    });
    first.b = guest.attach({ send: (frame) => queueMicrotask(() => first.a.receive(frame)), close: () => {} });
  });
  // Counting goes on whatever the link brings.
  counter.add(2);
  await upgraded;
  first.b.close();
  assert.deepEqual(reasons, ['upgraded']);
  counter.add(3);
  assert.equal(page.status().links, 0);
  const link = pair(page, guest);
  await until(() => counter.value === 16n, [page]);
  assert.deepEqual(page.status().members?.owners, [OWNER]);
  link.cut();
});

test('a connection dials again at once after an upgrade, and waits longer after a refusal', async () => {
  const sockets = [];
  class FakeSocket {
    readyState = 1;
    constructor() {
      sockets.push(this);
    }
    send() {}
    close() {}
  }
  const replica = new Replica();
  const connection = connect(replica, 'http://127.0.0.1:7/', { WebSocket: FakeSocket, retryMinMs: 60_000, retryMaxMs: 60_000 });
  sockets[0].onopen();
  assert.equal(connection.state, 'online');
  await replica.upgrade();
  assert.equal(sockets.length, 2, 'without waiting');
  assert.equal(connection.state, 'connecting');
  assert.equal(connection.error, undefined);
  connection.close();
});
