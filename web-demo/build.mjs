// Builds the page into dist/: installs the packed package, checks the types, bundles, and names each
// file by its content, so that all of them but index.html may be cached for ever.
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');
const packages = resolve(root, '../wasm');

const tarball = readdirSync(packages).find((name) => /^tallymesh-.*\.tgz$/.test(name));
if (!tarball) {
  console.error('wasm/ has no packed tallymesh-*.tgz: `cargo xtask pack` makes it');
  process.exit(1);
}
// Unpacked rather than saved as a dependency: each new tarball would change the lock file.
const installed = join(root, 'node_modules/tallymesh');
rmSync(installed, { recursive: true, force: true });
execFileSync(
  'npm',
  ['install', '--no-save', '--no-package-lock', '--ignore-scripts', '--offline', join(packages, tarball)],
  { cwd: root, stdio: 'inherit', shell: process.platform === 'win32' },
);

const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
execFileSync(process.execPath, [join(typescript, 'bin/tsc'), '-p', root], { stdio: 'inherit' });

rmSync(dist, { recursive: true, force: true });
const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: { page: 'src/main.ts', style: 'src/style.css' },
  outdir: dist,
  entryNames: 'assets/[name]-[hash]',
  assetNames: 'assets/[name]-[hash]',
  loader: { '.wasm': 'file', '.svg': 'file' },
  publicPath: '/',
  bundle: true,
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
  .replace('style.css', `/${made('src/style.css')}`)
  .replace('main.ts', `/${made('src/main.ts')}`);
writeFileSync(join(dist, 'index.html'), page);
