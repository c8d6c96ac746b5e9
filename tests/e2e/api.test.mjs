// The page to try the HTTP interface: it works under its strict policy, and asks nobody but its node.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
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
  await page.locator('details.operation').nth(operations.length - 1).waitFor();
  assert.equal(await page.locator('details.operation').count(), operations.length);

  const block = page.locator('#add_to_counter');
  await block.locator('summary').click();
  await block.getByLabel('Body').fill('{"by": 5}');
  await block.getByRole('button', { name: 'Send' }).click();
  await block.getByText('200 OK').waitFor();
  assert.match(await block.getByRole('region', { name: /^Answer/ }).textContent(), /"value": "5"/);
  assert.equal(await read(node.address, 'likes'), '5');
  assert.deepEqual([elsewhere, complaints], [[], []]);
});

for (const colorScheme of ['light', 'dark']) {
  for (const width of [1180, 390]) {
    test(`axe finds nothing in the page at /api/, ${colorScheme}, ${width} wide`, async () => {
      const page = await browser.newPage({ colorScheme, viewport: { width, height: 844 }, bypassCSP: true });
      await page.goto(`${node.address}/api/`);
      for (const id of ['add_to_counter', 'transact', 'list_counters']) await page.locator(`#${id} summary`).click();
      await page.locator('#list_counters').getByRole('button', { name: 'Send' }).click();
      await page.locator('#list_counters').getByText('200 OK').waitFor();
      await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes[0].html]), []);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, 'nothing is wider than the screen');
      await page.close();
    });
  }
}
