// Counters that outlive their page, process or object: in Chromium, workerd, Deno and Bun.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Miniflare } from 'miniflare';
import { launch } from '../e2e/browser.mjs';
import { oneNode, read, tell } from '../e2e/nodes.mjs';
import { serve } from '../e2e/serve.mjs';
import { until } from '../e2e/until.mjs';
import { html } from './pages.mjs';
import { execute, makeProject, tool, write } from './project.mjs';
import { bundle } from './workers.mjs';

/** A name that leads to this machine, and is not known to: pages from there are no secure context. */
const ELSEWHERE = 'phone.test';

let project;
let pages;
let browser;
let node;

before(async () => {
  project = makeProject();
  const map = { tallymesh: 'browser', 'tallymesh/storage': 'storage', 'tallymesh/transports': 'transports' };
  const imports = Object.fromEntries(Object.entries(map).map(([name, file]) => [name, `./node_modules/tallymesh/dist/${file}.js`]));
  const head = `<script type="importmap">${JSON.stringify({ imports })}</script>`;
  write(project, {
    'stored.html': html('./stored.js', head),
    'stored.js': `import { open } from 'tallymesh';
      import { indexedDb } from 'tallymesh/storage';
      const asked = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
      globalThis.counters = await open({
        storage: indexedDb({ name: asked.name }),
        transports: asked.node ? [asked.node] : [],
        retryMaxMs: 200,
        paused: asked.paused !== undefined,
      });`,
  });
  pages = await serve(project);
  browser = await launch(`--host-resolver-rules=MAP ${ELSEWHERE} 127.0.0.1`);
  node = await oneNode();
});
after(async () => {
  await browser?.close();
  pages?.stop();
  await node?.stop();
});

let names = 0;
const fresh = () => `db-${names++}`;

/** Opens a page whose counters are stored; `asked` says how. */
async function visit(context, asked, address = pages.address) {
  const page = await context.newPage();
  page.on('pageerror', (error) => console.error(String(error)));
  page.warnings = [];
  page.on('console', (message) => message.type() === 'warning' && page.warnings.push(message.text()));
  await page.goto(`${address}stored.html#${new URLSearchParams(asked)}`);
  await page.waitForFunction(() => globalThis.counters !== undefined);
  return page;
}

const add = (page, key, by) => page.evaluate(async ([key, by]) => {
  counters.add(key, by);
  await counters.flush();
}, [key, by]);
const get = (page, key) => page.evaluate((key) => String(counters.get(key)), key);
const shows = (page, key, value) => page.waitForFunction(([key, value]) => String(counters.get(key)) === value, [key, value]);

test('Chromium: what a page counted is there when it comes again', async () => {
  const context = await browser.newContext();
  const name = fresh();
  let page = await visit(context, { name });
  await add(page, 'visits', 1);
  const writer = await page.evaluate(() => counters.writer);
  assert.deepEqual(await page.evaluate(() => counters.status().storage), { kind: 'indexeddb', state: 'durable', error: undefined, unacknowledged: 0 });
  for (let visits = 2; visits < 5; visits++) {
    await page.reload();
    await page.waitForFunction(() => globalThis.counters !== undefined);
    await add(page, 'visits', 1);
    assert.equal(await get(page, 'visits'), String(visits));
  }
  assert.notEqual(await page.evaluate(() => counters.writer), writer);
  await page.evaluate(() => counters.close());
  await page.close();
  page = await visit(context, { name });
  assert.equal(await get(page, 'visits'), '4');
  const logs = await page.evaluate((name) => new Promise((resolve) => {
    indexedDB.open(name).onsuccess = ({ target }) => {
      target.result.transaction('logs').objectStore('logs').getAll().onsuccess = ({ target }) => resolve(target.result.length);
    };
  }), name);
  assert.equal(logs, 1, 'the logs of before are taken over');
  await context.close();
});

test('Chromium: a tab takes over what another one leaves behind that is killed', async () => {
  const context = await browser.newContext();
  const name = fresh();
  const [stays, killed] = [await visit(context, { name }), await visit(context, { name })];
  await add(stays, 'k', 1);
  await add(killed, 'k', 10);
  assert.equal(await get(stays, 'k'), '1', 'nothing links them');
  const session = await context.newCDPSession(killed);
  // The process of the tab ends in the middle of whatever it does.
  session.send('Page.crash').catch(() => {});
  await shows(stays, 'k', '11');
  await context.close();
});

test('Chromium: tabs of one profile have one owner, and a writer each', async () => {
  const context = await browser.newContext();
  const name = fresh();
  const tabs = await Promise.all([1, 2, 3].map(() => visit(context, { name })));
  await Promise.all(tabs.map((tab, at) => add(tab, 'k', 10 ** at)));
  const writers = await Promise.all(tabs.map((tab) => tab.evaluate(() => counters.writer)));
  assert.equal(new Set(writers).size, 3);
  for (const tab of tabs) await tab.close();
  const next = await visit(context, { name });
  await shows(next, 'k', '111');
  await context.close();
});

test('Chromium: what was counted offline in a space with members counts once, whatever became of the page', async () => {
  await tell(node.address, 'members', 'init').catch(() => {});
  const context = await browser.newContext();
  const name = fresh();
  const key = 'offline';
  let page = await visit(context, { name, node: node.address });
  await add(page, key, 1);
  await until('the node to count 1', async () => (await read(node.address, key)) === '1');
  await page.evaluate(() => counters.connections[0].pause());
  await add(page, key, 10);
  await page.close();
  page = await visit(context, { name, node: node.address, paused: '' });
  assert.equal(await get(page, key), '11');
  await add(page, key, 100);
  await page.close();
  page = await visit(context, { name, node: node.address });
  // What no member had met takes some rounds of questions, of 2.5 to 7.5 s each.
  const all = () => until('the node to count all', async () => (await read(node.address, key)) === '111');
  await all().catch(all);
  await shows(page, key, '111');
  await page.evaluate(() => counters.close());
  await context.close();
});

test('Chromium: a page that is no secure context counts in memory, and says so', async () => {
  const context = await browser.newContext();
  const { port } = new URL(pages.address);
  const page = await visit(context, { name: fresh() }, `http://${ELSEWHERE}:${port}/`);
  assert.equal(await page.evaluate(() => isSecureContext), false);
  await add(page, 'k', 1);
  assert.equal(await get(page, 'k'), '1');
  assert.deepEqual(await page.evaluate(() => [counters.status().storage.state, counters.status().storage.error.code]), ['memory', 'storage_none']);
  assert.equal(page.warnings.length, 1);
  assert.match(page.warnings[0], /no secure context.*gone with this page/);
  await context.close();
});

test('workerd: counters of a Durable Object outlive it', async () => {
  const modules = await bundle(project, `import { open } from 'tallymesh';
    import { durableObject } from 'tallymesh/storage';
    export class Tally {
      constructor({ storage }) {
        this.counters = open({ storage: durableObject(storage) });
      }
      async fetch() {
        const counters = await this.counters;
        counters.add('visits');
        for (let at = 0; at < 3000; at++) counters.add('a key that is rather long, so that the state is as well ' + at);
        await counters.flush();
        const { storage } = counters.status();
        return Response.json([String(counters.get('visits')), counters.writer, storage.kind, storage.state]);
      }
    }
    export default { fetch: (request, env) => env.TALLY.get(env.TALLY.idFromName('one')).fetch(request) };\n`);
  const durableObjectsPersist = join(project, 'objects');
  const writers = new Set();
  for (let visits = 1; visits <= 3; visits++) {
    const worker = new Miniflare({
      modules,
      compatibilityDate: '2026-04-01',
      host: '127.0.0.1',
      port: 0,
      cf: false,
      durableObjects: { TALLY: 'Tally' },
      durableObjectsPersist,
    });
    try {
      const answer = await fetch(await worker.ready);
      const [count, writer, kind, state] = JSON.parse(await answer.text());
      assert.deepEqual([count, kind, state], [String(visits), 'durable-object', 'durable']);
      writers.add(writer);
    } finally {
      await worker.dispose();
    }
  }
  assert.equal(writers.size, 3);
});

const COUNTS = `import { open } from 'tallymesh';
  import { file } from 'tallymesh/file';
  const counters = await open({ storage: file('kept') });
  counters.add('starts');
  await counters.flush();
  console.log(JSON.stringify([String(counters.get('starts')), counters.status().storage.state]));
  if (counters.get('starts') === 2n) await counters.close();
  else (globalThis.Deno ?? globalThis.process).exit(0);\n`;

for (const [runtime, args] of [['deno', ['run', '--no-prompt', '--allow-read', '--allow-write', '--allow-net', '--allow-env', '--allow-sys']], ['bun', []]]) {
  test(`${runtime}: counters of a folder outlive the process`, async () => {
    const folder = makeProject();
    write(folder, { 'count.mjs': COUNTS });
    for (let starts = 1; starts <= 3; starts++) {
      const told = JSON.parse(await execute(folder, tool(runtime), [...args, 'count.mjs']));
      assert.deepEqual(told, [String(starts), 'durable']);
    }
    assert.equal(readdirSync(join(folder, 'kept/default')).filter((name) => name.includes('.log')).length, 1);
  });
}
