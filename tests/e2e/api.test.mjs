// The page to try the HTTP interface: it works under its strict policy, and asks nobody but its node.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from './browser.mjs';
import { oneNode, read } from './nodes.mjs';

let node;
let browser;

before(async () => {
  node = await oneNode();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await node?.stop();
});

test('the page at /api/ shows all operations and tries one, with no request to anybody else', async () => {
  const page = await browser.newPage();
  const elsewhere = [];
  const complaints = [];
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== 'data:' && origin !== node.address) elsewhere.push(request.url());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(`${node.address}/api`);
  const document = await (await fetch(`${node.address}/openapi.json`)).json();
  const operations = Object.values(document.paths).flatMap((item) => Object.keys(item));
  await page.locator('.opblock').nth(operations.length - 1).waitFor();
  assert.equal(await page.locator('.opblock').count(), operations.length);

  const block = page.locator('#operations-counters-add_to_counter');
  await block.locator('.opblock-summary').click();
  await block.locator('.try-out__btn').click();
  await block.locator('.execute').click();
  await block.locator('.live-responses-table .response-col_status', { hasText: '200' }).waitFor();
  assert.equal(await read(node.address, 'likes'), '5');
  assert.deepEqual([elsewhere, complaints], [[], []]);
});
