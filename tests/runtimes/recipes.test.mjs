// The recipes of docs/recipes: the very files, served by Vite as whoever tries them has them, with a real node.
import assert from 'node:assert/strict';
import { cpSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createServer } from 'vite';
import { launch } from '../e2e/browser.mjs';
import { oneNode, read, tell } from '../e2e/nodes.mjs';
import { until } from '../e2e/until.mjs';
import { gate } from './gate.mjs';
import { makeProject } from './project.mjs';
import { addReact } from './reacts.mjs';

const recipes = fileURLToPath(new URL('../../docs/recipes', import.meta.url));

/** One whose space has members, with the network before it, and one whose space is open. */
let node;
let network;
let openNode;
let openNetwork;
let browser;
let server;

before(async () => {
  node = await oneNode();
  await tell(node.address, 'members', 'init');
  network = await gate(node.address);
  openNode = await oneNode();
  openNetwork = await gate(openNode.address);
  browser = await launch();
  const project = addReact(makeProject(), '19');
  cpSync(recipes, project, { recursive: true, filter: (path) => !path.includes('node_modules') });
  server = await createServer({ root: project, configFile: false, logLevel: 'error', server: { host: '127.0.0.1', port: 0, hmr: false } });
  await server.listen();
});
after(async () => {
  await browser?.close();
  await server?.close();
  network?.stop();
  openNetwork?.stop();
  await node?.stop();
  await openNode?.stop();
});

/** A visitor: a browser's profile of its own, in which nothing says that a test drives it. */
async function visitor(options = { viewport: { width: 360, height: 640 } }) {
  const context = await browser.newContext(options);
  await context.addInitScript(() => Object.defineProperty(Navigator.prototype, 'webdriver', { get: () => false }));
  return context;
}

/** Opens a page of the recipes in a new tab. */
async function look(context, path, to = network, cart = '') {
  const page = await context.newPage();
  page.complaints = [];
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  const asked = new URLSearchParams({ node: to.address, ...(cart && { cart }) });
  await page.goto(new URL(`${path}?${asked}`, server.resolvedUrls.local[0]).href);
  return page;
}

const shown = (page, id) => page.locator(`#${id}`).textContent();
const shows = (page, id, text) => until(`#${id} to show ${text}`, async () => (await shown(page, id)) === text);
const holds = (key, value, at = node) => until(`the node to hold ${key} = ${value}`, async () => (await read(at.address, key)) === value);

test('the recipes name the versions that are tested, and no others', () => {
  const versions = ({ dependencies, devDependencies }) => ({ ...dependencies, ...devDependencies });
  const named = versions(JSON.parse(readFileSync(`${recipes}/package.json`, 'utf8')));
  const tested = versions(JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8')));
  for (const [name, version] of Object.entries(named)) if (name !== 'tallymesh') assert.equal(version, tested[name], name);
});

test('page-views: people are counted once a tab, programs and reloads are not', async () => {
  const first = await visitor();
  const page = await look(first, 'page-views/');
  await shows(page, 'all', '1');
  await page.locator('#note', { hasText: 'just now' }).waitFor();
  await page.reload();
  await shows(page, 'all', '1');
  await page.locator('#note', { hasText: 'before' }).waitFor();

  const second = await visitor();
  const pages = [page, await look(first, 'page-views/'), await look(second, 'page-views/')];
  for (const tab of pages) await shows(tab, 'here', '3');

  const driven = await browser.newContext();
  const robot = await look(driven, 'page-views/');
  await shows(robot, 'all', '3');
  await robot.locator('#note', { hasText: 'not counted' }).waitFor();

  // One more visitor comes after the robot was there.
  const third = await visitor();
  pages.push(robot, await look(third, 'page-views/'));
  for (const tab of pages) await shows(tab, 'all', '4');
  await holds('views:/page-views/', '4');
  await holds('views', '4');
  for (const { complaints } of pages) assert.deepEqual(complaints, []);

  // Pages that go are taken over at once. That of before the reload may have gone before it knew of the member: it
  // is waited for, and the node is itself a writer.
  for (const tab of pages) await tab.goto('about:blank');
  const living = async () => (await tell(node.address, 'writers')).filter(({ fate }) => fate === 'living').length;
  await until('the pages to be taken over', async () => (await living()) <= 2);
  await holds('views', '4');
  for (const context of [first, second, third, driven]) await context.close();
});

test('page-views: a page that goes before it is connected marks nothing, and the next one counts', async () => {
  await tell(node.address, 'add', 'views');
  const start = BigInt(await read(node.address, 'views'));
  const context = await visitor();
  network.cut();
  const page = await look(context, 'page-views/');
  await page.locator('#note', { hasText: 'Not connected' }).waitFor();
  await page.reload();
  await page.locator('#note', { hasText: 'Not connected' }).waitFor();
  assert.equal(await shown(page, 'all'), '…');
  network.heal();
  await shows(page, 'all', String(start + 1n));
  await page.locator('#note', { hasText: 'just now' }).waitFor();
  await holds('views', String(start + 1n));
  await context.close();
});

test('page-views: a page that goes as it counts is marked only if the node has the view', async () => {
  await tell(node.address, 'add', 'views');
  const start = BigInt(await read(node.address, 'views'));
  const context = await visitor();
  // The first load goes away in the very task in which it counts.
  await context.addInitScript(() => {
    if (sessionStorage.getItem('gone')) return;
    new MutationObserver(() => {
      if (!document.getElementById('note')?.textContent.startsWith('Counted here')) return;
      sessionStorage.setItem('gone', 'yes');
      location.reload();
    }).observe(document, { childList: true, subtree: true });
  });
  const page = await look(context, 'page-views/');
  await page.waitForFunction(() => sessionStorage.getItem('gone') && /just now|before/.test(document.getElementById('note')?.textContent));
  const value = BigInt(await read(node.address, 'views'));
  assert.ok(value === start + 1n || value === start + 2n, `${value} after ${start}`);
  await context.close();
});

test('page-views: a page that nobody looks at is counted when somebody does', async () => {
  await tell(node.address, 'add', 'views');
  const start = BigInt(await read(node.address, 'views'));
  const context = await visitor();
  await context.addInitScript(() => {
    let state = 'hidden';
    Object.defineProperty(document, 'visibilityState', { get: () => state });
    window.show = () => {
      state = 'visible';
      document.dispatchEvent(new Event('visibilitychange'));
    };
  });
  const page = await look(context, 'page-views/');
  await shows(page, 'all', String(start));
  assert.equal(await shown(page, 'note'), '');
  await page.evaluate(() => window.show());
  await shows(page, 'all', String(start + 1n));
  await page.evaluate(() => window.show());
  await page.locator('#note', { hasText: 'just now' }).waitFor();
  await holds('views', String(start + 1n));

  // The request that does in place of the package.
  const address = `${network.address}/v1/spaces/default/counters/views/add`;
  await page.evaluate((url) => void fetch(url, { method: 'POST', keepalive: true }), address);
  await page.close();
  await holds('views', String(start + 2n));
  await context.close();
});

for (const [kind, path] of [['no framework', 'likes-button/'], ['React', 'likes-button/react.html']]) {
  test(`likes-button with ${kind}: it counts at once, offline too, and all agree afterwards`, async () => {
    const start = BigInt((await read(node.address, 'likes')) ?? 0);
    const count = (more) => String(start + BigInt(more));
    const [ann, bob] = [await visitor(), await visitor()];
    const pages = [await look(ann, path), await look(bob, path)];
    const pressed = (page) => page.locator('#like').getAttribute('aria-pressed');
    for (const page of pages) await page.locator('#state', { hasText: 'Everybody' }).waitFor();

    await pages[0].locator('#like').click();
    await shows(pages[0], 'count', count(1));
    await shows(pages[1], 'count', count(1));
    assert.deepEqual([await pressed(pages[0]), await pressed(pages[1])], ['true', 'false']);

    network.cut();
    for (const page of pages) await page.locator('#state', { hasText: 'Not connected' }).waitFor();
    await pages[0].locator('#like').click();
    await shows(pages[0], 'count', count(0));
    await pages[1].locator('#like').click();
    await shows(pages[1], 'count', count(2));
    assert.equal(await read(node.address, 'likes'), count(1));

    network.heal();
    for (const page of pages) await shows(page, 'count', count(1));
    await holds('likes', count(1));
    for (const page of pages) await page.locator('#state', { hasText: 'Everybody' }).waitFor();

    // What the browsers remember.
    for (const page of pages) await page.reload();
    for (const page of pages) await shows(page, 'count', count(1));
    assert.deepEqual([await pressed(pages[0]), await pressed(pages[1])], ['false', 'true']);
    for (const { complaints } of pages) assert.deepEqual(complaints, []);
    for (const context of [ann, bob]) await context.close();
  });

  test(`likes-button with ${kind}: a like that went with its page is not remembered`, async () => {
    await tell(node.address, 'add', 'likes');
    const start = await read(node.address, 'likes');
    const context = await visitor();
    const page = await look(context, path);
    await page.locator('#state', { hasText: 'Everybody' }).waitFor();
    network.cut();
    await page.locator('#state', { hasText: 'Not connected' }).waitFor();
    await page.locator('#like').click();
    await page.locator('#like[aria-pressed="true"]').waitFor();
    await page.close();
    network.heal();
    const again = await look(context, path);
    await shows(again, 'count', start);
    assert.equal(await again.locator('#like').getAttribute('aria-pressed'), 'false');
    await context.close();
  });

  test(`likes-button with ${kind}: by keyboard, on a narrow phone`, async () => {
    const context = await visitor();
    const page = await look(context, path);
    await page.locator('#like:enabled').waitFor();
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'like');
    for (const [key, pressed] of [['Space', 'true'], ['Enter', 'false']]) {
      await page.keyboard.press(key);
      await page.locator(`#like[aria-pressed="${pressed}"]`).waitFor();
    }
    const { width, height } = await page.locator('#like').boundingBox();
    assert.ok(width >= 44 && height >= 44, `a thumb needs 44 px, not ${width} x ${height}`);
    await context.close();
  });
}

test('cart: tabs agree with no node, and another device once there is one', async () => {
  const context = await visitor();
  const cart = crypto.randomUUID();
  const [near, far] = [await look(context, 'cart/', openNetwork, cart), await look(context, 'cart/', openNetwork, cart)];
  for (const tab of [near, far]) await tab.locator('#state', { hasText: 'with your other devices' }).waitFor();
  openNetwork.cut();
  for (const tab of [near, far]) await tab.locator('#state', { hasText: 'not connected' }).waitFor();

  await near.locator('#tea .more').click({ clickCount: 2 });
  await far.locator('#bread .more').click();
  for (const tab of [near, far]) await shows(tab, 'count', '3');
  await far.locator('#tea .less').click();
  for (const tab of [near, far]) await shows(tab, 'count', '2');
  assert.equal(await read(openNode.address, `cart:${cart}:tea`), undefined);

  const device = await visitor();
  const other = await look(device, 'cart/', openNetwork, cart);
  await other.locator('#state', { hasText: 'not connected' }).waitFor();
  await other.locator('#tea .more').click();
  await shows(other, 'count', '1');
  assert.ok(await other.locator('#bread .less').isDisabled(), 'there is no bread yet');

  openNetwork.heal();
  for (const tab of [near, far, other]) await shows(tab, 'count', '3');
  await holds(`cart:${cart}:tea`, '2', openNode);
  await holds(`cart:${cart}:bread`, '1', openNode);

  // Whoever empties the cart empties what is seen; the node keeps it for a tab that comes later.
  await other.locator('#empty').click();
  for (const tab of [near, far, other]) await shows(tab, 'count', '0');
  await far.locator('#jam .more').click();
  await holds(`cart:${cart}:jam`, '1', openNode);
  for (const tab of [near, far, other]) await tab.close();
  const again = await look(context, 'cart/', openNetwork, cart);
  await shows(again, 'count', '1');
  for (const { complaints } of [near, far, other, again]) assert.deepEqual(complaints, []);
  for (const used of [context, device]) await used.close();
});

test('cart: two who take the last one out leave none, and the next one counts', async () => {
  const [ann, bob] = [await visitor(), await visitor()];
  const cart = crypto.randomUUID();
  const pages = [await look(ann, 'cart/', openNetwork, cart), await look(bob, 'cart/', openNetwork, cart)];
  await pages[0].locator('#tea .more').click();
  for (const page of pages) await shows(page, 'count', '1');
  openNetwork.cut();
  for (const page of pages) await page.locator('#state', { hasText: 'not connected' }).waitFor();
  for (const page of pages) await page.locator('#tea .less').click();
  openNetwork.heal();
  await holds(`cart:${cart}:tea`, '-1', openNode);
  for (const page of pages) await page.locator('#state', { hasText: 'with your other devices' }).waitFor();
  for (const page of pages) await shows(page, 'count', '0');
  await until('the first page to know of both', () => pages[0].evaluate(() => document.querySelector('#tea').dataset.value === '-1'));
  await pages[0].locator('#tea .more').click();
  for (const page of pages) await shows(page, 'count', '1');
  await holds(`cart:${cart}:tea`, '1', openNode);
  for (const context of [ann, bob]) await context.close();
});

test('cart: a browser has one cart, and what it puts in is dropped in a week', async () => {
  const context = await visitor();
  const page = await look(context, 'cart/', openNetwork);
  await page.locator('#tea .more').click();
  const other = await look(context, 'cart/', openNetwork);
  await shows(other, 'count', '1');
  const cart = await other.evaluate(() => localStorage.getItem('cart'));
  assert.match(cart, /^[0-9a-f-]{36}$/);
  await holds(`cart:${cart}:tea`, '1', openNode);
  const { expires_at: at } = await (await fetch(`${openNode.address}/v1/spaces/default/counters/cart:${cart}:tea`)).json();
  assert.ok(Number(at) > Date.now() + 6 * 86_400_000, at);
  await context.close();
});

test('field-tally: what is counted with no network is kept over the end of the page, and counts once', async () => {
  // A node of its own: until a lease is over, visitors of the other tests who went without a word hold up what
  // members have to agree on, and so what this one had told nobody.
  const base = await oneNode();
  await tell(base.address, 'members', 'init');
  const network = await gate(base.address);
  const person = await visitor();
  let page = await look(person, 'field-tally/', network);
  const more = (id) => page.locator(`#${id} button`).click();
  const seen = (id, value) => until(`${id} to be ${value}`, async () => (await page.locator(`#${id}`).getAttribute('data-value')) === value);
  await more('heron');
  await holds('seen:heron', '1', base);
  await page.locator('#state', { hasText: 'the node has all of it' }).waitFor();
  network.cut();
  await more('heron');
  await more('kite');
  await page.locator('#state', { hasText: 'All is kept on this device; the node does not have all of it yet' }).waitFor();
  await page.close();
  page = await look(person, 'field-tally/', network);
  await seen('heron', '2');
  await more('kite');
  await page.locator('#state', { hasText: 'All is kept' }).waitFor();
  await page.reload();
  await seen('kite', '2');
  network.heal();
  await holds('seen:heron', '2', base);
  // What no member had met takes some rounds of questions, of 2.5 to 7.5 s each.
  await holds('seen:kite', '2', base).catch(() => holds('seen:kite', '2', base));
  await page.locator('#state', { hasText: 'the node has all of it' }).waitFor();
  assert.deepEqual(page.complaints, []);
  await person.close();
  network.stop();
  await base.stop();
});

test('no page is wider than a narrow phone', async () => {
  const context = await visitor();
  for (const path of ['', 'page-views/', 'likes-button/', 'likes-button/react.html', 'cart/', 'field-tally/']) {
    const page = await look(context, path);
    await page.locator('h1').waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360, path);
    await page.close();
  }
  await context.close();
});
