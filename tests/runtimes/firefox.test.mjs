// Firefox: a page without a bundler. `FIREFOX` names the program.
import { existsSync } from 'node:fs';
import { after, before, test } from 'node:test';
import puppeteer from 'puppeteer-core';
import { oneNode } from '../e2e/nodes.mjs';
import { html, pageModule, visitFolder } from './pages.mjs';
import { makeProject, write } from './project.mjs';

const program = process.env.FIREFOX ?? ['/usr/bin/firefox-esr', '/usr/bin/firefox'].find((path) => existsSync(path));
const skip = program ? false : 'no Firefox was found; name its program in FIREFOX';

let node;
let browser;

before(async () => {
  if (skip) return;
  node = await oneNode();
  browser = await puppeteer.launch({ browser: 'firefox', executablePath: program, headless: true });
});
after(async () => {
  await browser?.close();
  await node?.stop();
});

test('Firefox: a page without a bundler', { skip }, async () => {
  const project = makeProject();
  const map = { imports: { tallymesh: './node_modules/tallymesh/dist/browser.js' } };
  const head = `<script type="importmap">${JSON.stringify(map)}</script>`;
  write(project, { 'index.html': html('./page.js', head), 'page.js': pageModule() });
  await visitFolder(browser, project, node);
});
