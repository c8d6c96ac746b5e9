// A peer that says what it must not, to the package in Node and in Chromium: each lie is refused with a code, and the
// replica is as it was, to the byte. `TALLYMESH_SEED` draws other lies.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFileSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { WebSocketServer } from 'ws';
import { launch } from '../e2e/browser.mjs';
import { serve } from '../e2e/serve.mjs';
import { html } from './pages.mjs';
import { execute, makeProject, write } from './project.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const vectors = (name) => JSON.parse(readFileSync(join(here, `../vectors/${name}.json`), 'utf8'));
const refusals = vectors('refusals');
const hello = vectors('frames').find(({ name }) => name === 'hello').hex;
const ATTACKS = 10_000;

let project;
let server;
let asked;

before(async () => {
  project = makeProject();
  copyFileSync(join(here, 'hostile.js'), join(project, 'hostile.js'));
  server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  // It says what the address names, after a proper greeting unless that is the lie.
  server.on('connection', (socket, { url }) => {
    const { name, hex } = refusals.find(({ name }) => url === `/${name}`);
    if (!name.startsWith('hello')) socket.send(Buffer.from(hello, 'hex'));
    socket.send(Buffer.from(hex, 'hex'));
  });
  const seed = Number(process.env.TALLYMESH_SEED ?? 1);
  asked = { refusals, messages: vectors('messages'), server: `ws://127.0.0.1:${server.address().port}`, attacks: ATTACKS, seed };
  write(project, { 'asked.js': `export const asked = ${JSON.stringify(asked)};\n` });
});
after(() => {
  for (const socket of server?.clients ?? []) socket.terminate();
  server?.close();
});

function judge({ merged, refused, links, closed, codes }) {
  assert.equal(merged + refused, ATTACKS);
  assert.equal(links, ATTACKS);
  // Else nothing was attacked: a change that is another state, or that is allowed, is rare.
  assert.ok(refused > ATTACKS * 0.7, `${refused} were refused`);
  assert.ok(closed > ATTACKS * 0.5, `${closed} links were closed`);
  for (const { name, refused } of refusals) {
    // What asks for levels, rights and numbers is unknown to pages.
    if (name in codes) assert.equal(codes[name], /^(ask|answer|want|draw)_/.test(name) ? 'malformed' : refused, name);
  }
  assert.ok(Object.keys(codes).length > 10);
}

test('Node: hostile bytes leave the replica as it was', async () => {
  write(project, {
    'hostile.mjs': `import * as tallymesh from 'tallymesh';
      import { asked } from './asked.js';
      import { run } from './hostile.js';
      const { WebSocket } = await import(process.argv[2]);
      console.log(JSON.stringify(await run(tallymesh, { ...asked, WebSocket })));\n`,
  });
  judge(JSON.parse(await execute(project, process.execPath, ['hostile.mjs', import.meta.resolve('ws')])));
});

test('Chromium: hostile bytes leave the replica as it was', async () => {
  const map = { imports: { tallymesh: './node_modules/tallymesh/dist/browser.js' } };
  const head = `<script type="importmap">${JSON.stringify(map)}</script>`;
  write(project, {
    'index.html': html('./page.js', head),
    'page.js': `import * as tallymesh from 'tallymesh';
      import { asked } from './asked.js';
      import { run } from './hostile.js';
      globalThis.outcome = run(tallymesh, asked);\n`,
  });
  const { address, stop } = await serve(project);
  const browser = await launch();
  try {
    const page = await browser.newPage();
    await page.goto(address);
    judge(await page.evaluate(() => globalThis.outcome));
  } finally {
    await browser.close();
    stop();
  }
});
