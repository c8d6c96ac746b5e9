import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { counters, cutTab, launch, openTab } from './browser.mjs';
import { nodes, read } from './nodes.mjs';
import { until } from './until.mjs';

let cluster;
let browser;
let context;

before(async () => {
  cluster = await nodes();
  browser = await launch();
  context = await browser.newContext();
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
});

const card = (page, key) => page.locator(`.card[data-key="${key}"]`);
const shown = (page, key) => card(page, key).locator('.number').getAttribute('data-value');

/** Clicks one of a counter's buttons several times. */
async function click(page, key, by, times) {
  const button = card(page, key).locator(`[data-by="${by}"]`);
  for (let time = 0; time < times; time++) await button.click();
}

/** Waits until both tabs and all nodes show one value. */
async function agree(tabs, key, value) {
  for (const [index, tab] of tabs.entries()) {
    await until(`tab ${index} to show ${key} = ${value}`, async () => (await shown(tab, key)) === value);
  }
  for (const node of cluster.addresses) {
    await until(`${node} to hold ${key} = ${value}`, async () => (await read(node, key)) === value);
  }
}

test('two tabs and three nodes agree before, and again after, one tab was cut off', async () => {
  const tabs = [await openTab(context, cluster.addresses[0]), await openTab(context, cluster.addresses[1])];
  const errors = [];
  for (const tab of tabs) tab.on('pageerror', (error) => errors.push(error));
  const start = BigInt((await read(cluster.addresses[2], 'likes')) ?? 0);
  const expect = (added) => String(start + BigInt(added));
  // A node that was given may have counted before: the tabs first learn of that.
  for (const tab of tabs) await tab.locator('#link[data-state="online"]').waitFor();

  await click(tabs[0], 'likes', 1, 3);
  await click(tabs[1], 'likes', 10, 2);
  await agree(tabs, 'likes', expect(23));

  await cutTab(tabs[0], true);
  await click(tabs[0], 'likes', 10, 4);
  await click(tabs[0], 'likes', -1, 1);
  await click(tabs[1], 'likes', 1, 5);
  const shows = (tab, value) => async () => (await shown(tab, 'likes')) === expect(value);
  await until('the cut tab to count on', shows(tabs[0], 23 + 39));
  for (const node of cluster.addresses) {
    await until('the others to go on', async () => (await read(node, 'likes')) === expect(23 + 5));
  }
  await until('the other side to count alone', shows(tabs[1], 23 + 5));
  await tabs[0].locator('#tab-hint', { hasText: '5 changes wait' }).waitFor();

  await cutTab(tabs[0], false);
  await agree(tabs, 'likes', expect(23 + 39 + 5));
  assert.equal((await counters(tabs[0])).likes, (await counters(tabs[1])).likes);
  assert.deepEqual(errors, []);
  await Promise.all(tabs.map((tab) => tab.close()));
});

test('a node that is cut off by its switch leaves its tab counting, and is healed by it', async () => {
  const tab = await openTab(context, cluster.addresses[0]);
  await tab.locator('#link[data-state="online"]').waitFor();
  const knob = tab.locator('#cut-node');
  const before = BigInt((await read(cluster.addresses[1], 'islands')) ?? 0);
  await knob.click();
  try {
    await tab.locator('#cut-node[aria-checked="false"]').waitFor();
    await until('the tab to be on its own', async () => (await tab.locator('#link').getAttribute('data-state')) !== 'online');
    await tab.fill('#own-key', 'islands');
    await tab.click('#own button');
    await click(tab, 'islands', 10, 1);
    for (const node of cluster.addresses) assert.equal(BigInt((await read(node, 'islands')) ?? 0), before);
  } finally {
    await knob.click();
  }
  await tab.locator('#cut-node[aria-checked="true"]').waitFor();
  await agree([tab], 'islands', String(before + 11n));
  await tab.close();
});

test('the table shows why the sum is right, and this tab in it', async () => {
  const tab = await openTab(context, cluster.addresses[2]);
  await click(tab, 'votes', 1, 2);
  await tab.locator('#why-key', { hasText: 'votes' }).waitFor();
  const own = tab.locator('#shards tr', { hasText: 'this tab' });
  await own.waitFor();
  await until('the own row to show both clicks', async () => (await own.locator('.num').nth(1).textContent()) === '2');
  const totals = await tab.evaluate(() => window.tallymesh.shards('votes').map(({ total }) => String(total)));
  const sum = totals.reduce((all, total) => all + BigInt(total), 0n);
  await until('the sum of the rows to be shown', async () => (await shown(tab, 'votes')) === String(sum));
  await tab.close();
});

test('the stage shows the node and its peers, and cuts their links', async () => {
  const tab = await openTab(context, cluster.addresses[0]);
  const at = (kind) => tab.locator(`#stage-view .vertex.${kind}`);
  const link = (name) => tab.locator(`#stage-view .edge[aria-label="Link of ${name}"]`);
  const isCut = async (name) => (await link(name).getAttribute('aria-checked')) === 'false';
  const value = (kind) => at(kind).getAttribute('data-value');
  await tab.locator('#link[data-state="online"]').waitFor();
  await until('two nodes behind the node', async () => (await at('far-node').count()) === 2);
  const before = BigInt((await read(cluster.addresses[0], 'likes')) ?? 0);
  await until('the tab to know them', async () => BigInt((await tab.evaluate(() => String(window.tallymesh.get('likes') ?? 0)))) === before);
  await at('tab').press('Enter');
  await until('the node to show it', async () => (await value('node')) === String(before + 1n));
  const far = () => at('far-node').evaluateAll((all) => all.map((node) => node.dataset.value));
  await until('the nodes behind it to show it', async () => (await far()).join() === `${before + 1n},${before + 1n}`);

  await link('this tab and its node').press('Enter');
  await tab.locator('#link[data-state="paused"]').waitFor();
  await at('tab').press('Enter');
  await until('the tab to count alone', async () => (await value('tab')) === String(before + 2n));
  assert.equal(await read(cluster.addresses[0], 'likes'), String(before + 1n));
  await link('this tab and its node').press('Enter');
  await until('the node to hear of it', async () => (await value('node')) === String(before + 2n));

  const name = (await at('far-node').first().locator('.label').textContent()).trim();
  const peers = async () => (await (await fetch(`${cluster.addresses[0]}/v1/peers`)).json()).peers.map(({ peer }) => peer);
  await link(`its node and ${name}`).press('Enter');
  try {
    await until('the link to be drawn as cut', () => isCut(`its node and ${name}`));
    assert.ok(!(await peers()).some((peer) => peer.slice(-8) === name), 'the link is really cut');
    await until('the number behind the cut to be unknown', async () => (await far()).sort().join() === `,${before + 2n}`);
  } finally {
    await link(`its node and ${name}`).press('Enter');
  }
  await until('the link to come back', async () => !(await isCut(`its node and ${name}`)));
  await tab.close();
});

test('the page asks nobody but its node, and fits a narrow phone', async () => {
  const phone = await browser.newContext({ viewport: { width: 320, height: 640 } });
  const asked = [];
  phone.on('request', (request) => asked.push(new URL(request.url()).origin));
  const tab = await openTab(phone, cluster.addresses[0]);
  await tab.locator('#link[data-state="online"]').waitFor();
  assert.deepEqual([...new Set(asked)], [new URL(cluster.addresses[0]).origin]);
  assert.equal(await tab.evaluate(() => document.documentElement.scrollWidth), 320);
  await phone.close();
});
