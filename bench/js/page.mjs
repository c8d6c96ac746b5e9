// `cargo xtask bench -- js --only page`: a tab with 100,000 counters in Chromium, beside a real node: how long it takes to
// open, and for how long its main thread is held up. CHROME names the browser and TALLYMESH_BIN the node; the
// package's built files are in ../../wasm/dist.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { loadavg } from 'node:os';
import { launch } from '../../tests/e2e/browser.mjs';
import { oneNode } from '../../tests/e2e/nodes.mjs';
import { until } from '../../tests/e2e/until.mjs';
import { init, Replica } from '../../wasm/dist/node.mjs';
import { post } from '../../wasm/dist/transports.mjs';
import { finish, flag, median, say } from './printed.mjs';

const COUNTERS = 100_000;
/** How many writers each counter has shards of: the node, and others that tell it. */
const WRITERS = [1, 4];
const ROUNDS = flag('--quick') ? 1 : 5;
const STEADY_S = flag('--quick') ? 3 : 10;
const STEADY_RATE = 1_000;
/** Lines of one request that counts at the node. */
const LINES = 10_000;
const TYPES = { html: 'text/html', js: 'text/javascript', wasm: 'application/wasm' };

const load = loadavg()[0].toFixed(1);
/** The last one tells that all have come: nobody else counts it. */
const MARK = 'mark';
const names = [...Array.from({ length: COUNTERS - 1 }, (_, at) => `page:${at}:views`), MARK];
await init();

/** Opens a page of its own, served with the package as a static host would. */
async function tabIn(context) {
  const page = await context.newPage();
  page.on('pageerror', (error) => console.error(error));
  page.on('console', (message) => console.error(message.text()));
  await page.goto(`${host}/`);
  await page.waitForFunction(() => globalThis.tab !== undefined);
  return page;
}

/** Serves the page and the package, as a static host would. */
const server = createServer(({ url }, response) => {
  const file = url.startsWith('/dist/') ? `../../wasm${url}` : url === '/' ? 'tab.html' : 'tab.js';
  response.writeHead(200, { 'content-type': TYPES[file.split('.').at(-1)] }).end(readFileSync(new URL(file, import.meta.url)));
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const host = `http://127.0.0.1:${server.address().port}`;

/** Adds 1 to all counters at the node. */
async function countAll(address) {
  for (let at = 0; at < COUNTERS; at += LINES) {
    const body = names.slice(at, at + LINES).map((name) => `${name} 1\n`).join('');
    const answer = await fetch(`${address}/v1/spaces/default/add`, { method: 'POST', body });
    if (!answer.ok) throw new Error(await answer.text());
  }
}

const shards = async (address) => {
  const { spaces } = await (await fetch(`${address}/v1/status`)).json();
  return Number(spaces[0].shards);
};

/** Has so many writers add 1 to each counter, the node first. */
async function fill(address, writers) {
  await countAll(address);
  for (let at = 1; at < writers; at++) {
    const replica = new Replica();
    for (const name of names) replica.add(name);
    const connection = post(address, { intervalMs: 50 })(replica);
    await until('the node to have all', async () => (await shards(address)) >= (at + 1) * COUNTERS);
    connection.close();
    replica.free();
  }
}

/** What was measured, by the name of the step; one list of each round. */
const found = new Map();
function note(step, measured) {
  if (!found.has(step)) found.set(step, []);
  found.get(step).push(measured);
}

/** What the node's mark is at. */
let marked = 0;

async function round(browser, address, writers) {
  const context = await browser.newContext();
  try {
    const all = (step) => `${step}, ${writers === 1 ? 'a writer' : `${writers} writers`} each`;
    let page = await tabIn(context);
    note(all('first visit: all come from the node'), await page.evaluate(([node, many]) => tab.open([node], many), [address, COUNTERS]));
    note(all('and are stored'), await page.evaluate(() => tab.flush()));
    await page.evaluate(() => tab.close());
    await page.close();

    page = await tabIn(context);
    note(all('opens from IndexedDB'), await page.evaluate((many) => tab.open([], many), COUNTERS));
    await page.evaluate(() => tab.close());
    await page.close();

    page = await tabIn(context);
    note(all('opens, and goes on with the node'), await page.evaluate(([node, many]) => tab.open([node], many), [address, COUNTERS]));
    note(all('begins to listen to all'), await page.evaluate(() => tab.listen()));
    await page.evaluate(() => tab.pause());
    await countAll(address);
    marked++;
    note(all('all have changed while it was away'), await page.evaluate(([key, value]) => tab.resume(key, value), [MARK, marked]));
    marked++;
    const changing = page.evaluate(([key, value]) => tab.reach(key, value), [MARK, marked]);
    await countAll(address);
    note(all('all change while it is there'), await changing);
    const steady = [names.slice(0, -1), STEADY_RATE, STEADY_S];
    note(all(`counts ${STEADY_RATE.toLocaleString('en')} a second itself`), await page.evaluate((of) => tab.steady(...of), steady));
    await page.evaluate(() => tab.close());
    await page.close();
  } finally {
    await context.close();
  }
}

let version = '';
for (const writers of WRITERS) {
  const node = await oneNode();
  const browser = await launch();
  try {
    version = browser.version();
    marked = writers;
    await fill(node.address, writers);
    for (let at = 0; at < ROUNDS; at++) await round(browser, node.address, writers);
  } finally {
    await browser.close();
    await node.stop();
  }
}

server.closeAllConnections();
server.close();
say('| a tab with 100,000 counters | took, ms | longest hold-up, ms | long tasks | the longest, ms |');
say('|---|---:|---:|---:|---:|');
for (const [step, rounds] of found) {
  const of = (pick) => Math.round(median(rounds.map(pick)));
  const worst = Math.round(Math.max(...rounds.map(({ longestTaskMs }) => longestTaskMs)));
  say(`| ${step} | ${of(({ tookMs }) => tookMs).toLocaleString('en')} | ${of(({ longestMs }) => longestMs)} | ${of(({ longTasks }) => longTasks)} | ${worst || ''} |`);
}
say(`\nChromium ${version}, load ${load} at the start; medians of ${ROUNDS} rounds, of the longest task the greatest. A long task is one of more than 50 ms, as the browser reports it; a hold-up is how long a task that is due has waited.`);
finish();
