// Makes dist/ complete: types by the TypeScript compiler, one file an entry by esbuild, minified but for Node.
// The modules and the types of their bindings must be in dist/ already.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');

const needed = ['tallymesh.wasm', 'bindgen.d.ts', 'tallymesh-members.wasm', 'bindgen-members.d.ts'];
for (const made of needed) {
  if (!existsSync(join(dist, made))) {
    console.error(`dist/${made} is missing: \`cargo xtask pack\` makes it and then runs this build`);
    process.exit(1);
  }
}

// All else is of an earlier build.
for (const name of readdirSync(dist)) if (!needed.includes(name)) rmSync(join(dist, name), { recursive: true });

const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
execFileSync(process.execPath, [join(typescript, 'bin', 'tsc'), '-p', root], { stdio: 'inherit' });

// The declarations that users can reach from an entry are published, and no others.
const types = join(dist, 'types');
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const published = new Set(Object.values(exports).flatMap(({ types }) => (types ? [join(root, types.default)] : [])));
for (const file of published) {
  const declarations = readFileSync(file, 'utf8');
  for (const [, name] of declarations.matchAll(/(?:from|import\() ?['"]([.#][^'"]+)['"]/g)) {
    // The types of the bindings are of the inside.
    if (name.startsWith('#')) throw new Error(`${file} names ${name}, which is not published`);
    published.add(join(dirname(file), name.replace(/\.js$/, '.d.ts')));
  }
}
for (const entry of readdirSync(types, { recursive: true, withFileTypes: true })) {
  const file = join(entry.parentPath ?? entry.path, entry.name);
  if (entry.isFile() && !published.has(file)) rmSync(file);
}

// The same types for those who `require()`: what a declaration is of depends on the package.json above it.
const commonjs = join(dist, 'require');
cpSync(types, commonjs, { recursive: true });
writeFileSync(join(commonjs, 'package.json'), '{ "type": "commonjs" }\n');

// Which source becomes which file, and for whom.
const files = [
  ['browser', 'browser.js', 'browser'],
  ['node', 'node.js', 'node'],
  ['workerd', 'workerd.js', 'neutral'],
  ['inline', 'inline.js', 'neutral'],
  ['slim', 'slim.js', 'neutral'],
  ['require', 'node.cjs', 'node'],
  ['inline', 'inline.cjs', 'neutral'],
  ['slim', 'slim.cjs', 'neutral'],
  ['transports', 'transports.js', 'neutral'],
  ['transports', 'transports.cjs', 'neutral'],
  ['storage', 'storage.js', 'neutral'],
  ['storage', 'storage.cjs', 'neutral'],
  ['file', 'file.js', 'node'],
  ['file', 'file.cjs', 'node'],
  ['libp2p', 'libp2p.js', 'neutral'],
  ['libp2p', 'libp2p.cjs', 'neutral'],
  ['../replica/members', 'members.js', 'neutral'],
  ['inline-members', 'inline-members.js', 'neutral'],
  ['budgets', 'budgets.js', 'neutral'],
  ['budgets', 'budgets.cjs', 'neutral'],
  ['limits', 'limits.js', 'neutral'],
  ['limits', 'limits.cjs', 'neutral'],
  ['sequences', 'sequences.js', 'neutral'],
  ['sequences', 'sequences.cjs', 'neutral'],
  ['react', 'react.js', 'neutral'],
  ['react', 'react.cjs', 'neutral'],
];
/** What each source comes to in each file: `cargo xtask size` shows it. */
const parts = {};
for (const [source, file, platform] of files) {
  const { metafile } = await build({
    entryPoints: [join(root, 'js/entries', `${source}.ts`)],
    outfile: join(dist, file),
    bundle: true,
    // Loaded when a space with members is met, and not before; what workerd has at hand; and what its users have.
    external: ['./members.js', './inline-members.js', './tallymesh.wasm', './tallymesh-members.wasm', 'react'],
    loader: { '.wasm': 'binary' },
    format: file.endsWith('.cjs') ? 'cjs' : 'esm',
    platform,
    target: 'es2022',
    // What only Node loads is not downloaded: there names and lines are worth more, in an error for instance.
    minify: platform !== 'node',
    legalComments: 'none',
    metafile: true,
  });
  const [{ inputs }] = Object.values(metafile.outputs);
  parts[file] = Object.fromEntries(Object.entries(inputs).map(([name, { bytesInOutput }]) => [name, bytesInOutput]));
}
writeFileSync(join(dist, 'parts.json'), JSON.stringify(parts));
