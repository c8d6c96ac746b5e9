// Workers as Cloudflare's tools make them: modules stay imports, which the runtime answers.
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { build } from 'esbuild';
import { write } from './project.mjs';

/** Bundles a worker; what it imports of .wasm files stays beside it. */
export async function bundle(project, code) {
  write(project, { 'worker.js': code });
  const modules = [];
  const collect = {
    name: 'modules',
    setup: ({ onResolve, resolve }) =>
      onResolve({ filter: /\.wasm$/ }, async ({ path, pluginData, ...from }) => {
        if (pluginData) return undefined;
        const found = await resolve(path, { ...from, pluginData: true });
        const name = basename(found.path);
        modules.push({ type: 'CompiledWasm', path: name, contents: readFileSync(found.path) });
        return { path: `./${name}`, external: true };
      }),
  };
  const { outputFiles } = await build({
    entryPoints: [join(project, 'worker.js')],
    conditions: ['workerd', 'worker', 'browser'],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    plugins: [collect],
    write: false,
    logLevel: 'error',
  });
  return [{ type: 'ESModule', path: 'worker.js', contents: outputFiles[0].text }, ...modules];
}
