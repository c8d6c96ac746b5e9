// Builds the page into dist/ with the packed package that was put into node_modules/tallymesh: checks
// the types, bundles, and names each file but index.html by its content.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, posix, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');

if (!existsSync(join(root, 'node_modules/tallymesh/package.json'))) {
  console.error('the tallymesh package is not installed here: `cargo xtask web` packs and unpacks it');
  process.exit(1);
}
if (!existsSync(join(root, 'members/dist/members.wasm'))) {
  console.error('the module of the stories of members is not built: `cargo xtask web` does that');
  process.exit(1);
}

const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
execFileSync(process.execPath, [join(typescript, 'bin/tsc'), '-p', root], { stdio: 'inherit' });

const options = {
  absWorkingDir: root,
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
};
/** The file that was made of an entry. */
const made = ({ metafile }, entry) => {
  const [path] = Object.entries(metafile.outputs).find(([, output]) => output.entryPoint === entry);
  return relative('dist', path).replaceAll('\\', '/');
};

rmSync(dist, { recursive: true, force: true });
// A worker is no import: the page has to know what its file is called. Both lie in one folder.
const worker = made(await build({ ...options, entryPoints: { worker: 'src/console/worker.ts' } }), 'src/console/worker.ts');
const define = { WORKER_FILE: JSON.stringify(`./${posix.basename(worker)}`) };
const built = await build({ ...options, define, entryPoints: { page: 'src/main.ts', style: 'src/style.css' } });

const page = readFileSync(join(root, 'src/index.html'), 'utf8')
  .replace('style.css', `./${made(built, 'src/style.css')}`)
  .replace('main.ts', `./${made(built, 'src/main.ts')}`);
writeFileSync(join(dist, 'index.html'), page);
