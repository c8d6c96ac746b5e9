// Sessions between a page and nodes, by tokens: real nodes, and the packed package in Chromium.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, servePackage } from './browser.mjs';
import { nodes, read, tell } from './nodes.mjs';
import { until } from './until.mjs';

const skip = process.env.TALLYMESH_BIN ? false : 'it closes a space: set TALLYMESH_BIN';
let browser;
let cluster;

before(async () => {
  if (skip) return;
  browser = await launch();
  cluster = await nodes();
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
});

/** A page with a replica that is connected to nobody. */
async function page(node) {
  const context = await browser.newContext();
  const loaded = await servePackage(context);
  const tab = await context.newPage();
  await tab.goto(`${node}/v1/spaces/default/counters`);
  await tab.evaluate(async (node) => {
    const { connect, open } = await import('/package/browser.js');
    window.replica = await open();
    window.connection = connect(window.replica, node, { paused: true, retryMinMs: 20, retryMaxMs: 200 });
  }, node);
  return {
    loaded,
    add: (by) => tab.evaluate((by) => window.replica.add('likes', by), by),
    token: (before) => tab.evaluate((before) => window.replica.token(before), before),
    // The value at the moment when it is reached, or the code of the refusal.
    reached: (token, waitMs) => tab.evaluate(
      ([token, waitMs]) => window.replica.reached(token, { waitMs }).then(() => String(window.replica.get('likes')), ({ code }) => code),
      [token, waitMs],
    ),
    resume: () => tab.evaluate(() => window.connection.resume()),
    pause: () => tab.evaluate(() => window.connection.pause()),
    close: () => context.close(),
  };
}

const LIKES = '/v1/spaces/default/counters/likes';

/** A request with a token: the next token, and the value or the code of the refusal. */
async function session(node, token, { path = LIKES, waitMs = 20_000, ...options } = {}) {
  const headers = { 'tallymesh-token': token, 'tallymesh-wait-ms': String(waitMs) };
  const answer = await fetch(`${node}${path}`, { ...options, headers });
  const { value, code } = await answer.json();
  return { said: value ?? code, token: answer.headers.get('tallymesh-token') };
}

const add = (node, token, by) => session(node, token, { path: `${LIKES}/add`, method: 'POST', body: JSON.stringify({ by }) });

/** A session goes from a page, over a node that it is not connected to, and back; `likes` were counted before. */
async function roundTrip(likes) {
  const [near, , far] = cluster.addresses;
  const tab = await page(near);
  await tab.add(5);
  assert.deepEqual(tab.loaded, ['browser.js', 'tallymesh.wasm'], 'nothing more is loaded before it is needed');
  const written = await tab.token();
  assert.deepEqual(tab.loaded.slice(2).sort(), ['members.js', 'tallymesh-members.wasm']);

  // Nobody has heard of what was written yet.
  assert.equal((await session(far, written, { waitMs: 50 })).said, 'token_not_reached');
  const waiting = session(far, written);
  await tab.resume();
  const seen = await waiting;
  assert.equal(seen.said, String(likes + 5));

  // All that the node saw comes to the page, too.
  assert.equal(await tab.reached(seen.token, 20_000), seen.said);
  await tab.pause();
  const next = await add(far, seen.token, 10);
  assert.equal(next.said, String(likes + 15));
  assert.equal(await tab.reached(next.token, 50), 'token_not_reached');
  // For who goes on without waiting, one token stands for both sides.
  await tab.add(100);
  const both = await tab.token(next.token);
  const shown = tab.reached(next.token, 20_000);
  await tab.resume();
  assert.equal(await shown, String(likes + 115));
  const [read, reached] = await Promise.all([session(far, both), tab.reached(both, 20_000)]);
  assert.deepEqual([read.said, reached], [String(likes + 115), String(likes + 115)]);
  await tab.close();
  return likes + 115;
}

test('a session goes from a page to another node and back', { skip }, async () => {
  const likes = await roundTrip(0);
  const [node] = cluster.addresses;
  await tell(node, 'members', 'init');
  for (const address of cluster.addresses) {
    await until(`${address} to hold what was counted`, async () => (await read(address, 'likes')) === String(likes));
    await until(`${address} to know the members`, async () => JSON.stringify(await tell(address, 'status')).includes('"members"'));
  }
  assert.equal(await roundTrip(likes), likes + 115);
});
