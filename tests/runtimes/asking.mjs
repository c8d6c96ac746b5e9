// Entries that ask nodes over HTTP, from each runtime with the packed package: three real nodes that are members, a way to
// them that loses answers, and a program of an entry that is run everywhere.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Miniflare } from 'miniflare';
import puppeteer from 'puppeteer-core';
import { launch } from '../e2e/browser.mjs';
import { nodes as threeNodes, tell } from '../e2e/nodes.mjs';
import { serve } from '../e2e/serve.mjs';
import { until } from '../e2e/until.mjs';
import { html } from './pages.mjs';
import { execute, tool, write } from './project.mjs';
import { bundle } from './workers.mjs';

/** Starts three nodes that are members of the default space, and know each other as such. */
export async function threeMembers() {
  const nodes = await threeNodes();
  const { addresses } = nodes;
  const members = async (address) => (await (await fetch(`${address}/v1/spaces/default/members`)).json()).members ?? [];
  await tell(addresses[0], 'members', 'init');
  for (const address of addresses.slice(1)) {
    const [{ owner }] = await tell(address, 'id');
    // A change waits until those before it have taken effect at a majority.
    await until('a member to be taken in', () => tell(addresses[0], 'members', 'add', owner).catch(() => undefined));
  }
  for (const address of addresses) {
    await until(`${address} to know the members`, async () => (await members(address)).length === 3);
  }
  return nodes;
}

/** An entry of the package, as a program of the project has it. */
export function entryOf(project, entry) {
  write(project, { [`load-${entry}.mjs`]: `export * from 'tallymesh/${entry}';\n` });
  return import(pathToFileURL(join(project, `load-${entry}.mjs`)).href);
}

/** A way to a node on which the answers of the first `count` writes get lost, and of more, if it is told: the node has made them by then. */
export async function lossy(to, count) {
  let lost = 0;
  const server = createServer(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const { host: _, 'content-length': __, connection: ___, ...headers } = request.headers;
    const writes = request.method !== 'GET';
    const answer = await fetch(to + request.url, { method: request.method, headers, body: writes ? Buffer.concat(pieces) : undefined });
    const text = await answer.text();
    if (writes && lost < count) {
      lost++;
      request.socket.destroy();
    } else response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') }).end(text);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `http://127.0.0.1:${server.address().port}`,
    lost: () => lost,
    lose: (more) => (count = lost + more),
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** The code of a document that imports an entry, and has `more`. */
export function example(text, language, entry, more = '') {
  const blocks = [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, code]) => code);
  return blocks.find((code) => code.includes(`'tallymesh/${entry}'`) && code.includes(more));
}

/** The example of the package's README of an entry, for a node; its text is made a program. */
export function readmeExample(project, entry, address, more) {
  const code = example(readFileSync(join(project, 'node_modules/tallymesh/README.md'), 'utf8'), 'ts', entry, more);
  assert.equal(code.split("'http://127.0.0.1:4280'").length, 2, 'the node is named once');
  write(project, { [`example-${entry}.mjs`]: code.replace('http://127.0.0.1:4280', address) });
  return execute(project, process.execPath, [`example-${entry}.mjs`]);
}

/**
 * Tests that a program of this folder does the same everywhere: it exports `run`, and knows no runtime.
 *
 * @param at - gives the project and the addresses of the nodes, once they are there.
 * @param asked - what it is told, another one each time; of a page if that is said.
 * @param judge - checks what it told.
 */
export function everywhere({ entry, program, at, asked, judge }) {
  const ready = () => {
    const { project } = at();
    copyFileSync(join(import.meta.dirname, program), join(project, program));
    return project;
  };
  const run = `import * as tallymesh from 'tallymesh/${entry}';
    import { run } from './${program}';\n`;
  const imported = `${run}import process from 'node:process';
    console.log(JSON.stringify(await run(tallymesh, JSON.parse(process.argv[2]))));\n`;
  const required = `const tallymesh = require('tallymesh/${entry}');
    import('./${program}')
      .then(({ run }) => run(tallymesh, JSON.parse(process.argv[2])))
      .then((outcome) => console.log(JSON.stringify(outcome)));\n`;

  // Programs with a command line, and the rights that they need.
  const hosts = () => at().addresses.map((address) => new URL(address).host);
  const runtimes = {
    'Node, imported': () => [process.execPath, [`${entry}.mjs`]],
    'Node, required': () => [process.execPath, [`${entry}.cjs`]],
    'Node, required where no ES module can be': () => [process.execPath, ['--no-experimental-require-module', `${entry}.cjs`]],
    'Deno': () => [tool('deno'), ['run', '--no-prompt', `--allow-net=${hosts()}`, `${entry}.mjs`]],
    'Bun': () => [tool('bun'), [`${entry}.mjs`]],
  };
  for (const [name, command] of Object.entries(runtimes)) {
    test(`${entry} from ${name}`, async () => {
      const project = write(ready(), { [`${entry}.mjs`]: imported, [`${entry}.cjs`]: required });
      const [file, args] = command();
      judge(JSON.parse(await execute(project, file, [...args, JSON.stringify(await asked())])));
    });
  }

  /** A page of another origin, as a shop's. */
  async function visit(browser) {
    const head = `<script type="importmap">{"imports":{"tallymesh/${entry}":"./node_modules/tallymesh/dist/${entry}.js"}}</script>`;
    const project = write(ready(), {
      [`${entry}.html`]: html(`./page-${entry}.js`, head),
      [`page-${entry}.js`]: `${run}globalThis.outcome = run(tallymesh, JSON.parse(decodeURIComponent(location.hash.slice(1))));\n`,
    });
    const pages = await serve(project);
    try {
      const page = await browser.newPage();
      await page.goto(`${pages.address}${entry}.html#${encodeURIComponent(JSON.stringify(await asked(true)))}`);
      judge(await page.evaluate(() => globalThis.outcome));
    } finally {
      pages.stop();
    }
  }

  test(`${entry} from a page in Chromium`, async () => {
    const browser = await launch();
    await visit(browser).finally(() => browser.close());
  });

  const firefox = process.env.FIREFOX ?? ['/usr/bin/firefox-esr', '/usr/bin/firefox'].find((path) => existsSync(path));
  test(`${entry} from a page in Firefox`, { skip: firefox ? false : 'no Firefox was found; name its program in FIREFOX' }, async () => {
    const browser = await puppeteer.launch({ browser: 'firefox', executablePath: firefox, headless: true });
    await visit(browser).finally(() => browser.close());
  });

  test(`${entry} from a Worker in workerd`, async () => {
    const modules = await bundle(ready(), `${run}
      // A Worker may make it while it starts: nothing is asked before a method is called.
      tallymesh.${entry}('https://node.example');
      export default { fetch: async (request) => Response.json(await run(tallymesh, await request.json())) };\n`);
    const worker = new Miniflare({ modules, compatibilityDate: '2026-04-01', host: '127.0.0.1', port: 0, cf: false });
    try {
      const answer = await fetch(await worker.ready, { method: 'POST', body: JSON.stringify(await asked()) });
      const text = await answer.text();
      assert.equal(answer.status, 200, text);
      judge(JSON.parse(text));
    } finally {
      await worker.dispose();
    }
  });
}
