// What a bundler makes for a page of what else counts in JavaScript, each with what it takes to count and to be kept
// in sync: `node download.mjs OUT` leaves a folder of files for each, and prints what they are as JSON.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const [out] = process.argv.slice(2);
if (!out) throw new Error('say where the files are to be: node download.mjs OUT');

/** What a page would import, and so keep of each; a bundler may leave out all else. */
const PEERS = [
  {
    name: 'yjs',
    packages: ['yjs'],
    code: "export { applyUpdate, Doc, encodeStateAsUpdate, encodeStateVector } from 'yjs';",
  },
  {
    name: 'yjs-websocket',
    packages: ['yjs', 'y-websocket'],
    code: "export { Doc } from 'yjs'; export { WebsocketProvider } from 'y-websocket';",
  },
  {
    name: 'loro',
    packages: ['loro-crdt'],
    code: "export { default as init, LoroDoc } from 'loro-crdt/web';",
    // Its code names the module as Vite and webpack follow it, and esbuild does not.
    beside: ['loro-crdt/web/loro_wasm_bg.wasm'],
  },
  {
    name: 'automerge',
    packages: ['@automerge/automerge'],
    code: `import wasm from '@automerge/automerge/automerge.wasm';
      import { change, Counter, from, generateSyncMessage, initializeWasm, initSyncState, receiveSyncMessage } from '@automerge/automerge/slim';
      export const ready = initializeWasm(fetch(wasm));
      export { change, Counter, from, generateSyncMessage, initSyncState, receiveSyncMessage };`,
  },
];

const made = [];
for (const { name, packages, code, beside = [] } of PEERS) {
  const outdir = join(out, name);
  rmSync(outdir, { recursive: true, force: true });
  mkdirSync(outdir, { recursive: true });
  await build({
    stdin: { contents: code, resolveDir: here },
    outdir,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    loader: { '.wasm': 'file' },
    legalComments: 'none',
  });
  for (const file of beside) copyFileSync(join(here, 'node_modules', file), join(outdir, basename(file)));
  const versions = packages.map((it) => {
    const { version } = JSON.parse(readFileSync(join(here, 'node_modules', it, 'package.json'), 'utf8'));
    return `${it} ${version}`;
  });
  made.push({ name: versions.join(', '), files: readdirSync(outdir).map((file) => join(outdir, file)) });
}
console.log(JSON.stringify(made));
