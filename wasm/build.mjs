// Makes dist/ complete: types by the TypeScript compiler, one minified file an entry by esbuild.
// The modules and their bindings must be in dist/ already.
import { execFileSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');

const needed = ['tallymesh.wasm', 'bindgen.js', 'bindgen.d.ts', 'tallymesh-members.wasm', 'bindgen-members.js', 'bindgen-members.d.ts'];
for (const made of needed) {
  if (!existsSync(join(dist, made))) {
    console.error(`dist/${made} is missing: \`cargo xtask pack\` makes it and then runs this build`);
    process.exit(1);
  }
}

const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
rmSync(join(dist, 'types'), { recursive: true, force: true });
execFileSync(process.execPath, [join(typescript, 'bin', 'tsc'), '-p', root], { stdio: 'inherit' });

for (const [entry, platform] of [['browser', 'browser'], ['node', 'node'], ['members', 'neutral']]) {
  await build({
    entryPoints: [join(root, 'js', `${entry}.ts`)],
    outfile: join(dist, `${entry}.js`),
    bundle: true,
    // Loaded when a space with members is met, and not before.
    external: ['./members.js'],
    format: 'esm',
    platform,
    target: 'es2022',
    minify: true,
    legalComments: 'none',
  });
}
