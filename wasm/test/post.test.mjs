// Sync over single requests, with a node that is played here: the real one is met in tests/e2e.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { install } from './install.mjs';
import { until } from './link.mjs';
import { loadTransports, poll } from './transports.mjs';

const { project, load } = install();
const { init, open, Replica, TallymeshError } = await load();
const { post } = await loadTransports(project);
await init();

const opened = [];
// Replicas that are linked keep a process alive.
after(() => opened.forEach((it) => it.free()));

/** Answers requests as a node does, with a replica of its own; `meddle` may answer in its place. */
class FakeNode {
  replica = opened[opened.push(new Replica()) - 1];
  sessions = new Map();
  requests = [];
  meddle = undefined;
  fetch = async (url, init) => {
    const frames = split(init.body);
    this.requests.push({ url, init, frames });
    init.signal.throwIfAborted();
    return (await this.meddle?.(init, frames)) ?? this.answer(init, frames);
  };

  answer({ headers }, frames) {
    let name = headers['tallymesh-session'];
    if (name && !this.sessions.has(name)) return problem(404, 'sync_session', 'there is no such link');
    name ??= String(this.requests.length);
    const session = this.sessions.get(name) ?? this.begin(name);
    for (const frame of frames) session.link.receive(frame);
    if (session.refused) {
      this.sessions.delete(name);
      return problem(400, session.refused, 'a frame is wrong');
    }
    return new Response(joined(session.out.splice(0)), { headers: { 'tallymesh-session': name } });
  }

  begin(name) {
    const session = { out: [] };
    session.link = this.replica.attach({ send: (frame) => session.out.push(frame), close: ({ code }) => (session.refused = code) });
    this.sessions.set(name, session);
    return session;
  }
}

const problem = (status, code, detail, headers = {}) =>
  new Response(JSON.stringify({ code, detail }), { status, headers: { 'content-type': 'application/problem+json', ...headers } });

function split(body) {
  const frames = [];
  for (let at = 0; at < body.length; at += 4 + frames.at(-1).length) {
    frames.push(body.slice(at + 4, at + 4 + new DataView(body.buffer).getUint32(at)));
  }
  return frames;
}

function joined(frames) {
  return Buffer.concat(frames.flatMap((frame) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(frame.length);
    return [length, frame];
  }));
}

const FAST = { retryMinMs: 1, retryMaxMs: 4, intervalMs: 2, intervalMaxMs: 8 };

const via = async (node, options = {}) => {
  const counters = await open({ transports: [post('http://node/', { ...FAST, fetch: node.fetch, ...options })] });
  opened.push(counters);
  return { counters, connection: counters.connections[0] };
};

test('a replica and a node agree, both ways', async () => {
  const node = new FakeNode();
  node.replica.add('likes', 1);
  const { counters, connection } = await via(node);
  assert.equal(connection.url, 'http://node/v1/spaces/default/sync');
  assert.equal(connection.state, 'connecting');
  counters.add('likes', 2);
  await until(() => counters.get('likes') === 3n && node.replica.get('likes') === 3n, [counters, node.replica]);
  assert.equal(connection.state, 'online');
  node.replica.add('likes', 10);
  await until(() => counters.get('likes') === 13n, [counters]);
  assert.equal(node.sessions.size, 1);
  assert.ok(node.requests.every(({ init }) => init.method === 'POST' && !('authorization' in init.headers)));
});

test('what changes here is sent at once, and one request at a time', async () => {
  const node = new FakeNode();
  const { counters, connection } = await via(node, { intervalMs: 1e6, intervalMaxMs: 1e6 });
  let under = 0;
  node.meddle = async () => {
    assert.equal(++under, 1);
    await new Promise((resolve) => setTimeout(resolve, 2));
    under -= 1;
  };
  for (let at = 1; at <= 20; at++) {
    counters.add('likes');
    if (at % 4 === 0) await until(() => node.replica.get('likes') === BigInt(at), [node.replica]);
  }
  assert.deepEqual([connection.state, connection.error], ['online', undefined]);
});

test('a node where nothing happens is asked less and less often', async (t) => {
  const node = new FakeNode();
  const { counters, connection } = await via(node, { intervalMs: 1_000, intervalMaxMs: 8_000 });
  await poll('the link', () => connection.state === 'online');
  const waits = [];
  const { setTimeout: real } = globalThis;
  // Waits of this length are the connection's: the machine's own are longer or shorter.
  t.mock.method(globalThis, 'setTimeout', (work, wait, ...more) => {
    const own = [1_000, 2_000, 4_000, 8_000].includes(wait);
    if (own) waits.push(wait);
    return real(work, own ? 1 : wait, ...more);
  });
  await poll('the longest wait', () => waits.filter((wait) => wait === 8_000).length > 2);
  assert.deepEqual(waits.slice(waits.indexOf(2_000)).slice(0, 4), [2_000, 4_000, 8_000, 8_000]);
  node.replica.add('likes');
  await until(() => counters.get('likes') === 1n, [counters]);
  await poll('short waits', () => waits.lastIndexOf(1_000) > waits.indexOf(8_000));
  // The node hears how long that may take.
  const named = node.requests.map(({ url }) => Number(new URL(url).searchParams.get('again_ms')));
  assert.deepEqual([...new Set(named)].sort((a, b) => a - b), [1_000, 2_000, 4_000, 8_000]);
});

test('many frames, and large ones, are cut into requests that a node takes', async () => {
  for (const [count, length] of [[600, 9], [9, 2 << 20]]) {
    const node = new FakeNode();
    const sizes = [];
    node.meddle = ({ body }, frames) => {
      assert.ok(frames.length <= 256 && body.length <= 8 << 20);
      sizes.push(...frames.map((frame) => frame[8]));
      return new Response('', { headers: { 'tallymesh-session': 's' } });
    };
    // A replica that has so much to say.
    const played = {
      space: 'default',
      [Symbol.for('tallymesh.error')]: TallymeshError,
      attach: ({ send }) => {
        for (let at = 0; at < count; at++) send(new Uint8Array(length).fill(at % 251));
        return { receive() {}, close() {} };
      },
    };
    opened.push({ free: () => connection.close() });
    const connection = post('http://node', { ...FAST, fetch: node.fetch })(played);
    await poll('all frames', () => sizes.length >= count);
    connection.close();
    assert.deepEqual(sizes, Array.from({ length: count }, (_, at) => at % 251));
  }
});

test('refusals, answers that are none and lost links have codes, and are tried again', async () => {
  const node = new FakeNode();
  const wrong = [
    [() => problem(401, 'ticket_expired', 'it has ended'), 'ticket_expired', /it has ended/],
    [() => problem(429, 'rate_limited', 'slower', { 'retry-after': '0' }), 'rate_limited', /slower/],
    [() => new Response('<html>', { status: 502 }), 'http_status', /502/],
    [() => new Response('null', { status: 500 }), 'http_status', /500/],
    [() => problem(500, 'NO CODE', ''), 'http_status', /500/],
    [() => new Response('<html>', { headers: { 'tallymesh-session': 'x' } }), 'malformed', /no frames/],
    [() => new Response(new Uint8Array([0, 0]), { headers: { 'tallymesh-session': 'x' } }), 'malformed', /no frames/],
    [() => new Response(new Uint8Array([255, 0, 0, 0, 1]), { headers: { 'tallymesh-session': 'x' } }), 'malformed', /no frames/],
    [() => new Response(''), 'malformed', /named no link/],
    [() => new Response(new Uint8Array([0, 0, 0, 1, 7]), { headers: { 'tallymesh-session': 'x' } }), 'not_a_frame', /link was closed/],
    [() => Promise.reject(new TypeError('fetch failed')), 'link_lost', /fetch failed/],
  ];
  for (const [answer, code, message] of wrong) {
    node.meddle = answer;
    const { counters, connection } = await via(node);
    await poll(code, () => connection.error?.code === code);
    assert.ok(connection.error instanceof TallymeshError);
    assert.match(connection.error.message, message);
    assert.ok(['waiting', 'connecting'].includes(connection.state));
    node.meddle = undefined;
    counters.add('likes');
    await poll('the link', () => connection.state === 'online');
    assert.equal(connection.error, undefined);
    await counters.close();
  }
  await poll('all that was counted', () => node.replica.get('likes') === BigInt(wrong.length));
});

test('an answer that is lost, and a link that ended, begin another one', async () => {
  const node = new FakeNode();
  const { counters, connection } = await via(node);
  await poll('the link', () => connection.state === 'online');
  const told = [];
  connection.subscribe((state) => told.push(state));
  node.sessions.clear();
  await poll('another link', () => node.sessions.size === 1 && connection.state === 'online');
  assert.deepEqual(told, ['waiting', 'connecting', 'online']);
  // It arrives, and the answer does not.
  node.meddle = (init, frames) => {
    node.meddle = undefined;
    node.answer(init, frames);
    throw new TypeError('cut');
  };
  counters.add('likes');
  await poll('another link', () => told.length === 6);
  await until(() => node.replica.get('likes') === 1n, [node.replica]);
});

test('a program that was asleep opens another link at once', async (t) => {
  const node = new FakeNode();
  const { connection } = await via(node);
  await poll('the link', () => connection.state === 'online');
  const told = [];
  connection.subscribe((state) => told.push(state));
  const { now } = Date;
  t.mock.method(Date, 'now', () => now() + 10_000);
  node.sessions.clear();
  await poll('another link', () => node.sessions.size === 1 && connection.state === 'online');
  assert.deepEqual([told, connection.error], [['connecting', 'online'], undefined]);
});

test('a link is cut and healed', async () => {
  const node = new FakeNode();
  const { counters, connection } = await via(node, { paused: true });
  counters.add('likes', 1);
  assert.deepEqual([connection.state, node.requests.length], ['paused', 0]);
  connection.resume();
  await until(() => node.replica.get('likes') === 1n, [node.replica]);
  connection.pause();
  assert.equal(counters.status().links, 0);
  counters.add('likes', 2);
  node.replica.add('likes', 4);
  const { length } = node.requests;
  connection.resume();
  await until(() => counters.get('likes') === 7n && node.replica.get('likes') === 7n, [counters, node.replica]);
  assert.ok(node.requests.length > length);
  connection.close();
  connection.resume();
  connection.pause();
  assert.equal(connection.state, 'closed');
});

test('what was counted last is sent although counters are closed', async () => {
  for (const busy of [false, 'poll', 'frames']) {
    const node = new FakeNode();
    const { counters, connection } = await via(node);
    await poll('the link', () => connection.state === 'online');
    let held;
    if (busy) {
      node.meddle = async (init, frames) => {
        if ((frames.length > 0) !== (busy === 'frames') || held) return;
        await new Promise((resolve, reject) => {
          held = resolve;
          init.signal.addEventListener('abort', () => reject(init.signal.reason));
        });
      };
      if (busy === 'frames') counters.add('likes', 1);
      await poll('a request', () => held);
    }
    counters.add('likes', 2);
    await counters.close();
    if (busy === 'frames') held();
    const sum = busy === 'frames' ? 3n : 2n;
    await poll(`${busy}: the last change`, () => node.replica.get('likes') === sum);
    assert.ok(node.requests.at(-1).url.endsWith('again_ms=0'));
  }
});

test('a signal ends all at once', async () => {
  const node = new FakeNode();
  const control = new AbortController();
  const { connection } = await via(node, { signal: control.signal });
  await poll('the link', () => connection.state === 'online');
  let aborted = false;
  node.meddle = ({ signal }) => new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      aborted = true;
      reject(signal.reason);
    });
  });
  const { length } = node.requests;
  await poll('a request', () => node.requests.length > length);
  control.abort();
  assert.deepEqual([aborted, connection.state, connection.error], [true, 'closed', undefined]);
  const late = await via(node, { signal: AbortSignal.abort() });
  assert.equal(late.connection.state, 'closed');
  assert.equal(node.requests.length, length + 1);
});

test('a node that does not answer is given up', async (t) => {
  const node = new FakeNode();
  const { setTimeout: real } = globalThis;
  t.mock.method(globalThis, 'setTimeout', (work, wait, ...more) => real(work, wait >= 10_000 && wait < 20_000 ? 1 : wait, ...more));
  node.meddle = ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const { connection } = await via(node);
  await poll('the end', () => connection.error?.code === 'timeout');
  assert.match(connection.error.message, /within 10000 ms/);
});

test('tickets are shown, and keys proved with a signature', async () => {
  const node = new FakeNode();
  const { privateKey, publicKey } = await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
  const ownerKey = new Uint8Array(await crypto.subtle.exportKey('raw', publicKey));
  const ticket = `e30.${Buffer.from('{"role":"reader","x":"ÿÿ>?"}').toString('base64url')}.x`;
  const [challenge, key] = ['1a'.repeat(32), '2b'.repeat(32)];
  let signed;
  node.meddle = (init, frames) => {
    assert.equal(init.headers.authorization, `Bearer ${ticket}`);
    if (!init.headers['tallymesh-session']) {
      assert.equal(frames.length, 0);
      node.begin('s');
      return new Response('', { headers: { 'tallymesh-session': 's', 'tallymesh-challenge': challenge, 'tallymesh-node': key } });
    }
    assert.equal('tallymesh-owner' in init.headers, signed === undefined, 'it is proved once');
    signed ??= init.headers;
  };
  const sign = (bytes) => crypto.subtle.sign('Ed25519', privateKey, bytes);
  const transports = [post('https://node/', { ...FAST, fetch: node.fetch, ticket, sign })];
  const counters = await open({ ownerKey, transports });
  opened.push(counters);
  await poll('the link', () => counters.connections[0].state === 'online');
  assert.equal(signed['tallymesh-owner'], Buffer.from(ownerKey).toString('hex'));
  const bytes = Buffer.from(`${Buffer.from('tallymesh-link-1').toString('hex')}${challenge}${key}`, 'hex');
  assert.ok(await crypto.subtle.verify('Ed25519', publicKey, Buffer.from(signed['tallymesh-signature'], 'hex'), bytes));
  assert.throws(() => counters.add('likes'), { code: 'beyond_role' }, 'the role is the one of the ticket');
});

test('without a way to sign, or with one that fails, that is said', async () => {
  const node = new FakeNode();
  node.meddle = () => problem(401, 'owner_proof', 'the first request of a link brings no frames');
  const bare = await via(node);
  await poll('the refusal', () => bare.connection.error?.code === 'owner_proof');
  assert.match(bare.connection.error.message, /options\.sign/);
  const headers = { 'tallymesh-session': 's', 'tallymesh-challenge': '1a'.repeat(32), 'tallymesh-node': '2b'.repeat(32) };
  node.meddle = () => new Response('', { headers });
  const failing = await via(node, { sign: () => Promise.reject(new Error('no key')) });
  await poll('the failure', () => failing.connection.error?.code === 'owner_proof');
  assert.match(failing.connection.error.message, /no key/);
  node.meddle = () => new Response('', { headers: { ...headers, 'tallymesh-challenge': 'zz' } });
  const odd = await via(node, { sign: () => new Uint8Array(64) });
  await poll('the failure', () => odd.connection.error?.code === 'not_a_challenge');
});

test('who could sign and need not comes in, too', async () => {
  const node = new FakeNode();
  const { counters } = await via(node, { sign: () => assert.fail('nothing is to be signed') });
  counters.add('likes');
  await until(() => node.replica.get('likes') === 1n, [node.replica]);
  assert.equal(node.requests[0].frames.length, 0);
});

test('a replica that moves to the second module begins another link', async () => {
  const node = new FakeNode();
  const { counters, connection } = await via(node);
  await poll('the link', () => connection.state === 'online');
  const told = [];
  connection.subscribe((state) => told.push(state));
  await counters.upgrade();
  counters.add('likes');
  await until(() => node.replica.get('likes') === 1n, [node.replica]);
  await poll('the link', () => connection.state === 'online');
  assert.deepEqual([node.sessions.size, ...told], [2, 'connecting', 'online']);
});

test('addresses that lead nowhere, and tickets that are none, are refused', () => {
  const replica = new Replica();
  for (const url of ['', 'node', 'ftp://node/', 'file:///x']) assert.throws(() => post(url)(replica), { code: 'url' });
  for (const ticket of ['', 'a b', 'é']) assert.throws(() => post('http://node', { ticket })(replica), { code: 'ticket' });
  const urls = ['wss://node', 'https://node/own/path?x=1#y'].map((url) => post(url, { paused: true })(replica).url);
  assert.deepEqual(urls, ['https://node/v1/spaces/default/sync', 'https://node/own/path?x=1']);
});

test('a replica that was freed closes its connection', async () => {
  const node = new FakeNode();
  const replica = new Replica();
  const connection = post('http://node', { ...FAST, fetch: node.fetch })(replica);
  await poll('the link', () => connection.state === 'online');
  replica.free();
  node.sessions.clear();
  await poll('the end', () => connection.state === 'closed');
  assert.equal(connection.error.code, 'freed');
});
