// Makes a project with the packed package and the drivers, and tells how each is started: one line of JSON on
// standard output. The project is there until standard input ends.
import { copyFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { install } from '../../../wasm/test/install.mjs';
import { html } from '../pages.mjs';
import { tool, write } from '../project.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const { project } = install();
for (const file of ['driver.js', 'lines.js', 'page.js', 'worker.js']) copyFileSync(join(here, file), join(project, file));
const map = { imports: { tallymesh: './node_modules/tallymesh/dist/browser.js' } };
write(project, { 'index.html': html('./page.js', `<script type="importmap">${JSON.stringify(map)}</script>`) });

// Hosts start their replica again themselves; the others are started again.
const host = (name) => ({ command: [process.execPath, join(here, `${name}.mjs`), project], reloads: true });
const drivers = {
  Node: { command: [process.execPath, 'lines.js', import.meta.resolve('ws')] },
  Deno: { command: [tool('deno'), 'run', '--no-prompt', '--allow-net=127.0.0.1', '--allow-read=node_modules', 'lines.js'] },
  Bun: { command: [tool('bun'), 'lines.js'] },
  workerd: host('workerd'),
  Chromium: host('chromium'),
  ...(process.env.FIREFOX && { Firefox: host('firefox') }),
};
console.log(JSON.stringify({ project, drivers }));
process.stdin.resume();
process.stdin.on('end', () => process.exit());
