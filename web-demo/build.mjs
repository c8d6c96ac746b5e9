// Builds the page into dist/ with the packed package that was put into node_modules/tallymesh: checks
// the types, bundles, and names each file but index.html by its content.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');

if (!existsSync(join(root, 'node_modules/tallymesh/package.json'))) {
  console.error('the tallymesh package is not installed here: `cargo xtask web` packs and unpacks it');
  process.exit(1);
}

const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
execFileSync(process.execPath, [join(typescript, 'bin/tsc'), '-p', root], { stdio: 'inherit' });

rmSync(dist, { recursive: true, force: true });
const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: { page: 'src/main.ts', style: 'src/style.css' },
  outdir: dist,
  entryNames: 'assets/[name]-[hash]',
  assetNames: 'assets/[name]-[hash]',
  chunkNames: 'assets/[name]-[hash]',
  loader: { '.wasm': 'file', '.svg': 'file' },
  bundle: true,
  splitting: true, // what is loaded on demand is a file of its own
  format: 'esm',
  target: 'es2022',
  minify: true,
  legalComments: 'none',
  metafile: true,
});

const made = (entry) => {
  const [path] = Object.entries(metafile.outputs).find(([, output]) => output.entryPoint === entry);
  return relative('dist', path).replaceAll('\\', '/');
};
const page = readFileSync(join(root, 'src/index.html'), 'utf8')
  .replace('style.css', `./${made('src/style.css')}`)
  .replace('main.ts', `./${made('src/main.ts')}`);
writeFileSync(join(dist, 'index.html'), page);
