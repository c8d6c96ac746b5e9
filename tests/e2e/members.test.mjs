// Pages in a space with members: real nodes, and the packed package in Chromium.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, openTab, servePackage } from './browser.mjs';
import { oneNode, read, tell } from './nodes.mjs';
import { until } from './until.mjs';

const skip = process.env.TALLYMESH_BIN ? false : 'it takes nodes of its own: set TALLYMESH_BIN';

let browser;
const nodes = [];

before(async () => {
  if (!skip) browser = await launch();
});
after(async () => {
  await browser?.close();
  await Promise.all(nodes.map((node) => node.stop()));
});

/** A node of its own, whose space is open. */
async function start() {
  const node = await oneNode();
  nodes.push(node);
  return node.address;
}

/** A page of the node's origin that has the package, and notes what it loads of it. */
async function page(node, options = {}) {
  const context = await browser.newContext();
  const loaded = await servePackage(context, options.refuse);
  const tab = await context.newPage();
  const errors = [];
  tab.on('pageerror', (error) => errors.push(error));
  // Any answer of the node itself will do: Chromium keeps pages that nobody served from loopback.
  await tab.goto(`${node}/v1/spaces/default/counters`);
  await tab.evaluate(async () => {
    const { connect, open } = await import('/package/browser.js');
    const replica = await open();
    window.returns = [];
    replica.onReturn((returned) => window.returns.push({ ...returned, unknown: returned.unknown && String(returned.unknown) }));
    window.replica = replica;
    window.counter = replica.counter('likes');
    window.online = (url) => (window.connection = connect(replica, url, { retryMinMs: 20, retryMaxMs: 200 }));
  });
  return {
    loaded,
    errors,
    add: (by) => tab.evaluate((by) => window.counter.add(by), by),
    online: () => tab.evaluate((url) => void window.online(url), node),
    resume: () => tab.evaluate(() => window.connection.resume()),
    state: () => tab.evaluate(() => window.connection.state),
    offline: () => tab.evaluate(() => window.connection.close()),
    likes: () => tab.evaluate(() => String(window.replica.get('likes'))),
    writer: () => tab.evaluate(() => window.replica.writer),
    status: () => tab.evaluate(() => {
      const { members, home, vector, clock, ...status } = window.replica.status();
      return { ...status, clock: String(clock), owners: members?.owners, home };
    }),
    writers: () => tab.evaluate(() => window.replica.writers().map(({ clock, ...it }) => ({ ...it, clock: String(clock) }))),
    returns: () => tab.evaluate(() => window.returns),
    leave: () => tab.evaluate(() => window.replica.leave()),
    close: () => context.close(),
  };
}

const agree = async (node, pages, likes) => {
  await until(`${node} to hold ${likes}`, async () => (await read(node, 'likes')) === likes);
  for (const tab of pages) await until(`a page to show ${likes}`, async () => (await tab.likes()) === likes);
};

/** The writers that the node knows. */
const writers = (node) => tell(node, 'writers');

test('a page counts before it meets the members, goes on among them, and leaves', { skip }, async () => {
  const node = await start();
  await tell(node, 'add', 'likes', '10');
  await tell(node, 'members', 'init');
  const tab = await page(node);
  await tab.add(5);
  assert.deepEqual(tab.loaded, ['browser.js', 'tallymesh.wasm'], 'nothing more is loaded before it is needed');
  const writer = await tab.writer();
  await tab.online();
  await agree(node, [tab], '15');
  assert.deepEqual(tab.loaded.slice(2).sort(), ['members.js', 'tallymesh-members.wasm']);
  assert.equal(await tab.writer(), writer, 'it had seen nobody, and is taken in as it is');
  await until('a home', async () => (await tab.status()).home !== undefined);
  const [status] = await tell(node, 'status');
  assert.equal((await tab.status()).owners.length, 1);
  await tab.add(1);
  await agree(node, [tab], '16');
  assert.deepEqual((await tab.writers()).map(({ fate }) => fate), ['living', 'living'], JSON.stringify(status));
  assert.equal(await tab.leave(), true);
  assert.equal(await tab.leave(), false, 'it has left');
  assert.equal(await tab.state(), 'paused');
  await until('its writer to be forgotten', async () => (await writers(node)).length === 1);
  assert.equal(await read(node, 'likes'), '16');
  assert.deepEqual(await tab.returns(), []);

  // It is used again, and comes back under another id.
  await tab.add(2);
  await tab.resume();
  await agree(node, [tab], '18');
  assert.notEqual(await tab.writer(), writer);
  const [returned] = await tab.returns();
  assert.deepEqual(returned, { writer: await tab.writer(), before: writer, again: 1, weaker: 0, unknown: undefined });
  assert.deepEqual(tab.errors, []);
  await tab.close();
});

test('the number of writers does not grow with tabs', { skip }, async () => {
  const node = await start();
  await tell(node, 'members', 'init');
  for (let turn = 1; turn <= 4; turn++) {
    const tab = await page(node);
    await tab.online();
    await tab.add(turn);
    await until('the page to be taken in', async () => (await tab.status()).home !== undefined);
    await agree(node, [tab], String((turn * (turn + 1)) / 2));
    assert.equal(await tab.leave(), true);
    await tab.close();
  }
  await until('all pages to be forgotten', async () => (await writers(node)).length === 1);
  assert.equal(await read(node, 'likes'), '10');
});

test('the demo page leaves when it goes, and comes back with what was counted', { skip }, async () => {
  const node = await start();
  await tell(node, 'members', 'init');
  const context = await browser.newContext();
  const tab = await openTab(context, node);
  const total = () => tab.evaluate(() => String(window.tallymesh.get('likes')));
  for (const likes of ['3', '6', '9']) {
    await tab.evaluate(() => window.tallymesh.add('likes', 3));
    await until('the page to be taken in', () => tab.evaluate(() => window.tallymesh.status().home !== undefined));
    await until(`the page to show ${likes}`, async () => (await total()) === likes);
    await until(`${node} to hold ${likes}`, async () => (await read(node, 'likes')) === likes);
    await tab.goto('about:blank');
    await until('the page to be forgotten', async () => (await writers(node)).length === 1);
    await tab.goto(node);
    await tab.waitForFunction(() => window.tallymesh !== undefined);
  }
  const [status] = await tell(node, 'status');
  assert.ok(JSON.stringify(status).includes('"members"'), JSON.stringify(status));
  await context.close();
});

test('a page that was there before the members goes on, and one that is given up comes back', { skip }, async () => {
  const node = await start();
  const tab = await page(node);
  await tab.online();
  await tab.add(5);
  await agree(node, [tab], '5');
  assert.deepEqual(tab.loaded, ['browser.js', 'tallymesh.wasm']);
  await tell(node, 'members', 'init');
  await until('the page to hear of members', async () => (await tab.status()).owners?.length === 1);
  await tab.add(2);
  await agree(node, [tab], '7');
  const writer = await tab.writer();
  await tab.offline();
  await tab.add(4);
  await tell(node, 'retire', writer);
  assert.equal(await read(node, 'likes'), '7');
  await tab.online();
  await agree(node, [tab], '11');
  assert.notEqual(await tab.writer(), writer);
  assert.deepEqual((await tab.returns()).map(({ again, before }) => [again, before]), [[1, writer]]);
  assert.deepEqual(tab.errors, []);
  await tab.close();
});

test('a page that cannot load the second module counts on, and is heard once it can', { skip }, async () => {
  const node = await start();
  await tell(node, 'members', 'init');
  let out = true;
  const tab = await page(node, { refuse: (name) => out && name === 'tallymesh-members.wasm' });
  await tab.online();
  await tab.add(3);
  await until('it to be tried', () => tab.loaded.filter((name) => name === 'tallymesh-members.wasm').length > 1);
  await tab.add(4);
  assert.equal(await tab.likes(), '7');
  out = false;
  await agree(node, [tab], '7');
  await tab.close();
});
