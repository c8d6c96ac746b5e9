import assert from 'node:assert/strict';
import { test } from 'node:test';
import { install } from './install.mjs';
import { pair, until } from './link.mjs';
import { FakeSocket, nextSocket } from './socket.mjs';

const { init, connect, Replica } = await install().load();
await init();

test('two replicas agree over a link, and again after a cut', async () => {
  const [a, b] = [new Replica(), new Replica()];
  a.add('likes', 1);
  b.add('likes', 2);
  const first = pair(a, b);
  await until(() => a.get('likes') === 3n && b.get('likes') === 3n, [a, b]);
  a.add('likes', 10);
  await until(() => b.get('likes') === 13n, [b]);
  assert.deepEqual(first.errors, []);
  first.cut();
  a.add('likes', 100);
  b.add('votes', 5);
  assert.equal(b.get('likes'), 13n);
  const second = pair(a, b);
  await until(() => b.get('likes') === 113n && a.get('votes') === 5n, [a, b]);
  second.cut();
  assert.deepEqual(a.toJSON().counters, b.toJSON().counters);
});

test('a chain of three passes changes on', async () => {
  const [a, b, c] = [new Replica(), new Replica(), new Replica()];
  const links = [pair(a, b), pair(b, c)];
  for (let turn = 0; turn < 50; turn++) for (const replica of [a, b, c]) replica.add(`k${turn % 7}`, turn);
  const total = (replica) => replica.list().reduce((sum, [, value]) => sum + value, 0n);
  await until(() => [a, b, c].every((replica) => total(replica) === 3675n), [a, b, c]);
  for (const link of links) link.cut();
});

test('a lost frame is made good', async () => {
  const [a, b] = [new Replica(), new Replica()];
  let lossy = false;
  const link = pair(a, b, () => lossy);
  a.add('k');
  await until(() => b.get('k') === 1n, [b]);
  lossy = true;
  a.add('k');
  // The push of this turn is lost; the next digest finds it out.
  setTimeout(() => (lossy = false), 100);
  await until(() => b.get('k') === 2n, [b]);
  link.cut();
});

test('a link that brings garbage is closed with a code, and others go on', async () => {
  const [a, b] = [new Replica(), new Replica()];
  const good = pair(a, b);
  const errors = [];
  const bad = a.attach({ send: () => {}, close: (error) => errors.push(error) });
  bad.receive(new TextEncoder().encode('GET / HTTP/1.1'));
  assert.equal(errors.length, 1);
  assert.match(errors[0].code, /^[a-z_]+$/);
  bad.receive(new Uint8Array(9));
  bad.close();
  a.add('k');
  await until(() => b.get('k') === 1n, [b]);
  good.cut();
});

test('spaces do not mix', async () => {
  const [a, b] = [new Replica({ space: 'one' }), new Replica({ space: 'two' })];
  a.add('k');
  const errors = await new Promise((resolve) => {
    let link;
    const other = b.attach({ send: () => {}, close: (error) => resolve([error]) });
    link = a.attach({ send: (frame) => other.receive(frame), close: () => {} });
    queueMicrotask(() => link.close());
  });
  assert.equal(errors[0].code, 'wrong_space');
  assert.equal(b.get('k'), undefined);
});

test('a connection tells why a node refuses it', async () => {
  FakeSocket.made = [];
  const waits = { retryMinMs: 1, retryMaxMs: 4 };
  const connection = connect(new Replica(), 'http://127.0.0.1:7/', { WebSocket: FakeSocket, ...waits });
  for (const [code, reason, expected] of [
    [4000, 'space_not_open: start it with --space shop', 'space_not_open'],
    [4000, 'ticket_needed: ask the operator: for one', 'ticket_needed'],
    [4000, 'not as a node says it', 'link_lost'],
    [4000, '', 'link_lost'],
    [1001, 'stops: for now', 'link_lost'],
  ]) {
    const socket = await nextSocket(FakeSocket.made.length || 1);
    socket.open();
    socket.lose(code, reason);
    assert.equal(connection.error.code, expected);
    assert.ok(connection.error.message.includes(reason.replace(/^[a-z_]+: /, '')), connection.error.message);
    await nextSocket(FakeSocket.made.length + 1);
  }
  connection.close();
});

test('a connection opens, is lost, waits, comes back, pauses and closes', async () => {
  FakeSocket.made = [];
  const replica = new Replica({ space: 'shop' });
  const states = [];
  const connection = connect(replica, 'http://127.0.0.1:7/', { WebSocket: FakeSocket, retryMinMs: 1, retryMaxMs: 4 });
  connection.subscribe((state) => states.push(state));
  assert.equal(connection.url, 'ws://127.0.0.1:7/v1/spaces/shop/sync');
  assert.equal(connection.state, 'connecting');
  (await nextSocket(1)).open();
  assert.equal(connection.state, 'online');
  assert.equal(replica.status().links, 1);
  assert.ok(FakeSocket.made[0].sent.length > 0, 'it greets');
  FakeSocket.made[0].lose();
  assert.equal(connection.state, 'waiting');
  assert.equal(connection.error.code, 'link_lost');
  assert.equal(replica.status().links, 0);
  (await nextSocket(2)).lose();
  (await nextSocket(3)).open();
  assert.equal(connection.error, undefined);
  FakeSocket.made[2].lose(1001, 'the node stops');
  assert.match(connection.error.message, /the node stops/);
  (await nextSocket(4)).open();
  connection.pause();
  assert.equal(connection.state, 'paused');
  assert.equal(replica.status().links, 0);
  connection.resume();
  (await nextSocket(5)).open();
  connection.close();
  connection.resume();
  connection.pause();
  assert.equal(connection.state, 'closed');
  assert.equal(FakeSocket.made.length, 5);
  assert.deepEqual(states, [
    'online', 'waiting', 'connecting', 'waiting', 'connecting', 'online', 'waiting', 'connecting', 'online', 'paused',
    'connecting', 'online', 'closed',
  ]);
});

test('a ticket is offered as a subprotocol', () => {
  FakeSocket.made = [];
  const replica = new Replica();
  connect(replica, 'http://node/', { WebSocket: FakeSocket }).close();
  connect(replica, 'http://node/', { WebSocket: FakeSocket, ticket: 'a.b-c_d' }).close();
  assert.deepEqual(FakeSocket.made.map(({ protocols }) => protocols), [undefined, ['tallymesh', 'tallymesh.ticket.a.b-c_d']]);
  for (const ticket of ['', 'a b', 'a,b', 'é']) {
    const given = JSON.stringify(ticket);
    const named = ({ code, message }) => code === 'ticket' && message.includes(given);
    assert.throws(() => connect(replica, 'http://node/', { WebSocket: FakeSocket, ticket }), named);
  }
});

test('addresses that lead nowhere are refused', () => {
  const replica = new Replica();
  for (const url of ['', 'node', 'ftp://node/', 'file:///x']) {
    assert.throws(() => connect(replica, url, { WebSocket: FakeSocket }), { code: 'url' });
  }
  const own = connect(replica, 'wss://node/own/path?x=1', { WebSocket: FakeSocket, paused: true });
  assert.equal(own.url, 'wss://node/own/path?x=1');
  assert.equal(own.state, 'paused');
  own.close();
});

/** Takes a while, as a page does that draws. */
const draw = () => {
  const end = performance.now() + 1;
  while (performance.now() < end);
};

/** Counts the turns that others have until it is stopped. */
function turns() {
  const counted = { count: 0, stop: () => clearImmediate(next) };
  let next = setImmediate(function turn() {
    counted.count++;
    next = setImmediate(turn).unref();
  });
  return counted;
}

test('who is told of much leaves others their turns, and is told each once', async () => {
  const [a, b] = [new Replica(), new Replica()];
  const names = Array.from({ length: 200 }, (_, at) => `counter ${at}`);
  for (const name of names) a.add(name);
  const told = [];
  const others = turns();
  const all = new Promise((resolve) => {
    b.subscribe({ prefix: '' }, (value, key) => {
      draw();
      told.push([key, value]);
      if (told.length === names.length) resolve();
    });
  });
  b.merge(a.delta());
  await all;
  others.stop();
  assert.ok(others.count >= 3, `${others.count} turns of others in ${told.length} ms`);
  assert.deepEqual(told.sort(), names.map((name) => [name, 1n]).sort());

  // What is told last is told whole, however much it is.
  told.length = 0;
  for (const name of names) b.add(name);
  b.free();
  assert.equal(told.length, names.length);
});

test('a large transfer is followed by what was counted meanwhile, also in a goodbye', async (context) => {
  const [a, b] = [new Replica(), new Replica()];
  const names = Array.from({ length: 30_000 }, (_, at) => `counter ${at}`);
  a.transact((t) => t.add('mark'));
  for (const name of names) a.add(name);
  b.subscribe({ prefix: '' }, () => {});
  const link = pair(a, b);
  context.after(link.cut);
  await until(() => b.get('mark') === 1n, [b]);
  b.add('late');
  b.free(); // thousands of counters are not told of yet
  await until(() => a.get('late') === 1n, [a]);
  assert.deepEqual(link.errors, []);
});
