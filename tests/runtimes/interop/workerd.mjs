// The driver in workerd; the first argument is the folder of the project.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { build } from 'esbuild';
import { Miniflare } from 'miniflare';
import { answerLines } from './lines.mjs';

const project = process.argv[2];
const { outputFiles } = await build({
  entryPoints: [join(project, 'worker.js')],
  conditions: ['workerd', 'worker', 'browser'],
  external: ['*.wasm'],
  bundle: true,
  format: 'esm',
  target: 'es2022',
  write: false,
  logLevel: 'error',
});
const wasm = (path) => ({ type: 'CompiledWasm', path, contents: readFileSync(join(project, 'node_modules/tallymesh/dist', path)) });
const worker = new Miniflare({
  modules: [{ type: 'ESModule', path: 'worker.js', contents: outputFiles[0].text }, wasm('tallymesh.wasm'), wasm('tallymesh-members.wasm')],
  durableObjects: { HOLDER: 'Holder' },
  compatibilityDate: '2026-04-01',
  host: '127.0.0.1',
  port: 0,
  cf: false,
});
const address = await worker.ready;

await answerLines(
  async (request) => {
    const answer = await fetch(address, { method: 'POST', body: JSON.stringify(request) });
    const text = await answer.text();
    // An object that is ended does not answer any more.
    if (request.do === 'reload' && answer.status === 500) return {};
    return answer.ok ? JSON.parse(text) : { error: text };
  },
  () => worker.dispose(),
);
