// The recipes that limit requests: the very files, in workerd and in Node, with a real node.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Miniflare } from 'miniflare';
import { oneNode, tell } from '../e2e/nodes.mjs';
import { entryOf } from './asking.mjs';
import { gate } from './gate.mjs';
import { makeProject } from './project.mjs';
import { bundle } from './workers.mjs';

const recipe = fileURLToPath(new URL('../../docs/recipes/rate-limit', import.meta.url));
/** The longest period, so that it does not end while it is looked at. */
const PERIOD_S = 366 * 86_400;
const LIMIT = 3;

let node;
let network;
let project;

before(async () => {
  node = await oneNode();
  network = await gate(node.address);
  await tell(node.address, 'members', 'init');
  project = makeProject();
  cpSync(recipe, project, { recursive: true });
});
after(async () => {
  network?.stop();
  await node?.stop();
});

const limit = (name) => tell(node.address, 'limit', 'set', name, '--limit', String(LIMIT), '--period', '366d');
const recipes = (file) => import(pathToFileURL(join(project, file)).href);

/** Checks that a client is let through as often as the limit says, is told how often that is, and then not. */
async function usesUp(ask, name) {
  for (let left = LIMIT - 1; left >= 0; left--) {
    const answer = await ask();
    assert.deepEqual([answer.status, await answer.text()], [200, 'hello from /a\n']);
    assert.equal(answer.headers.get('ratelimit-policy'), `"${name}";q=${LIMIT};w=${PERIOD_S}`);
    assert.match(answer.headers.get('ratelimit'), new RegExp(`^"${name}";r=${left};t=[0-9]+$`));
    assert.equal(answer.headers.get('retry-after'), null);
  }
  const refused = await ask();
  assert.equal(refused.status, 429);
  const after = refused.headers.get('retry-after');
  assert.ok(after > 0 && after <= PERIOD_S, after);
  assert.equal(refused.headers.get('ratelimit'), `"${name}";r=0;t=${after}`);
  assert.equal(refused.headers.get('ratelimit-policy'), `"${name}";q=${LIMIT};w=${PERIOD_S}`);
  assert.deepEqual([refused.headers.get('content-type'), refused.headers.get('cache-control')], ['application/problem+json', 'no-store']);
  assert.deepEqual(await refused.json(), {
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded', title: 'Too Many Requests', status: 429, 'violated-policies': [name],
  });
}

/** Checks what is done while no node answers. */
async function fails(ask, open) {
  network.cut();
  try {
    const answer = await ask();
    if (open) assert.deepEqual([answer.status, await answer.text(), answer.headers.get('ratelimit')], [200, 'hello from /a\n', null]);
    else assert.deepEqual([answer.status, answer.headers.get('retry-after'), await answer.json()], [503, '1', { title: 'Service Unavailable', status: 503 }]);
  } finally {
    network.heal();
  }
  // What was used up stays so.
  const again = await ask();
  assert.equal(again.status, 429);
  await again.text();
}

for (const whenUnknown of ['open', 'closed']) {
  test(`workerd: an edge worker limits each client, and fails ${whenUnknown}`, async () => {
    const name = `edge-${whenUnknown}`;
    await limit(name);
    const modules = await bundle(project, readFileSync(join(recipe, 'worker.js'), 'utf8'));
    const bindings = { NODES: network.address, LIMIT: name, ...(whenUnknown !== 'open' && { WHEN_UNKNOWN: whenUnknown }) };
    const worker = new Miniflare({ modules, compatibilityDate: '2026-04-01', host: '127.0.0.1', port: 0, cf: false, bindings });
    try {
      const url = new URL('/a', await worker.ready);
      const from = (address) => fetch(url, { headers: { 'cf-connecting-ip': address } });
      await usesUp(() => from('203.0.113.7'), name);
      // All of a network are one client, and another one is another.
      const hosts = ['2001:db8:1::1', '2001:db8:1:0:ffff::2', '2001:db8:1::3', '2001:db8:1:0:a:b:c:d'];
      for (const [index, host] of [...hosts, '2001:db8:1:1::1'].entries()) {
        const answer = await from(host);
        await answer.text();
        assert.equal(answer.status, index === LIMIT ? 429 : 200, host);
      }
      await fails(() => from('203.0.113.7'), whenUnknown === 'open');
    } finally {
      await worker.dispose();
    }
  });

  test(`node:http: a server limits its clients, and fails ${whenUnknown}`, async () => {
    const name = `server-${whenUnknown}`;
    await limit(name);
    const env = { ...process.env, NODES: network.address, LIMIT: name, WHEN_UNKNOWN: whenUnknown, PORT: '0' };
    const server = spawn(process.execPath, ['server.js'], { cwd: project, env, stdio: ['ignore', 'pipe', 'ignore'] });
    try {
      const address = await new Promise((resolve, reject) => {
        createInterface({ input: server.stdout }).once('line', resolve);
        server.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
      });
      const ask = () => fetch(`${address}/a`);
      await usesUp(ask, name);
      await fails(ask, whenUnknown === 'open');
    } finally {
      server.kill();
    }
  });
}

test('middleware goes on to the next, by whom the application says that asks', async () => {
  await limit('chain');
  const { limits } = await entryOf(project, 'limits');
  const { rateLimit } = await recipes('middleware.js');
  const limiter = limits({ urls: [node.address] });
  const chain = [
    rateLimit({ limiter, name: 'chain', client: (request) => request.headers['x-account'] }),
    (request, response, next) => (request.url === '/a' ? next() : response.end('other\n')),
    (request, response) => response.end(`hello from ${request.url}\n`),
  ];
  const server = createServer((request, response) => {
    const call = (index) => chain[index](request, response, () => call(index + 1));
    call(0);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const ask = (account, path = '/a') => fetch(`http://127.0.0.1:${server.address().port}${path}`, { headers: { 'x-account': account } });
  try {
    await usesUp(() => ask('ann'), 'chain');
    assert.equal(await (await ask('bob', '/b')).text(), 'other\n');
    // A key that no node takes is nobody's way around the limit.
    const long = await ask('k'.repeat(500));
    assert.deepEqual([long.status, (await long.json()).status], [503, 503]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('one client is one address, or one network of IPv6', async () => {
  const { network } = await recipes('verdict.js');
  for (const [address, client] of [
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::'],
    ['2001:db8::1', '2001:db8:0:0::'],
    ['1::3:4:5:6:7:8', '1:0:3:4::'],
    ['::1', '0:0:0:0::'],
    ['fe80::1%eth0', 'fe80:0:0:0::'],
    ['2001:db8:1:2::', '2001:db8:1:2::'],
  ]) assert.equal(network(address), client, address);
});
