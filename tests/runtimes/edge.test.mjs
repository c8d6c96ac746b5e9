// The recipe of an edge worker, in workerd: the very file, with a real node and a page's replica.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Miniflare } from 'miniflare';
import WebSocket from 'ws';
import { oneNode, read, tell } from '../e2e/nodes.mjs';
import { until } from '../e2e/until.mjs';
import { gate } from './gate.mjs';
import { makeProject, write } from './project.mjs';
import { bundle } from './workers.mjs';

const recipe = fileURLToPath(new URL('../../docs/recipes/edge-worker/worker.js', import.meta.url));

let node;
let network;
let project;
let modules;
let open;

before(async () => {
  node = await oneNode();
  network = await gate(node.address);
  project = makeProject();
  modules = await bundle(project, readFileSync(recipe, 'utf8'));
  write(project, { 'load.mjs': "export { open } from 'tallymesh';\n" });
  ({ open } = await import(pathToFileURL(join(project, 'load.mjs')).href));
});
after(async () => {
  network?.stop();
  await node?.stop();
});

/** Starts the worker on what it stored before; `stop` evicts it. */
async function start(more = {}, folder = 'objects') {
  const worker = new Miniflare({
    modules,
    compatibilityDate: '2026-04-01',
    host: '127.0.0.1',
    port: 0,
    cf: false,
    bindings: { NODE: network.address, ...more },
    durableObjects: { TALLY: 'Tally' },
    durableObjectsPersist: join(project, folder),
  });
  const address = await worker.ready;
  const ask = async (path, method = 'GET') => {
    const answer = await fetch(new URL(path, address), { method });
    return [answer.status, (await answer.text()).trim()];
  };
  return { address, ask, stop: () => worker.dispose() };
}

test('workerd: an edge worker counts, keeps, and syncs with a node and with pages', async () => {
  let worker = await start();
  let page;
  try {
    assert.deepEqual(await worker.ask('/likes'), [404, 'absent']);
    assert.deepEqual(await worker.ask('/likes', 'POST'), [200, '1']);
    assert.deepEqual(await worker.ask(`/${'k'.repeat(513)}`, 'POST').then(([status]) => status), 400);
    assert.deepEqual(await worker.ask('/likes', 'DELETE').then(([status]) => status), 405);
    await until('the node to count 1', async () => (await read(node.address, 'likes')) === '1');

    // With the node out of reach it goes on, over its eviction.
    network.cut();
    assert.deepEqual(await worker.ask('/likes', 'POST'), [200, '2']);
    await worker.stop();
    worker = await start();
    assert.deepEqual(await worker.ask('/likes', 'POST'), [200, '3']);

    // A page hears of it from the worker, and tells it.
    page = await open({ transports: [new URL('/sync', worker.address)], WebSocket, retryMaxMs: 200 });
    await until('the page to show 3', () => page.get('likes') === 3n);
    page.add('likes', 10);
    await until('the worker to show 13', async () => (await worker.ask('/likes'))[1] === '13');

    network.heal();
    await tell(node.address, 'add', 'likes', '100');
    await until('all to agree', async () => {
      const shown = [(await worker.ask('/likes'))[1], await read(node.address, 'likes'), String(page.get('likes'))];
      return shown.every((value) => value === '113');
    });
  } finally {
    await page?.close();
    await worker.stop();
  }
});

test('workerd: an alarm tells the node what was counted while it was away, with no request that wakes the object', async () => {
  const soon = { LOOK_MS: '500' };
  network.cut();
  const before = await start(soon, 'alarmed');
  try {
    assert.deepEqual(await before.ask('/alarmed', 'POST'), [200, '1']);
  } finally {
    await before.stop();
  }
  assert.equal(await read(node.address, 'alarmed'), undefined, 'the node has not heard of it');
  network.heal();
  const after = await start(soon, 'alarmed');
  try {
    await until('the node to count 1', async () => (await read(node.address, 'alarmed')) === '1');
  } finally {
    await after.stop();
  }
});
