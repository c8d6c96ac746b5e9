// Makes dist/ complete: types by the TypeScript compiler, one minified file an entry by esbuild.
// dist/tallymesh.wasm, dist/bindgen.js and dist/bindgen.d.ts must be there already.
import { execFileSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');

for (const made of ['tallymesh.wasm', 'bindgen.js', 'bindgen.d.ts']) {
  if (!existsSync(join(dist, made))) {
    console.error(`dist/${made} is missing: \`cargo xtask pack\` makes it and then runs this build`);
    process.exit(1);
  }
}

const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
rmSync(join(dist, 'types'), { recursive: true, force: true });
execFileSync(process.execPath, [join(typescript, 'bin', 'tsc'), '-p', root], { stdio: 'inherit' });

for (const [entry, platform] of [['browser', 'browser'], ['node', 'node']]) {
  await build({
    entryPoints: [join(root, 'js', `${entry}.ts`)],
    outfile: join(dist, `${entry}.js`),
    bundle: true,
    format: 'esm',
    platform,
    target: 'es2022',
    minify: true,
    legalComments: 'none',
  });
}
