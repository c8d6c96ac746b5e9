// Budgets of three real nodes that are members, spent from each runtime with the packed package.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Miniflare } from 'miniflare';
import puppeteer from 'puppeteer-core';
import { launch } from '../e2e/browser.mjs';
import { nodes as threeNodes, oneNode, tell } from '../e2e/nodes.mjs';
import { serve } from '../e2e/serve.mjs';
import { until } from '../e2e/until.mjs';
import { gate } from './gate.mjs';
import { html } from './pages.mjs';
import { execute, makeProject, tool, write } from './project.mjs';
import { bundle } from './workers.mjs';

const SPACE = '/v1/spaces/default';

let nodes;
let addresses;
let project;
let budgets;

before(async () => {
  nodes = await threeNodes();
  ({ addresses } = nodes);
  project = makeProject();
  copyFileSync(join(import.meta.dirname, 'budgeting.js'), join(project, 'budgeting.js'));
  write(project, { 'load-budgets.mjs': "export * from 'tallymesh/budgets';\n" });
  ({ budgets } = await import(pathToFileURL(join(project, 'load-budgets.mjs')).href));

  await tell(addresses[0], 'members', 'init');
  for (const address of addresses.slice(1)) {
    const [{ owner }] = await tell(address, 'id');
    // A change waits until those before it have taken effect at a majority.
    await until('a member to be taken in', () => tell(addresses[0], 'members', 'add', owner).catch(() => undefined));
  }
  for (const address of addresses) {
    await until(`${address} to know the members`, async () => (await members(address)).length === 3);
  }
});
after(() => nodes?.stop());

const members = async (address) => (await (await fetch(`${address}${SPACE}/members`)).json()).members ?? [];

let keys = 0;
const fresh = () => `gift-${keys++}.`;
const asked = () => ({ nodes: addresses, key: fresh() });

/** Checks what the program told. */
function judge(outcome) {
  assert.deepEqual(outcome, {
    before: 'undefined',
    values: ['60', '58', '2', '58'],
    refused: [true, 'rights_short', 'no', '58'],
    wrong: [true, 'amount_not_integer'],
    names: ['', ':cashback'],
    held: '58',
  });
}

const imported = `import * as tallymesh from 'tallymesh/budgets';
  import process from 'node:process';
  import { run } from './budgeting.js';
  console.log(JSON.stringify(await run(tallymesh, JSON.parse(process.argv[2]))));\n`;
const required = `const tallymesh = require('tallymesh/budgets');
  import('./budgeting.js')
    .then(({ run }) => run(tallymesh, JSON.parse(process.argv[2])))
    .then((outcome) => console.log(JSON.stringify(outcome)));\n`;

/** Programs with a command line, and the rights that they need. */
const host = (address) => new URL(address).host;
const RUNTIMES = {
  'Node, imported': () => [process.execPath, ['budgets.mjs']],
  'Node, required': () => [process.execPath, ['budgets.cjs']],
  'Node, required where no ES module can be': () => [process.execPath, ['--no-experimental-require-module', 'budgets.cjs']],
  'Deno': () => [tool('deno'), ['run', '--no-prompt', `--allow-net=${addresses.map(host)}`, 'budgets.mjs']],
  'Bun': () => [tool('bun'), ['budgets.mjs']],
};
for (const [name, command] of Object.entries(RUNTIMES)) {
  test(`budgets from ${name}`, async () => {
    write(project, { 'budgets.mjs': imported, 'budgets.cjs': required });
    const [file, args] = command();
    judge(JSON.parse(await execute(project, file, [...args, JSON.stringify(asked())])));
  });
}

/** A page of another origin, as a shop's. */
async function visit(browser) {
  const head = '<script type="importmap">{"imports":{"tallymesh/budgets":"./node_modules/tallymesh/dist/budgets.js"}}</script>';
  write(project, {
    'budgets.html': html('./page-budgets.js', head),
    'page-budgets.js': `import * as tallymesh from 'tallymesh/budgets';
      import { run } from './budgeting.js';
      globalThis.outcome = run(tallymesh, JSON.parse(decodeURIComponent(location.hash.slice(1))));\n`,
  });
  const pages = await serve(project);
  try {
    const page = await browser.newPage();
    await page.goto(`${pages.address}budgets.html#${encodeURIComponent(JSON.stringify(asked()))}`);
    judge(await page.evaluate(() => globalThis.outcome));
  } finally {
    pages.stop();
  }
}

test('budgets from a page in Chromium', async () => {
  const browser = await launch();
  await visit(browser).finally(() => browser.close());
});

const firefox = process.env.FIREFOX ?? ['/usr/bin/firefox-esr', '/usr/bin/firefox'].find((path) => existsSync(path));
test('budgets from a page in Firefox', { skip: firefox ? false : 'no Firefox was found; name its program in FIREFOX' }, async () => {
  const browser = await puppeteer.launch({ browser: 'firefox', executablePath: firefox, headless: true });
  await visit(browser).finally(() => browser.close());
});

test('budgets from a Worker in workerd', async () => {
  const modules = await bundle(project, `import * as tallymesh from 'tallymesh/budgets';
    import { run } from './budgeting.js';
    // A Worker may make it while it starts: nothing is asked before a method is called.
    tallymesh.budgets('https://node.example');
    export default { fetch: async (request) => Response.json(await run(tallymesh, await request.json())) };\n`);
  const worker = new Miniflare({ modules, compatibilityDate: '2026-04-01', host: '127.0.0.1', port: 0, cf: false });
  try {
    const answer = await fetch(await worker.ready, { method: 'POST', body: JSON.stringify(asked()) });
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    judge(JSON.parse(text));
  } finally {
    await worker.dispose();
  }
});

/** Whether all nodes show this value of a budget. */
async function shown(key, value) {
  const seen = await Promise.all(addresses.map((address) => budgets(address).get(key)));
  return seen.every((budget) => budget?.value === value);
}

test('a spend waits for rights that another node holds, and is refused without', async () => {
  const key = fresh();
  await tell(addresses[0], 'budget', 'mint', key, '100');
  await until('all to know of it', () => shown(key, 100n));
  const there = budgets(addresses[1]);
  const refused = await there.spend(key, 1_000).catch((error) => error);
  assert.deepEqual([refused.code, refused.applied, refused.held, refused.asked], ['rights_short', 'no', { here: 0n, pending: 0n, elsewhere: 100n }, 0n]);
  const short = await there.spend(key, 30).catch((error) => error);
  assert.deepEqual([short.code, short.held.elsewhere, short.asked], ['rights_short', 100n, 30n]);
  assert.equal((await there.spend(key, 30, { waitMs: 20_000 })).value, 70n);
  await until('all to show 70', () => shown(key, 70n));
});

/** A way to a node on which the answers of the first `count` writes get lost: the node has made them by then. */
async function lossy(to, count) {
  let lost = 0;
  const server = createServer(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const { host: _, 'content-length': __, connection: ___, ...headers } = request.headers;
    const body = request.method === 'GET' ? undefined : Buffer.concat(pieces);
    const answer = await fetch(to + request.url, { method: request.method, headers, body });
    const text = await answer.text();
    if (body && lost < count) {
      lost++;
      request.socket.destroy();
    } else response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') }).end(text);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `http://127.0.0.1:${server.address().port}`,
    lost: () => lost,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

for (const [where, urls] of Object.entries({ 'the same node': (way) => [way], 'the next one': (way) => [way, addresses[1]] })) {
  test(`a write whose answer is lost counts once when it is tried again at ${where}`, async () => {
    const key = fresh();
    await tell(addresses[0], 'budget', 'mint', key, '100');
    await until('all to know of it', () => shown(key, 100n));
    const way = await lossy(addresses[0], 1);
    try {
      const shop = budgets({ urls: urls(way.address), retryMinMs: 10 });
      await shop.spend(key, 25, { waitMs: 20_000 });
      assert.equal(way.lost(), 1);
      await until('all to show 75', () => shown(key, 75n));
      // Another one, which is told that its outcome is not known, and asked for again by hand.
      const dead = await lossy(addresses[0], Infinity);
      const lost = await budgets({ urls: [dead.address], retries: 1, retryMinMs: 1 }).spend(key, 5).catch((error) => error);
      dead.stop();
      assert.deepEqual([lost.code, lost.applied, dead.lost()], ['link_lost', 'unknown', 2]);
      await shop.spend(key, 5, { idempotencyKey: lost.idempotencyKey, waitMs: 20_000 });
      await until('all to show 70', () => shown(key, 70n));
      // Nobody holds anything that is not there.
      const { rights, holders } = await shop.get(key);
      assert.equal(rights.here + rights.pending + rights.elsewhere, 70n);
      assert.equal(holders.reduce((sum, { rights }) => sum + rights, 0n), 70n);
    } finally {
      way.stop();
    }
  });
}

test('a watch goes on over a connection that breaks', async () => {
  const key = fresh();
  await tell(addresses[0], 'budget', 'mint', key, '100');
  const network = await gate(addresses[0]);
  try {
    const seen = [];
    const shop = budgets({ urls: [network.address], retryMinMs: 10, retryMaxMs: 100 });
    for await (const { value } of shop.watch({ prefix: key }, { signal: AbortSignal.timeout(30_000) })) {
      seen.push(value);
      if (value === 100n) {
        network.cut();
        await tell(addresses[0], 'budget', 'spend', key, '1');
        network.heal();
      } else if (value === 99n) await tell(addresses[0], 'budget', 'spend', key, '1');
      else break;
    }
    assert.deepEqual(seen, [100n, 99n, 98n]);
  } finally {
    network.stop();
  }
});

test("the example of the package's README does what it says", async () => {
  const readme = readFileSync(join(project, 'node_modules/tallymesh/README.md'), 'utf8');
  const example = blocks(readme, 'ts');
  assert.equal(example.split("'http://127.0.0.1:4280'").length, 2, 'the node is named once');
  write(project, { 'example.mjs': example.replace('http://127.0.0.1:4280', addresses[0]) });
  assert.equal(await execute(project, process.execPath, ['example.mjs']), '75n\ngift:7c1b 70n\n70n\n');
});

/** The code of a document that imports budgets. */
const blocks = (text, language) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, code]) => code).find((code) => code.includes("'tallymesh/budgets'"));

test('the Worker of docs/budgets.md takes gift cards, each order once, with a ticket', async () => {
  const node = await oneNode();
  const code = blocks(readFileSync(new URL('../../docs/budgets.md', import.meta.url), 'utf8'), 'js');
  let worker;
  try {
    await tell(node.address, 'members', 'init');
    await tell(node.address, 'budget', 'mint', 'gift:7c1b', '100');
    const [{ ticket }] = await tell(node.address, 'invite', '--role', 'writer');
    await node.again('--http-tickets');
    worker = new Miniflare({
      modules: await bundle(project, code),
      compatibilityDate: '2026-04-01',
      host: '127.0.0.1',
      port: 0,
      cf: false,
      bindings: { NODES: `http://127.0.0.1:1 ${node.address}`, TICKET: ticket },
    });
    const address = await worker.ready;
    const buy = async (amount, order) => {
      const answer = await fetch(address, { method: 'POST', body: JSON.stringify({ card: '7c1b', amount, order }) });
      return [answer.status, await answer.json()];
    };
    // The first node is away. What is pending of the node's start before comes by then.
    assert.deepEqual(await buy(25, 'order-1'), [200, { left: '75' }]);
    assert.deepEqual(await buy(25, 'order-1'), [200, { left: '75' }]);
    // It can't be told whether the node that is away had taken it before it was.
    assert.deepEqual(await buy(80, 'order-2'), [402, { code: 'rights_short', applied: 'unknown' }]);

    const shop = budgets({ urls: [node.address], ticket });
    const refused = async (promise) => promise.then(assert.fail, ({ code, status, applied }) => [code, status, applied]);
    assert.deepEqual(await refused(shop.mint('gift:7c1b', 1)), ['forbidden', 403, 'no']);
    assert.deepEqual(await refused(budgets(node.address).spend('gift:7c1b', 1)), ['ticket_needed', 401, 'no']);
    assert.equal((await shop.get('gift:7c1b')).value, 75n);
  } finally {
    await worker?.dispose();
    await node.stop();
  }
});
