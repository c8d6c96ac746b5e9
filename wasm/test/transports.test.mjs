// Replicas of one process over BroadcastChannel and over message ports.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { install } from './install.mjs';
import { until } from './link.mjs';
import { closedState } from './member.mjs';
import { loadTransports, poll } from './transports.mjs';

const { project, load } = install();
const { init, open, Replica, TallymeshError } = await load();
const { broadcastChannel, messagePort } = await loadTransports(project);
await init();

const FAST = { retryMinMs: 1, retryMaxMs: 4 };
/** What is to be ended, also when a test fails: channels keep a process alive. */
const opened = [];
after(() => opened.forEach((it) => it.close()));

/** A replica on the channel of its space, each test's own. */
const tab = async (space, options = FAST) => {
  const counters = await open({ space, transports: [broadcastChannel(undefined, options)] });
  opened.push(counters);
  return counters;
};

/** Somebody who says what he likes on the channel of a space; hears all that is said there. */
const stranger = (space) => {
  const channel = new BroadcastChannel(`tallymesh:${space}`);
  opened.push(channel);
  const said = [];
  channel.onmessage = ({ data }) => said.push(data);
  return { said, say: (message) => channel.postMessage(message) };
};

const online = (count, ...tabs) =>
  poll(`${count} links each`, () => tabs.every((it) => it.status().links === count));
const states = (...tabs) => tabs.map(({ connections: [{ state }] }) => state);

test('three tabs agree, each linked with each other one', async () => {
  const tabs = [await tab('three'), await tab('three')];
  await online(1, ...tabs);
  tabs.push(await tab('three'));
  await online(2, ...tabs);
  tabs.forEach((it, at) => it.add('likes', 10 ** at));
  await until(() => tabs.every((it) => it.get('likes') === 111n), tabs);
  assert.deepEqual(states(...tabs), ['online', 'online', 'online']);
  const heard = tabs.map((it) => Date.now() - it.status().peers[0].heardAt);
  assert.ok(heard.every((agoMs) => agoMs >= 0 && agoMs < 60_000), `heard ${heard} ms ago`);
  assert.equal(tabs[0].connections[0].url, 'broadcast:tallymesh:three');
  await tabs[0].close();
  await online(1, tabs[1], tabs[2]);
  await tabs[1].close();
  await online(0, tabs[2]);
  assert.deepEqual(states(...tabs), ['closed', 'closed', 'connecting']);
  assert.equal(tabs[2].connections[0].error, undefined, 'they said goodbye');
});

test('many that come at once have one link with each other', async () => {
  const tabs = await Promise.all(Array.from({ length: 6 }, () => tab('many')));
  tabs.forEach((it) => it.add('likes'));
  await until(() => tabs.every((it) => it.get('likes') === 6n), tabs);
  await online(5, ...tabs);
});

test('a tab that is cut counts on, and what it counted is there once it is back', async () => {
  const [a, b] = [await tab('cut'), await tab('cut')];
  await online(1, a, b);
  const [connection] = a.connections;
  const told = [];
  connection.subscribe((state) => told.push(state));
  connection.pause();
  await online(0, a, b);
  a.add('likes', 1);
  b.add('likes', 2);
  assert.deepEqual([a.get('likes'), b.get('likes'), ...states(a, b)], [1n, 2n, 'paused', 'connecting']);
  connection.resume();
  await until(() => a.get('likes') === 3n && b.get('likes') === 3n, [a, b]);
  assert.deepEqual(told, ['paused', 'connecting', 'online']);
  connection.resume();
  connection.close();
  connection.resume();
  connection.pause();
  assert.equal(connection.state, 'closed');
  await online(0, a, b);
  assert.equal(told.at(-1), 'closed');
});

test('what was counted last is sent before a tab closes', async () => {
  const [a, b] = [await tab('last'), await tab('last')];
  await online(1, a, b);
  a.add('likes', 5);
  await a.close();
  await until(() => b.get('likes') === 5n, [b]);
});

test('spaces, and names of channels, are apart', async () => {
  const all = [await tab('one'), await tab('one'), await tab('two')];
  const named = await open({ space: 'one', transports: [broadcastChannel('shop')] });
  opened.push(named);
  await online(1, all[0], all[1]);
  all[0].add('likes');
  await until(() => all[1].get('likes') === 1n, all);
  assert.deepEqual([all[2].status().links, named.status().links], [0, 0]);
  assert.deepEqual([all[2].get('likes'), named.get('likes')], [undefined, undefined]);
  assert.equal(named.connections[0].url, 'broadcast:shop:one');
});

test('a bare replica takes a transport, and may be freed before its connection', async () => {
  const [a, b] = [new Replica({ space: 'bare' }), await tab('bare')];
  const connection = broadcastChannel()(a);
  opened.push(connection);
  a.add('likes');
  await until(() => b.get('likes') === 1n, [b]);
  a.free();
  b.add('likes');
  await tab('bare'); // a link with it cannot be made any more
  await poll('the connection to close', () => connection.state === 'closed');
  assert.equal(connection.error.code, 'freed');
  await online(1, b);
});

test('a tab that vanishes without a word is given up', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const left = await tab('vanish');
  const code = `import { open } from 'tallymesh';
    import { broadcastChannel } from 'tallymesh/transports';
    const counters = await open({ space: 'vanish', transports: [broadcastChannel()] });
    counters.add('likes', 7);\n`;
  writeFileSync(join(project, 'vanish.mjs'), code);
  const worker = new Worker(join(project, 'vanish.mjs'));
  await until(() => left.get('likes') === 7n, [left]);
  const other = await tab('vanish');
  await online(2, left);
  await worker.terminate();
  // Who is there says so at each beat; nothing is lost in between.
  for (let beat = 0; beat < 20 && left.status().links > 1; beat++) {
    t.mock.timers.tick(20_000);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await online(1, left, other);
  assert.deepEqual(states(left, other), ['online', 'online']);
  assert.equal(left.connections[0].error.code, 'link_lost');
  left.add('likes');
  await until(() => other.get('likes') === 8n, [other]);
});

test('who was given up and is there after all is met again', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const here = await tab('again');
  const { say, said } = stranger('again');
  say({ tallymesh: 1, from: 'x', kind: 'join' });
  await poll('an answer', () => said.some(({ to, kind }) => to === 'x' && kind === 'open'));
  said.length = 0;
  for (let beat = 0; beat < 8; beat++) t.mock.timers.tick(20_000);
  say({ tallymesh: 1, from: 'x', kind: 'alive' });
  await poll('an answer', () => said.some(({ to, kind }) => to === 'x' && kind === 'open'));
  here.free();
});

test('garbage on a channel breaks nothing', async () => {
  const tabs = [await tab('garbage'), await tab('garbage')];
  const [a, b] = tabs;
  await online(1, a, b);
  const { say, said } = stranger('garbage');
  b.connections[0].pause();
  b.connections[0].resume();
  const name = () => said.filter(({ kind }) => kind === 'join').at(-1)?.from;
  const from = await poll('the name of a tab', name);
  await online(1, a, b);
  const frames = [undefined, null, 7, 'x', [], new ArrayBuffer(3), new Uint8Array(0), new Uint8Array(9), new Uint8Array((2 << 20) + 1)];
  const kinds = [undefined, 'join', 'alive', 'open', 'frame', 'close', 'none', 7, null];
  const numbers = [undefined, 0, 1, 2, 3, -1, 0.5, Infinity, '1', {}];
  for (const message of [undefined, null, 7, 'text', {}, [], new Map(), { tallymesh: 2 }, { tallymesh: 1 }]) say(message);
  for (const sender of [from, 'nobody', 7, undefined]) {
    for (const kind of kinds) {
      for (const mine of numbers) {
        for (const yours of numbers) {
          say({ tallymesh: 1, from: sender, kind, mine, yours, frame: frames[said.length % frames.length], to: mine === 3 ? 7 : undefined });
        }
      }
    }
  }
  for (const frame of frames) say({ tallymesh: 1, from, kind: 'frame', yours: 1, frame });
  say({ tallymesh: 1, from: 'nobody', kind: 'bye' });
  a.add('likes', 1);
  b.add('likes', 2);
  await until(() => a.get('likes') === 3n && b.get('likes') === 3n, tabs);
  assert.deepEqual([a.status().faults, a.list().length], [0, 1]);
});

test('a goodbye in the name of somebody else does not last', async () => {
  const tabs = [await tab('forged'), await tab('forged')];
  const [a, b] = tabs;
  await online(1, a, b);
  const { say, said } = stranger('forged');
  a.add('likes', 1);
  const { from } = await poll('a frame', () => said.find(({ kind }) => kind === 'frame'));
  say({ tallymesh: 1, from, kind: 'bye' });
  await poll('the goodbye', () => tabs.some((it) => it.status().links === 0));
  a.add('likes', 1);
  b.add('likes', 1);
  await until(() => tabs.every((it) => it.get('likes') === 3n), tabs);
});

test('a tab that speaks no Tallymesh is refused, and again after a while', async () => {
  const here = await tab('refused');
  const { say, said } = stranger('refused');
  const from = 'x';
  say({ tallymesh: 1, from, kind: 'join' });
  const codes = [];
  const wrong = [
    ({ mine }) => ({ kind: 'frame', yours: mine, frame: new Uint8Array(9) }),
    ({ mine }) => ({ kind: 'frame', yours: mine, frame: new Uint8Array((2 << 20) + 1) }),
    ({ mine }) => ({ kind: 'frame', yours: mine, frame: [1, 2, 3] }),
    () => ({ kind: 'nothing' }),
  ];
  for (const [at, make] of wrong.entries()) {
    const begun = await poll('a link to be begun', () => said.filter(({ kind, to }) => kind === 'open' && to === from)[at]);
    assert.equal(begun.yours, undefined);
    say({ tallymesh: 1, from, to: begun.from, kind: 'open', mine: at, yours: begun.mine });
    await online(1, here);
    // What is of a link that there is not is nobody's fault.
    say({ tallymesh: 1, from, kind: 'frame', yours: begun.mine + 100, frame: new Uint8Array([7]) });
    say({ tallymesh: 1, from, ...make(begun) });
    await poll('the link to be closed', () => said.filter(({ kind, to, yours }) => kind === 'close' && to === from && yours === at).length === 1);
    await poll('an error', () => here.connections[0].error);
    const { error } = here.connections[0];
    assert.ok(error instanceof TallymeshError);
    codes.push(error.code);
  }
  assert.deepEqual(codes, ['not_a_frame', 'too_large', 'malformed', 'malformed']);
});

test('no more than so many peers are met', async () => {
  const here = await tab('crowd');
  const { say, said } = stranger('crowd');
  for (let at = 0; at < 300; at++) say({ tallymesh: 1, from: `x${at}`, kind: 'join' });
  await poll('the limit', () => here.connections[0].error?.code === 'peers_full');
  say({ tallymesh: 1, from: 'x0', kind: 'bye' });
  say({ tallymesh: 1, from: 'late', kind: 'join' });
  await poll('a place', () => said.some(({ to }) => to === 'late'));
  const met = new Set(said.filter(({ kind }) => kind === 'open').map(({ to }) => to));
  assert.equal(met.size, 257);
});

test('tabs in a space with members move to the second module and agree', async () => {
  const [a, b] = [await tab('default'), await tab('default')];
  await online(1, a, b);
  const told = [];
  a.connections[0].subscribe((state) => told.push(state));
  await a.upgrade();
  await online(1, a, b);
  a.merge(closedState(10));
  b.add('likes', 5);
  await until(() => b.get('likes') === 15n, [b]);
  assert.ok(b.status().members);
  await online(1, a, b);
  // That is nothing that went wrong and is tried again after a while.
  assert.ok(!told.includes('waiting'), told.join());
});

/** Two replicas with a port between them, of which the second comes when it is called. */
const ends = async (space = 'port') => {
  const { port1, port2 } = new MessageChannel();
  opened.push(port1, port2);
  const at = async (port) => {
    const counters = await open({ space, transports: [messagePort(port, FAST)] });
    opened.push(counters);
    return counters;
  };
  return { port1, port2, at };
};

test('both ends of a port agree, whoever comes first', async () => {
  for (const order of [['port1', 'port2'], ['port2', 'port1']]) {
    const { at, ...ports } = await ends();
    const a = await at(ports[order[0]]);
    a.add('likes', 1);
    assert.deepEqual(states(a), ['connecting']);
    const b = await at(ports[order[1]]);
    b.add('likes', 2);
    await until(() => a.get('likes') === 3n && b.get('likes') === 3n, [a, b]);
    await online(1, a, b);
  }
});

test('an end that closes ends the link of the other one, and may be followed by another', async () => {
  const { port1, port2, at } = await ends();
  const [a, b] = [await at(port1), await at(port2)];
  await online(1, a, b);
  b.add('likes', 1);
  await b.close();
  await online(0, a);
  assert.deepEqual([a.get('likes'), ...states(a, b)], [1n, 'connecting', 'closed']);
  const c = await at(port2);
  await until(() => c.get('likes') === 1n, [c]);
  c.connections[0].pause();
  await online(0, a, c);
  c.add('likes', 1);
  c.connections[0].resume();
  await until(() => a.get('likes') === 2n, [a]);
});

test('one that takes the place of another leaves no link behind', async () => {
  const { port1, port2, at } = await ends();
  const a = await at(port1);
  for (const from of ['x', 'y', 'z']) {
    const opened = new Promise((resolve) => port2.once('message', resolve));
    port2.postMessage({ tallymesh: 1, from, kind: 'open', mine: 1 });
    await opened;
    assert.equal(a.status().links, 1);
  }
});

test('a port that is closed closes the connections of both ends', async () => {
  const { port1, port2, at } = await ends();
  const [a, b] = [await at(port1), await at(port2)];
  await online(1, a, b);
  port1.close();
  await poll('both to be closed', () => states(a, b).every((state) => state === 'closed'));
  assert.deepEqual([a, b].map(({ connections: [{ error }] }) => error.code), ['link_lost', 'link_lost']);
  await online(0, a, b);
});

test('garbage on a port, and messages of others, break nothing', async () => {
  const { port1, port2, at } = await ends();
  const [a, b] = [await at(port1), await at(port2)];
  await online(1, a, b);
  const heard = [];
  port1.on('message', (data) => heard.push(data));
  const said = [];
  port2.on('message', (data) => said.push(data));
  for (const message of [undefined, null, 7, {}, { tallymesh: 1, kind: 'frame' }, { tallymesh: 1, from: 'x', kind: 7 }, 'for others']) {
    port2.postMessage(message);
  }
  await poll('the messages', () => heard.includes('for others'));
  assert.deepEqual(states(a, b), ['online', 'online']);
  const from = 'x';
  port2.postMessage({ tallymesh: 1, from, kind: 'open', mine: 1 });
  const { mine } = await poll('an answer', () => said.find(({ kind, to }) => kind === 'open' && to === from));
  port2.postMessage({ tallymesh: 1, from, kind: 'frame', yours: mine, frame: new Uint8Array([1, 2, 3]) });
  await poll('the error', () => a.connections[0].error?.code === 'not_a_frame');
  assert.ok(a.connections[0].error instanceof TallymeshError);
  // The other end has something to say, and all is well.
  b.add('likes');
  await until(() => a.get('likes') === 1n, [a]);
  await online(1, a, b);
});

test('replicas of two spaces at one port are refused', async () => {
  const { port1, port2, at } = await ends('one');
  const a = await at(port1);
  const b = await open({ space: 'two', transports: [messagePort(port2, FAST)] });
  opened.push(b);
  const codes = new Set();
  await poll('the refusal', () => [a, b].some(({ connections: [{ error }] }) => codes.add(error?.code).has('wrong_space')));
});

test('a worker of Node and its parent agree', async () => {
  const code = `import { parentPort } from 'node:worker_threads';
    import { open } from 'tallymesh';
    import { messagePort } from 'tallymesh/transports';
    const counters = await open({ transports: [messagePort(parentPort)] });
    counters.add('likes', 2);\n`;
  writeFileSync(join(project, 'worker.mjs'), code);
  const worker = new Worker(join(project, 'worker.mjs'));
  const counters = await open({ transports: [messagePort(worker)] });
  opened.push(counters);
  counters.add('likes', 1);
  await until(() => counters.get('likes') === 3n, [counters]);
  await worker.terminate();
  await poll('the end', () => states(counters)[0] === 'closed');
  assert.equal(counters.connections[0].error.code, 'link_lost');
});

test('where there is no BroadcastChannel, that is said', async () => {
  const before = globalThis.BroadcastChannel;
  globalThis.BroadcastChannel = undefined;
  try {
    await assert.rejects(open({ transports: [broadcastChannel()] }), { code: 'no_broadcast_channel' });
  } finally {
    globalThis.BroadcastChannel = before;
  }
});
