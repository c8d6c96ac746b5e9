// The API reference of the package: its pages work under their policy, ask nobody, and are found by their search.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from './browser.mjs';
import { serve } from './serve.mjs';
import { site } from './site.mjs';

let host;
let browser;

before(async () => {
  host = await serve(site());
  browser = await launch();
});
after(async () => {
  await browser?.close();
  host?.stop();
});

test('the reference is found from the documents, and by its search', async () => {
  const page = await browser.newPage();
  const complaints = [];
  const elsewhere = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('request', (request) => {
    if (!request.url().startsWith(host.address) && !request.url().startsWith('data:')) elsewhere.push(request.url());
  });
  await page.goto(`${host.address}docs/index.html`);
  await page.getByRole('link', { name: 'API reference of the package' }).click();
  await page.getByRole('link', { name: 'package\'s README' }).waitFor();
  assert.match(await page.locator('meta[http-equiv="content-security-policy"]').getAttribute('content'), /script-src 'self' 'sha256-/);

  await page.getByRole('button', { name: 'Search' }).click();
  await page.locator('#tsd-search-input').fill('useCounter');
  await page.locator('#tsd-search-results a').first().click();
  await page.getByRole('heading', { level: 1, name: 'useCounter' }).waitFor();
  await page.getByText('One counter in a component').waitFor();
  assert.deepEqual([elsewhere, complaints], [[], []]);
  await page.close();
});

test('every entry of the package has its page', async () => {
  const page = await browser.newPage();
  await page.goto(`${host.address}docs/api/index.html`);
  for (const name of ['tallymesh', 'tallymesh/slim', 'tallymesh/inline', 'tallymesh/transports', 'tallymesh/storage', 'tallymesh/file', 'tallymesh/libp2p', 'tallymesh/react']) {
    await page.locator('.tsd-navigation a', { hasText: new RegExp(`^${name}$`) }).first().waitFor();
  }
  await page.close();
});
