// js-libp2p of a user, in Node and in Chromium, with native nodes and with itself.
import assert from 'node:assert/strict';
import { readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { launch } from '../e2e/browser.mjs';
import { oneNode, read, tell } from '../e2e/nodes.mjs';
import { serve } from '../e2e/serve.mjs';
import { until } from '../e2e/until.mjs';
import { makeNode, multiaddr } from './libp2p-node.mjs';
import { html } from './pages.mjs';
import { execute, makeProject, tool, write } from './project.mjs';

const LISTEN = ['--listen', '/ip4/127.0.0.1/tcp/0/ws'];
const SYNC = '/tallymesh/sync/2';

let project;
let gossipsubOptions;
let libp2pTransport;
let open;
let node;
let browser;
let pages;

before(async () => {
  project = makeProject();
  write(project, { 'load-libp2p.js': "export { open } from 'tallymesh';\nexport * from 'tallymesh/libp2p';\n" });
  ({ gossipsubOptions, libp2pTransport, open } = await import(pathToFileURL(join(project, 'load-libp2p.js')).href));
  node = await oneNode(...LISTEN);
  browser = await launch('--allow-loopback-in-peer-connection');
  pages = await servePages();
});
after(async () => {
  await browser?.close();
  pages?.stop();
  await node?.stop();
});

/** Serves a page that has all that it takes. */
async function servePages() {
  const here = dirname(fileURLToPath(import.meta.url));
  const outfile = join(project, 'page/page.js');
  await build({
    stdin: { contents: readFileSync(join(here, 'libp2p-page.js'), 'utf8'), resolveDir: project },
    nodePaths: [join(here, 'node_modules')],
    outfile,
    bundle: true,
    format: 'esm',
    logLevel: 'error',
  });
  write(project, { 'page/index.html': html('./page.js') });
  return serve(join(project, 'page'));
}

/** Where a node listens for WebSockets. */
const reached = ({ listen }) => multiaddr(listen.find((address) => address.includes('/ws/')));

/** Counters over a js-libp2p node of their own that dials these. */
async function counting(t, peers, options = {}, gossip = gossipsubOptions) {
  const peer = await makeNode(gossip);
  t.after(() => peer.stop());
  const transport = libp2pTransport(peer, { peers, retryMinMs: 50, retryMaxMs: 500, ...options });
  const ownerKey = options.ticket && peer.peerId.publicKey.raw;
  const counters = await open({ transports: [transport], ...(ownerKey && { ownerKey }) });
  t.after(() => counters.close());
  return { counters, peer, connection: counters.connections[0] };
}

async function post(at, operations) {
  const body = JSON.stringify({ ops: operations });
  const answer = await fetch(`${at.address}/v1/spaces/default/transactions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  assert.ok(answer.ok, await answer.text());
}

/** What a native node tells of this peer. */
async function rowOf(at, peer) {
  const { peers } = await (await fetch(`${at.address}/v1/peers`)).json();
  return peers.find((row) => row.peer === peer.peerId.toString());
}

test('Node: counts with a native node over WebSocket, both ways, by gossip', async (t) => {
  const { counters, connection, peer } = await counting(t, [reached(node)]);
  counters.add('here', 40);
  await until('the count to arrive', async () => (await read(node.address, 'here')) === '40');
  assert.equal(connection.state, 'online');
  assert.equal(connection.error, undefined);
  const heard = new Set();
  peer.services.pubsub.addEventListener('gossipsub:message', ({ detail }) => heard.add(detail.msg.topic));
  // Until all have heard who listens to the topic, pushes go another way or are made good.
  let turns = 0;
  await until('pushes to come by gossip', async () => {
    await post(node, [{ op: 'add', key: 'there', by: '1' }]);
    turns++;
    return heard.has('/tallymesh/space/1/default');
  });
  await until('all to come', () => counters.get('there') === BigInt(turns));
  await until('pushes to go by gossip', async () => {
    counters.add('here');
    return (await rowOf(node, peer)).node.traffic.push.messages_in > 0;
  });
  await until('all to arrive', async () => (await read(node.address, 'here')) === String(counters.get('here')));
});

test('Node: counts without gossipsub, over links alone', async (t) => {
  const { counters, peer } = await counting(t, [reached(node)], {}, null);
  counters.add('alone', 7);
  await until('the count to arrive', async () => (await read(node.address, 'alone')) === '7');
  // What is made good later would arrive, too: it is pushed, by a frame of type 6.
  const [connection] = peer.getConnections();
  const { newStream } = connection;
  const types = new Set();
  connection.newStream = async (...args) => {
    const stream = await newStream.apply(connection, args);
    const { send } = stream;
    stream.send = (bytes) => types.add(bytes[4 + 3]) && send.call(stream, bytes);
    return stream;
  };
  await until('a push', () => {
    counters.add('pushed');
    return types.has(6);
  });
  await post(node, [{ op: 'add', key: 'alone', by: '3' }]);
  await until('the count to come', () => counters.get('alone') === 10n);
  assert.equal((await rowOf(node, peer)).node.traffic.push.messages_in, 0);
});

test('Node: a native node goes and comes back', async (t) => {
  const other = await oneNode(...LISTEN);
  t.after(() => other.stop());
  const address = reached(other);
  const { counters, connection } = await counting(t, [address]);
  counters.add('before');
  await until('the count to arrive', async () => (await read(other.address, 'before')) === '1');
  const states = [];
  connection.subscribe((state) => states.push(state));
  // At the same port as before, as its operator would have it.
  const [, port] = /\/tcp\/(\d+)\//.exec(address.toString());
  await other.again('--listen', `/ip4/127.0.0.1/tcp/${port}/ws`);
  counters.add('after');
  await until('the count to arrive', async () => (await read(other.address, 'after')) === '1');
  assert.equal(connection.state, 'online');
  assert.ok(states.includes('waiting'), states.join());
});

test('Node: begins at a node that is connected already, pauses and goes on', async (t) => {
  const peer = await makeNode(gossipsubOptions);
  t.after(() => peer.stop());
  await peer.dial(reached(node));
  // By now each has told the other what it speaks.
  await until('the native node to be known', async () => (await peer.peerStore.get(peer.getPeers()[0])).protocols.includes(SYNC));
  const counters = await open({ transports: [libp2pTransport(peer, { retryMinMs: 50 })] });
  t.after(() => counters.close());
  const [connection] = counters.connections;
  counters.add('late');
  await until('the count to arrive', async () => (await read(node.address, 'late')) === '1');
  connection.pause();
  await until('the link to be gone', () => peer.getConnections().length === 0);
  assert.equal(connection.state, 'paused');
  counters.add('late');
  connection.resume();
  await peer.dial(reached(node));
  await until('the count to arrive', async () => (await read(node.address, 'late')) === '2');
  assert.equal(connection.state, 'online');
  counters.close();
  await until('the link to be gone', () => peer.getConnections().length === 0);
  assert.ok(!peer.getProtocols().includes(SYNC));
});

test('Node: a state of many frames goes through', async (t) => {
  const keys = Array.from({ length: 20_000 }, (_, index) => `${index}-${'long'.repeat(50)}`);
  const other = await oneNode(...LISTEN);
  t.after(() => other.stop());
  const second = await counting(t, [reached(other)], { paused: true });
  for (const key of keys) second.counters.add(key);
  assert.ok(second.counters.delta().length > 2 << 20, 'more than one frame takes');
  second.connection.resume();
  const last = keys.at(-1);
  await until('it to arrive', async () => (await read(other.address, last)) === '1');
  const third = await counting(t, [reached(other)]);
  await until('it to come', () => third.counters.list().length === keys.length);
  assert.equal(second.connection.error, undefined);
  assert.equal(third.connection.error, undefined);
});

test('Node: tickets are shown to a native node that asks for them', async (t) => {
  const closed = await oneNode(...LISTEN, '--listen-tickets');
  t.after(() => closed.stop());
  const ticketOf = async (role) => (await tell(closed.address, 'invite', '--role', role))[0].ticket;
  await tell(closed.address, 'add', 'likes', '10');
  for (const members of [false, true]) {
    if (members) await tell(closed.address, 'members', 'init');
    for (const role of ['editor', 'writer']) {
      const before = BigInt(await read(closed.address, 'likes'));
      const { counters, connection } = await counting(t, [reached(closed)], { ticket: await ticketOf(role) });
      await until(`the state to come to the ${role}`, () => counters.get('likes') === before);
      counters.add('likes', 5);
      await until(`the ${role}'s count to arrive`, async () => (await read(closed.address, 'likes')) === String(before + 5n));
      await tell(closed.address, 'add', 'likes', '1');
      await until('the count to come', () => counters.get('likes') === before + 6n);
      assert.equal(connection.state, 'online');
      if (role === 'writer') assert.throws(() => counters.reset('likes'), { code: 'beyond_role' });
      await counters.close();
    }
  }
  const reader = await counting(t, [reached(closed)], { ticket: await ticketOf('reader') });
  await until('the state to come to the reader', () => reader.counters.get('likes') === 34n);
  assert.throws(() => reader.counters.add('likes'), { code: 'beyond_role' });
});

test('Node: tickets that are worth nothing say so', async (t) => {
  const closed = await oneNode(...LISTEN, '--listen-tickets');
  t.after(() => closed.stop());
  const [{ ticket: member }] = await tell(closed.address, 'invite', '--role', 'member');
  await assert.rejects(counting(t, [reached(closed)], { ticket: member }), { code: 'ticket_role' });
  await assert.rejects(counting(t, [reached(closed)], { ticket: 'not a ticket' }), { code: 'ticket' });
  const [{ ticket }] = await tell(closed.address, 'invite', '--role', 'writer');
  const [head, claims, signature] = ticket.split('.');
  const forged = [head, claims, signature.split('').reverse().join('')].join('.');
  const { connection } = await counting(t, [reached(closed)], { ticket: forged });
  await until('the refusal', () => connection.error);
  assert.match(connection.error.code, /^ticket/);
  assert.notEqual(connection.state, 'online');

  const peer = await makeNode(gossipsubOptions);
  t.after(() => peer.stop());
  const counters = await open({ transports: [libp2pTransport(peer, { peers: [reached(closed)], ticket })] });
  t.after(() => counters.close());
  await until('the refusal', () => counters.connections[0].error);
  assert.equal(counters.connections[0].error.code, 'owner_key');
});

test('Node: a node that cannot be used is refused', async (t) => {
  const refused = (peer, code) =>
    assert.rejects(async () => {
      const counters = await open({ transports: [libp2pTransport(peer)] });
      t.after(() => counters.close());
    }, { code });
  const signs = await makeNode({ ...gossipsubOptions, globalSignaturePolicy: 'StrictSign' });
  t.after(() => signs.stop());
  await refused(signs, 'gossipsub_policy');
  const stopped = await makeNode(gossipsubOptions, { start: false });
  await refused(stopped, 'libp2p_services');
  const { peer, counters } = await counting(t, []);
  const second = await open({ transports: [libp2pTransport(peer, { retryMinMs: 50, retryMaxMs: 50 })] });
  t.after(() => second.close());
  await until('the refusal', () => second.connections[0].error);
  assert.equal(second.connections[0].error.code, 'space_taken');
  const room = await open({ space: 'room', transports: [libp2pTransport(peer)] });
  t.after(() => room.close());
  assert.equal(room.connections[0].error, undefined);
  await counters.close();
  await until('the space to be free', () => second.connections[0].state === 'connecting');
});

/** Counters at a node that listens, and a peer that is connected with it and says what it likes. */
async function besieged(t) {
  const listens = await makeNode(gossipsubOptions, { addresses: { listen: ['/ip4/127.0.0.1/tcp/0/ws'] } });
  t.after(() => listens.stop());
  const counters = await open({ transports: [libp2pTransport(listens)] });
  t.after(() => counters.close());
  counters.add('likes', 3);
  const hostile = await makeNode(gossipsubOptions);
  t.after(() => hostile.stop());
  const [address] = listens.getMultiaddrs();
  /** Sends these bytes as a request; tells what became of the stream. */
  const send = async (bytes) => {
    const stream = await hostile.dialProtocol(address, SYNC);
    const ended = new Promise((resolve) => stream.addEventListener('close', () => resolve(stream.status)));
    try {
      for (let at = 0; at < bytes.length; at += 1 << 16) {
        if (!stream.send(bytes.subarray(at, at + (1 << 16)))) await stream.onDrain();
      }
      await stream.close();
    } catch {
      // It was refused before all of it was sent.
    }
    return ended;
  };
  return { address, counters, hostile, listens, send, connection: counters.connections[0] };
}

const framed = (...frames) =>
  Buffer.concat(frames.flatMap((frame) => [Buffer.from(new Uint32Array([frame.length]).buffer), Buffer.from(frame)]));
const ofSpace = (space, type, ...body) => Buffer.from([0x74, 0x6d, 1, type, space.length, ...Buffer.from(space), ...body]);

for (const [what, code, bytes] of [
  ['a length beyond the end', 'malformed', Buffer.from([9, 0, 0, 0, 1])],
  ['a huge length', 'malformed', Buffer.from([255, 255, 255, 255, 1, 2, 3])],
  ['half a length', 'malformed', Buffer.from([1, 0])],
  ['what is no frame', 'malformed', framed(Buffer.from('hello'))],
  ['an empty frame', 'malformed', framed(Buffer.alloc(0))],
  ['more than the greatest frame', 'too_large', Buffer.alloc((2 << 20) + 5)],
  ['half a hello', 'truncated', framed(ofSpace('default', 1, 1, 1, 255, 255))],
  ['a frame of no known type', 'malformed', framed(ofSpace('default', 99, 1))],
  ['another frame than a hello', 'handshake', framed(ofSpace('default', 2, ...Buffer.alloc(24)))],
]) {
  test(`Node: a peer sends ${what}`, async (t) => {
    const { counters, hostile, send, connection } = await besieged(t);
    const before = JSON.stringify(counters.toJSON());
    const ended = await send(bytes);
    await until('the refusal', () => connection.error !== undefined);
    assert.equal(connection.error.code, code);
    if (code !== 'handshake') assert.match(ended, /reset|aborted|closed/);
    await until('the connection to be closed', () => hostile.getConnections().length === 0);
    assert.equal(JSON.stringify(counters.toJSON()), before);
  });
}

test('Node: a peer speaks of another space, and honest ones count on', async (t) => {
  const { address, counters, hostile, listens, send, connection } = await besieged(t);
  const before = JSON.stringify(counters.toJSON());
  const push = ofSpace('other', 6, 0, 0, 0);
  assert.equal(await send(framed(push)), 'closed');
  const { pubsub } = hostile.services;
  pubsub.subscribe('/tallymesh/space/1/default');
  const refused = new Promise((resolve) => {
    const { topicValidators } = listens.services.pubsub;
    const [topic, judge] = [...topicValidators][0];
    topicValidators.set(topic, (from, message) => {
      const judged = judge(from, message);
      resolve(judged);
      return judged;
    });
  });
  await until('the topic to be known', () => pubsub.getSubscribers('/tallymesh/space/1/default').length > 0);
  await pubsub.publish('/tallymesh/space/1/default', push);
  assert.equal(await refused, 'reject');
  assert.equal(JSON.stringify(counters.toJSON()), before);
  assert.equal(connection.error, undefined);
  const honest = await counting(t, [address]);
  honest.counters.add('likes', 4);
  await until('both to be equal', () => counters.get('likes') === 7n && honest.counters.get('likes') === 7n);
});

/** A page that counts in a space over a node of its own, and what it says of itself. */
async function openPage(t, space, peers, ticket) {
  // WebRTC over loopback is for pages that may use a camera.
  const context = await browser.newContext({ permissions: ['camera', 'microphone'] });
  t.after(() => context.close());
  const page = await context.newPage();
  await page.goto(pages.address);
  await page.evaluate((options) => globalThis.begin(options), { space, peers, ticket });
  return page;
}

const value = (page, key) => page.evaluate((key) => String(globalThis.counters.get(key)), key);
const add = (page, key, by) => page.evaluate(([key, by]) => void globalThis.counters.add(key, by), [key, by]);

test('Chromium: counts with a native node over WebSocket, with a ticket', async (t) => {
  const [{ ticket }] = await tell(node.address, 'invite', '--role', 'writer');
  const page = await openPage(t, 'default', [reached(node).toString()], ticket);
  await add(page, 'from-page', 5);
  await until('the count to arrive', async () => (await read(node.address, 'from-page')) === '5');
  await post(node, [{ op: 'add', key: 'from-page', by: '2' }]);
  await until('the count to come', async () => (await value(page, 'from-page')) === '7');
});

test('Chromium: a page is no member of a native node on loopback without a ticket', async (t) => {
  await tell(node.address, 'add', 'guarded', '7');
  const page = await openPage(t, 'default', [reached(node).toString()]);
  await add(page, 'guarded', -5);
  const [{ ticket }] = await tell(node.address, 'invite', '--role', 'writer');
  const other = await openPage(t, 'default', [reached(node).toString()], ticket);
  // By the time that a later page's count has arrived, the first one's would have.
  await add(other, 'later', 1);
  await until('the count to arrive', async () => (await read(node.address, 'later')) === '1');
  assert.equal(await read(node.address, 'guarded'), '7');
  assert.equal(await value(page, 'guarded'), '-5');
});

test('Chromium: two pages count by WebRTC, which met at a native node that knows nothing of their space', async (t) => {
  const relay = await oneNode(...LISTEN, '--relay');
  t.after(() => relay.stop());
  const at = reached(relay).toString();
  const first = await openPage(t, 'room', [at]);
  const address = await until('a place at the relay', () => first.evaluate(() => globalThis.placeAtRelay()));
  await add(first, 'likes', 1);
  const second = await openPage(t, 'room', [at, address]);
  await add(second, 'likes', 2);
  // The transport dials again whenever that fails, as it may on a busy machine.
  await until('a direct connection', () => second.evaluate(() => globalThis.isDirect()));
  for (const page of [first, second]) await until('both to be equal', async () => (await value(page, 'likes')) === '3');
  await relay.stop();
  await add(first, 'likes', 10);
  for (const page of [first, second]) await until('both to be equal without the relay', async () => (await value(page, 'likes')) === '13');
});

test("the types fit js-libp2p's own", async () => {
  const here = dirname(fileURLToPath(import.meta.url));
  for (const name of ['libp2p', '@libp2p', '@multiformats']) symlinkSync(join(here, 'node_modules', name), join(project, 'node_modules', name));
  const compilerOptions = { target: 'es2022', module: 'nodenext', lib: ['es2022', 'esnext.disposable', 'dom'], types: [], strict: true, noEmit: true };
  write(project, {
    'tsconfig.json': JSON.stringify({ compilerOptions: { ...compilerOptions, skipLibCheck: true }, files: ['libp2p-types.ts'] }),
    'libp2p-types.ts': `
      import { gossipsub } from '@libp2p/gossipsub';
      import { identify } from '@libp2p/identify';
      import { multiaddr } from '@multiformats/multiaddr';
      import { createLibp2p } from 'libp2p';
      import { open, type Counters } from 'tallymesh';
      import { gossipsubOptions, libp2pTransport, type Libp2pOptions } from 'tallymesh/libp2p';
      export async function begin(address: string): Promise<Counters> {
        const node = await createLibp2p({ services: { identify: identify(), pubsub: gossipsub({ ...gossipsubOptions }) } });
        const options: Libp2pOptions = { peers: [multiaddr(address)], retryMinMs: 10, ticket: 'a.b.c' };
        // @ts-expect-error a node is needed
        libp2pTransport({}, options);
        return open({ transports: [libp2pTransport(node), libp2pTransport(node, options)] });
      }\n`,
  });
  await execute(project, tool('tsc'), ['-p', 'tsconfig.json']).catch(({ stdout, message }) => assert.fail(stdout || message));
});
