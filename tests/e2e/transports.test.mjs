// The packed package's transports: tabs and workers of Chromium with no node, and requests to a real node.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { install } from '../../wasm/test/install.mjs';
import { loadTransports } from '../../wasm/test/transports.mjs';
import { launch, servePackage } from './browser.mjs';
import { oneNode, read, tell } from './nodes.mjs';
import { until } from './until.mjs';

const skip = process.env.TALLYMESH_BIN ? false : 'it takes a node of its own: set TALLYMESH_BIN';
/** An origin of the pages; nobody serves it but this test. Loopback has Web Locks. */
const PAGES = 'http://127.0.0.1:1';
/** One that has none, as pages that came over plain HTTP. */
const PLAIN = 'http://pages.example';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A profile whose pages are empty, and whose workers run `worker`. */
async function profile(worker = '') {
  const context = await browser.newContext();
  for (const origin of [PAGES, PLAIN]) {
    await context.route(`${origin}/**`, (route) => {
      const script = route.request().url().endsWith('.js');
      const [contentType, body] = script ? ['text/javascript', worker] : ['text/html', '<!doctype html><title>page</title>'];
      return route.fulfill({ contentType, body });
    });
  }
  await servePackage(context);
  return context;
}

const errors = [];
after(() => assert.deepEqual(errors, []));

/** A tab that is linked with all others of its profile and space. */
async function tab(context, space = 'default', origin = PAGES) {
  const page = await context.newPage();
  page.on('pageerror', (error) => errors.push(error));
  await page.goto(`${origin}/`);
  await page.evaluate(async (space) => {
    const { open, TallymeshError } = await import('/package/browser.js');
    const { broadcastChannel } = await import('/package/transports.js');
    window.TallymeshError = TallymeshError;
    window.counters = await open({ space, transports: [broadcastChannel()] });
  }, space);
  return page;
}

const add = (page, by) => page.evaluate((by) => window.counters.add('likes', by), by);
const likes = (page) => page.evaluate(() => Number(window.counters.get('likes') ?? 0));
const links = (page) => page.evaluate(() => window.counters.status().links);
const agree = (sum, ...pages) =>
  until(`all to show ${sum}`, async () => (await Promise.all(pages.map(likes))).every((value) => value === sum));
const linked = (count, ...pages) =>
  until(`${count} links each`, async () => (await Promise.all(pages.map(links))).every((value) => value === count));

for (const origin of [PAGES, PLAIN]) {
  test(`tabs of one profile at ${origin} agree with no node`, async () => {
    const context = await profile();
    const [a, b] = [await tab(context, 'default', origin), await tab(context, 'default', origin)];
    const other = await tab(context, 'other', origin);
    assert.equal(await a.evaluate(() => typeof navigator.locks), origin === PAGES ? 'object' : 'undefined');
    await add(a, 1);
    await add(b, 2);
    await agree(3, a, b);
    await b.evaluate(() => window.counters.connections[0].pause());
    await linked(0, a, b);
    await add(a, 10);
    await add(b, 20);
    assert.deepEqual([await likes(a), await likes(b)], [13, 23]);
    await b.evaluate(() => window.counters.connections[0].resume());
    await agree(33, a, b);
    // A tab that is closed, or goes to another page, says goodbye.
    await b.close({ runBeforeUnload: false });
    await linked(0, a);
    const c = await tab(context, 'default', origin);
    await agree(33, a, c);
    await c.goto(`${origin}/elsewhere`);
    await linked(0, a);
    assert.deepEqual([await likes(other), await links(other)], [0, 0]);
    await context.close();
  });
}

test('a tab that crashes leaves no link behind', async () => {
  const context = await profile();
  const [a, b] = [await tab(context), await tab(context)];
  const doomed = await context.newPage();
  const crashed = new Promise((resolve) => doomed.once('crash', resolve));
  await doomed.goto(`${PAGES}/`);
  await doomed.evaluate(async () => {
    const { open } = await import('/package/browser.js');
    const { broadcastChannel } = await import('/package/transports.js');
    window.counters = await open({ transports: [broadcastChannel()] });
    window.counters.add('likes', 7);
  });
  await linked(2, a, b);
  await agree(7, a, b);
  doomed.goto('chrome://crash').catch(() => {});
  await crashed;
  await linked(1, a, b);
  await add(a, 1);
  await agree(8, a, b);
  await context.close();
});

test('a page that its browser keeps for later is away meanwhile', async () => {
  const context = await profile();
  const [a, b] = [await tab(context), await tab(context)];
  await linked(1, a, b);
  const state = () => b.evaluate(() => window.counters.connections[0].state);
  await b.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })));
  await linked(0, a, b);
  assert.equal(await state(), 'waiting');
  await add(a, 5);
  await b.evaluate(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })));
  await agree(5, a, b);
  assert.equal(await state(), 'online');
  await context.close();
});

/** A worker that counts at the other end of its port. */
const WORKER = `import { open } from '/package/browser.js';
  import { messagePort } from '/package/transports.js';
  const counters = await open({ transports: [messagePort(self)] });
  counters.add('likes', 40);
  self.addEventListener('message', ({ data }) => data === 'close' && counters.close());\n`;

test('a tab and a worker of its own agree over a message port', async () => {
  const context = await profile(WORKER);
  const page = await context.newPage();
  page.on('pageerror', (error) => errors.push(error));
  await page.goto(`${PAGES}/`);
  await page.evaluate(async () => {
    const { open } = await import('/package/browser.js');
    const { messagePort } = await import('/package/transports.js');
    window.worker = new Worker('/worker.js', { type: 'module' });
    window.counters = await open({ transports: [messagePort(window.worker)] });
    window.counters.add('likes', 2);
  });
  await agree(42, page);
  await page.evaluate(() => window.worker.postMessage({ tallymesh: 1, from: 'x', kind: 7 }));
  await page.evaluate(() => window.worker.postMessage('close'));
  await linked(0, page);
  await page.evaluate(() => {
    window.worker.terminate();
    window.worker = new Worker('/worker.js', { type: 'module' });
  });
  assert.equal(await page.evaluate(() => window.counters.connections[0].state), 'connecting');
  await context.close();
});

test('garbage on the channel of tabs breaks nothing', async () => {
  const context = await profile();
  const [a, b] = [await tab(context), await tab(context)];
  await linked(1, a, b);
  await a.evaluate(() => {
    const channel = new BroadcastChannel('tallymesh:default');
    channel.onmessage = ({ data }) => {
      // Each tab counts its links, and a frame names the number of its receiver.
      if (data.kind !== 'frame') return;
      for (const frame of [new Uint8Array(9), new Uint8Array(3 << 20), 'text', null]) {
        for (const yours of [data.yours, data.yours + 1, 'x']) channel.postMessage({ tallymesh: 1, from: data.from, kind: 'frame', yours, frame });
      }
      channel.close();
    };
  });
  await add(b, 1);
  const code = await until('an error', () => b.evaluate(() => window.counters.connections[0].error?.code)
    .then((code) => code ?? a.evaluate(() => window.counters.connections[0].error?.code)));
  assert.ok(['not_a_frame', 'malformed', 'too_large'].includes(code), code);
  await add(a, 2);
  await agree(3, a, b);
  await linked(1, a, b);
  await context.close();
});

test('a page syncs with a node over requests', { skip }, async () => {
  const node = await oneNode();
  try {
    const context = await browser.newContext();
    await servePackage(context);
    const page = await context.newPage();
    page.on('pageerror', (error) => errors.push(error));
    await page.goto(`${node.address}/v1/status`);
    await page.evaluate(async (url) => {
      const { open } = await import('/package/browser.js');
      const { post } = await import('/package/transports.js');
      window.counters = await open({ name: 'kiosk 5', transports: [post(url, { intervalMs: 20 })] });
      window.counters.add('likes', 2);
    }, node.address);
    await until('the node to count', async () => (await read(node.address, 'likes')) === '2');
    await tell(node.address, 'add', 'likes', '40');
    await agree(42, page);
    const { peers } = await (await fetch(`${node.address}/v1/peers`)).json();
    assert.deepEqual(peers.map(({ agent }) => agent.replace(/[0-9.]+/, 'V')), ['tallymesh-js/V kiosk 5']);
    // Counted right before it goes.
    await page.evaluate(() => {
      window.counters.add('likes', 8);
      window.counters.close();
    });
    await page.close();
    await until('the node to count the last', async () => (await read(node.address, 'likes')) === '50');
    await context.close();
  } finally {
    await node.stop();
  }
});

/** The package as Node has it. */
async function inNode() {
  const { project, load } = install();
  writeFileSync(join(project, 'package.json'), '{ "type": "module" }');
  return { ...(await load()), ...(await loadTransports(project)) };
}

test('Node syncs with a node over requests, through a cut and a restart', { skip }, async () => {
  const { open, post, TallymeshError } = await inNode();
  const node = await oneNode();
  const states = [];
  const counters = await open({ name: 'till 3', transports: [post(node.address, { intervalMs: 20, retryMinMs: 20, retryMaxMs: 100 })] });
  try {
    const [connection] = counters.connections;
    connection.subscribe((state) => states.push(state));
    counters.add('likes', 2);
    await until('the node to count', async () => (await read(node.address, 'likes')) === '2');
    await tell(node.address, 'add', 'likes', '40');
    await until('the program to count', () => counters.get('likes') === 42n);
    const { peers } = await (await fetch(`${node.address}/v1/peers`)).json();
    assert.deepEqual(peers.map(({ kind, state }) => [kind, state]), [['post', 'ready']]);
    assert.match(peers[0].agent, /^tallymesh-js\/[0-9.]+ till 3$/);

    const cut = (cut) => fetch(`${node.address}/v1/demo/cut`, { method: 'POST', body: JSON.stringify({ cut }) });
    await cut(true);
    await until('the refusal', () => connection.error?.code === 'cut');
    assert.ok(connection.error instanceof TallymeshError);
    counters.add('likes', 8);
    assert.equal(await read(node.address, 'likes'), '42');
    await cut(false);
    await until('the node to count after the cut', async () => (await read(node.address, 'likes')) === '50');
    assert.deepEqual([connection.state, connection.error], ['online', undefined]);

    // Of everything that is large, too.
    const keys = Array.from({ length: 10_000 }, (_, at) => `a-key-that-is-not-short-${at}-${at * 7919}`);
    counters.transact((t) => keys.forEach((key) => t.add(key)));
    await until('all counters', async () => (await (await fetch(`${node.address}/v1/status`)).json()).spaces[0].counters === 10_001);
    await node.stop();
    await until('the loss', () => connection.error?.code === 'link_lost');
  } finally {
    counters.free();
    await node.stop();
  }
  assert.ok(states.includes('waiting'));
  assert.equal(states.at(-1), 'closed');
});

test('requests show tickets, and prove keys', { skip }, async () => {
  const { open, post } = await inNode();
  const node = await oneNode();
  const opened = [];
  try {
    await tell(node.address, 'members', 'init');
    await tell(node.address, 'add', 'likes', '10');
    const tickets = {};
    for (const role of ['reader', 'writer', 'member']) [{ ticket: tickets[role] }] = await tell(node.address, 'invite', '--role', role);
    await node.again('--http-tickets');
    const held = async () => {
      const authorization = `Bearer ${tickets.reader}`;
      const answer = await fetch(`${node.address}/v1/spaces/default/counters/likes`, { headers: { authorization } });
      return (await answer.json()).value;
    };
    const { privateKey, publicKey } = await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
    const ownerKey = new Uint8Array(await crypto.subtle.exportKey('raw', publicKey));
    const sign = (bytes) => crypto.subtle.sign('Ed25519', privateKey, bytes);
    const via = async (ticket, more, key = ownerKey) => {
      const transports = [post(node.address, { ticket, intervalMs: 20, retryMinMs: 20, retryMaxMs: 100, ...more })];
      const counters = await open({ transports, ownerKey: key });
      opened.push(counters);
      return counters;
    };
    const shows = (counters, sum) => until(`the program to show ${sum}`, () => counters.get('likes') === sum);

    const writer = await via(tickets.writer, { sign });
    await shows(writer, 10n);
    writer.add('likes', 5);
    await until('the node to hold 15', async () => (await held()) === '15');
    assert.throws(() => writer.reset('likes'), { code: 'beyond_role' });

    const reader = await via(tickets.reader, { sign });
    await shows(reader, 15n);
    assert.throws(() => reader.add('likes'), { code: 'beyond_role' });

    const member = await via(tickets.member);
    await shows(member, 15n);
    member.add('likes', 5);
    await until('the node to hold 20', async () => (await held()) === '20');

    const other = crypto.getRandomValues(new Uint8Array(32));
    for (const [counters, code] of [
      [await via(undefined), 'ticket_needed'],
      [await via('x.y.z'), 'ticket'],
      [await via(tickets.writer), 'owner_proof'],
      [await via(tickets.writer, { sign }, other), 'owner_proof'],
    ]) {
      await until(code, () => counters.connections[0].error?.code === code);
      counters.free();
    }
  } finally {
    opened.forEach((counters) => counters.free());
    await node.stop();
  }
});
