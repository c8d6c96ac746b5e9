// Chromium: a page without a bundler, and pages that Vite, webpack and esbuild made.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import esbuild from 'esbuild';
import * as vite from 'vite';
import webpack from 'webpack';
import { launch } from '../e2e/browser.mjs';
import { oneNode } from '../e2e/nodes.mjs';
import { html, pageModule, visit, visitFolder } from './pages.mjs';
import { makeProject, write } from './project.mjs';

let node;
let project;
let browser;

before(async () => {
  node = await oneNode();
  project = makeProject();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await node?.stop();
});

/** How many files of each kind a bundler made, its page aside. */
function made(folder) {
  const names = readdirSync(folder, { recursive: true }).map(String);
  return { js: names.filter((name) => name.endsWith('.js')).length, wasm: names.filter((name) => name.endsWith('.wasm')).length };
}

for (const entry of ['browser', 'inline']) {
  test(`Chromium: a page without a bundler, ${entry}.js`, async () => {
    const map = { imports: { tallymesh: `./node_modules/tallymesh/dist/${entry}.js` } };
    const head = `<script type="importmap">${JSON.stringify(map)}</script>`;
    write(project, { 'index.html': html('./page.js', head), 'page.js': pageModule() });
    await visitFolder(browser, project, node);
  });
}

const viteOptions = () => ({ root: project, configFile: false, logLevel: 'error', clearScreen: false });

test('Chromium: a page by Vite', async () => {
  write(project, { 'index.html': html('./page.js'), 'page.js': pageModule() });
  const outDir = join(project, 'by-vite');
  await vite.build({ ...viteOptions(), build: { outDir } });
  assert.deepEqual(made(outDir), { js: 2, wasm: 2 });
  await visitFolder(browser, outDir, node);
});

test("Chromium: a page from Vite's development server", async () => {
  write(project, { 'index.html': html('./page.js'), 'page.js': pageModule() });
  const server = await vite.createServer({ ...viteOptions(), server: { host: '127.0.0.1', port: 0, hmr: false } });
  try {
    await server.listen();
    await visit(browser, server.resolvedUrls.local[0], node);
  } finally {
    await server.close();
  }
});

test('Chromium: a page by webpack', async () => {
  const path = join(project, 'by-webpack');
  write(project, { 'page.js': pageModule(), 'by-webpack/index.html': html('./main.js') });
  const compiler = webpack({ mode: 'production', context: project, entry: './page.js', output: { path } });
  const stats = await new Promise((resolve, reject) => compiler.run((error, done) => (error ? reject(error) : resolve(done))));
  assert.equal(stats.toString({ all: false, errors: true, warnings: true }), '');
  assert.deepEqual(made(path), { js: 2, wasm: 2 });
  await visitFolder(browser, path, node);
});

/** Bundles the page with esbuild. */
async function byEsbuild(name, page, options) {
  const outdir = join(project, name);
  write(project, { 'page.js': page, [`${name}/index.html`]: html('./page.js') });
  await esbuild.build({
    entryPoints: [join(project, 'page.js')],
    outdir,
    bundle: true,
    format: 'esm',
    minify: true,
    logLevel: 'error',
    ...options,
  });
  return outdir;
}

test('Chromium: a page by esbuild, one file with all in it', async () => {
  const folder = await byEsbuild('by-esbuild-inline', pageModule("import * as tallymesh from 'tallymesh/inline';"));
  assert.deepEqual(made(folder), { js: 1, wasm: 0 });
  await visitFolder(browser, folder, node);
});

for (const entry of ['tallymesh', 'tallymesh/slim']) {
  test(`Chromium: a page by esbuild that hands the modules in to ${entry}`, async () => {
    const imports = `import * as tallymesh from '${entry}';
      import module from 'tallymesh/tallymesh.wasm';
      import membersModule from 'tallymesh/tallymesh-members.wasm';`;
    const page = pageModule(imports, 'module, membersModule');
    const folder = await byEsbuild(`by-esbuild-${entry.length}`, page, { loader: { '.wasm': 'file' }, splitting: true });
    assert.equal(made(folder).wasm, 2);
    await visitFolder(browser, folder, node);
  });
}
