// The hooks of tallymesh/react with React 18 and 19: in Chromium, and rendered on a server by Node.
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import esbuild from 'esbuild';
import { launch } from '../e2e/browser.mjs';
import { serve } from '../e2e/serve.mjs';
import { html } from './pages.mjs';
import { execute, makeProject, write } from './project.mjs';
import { addReact, REACTS } from './reacts.mjs';

/** What each scenario of the page comes to. */
const OUTCOMES = {
  counts: { told: [true, false], refused: 'amount_not_integer' },
  identities: { functions: 4, same: true, sameResult: true },
  others: { likes: 0, stars: true },
  keys: { frames: ['a=1', 'b=2', 'b=3', 'b=4'], rendered: 1, a: '2' },
  spaces: { rendered: true, first: '2' },
  loading: { told: ['undefined', 'undefined', 'undefined', 'false'], changes: '1' },
  closed: ['freed', 'freed', 'freed', 'freed'],
  refused: 'key_unicode',
  tearing: { torn: [], meddled: true },
  opens: { first: 'loading', opened: ['a', 'b'], given: ['a for a', 'b for b'], closed: ['freed', 'nothing was thrown'] },
  leaves: 1,
  fails: 'open',
  hydrates: { html: 'likes=undefined ', errors: [] },
  hides: ['a=undefined', 'closed', 'a=undefined'],
};

let browser;

before(async () => {
  browser = await launch();
});
after(() => browser?.close());

for (const version of REACTS) {
  test(`React ${version} in Chromium`, async (t) => {
    const project = addReact(makeProject(), version);
    copyFileSync(new URL('react-page.jsx', import.meta.url), join(project, 'react-page.jsx'));
    write(project, { 'built/index.html': html('./react-page.js') });
    const { metafile } = await esbuild.build({
      entryPoints: [join(project, 'react-page.jsx')],
      outdir: join(project, 'built'),
      bundle: true,
      format: 'esm',
      jsx: 'automatic',
      define: { 'process.env.NODE_ENV': '"development"' },
      logLevel: 'error',
      metafile: true,
    });
    const inputs = Object.keys(metafile.inputs).filter((path) => path.includes('/tallymesh/dist/')).map((path) => basename(path));
    assert.deepEqual(inputs.sort(), ['inline-members.js', 'inline.js', 'members.js', 'react.js'], 'the hooks bring no copy of the package');

    assert.match(readFileSync(join(project, 'node_modules/tallymesh/dist/react.js'), 'utf8'), /^"use client";/);

    const { address, stop } = await serve(join(project, 'built'));
    try {
      for (const [name, outcome] of Object.entries(OUTCOMES)) {
        // React 18 hides no components.
        if (name === 'hides' && version === '18') continue;
        await t.test(name, async () => {
          const page = await browser.newPage();
          const complaints = [];
          page.on('pageerror', (error) => complaints.push(String(error)));
          // An error that a boundary catches is told, too.
          const told = ({ type, text }) => ['error', 'warning'].includes(type) && !(name === 'refused' && text.includes('key_unicode'));
          page.on('console', (message) => told({ type: message.type(), text: message.text() }) && complaints.push(message.text()));
          await page.goto(address);
          await page.waitForFunction(() => globalThis.play !== undefined);
          assert.deepEqual(await page.evaluate((asked) => globalThis.play(asked), name), outcome);
          if (name !== 'refused') assert.deepEqual(complaints, []);
          await page.close();
        });
      }
    } finally {
      stop();
    }
  });

  test(`React ${version} on a server, by import and require()`, async () => {
    const project = addReact(makeProject(), version);
    const program = `
      const App = ({ counters }) => createElement('p', null, String(useCounter(counters, 'likes').value), String(useCounters(() => open()).counters));
      open().then((counters) => {
        counters.add('likes');
        console.log(version.split('.')[0], [counters, undefined].map((it) => renderToStaticMarkup(createElement(App, { counters: it }))).join());
      });\n`;
    const names = { react: 'createElement, version', 'react-dom/server': 'renderToStaticMarkup', tallymesh: 'open', 'tallymesh/react': 'useCounter, useCounters' };
    const lines = (line) => Object.entries(names).map(([from, what]) => line(from, what)).join('\n');
    write(project, {
      'main.mjs': lines((from, what) => `import { ${what} } from '${from}';`) + program,
      'main.cjs': lines((from, what) => `const { ${what} } = require('${from}');`) + program,
    });
    const expected = `${version} <p>undefinedundefined</p>,<p>undefinedundefined</p>\n`;
    assert.equal(await execute(project, process.execPath, ['main.mjs']), expected);
    assert.equal(await execute(project, process.execPath, ['main.cjs']), expected);
    assert.equal(await execute(project, process.execPath, ['--no-experimental-require-module', 'main.cjs']), expected);
  });
}
